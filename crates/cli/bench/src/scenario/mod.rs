//! The scenarios, one file each.

mod api;
mod churn;
mod classic;
mod evict;
mod failing_nodes;
mod hostile;
mod mixed;
mod node;
mod schedule;
mod signal_latency;
mod signals;
pub(crate) mod start;
mod taint_latency;
mod watch;

use anyhow::Result;

use crate::{args::Benchmark, bench::Bench, report::Report};

/// Plays what the arguments name on a server that is there.
pub(crate) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    match bench.args.what {
        Benchmark::Schedule => schedule::play(bench, report).await.map(drop),
        Benchmark::Classic => classic::play(bench, report).await,
        Benchmark::Evict => evict::play(bench, report).await,
        Benchmark::TaintLatency => taint_latency::play(bench, report).await,
        Benchmark::SignalLatency => signal_latency::play(bench, report).await,
        Benchmark::Signals => signals::play(bench, report).await,
        Benchmark::Api => api::play(bench, report).await,
        Benchmark::Watch => watch::play(bench, report).await,
        Benchmark::Mixed => mixed::play(bench, report).await,
        Benchmark::Hostile => hostile::play(bench, report).await,
        Benchmark::Churn => churn::play(bench, report).await,
        Benchmark::Node => node::play(bench, report).await,
        Benchmark::Start => Ok(()),
    }
}
