//! Reads a question from standard input and writes the answer to standard output: the shape of a program that a browser can run.

use std::{
    io::{Read, Write},
    process::ExitCode,
};

/// A page does not ask about more than this.
const QUESTION_BYTES_MAX: u64 = 512 << 20;

fn main() -> ExitCode {
    let mut question = String::new();
    let read = std::io::stdin().take(QUESTION_BYTES_MAX).read_to_string(&mut question);
    let written = read.and_then(|_| writeln!(std::io::stdout(), "{}", lazaret_whatif::answer(&question)));
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
