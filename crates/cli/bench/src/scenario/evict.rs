//! One rule makes all pods leave that do not tolerate it.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::schedule::{self, tolerates};
use crate::{
    bench::Bench,
    clock,
    objects::{RULES, RULES_WITH_PACE, meta},
    pods::Pods,
    report::{Phase, Report},
};

/// Time to wait for wrong evictions.
const QUIET: Duration = Duration::from_secs(1);

pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    let pods = schedule::play(bench, report).await?;
    leave(bench, report, &pods).await
}

/// Makes the rule and waits until all have left.
pub(super) async fn leave(bench: &mut Bench<'_>, report: &mut Report, pods: &Pods) -> Result<()> {
    let args = bench.args;
    let mut taint = json!({"key": "lazaret.dev/bench", "effect": "NoExecute"});
    let path = if args.rate > 0 {
        taint["evictionsPerSecond"] = args.rate.into();
        RULES_WITH_PACE
    } else {
        RULES
    };
    let rule = json!({
        "metadata": meta(&bench.run, &format!("{}-all", bench.run)),
        "spec": {"deviceSelector": {"driver": bench.fleet.driver}, "taint": taint},
    });
    let leaving = (0..args.pods).filter(|number| !tolerates(*number, args.tolerate)).count();
    let start = clock::now();
    bench.caller.create(path, &rule).await?;
    pods.wait("pods leaving", leaving, |counts| counts.leaving).await?;
    if args.tolerate > 0 {
        tokio::time::sleep(QUIET).await;
    }
    let each = pods.each();
    let wrong = each
        .iter()
        .enumerate()
        .filter(|(number, seen)| seen.leaving.is_some() && tolerates(*number, args.tolerate));
    let wrong = wrong.count();
    ensure!(wrong == 0, "{wrong} pods had to leave although they tolerate the taint");
    let measured: Vec<_> = each
        .iter()
        .filter_map(|seen| seen.leaving)
        .map(|at| (at.saturating_duration_since(start), at))
        .collect();
    report.phases.push(Phase::new("rule made to pod deleted", start, &measured));
    Ok(())
}
