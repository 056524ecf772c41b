//! One node after the other says that its devices have failed: from the slice that says so to the pod that leaves, both as a watch
//! tells them.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{
    failing_nodes::{FirstSeen, fail, reported_node},
    schedule,
};
use crate::{
    bench::Bench,
    clock,
    objects::SLICES,
    output::progress,
    pods::{self, Pods},
    report::{Phase, Report},
};

const STALLED: Duration = Duration::from_secs(60);

pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    let pods = schedule::play(bench, report).await?;
    let reported = Rc::new(FirstSeen::default());
    let path = format!("{SLICES}?watch=true");
    let target = bench.target.clone();
    let (start, mut measured) = (clock::now(), Vec::new());
    tokio::select! {
        failed = pods::watch(&target, &path, None, |line| reported.read_event(line, reported_node)) => return failed.map(drop),
        done = nodes(bench, &pods, &reported, &mut measured) => done?,
    }
    report.phases.push(Phase::new("slice tainted to pod deleted", start, &measured));
    Ok(())
}

async fn nodes(
    bench: &mut Bench<'_>,
    pods: &Pods,
    reported: &FirstSeen,
    measured: &mut Vec<(Duration, Instant)>,
) -> Result<()> {
    for number in 1..=bench.args.nodes {
        let node = bench.fleet.node(number);
        let here: Vec<usize> = pods
            .each()
            .iter()
            .enumerate()
            .filter(|(pod, seen)| seen.node == node && !schedule::tolerates(*pod, bench.args.tolerate))
            .map(|(pod, _)| pod)
            .collect();
        fail(bench, &node, bench.args.devices, "NoExecute").await?;
        let at = reported.wait(&node, "publishes its taints").await?;
        loop {
            let each = pods.each();
            let left: Vec<Instant> = here.iter().filter_map(|pod| each[*pod].leaving).collect();
            if left.len() == here.len() {
                measured.extend(left.iter().map(|left| (left.saturating_duration_since(at), *left)));
                break;
            }
            pods.change(STALLED).await.with_context(|| format!("pods of {node} leave"))?;
        }
        progress("nodes tainted", number, bench.args.nodes);
    }
    Ok(())
}
