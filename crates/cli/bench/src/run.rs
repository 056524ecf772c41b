//! The command: which measurements it makes, and how they are printed.

use anyhow::{Context, Result, ensure};
use tokio::runtime::Builder;

use crate::{
    args::{Args, Benchmark, Format},
    compare, curve,
    measure::{Measured, measure},
    objects,
    report::Report,
    target::Target,
    workload,
};
use lazaret_print::{Structured, print};

/// Does what the command line says.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let [before, after] = args.compare.as_slice() {
        return Ok(print(&compare::compare(before, after)?)?);
    }
    if args.workload.as_deref() == Some("list") {
        return Ok(print(&workload::list())?);
    }
    ensure!(
        args.output != Format::Svg || args.curve.is_some(),
        "-o svg draws a curve: add --curve nodes, pods or rules"
    );
    let runtime = runtime(args).enable_all().build().context("start")?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, work(args))
}

/// The simulated nodes of a foreign cluster have a thread of their own; the load has this one. Where there are no nodes, it reads its sockets
/// itself: no thread wakes another for every answer.
fn runtime(args: &Args) -> Builder {
    let alone =
        args.workload.is_none() && matches!(args.what, Benchmark::Api | Benchmark::Watch | Benchmark::Start);
    if alone {
        return Builder::new_current_thread();
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1);
    builder
}

async fn work(args: &Args) -> Result<()> {
    if args.clean {
        let target = Target::find(args.kubeconfig.as_deref()).await?;
        return objects::clean_up(&target, None).await;
    }
    if let Some(axis) = args.curve {
        let curve = curve::measure(args, axis).await?;
        let text = match args.output {
            Format::Table => curve.table(),
            Format::Json => Structured::Json.text(&curve)?,
            Format::Svg => curve.svg(),
        };
        return Ok(print(&text)?);
    }
    let Measured { report, stage, outcome } = measure(args).await?;
    // Printed before the cleanup, which may take long; and after a failure the results so far as well.
    if outcome.is_ok() || !report.phases.is_empty() {
        print_report(&report, args.output)?;
    }
    stage.clear().await;
    outcome
}

fn print_report(report: &Report, format: Format) -> Result<()> {
    Ok(print(&match format {
        Format::Json => Structured::Json.text(report)?,
        Format::Table | Format::Svg => report.table(),
    })?)
}
