//! The output of commands: tables as kubectl draws them for people, JSON and YAML for programs, and notes beside the output.
//!
//! **Invariant.** Output that a program may read goes to standard output alone and whole, notes to standard error; nothing is ever
//! mixed. A table has no trailing spaces, and colours only on request.
//!
//! It must never know the content: no kinds, no figures, no words of a command.

mod structured;
mod table;

use std::io::{self, Write as _};

pub use structured::{Plain, Structured, Unwritable};
pub use table::{Cell, Fit, Layout, Table, Tint};

/// Writes to standard output.
///
/// # Errors
/// As the stream's own, that of a reader who has gone away among them; it says where.
pub fn print(text: &str) -> io::Result<()> {
    let written = io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| io::Error::new(error.kind(), format!("write to standard output: {error}")))
}

/// A note for people, on standard error so that it never mixes with output that a program reads.
pub fn note(text: &str) {
    // A closed standard error has no reader.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// `3 pods`, `1 pod`.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
