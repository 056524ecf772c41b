//! `lazaret bench`: measures a control plane from outside, over its API.

mod play;
mod server;
mod stats;

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::{Verdict, output};

/// Measure how fast a control plane places pods and makes them leave.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to measure
    #[arg(value_enum, default_value_t = What::Evict)]
    what: What,
    /// Measure this cluster [default: a lazaret started for the run, with a durable store]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Simulated nodes
    #[arg(long, value_name = "COUNT", default_value_t = 500)]
    nodes: usize,
    /// Devices of each node
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    devices: usize,
    /// Pods, each with a claim of one device
    #[arg(long, value_name = "COUNT", default_value_t = 2_000)]
    pods: usize,
    /// Evictions a second that the rule allows; 0: as fast as it goes. Needs resource.k8s.io/v1alpha3
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    rate: u32,
    /// Requests of the load under way at once
    #[arg(long, value_name = "COUNT", default_value_t = 32)]
    clients: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = output::Format::Table)]
    output: output::Format,
}

const EXAMPLES: &str = "Examples:
  lazaret bench schedule --nodes 500 --devices 8 --pods 2000
  lazaret bench evict --pods 2000 -o json
  lazaret bench evict --pods 300 --rate 50
  lazaret bench taint-latency --nodes 50 --pods 200
  lazaret bench schedule --kubeconfig ~/.kube/config --nodes 100 --pods 500";

/// What is measured. Each needs what comes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum What {
    /// Pods with claims, from created to bound
    Schedule,
    /// One rule that makes all of them leave
    Evict,
    /// Device by device, from the taint in a slice to the deletion of its pod
    TaintLatency,
}

impl Args {
    pub(crate) fn run(self) -> Result<Verdict> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("start")?;
        let report = runtime.block_on(play::play(&self))?;
        match self.output {
            output::Format::Table => output::print(&report.table())?,
            format @ (output::Format::Json | output::Format::Yaml) => output::structured(&report, format)?,
        }
        Ok(Verdict::Yes)
    }
}
