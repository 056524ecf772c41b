//! One node after the other says that a device has trouble: from the slice that says so to the taint that a health policy sets, both as a watch
//! tells them.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::failing_nodes::{FirstSeen, fail, reported_node};
use crate::{
    bench::Bench,
    clock,
    objects::{RULES, SLICES, meta},
    output::progress,
    pods,
    report::{Phase, Report},
};

const POLICIES: &str = "/apis/lazaret.dev/v1alpha1/devicehealthpolicies";
const POLICY: &str = "bench";
const STALLED: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    ensure!(
        bench.args.kubeconfig.is_none(),
        "signal-latency leaves incidents behind: it measures a lazaret of this build, so leave out --kubeconfig"
    );
    let policy = policy(bench);
    accept_policy(bench, &policy).await?;
    let (reported, tainted) = (Rc::new(FirstSeen::default()), Rc::new(FirstSeen::default()));
    let (slices, rules) = (format!("{SLICES}?watch=true"), format!("{RULES}?watch=true"));
    let target = bench.target.clone();
    let (start, mut measured) = (clock::now(), Vec::new());
    tokio::select! {
        failed = pods::watch(&target, &slices, None, |line| reported.read_event(line, reported_node)) => return failed.map(drop),
        failed = pods::watch(&target, &rules, None, |line| tainted.read_event(line, tainted_node)) => return failed.map(drop),
        done = nodes(bench, &reported, &tainted, &mut measured) => done?,
    }
    report.phases.push(Phase::new("signal in a slice to taint in a rule", start, &measured));
    Ok(())
}

/// A policy that quarantines what its driver reports.
fn policy(bench: &Bench<'_>) -> Value {
    let driver = &bench.fleet.driver;
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": meta(&bench.run, POLICY),
        "spec": {
            "deviceSelector": {"driver": driver},
            "rules": [{
                "name": "reported", "stage": "Quarantined",
                "when": format!("signal.source == 'Taint' && signal.key == '{driver}/unhealthy'"),
            }],
            "mode": "Enforce",
        },
    })
}

/// Makes the policy, and waits until it is acted on.
pub(super) async fn accept_policy(bench: &mut Bench<'_>, policy: &Value) -> Result<()> {
    bench.caller.create(POLICIES, policy).await?;
    let until = clock::now() + STALLED;
    while clock::now() < until {
        let policy = bench.caller.get(&format!("{POLICIES}/{POLICY}")).await?.unwrap_or_default();
        if policy["status"]["conditions"][0]["status"] == "True" {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    bail!("nobody acts on the policy")
}

async fn nodes(
    bench: &mut Bench<'_>,
    reported: &FirstSeen,
    tainted: &FirstSeen,
    measured: &mut Vec<(Duration, Instant)>,
) -> Result<()> {
    for number in 1..=bench.args.nodes {
        let node = bench.fleet.node(number);
        fail(bench, &node, 1, "None").await?;
        let from = reported.wait(&node, "reports its device").await?;
        let to = tainted.wait(&node, "has its device tainted").await?;
        measured.push((to.saturating_duration_since(from), to));
        progress("devices tainted", number, bench.args.nodes);
    }
    Ok(())
}

/// The node, which is the pool, of a device that a rule keeps new claims from.
pub(super) fn tainted_node(rule: &Value) -> Option<&str> {
    let is_quarantine = rule["spec"]["taint"]["effect"] == "NoSchedule";
    rule["spec"]["deviceSelector"]["pool"].as_str().filter(|_| is_quarantine)
}
