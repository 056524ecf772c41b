//! Measures a `lazaret` binary from outside: starts it as a user would and speaks to it over TLS, with many clients at once.
//!
//! **Invariant.** Knows no crate of ours, only the program and the protocol, so that a figure is what a user would see. Prints what it measured,
//! what the goal is and how busy the machine was; never fails because a figure is bad. The clients share the machine with the server: they
//! are one thread, with requests prepared beforehand.

mod clock;
mod connection;
mod load;
mod machine;
mod measure;
mod program;
mod report;
mod requests;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

/// Measure a lazaret binary over real sockets.
#[derive(Debug, Parser)]
#[command(name = "lazaret-bench", version, max_term_width = 110)]
pub(crate) struct Args {
    /// The program to measure [default: lazaret beside this one]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Clients at once
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Seconds that each load lasts
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Watchers of one write
    #[arg(long, default_value_t = 1_000)]
    watchers: usize,
    /// Objects in the large cluster; 0 leaves it out
    #[arg(long, default_value_t = 150_000)]
    objects: usize,
    /// Where to keep data while measuring: durable writes are as fast as this disk [default: the system's temporary folder]
    #[arg(long, value_name = "PATH")]
    folder: Option<PathBuf>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let binary = match &args.binary {
        Some(path) => path.clone(),
        None => std::env::current_exe().context("find this program")?.with_file_name("lazaret"),
    };
    anyhow::ensure!(
        binary.is_file(),
        "{} is not there: cargo build --release, or name it with --binary",
        binary.display()
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start")?;
    runtime.block_on(measure::all(&args, &binary))
}
