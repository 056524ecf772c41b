//! `lazaret bench`: measures any Kubernetes-compatible control plane from outside, so that the same work gives the same kind of figure
//! for Lazaret and for a real cluster.
//!
//! **Invariant.** Sees a server as its users do: sockets, TLS, requests as bytes and watches. Makes objects with POST alone, all under a
//! label of its own, and takes away what carries that label and nothing else, also after Ctrl-C. Prints what it measured and how busy
//! the machine was; a bad figure is never a failure.
//!
//! It must never know a core, a store or a server of ours: only the simulated nodes, which a cluster without machines needs.

mod args;
mod bench;
mod clock;
mod compare;
mod connection;
mod curve;
mod embedded;
mod fleet;
mod load;
mod machine;
mod measure;
mod objects;
mod output;
mod pods;
mod report;
mod run;
mod scenario;
mod svg;
mod target;
mod workload;

pub use args::Args;

/// Measures what the arguments ask for and prints it.
///
/// # Errors
/// When the cluster cannot be reached, refuses something, or nothing moves any more.
pub fn run(args: &Args) -> anyhow::Result<()> {
    run::run(args)
}
