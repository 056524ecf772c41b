//! Records that a test does not run here, and why: a program that is not installed, a right that this user does not have.
//!
//! Such a test says so on standard error, which cargo keeps to itself when a test passes. Where [`FILE`] names a file, a line goes there as well:
//! `.ci/run` reads it at its end and fails, unless `ALLOW_MISSING` names what is missing.
//!
//! **Invariant.** One line for each call, whatever `why` says; a test that could not leave its line fails.

use std::{fmt::Display, fs::OpenOptions, io::Write as _};

/// The variable that names the file.
pub const FILE: &str = "LAZARET_NOT_RUN";

/// Says that `test` does not run for want of `what`, one word.
///
/// # Panics
/// Where the file cannot be written: what was left out would not be counted.
#[allow(clippy::panic, clippy::print_stderr, reason = "called by tests alone")]
pub fn not_run(test: &str, what: &str, why: impl Display) {
    eprintln!("NOT RUN: {test}: {why}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line(test, what, &why.to_string()).as_bytes()));
    if let Err(error) = written {
        panic!("write {}: {error}", path.display());
    }
}

fn line(test: &str, what: &str, why: &str) -> String {
    let why: Vec<&str> = why.split_whitespace().collect();
    format!("{what} {test}: {}\n", why.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_many_lines_is_one_line() {
        assert_eq!(line("pods", "runc", "no runc:\n  not found\n"), "runc pods: no runc: not found\n");
    }
}
