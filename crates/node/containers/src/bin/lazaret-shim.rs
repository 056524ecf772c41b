//! The processes beside containers as a program of their own, for tests of this crate. `lazaret node shim` is the same.

use std::process::ExitCode;

fn main() -> ExitCode {
    lazaret_containers::shim_main(std::env::args_os().skip(1))
}
