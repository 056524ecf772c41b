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

use crate::{args::What, bench::Bench, report::Report};

/// Plays what the arguments name on a server that is there.
pub(crate) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    match bench.args.what {
        What::Schedule => schedule::play(bench, report).await.map(drop),
        What::Classic => classic::play(bench, report).await,
        What::Evict => evict::play(bench, report).await,
        What::TaintLatency => taint_latency::play(bench, report).await,
        What::SignalLatency => signal_latency::play(bench, report).await,
        What::Signals => signals::play(bench, report).await,
        What::Api => api::play(bench, report).await,
        What::Watch => watch::play(bench, report).await,
        What::Mixed => mixed::play(bench, report).await,
        What::Hostile => hostile::play(bench, report).await,
        What::Churn => churn::play(bench, report).await,
        What::Node => node::play(bench, report).await,
        What::Start => Ok(()),
    }
}
