//! The output of commands: tables as kubectl draws them for people, JSON and YAML for programs, and notes beside the output.
//!
//! **Invariant.** Output that a program may read goes to standard output alone and whole, notes to standard error; nothing is ever
//! mixed. A table has no trailing spaces, and colours only on request. Nothing that is shown to people drives their terminal; what programs
//! read means what it meant.
//!
//! It must never know the content: no kinds, no figures, no words of a command.

mod harmless;
mod structured;
mod table;
mod tint;

use std::io::{self, Write as _};

pub use harmless::{harmless, harmless_coloured, harmless_json, in_a_line, is_unseen};
pub use structured::{Plain, Structured, Unwritable};
pub use table::{Cell, Fit, Layout, Table};
pub use tint::Tint;

/// Writes to standard output, what would drive a terminal as escapes.
///
/// # Errors
/// As the stream's own, that of a reader who has gone away among them; it says where.
pub fn print(text: &str) -> io::Result<()> {
    let written = io::stdout().lock().write_all(harmless(text).as_bytes());
    written.map_err(|error| io::Error::new(error.kind(), format!("write to standard output: {error}")))
}

/// A note for people, on standard error so that it never mixes with output that a program reads.
pub fn note(text: &str) {
    // A closed standard error has no reader.
    let _ = writeln!(io::stderr().lock(), "{}", harmless(text));
}

/// `3 pods`, `1 pod`.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
