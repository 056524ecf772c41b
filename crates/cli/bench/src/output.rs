//! How far it is, for people.

use lazaret_print::note;

/// How far it is, ten times in all.
pub(crate) fn progress(what: &str, done: usize, of: usize) {
    if done > 0 && (done == of || done.is_multiple_of((of / 10).max(1))) {
        note(&format!("{what}: {done} of {of}"));
    }
}
