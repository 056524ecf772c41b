//! Reads a question from standard input and writes the answer to standard output: the shape of a program that a browser can run.
#![allow(clippy::print_stdout, reason = "the answer goes to standard output")]

use std::io::Read;

/// A page does not ask about more than this.
const QUESTION_BYTES_MAX: u64 = 512 << 20;

fn main() -> std::io::Result<()> {
    let mut question = String::new();
    std::io::stdin().take(QUESTION_BYTES_MAX).read_to_string(&mut question)?;
    println!("{}", lazaret_whatif::answer(&question));
    Ok(())
}
