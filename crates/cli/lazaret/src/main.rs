//! The `lazaret` command.
//!
//! **Invariant.** Reads arguments and files, asks a core, prints its answer. No decision is made here: what a command
//! prints, the same core would have done in a cluster.

use std::process::ExitCode;

mod accounts;
mod address;
mod alerts;
mod allocate;
mod args;
mod cel;
mod clock;
mod connect;
mod deciding;
mod device;
mod driver;
mod fabric;
mod frugal;
mod gates;
mod incidents;
mod input;
mod install;
mod lease;
mod limits;
mod listen;
mod log;
mod node;
mod node_image;
mod node_run;
mod node_soft;
mod nodes;
mod numbers;
mod nvidia;
mod output;
mod pace;
mod pages;
mod place;
mod plan;
mod policy;
mod run;
mod scheduling;
mod signal;
mod store;
mod up;
mod webhook;

/// How a command ended, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Done, or the answer is yes.
    Yes,
    /// The command worked and the answer is no: an expression that does not compile, a claim that does not fit.
    No,
}

fn main() -> ExitCode {
    lazaret_heap::keep_free_memory();
    if let Some(words) = node_run::shim_words() {
        return lazaret_containers::shim_main(words);
    }
    match args::parse().and_then(args::Cli::run) {
        Ok(Verdict::Yes) => ExitCode::SUCCESS,
        Ok(Verdict::No) => ExitCode::from(2),
        Err(error) => {
            // A closed pipe is how `| head` says it has seen enough.
            if !output::is_closed_pipe(&error) {
                output::error(&error);
            }
            ExitCode::FAILURE
        }
    }
}
