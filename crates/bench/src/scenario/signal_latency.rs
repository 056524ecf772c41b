//! One node after the other says that a device has trouble: from the slice that says so to the taint that a health policy sets, both as a watch
//! tells them.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    clock,
    objects::{NODES, RULES, SLICES, meta},
    output::progress,
    pods,
    report::{Phase, Report},
    run::Bench,
};

const POLICIES: &str = "/apis/lazaret.dev/v1alpha1/devicehealthpolicies";
const POLICY: &str = "bench";
/// The device of each node that has trouble.
const DEVICE: &str = "gpu-0";
const STALLED: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// When each node was first seen with it.
#[derive(Debug, Default)]
struct Seen {
    nodes: RefCell<BTreeMap<String, Instant>>,
    changed: Notify,
}

pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    ensure!(
        bench.args.kubeconfig.is_none(),
        "signal-latency leaves incidents behind: it measures a lazaret of this build, so leave out --kubeconfig"
    );
    accept_policy(bench).await?;
    let (reported, tainted) = (Rc::new(Seen::default()), Rc::new(Seen::default()));
    let (slices, rules) = (format!("{SLICES}?watch=true"), format!("{RULES}?watch=true"));
    let target = bench.target.clone();
    let (start, mut measured) = (clock::now(), Vec::new());
    tokio::select! {
        failed = pods::watch(&target, &slices, None, |line| reported.hear(line, reported_node)) => return failed.map(drop),
        failed = pods::watch(&target, &rules, None, |line| tainted.hear(line, tainted_node)) => return failed.map(drop),
        done = nodes(bench, &reported, &tainted, &mut measured) => done?,
    }
    report.phases.push(Phase::new("signal in a slice to taint in a rule", start, &measured));
    Ok(())
}

/// A policy that quarantines what its driver reports, once it is acted on.
async fn accept_policy(bench: &mut Bench<'_>) -> Result<()> {
    let driver = bench.fleet.driver.clone();
    let policy = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": meta(&bench.run, POLICY),
        "spec": {
            "deviceSelector": {"driver": driver},
            "rules": [{
                "name": "reported", "stage": "Quarantined",
                "when": format!("signal.source == 'Taint' && signal.key == '{driver}/unhealthy'"),
            }],
            "mode": "Enforce",
        },
    });
    bench.caller.create(POLICIES, &policy).await?;
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
    reported: &Seen,
    tainted: &Seen,
    measured: &mut Vec<(Duration, Instant)>,
) -> Result<()> {
    for number in 1..=bench.args.nodes {
        let node = bench.fleet.node(number);
        let failed = json!({DEVICE: {"effect": "None", "reason": "bench"}}).to_string();
        let patch = json!({"metadata": {"annotations": {lazaret_hollow::FAIL: failed}}}).to_string();
        let request = bench.target.patch(&format!("{NODES}/{node}"), &patch);
        let answer = bench.caller.ask(&request).await?;
        if answer.code != 200 {
            bail!("make a device of {node} fail: {}", answer.refusal());
        }
        let from = reported.wait(&node).await.with_context(|| format!("{node} reports its device"))?;
        let to = tainted.wait(&node).await.with_context(|| format!("the device of {node} is tainted"))?;
        measured.push((to.saturating_duration_since(from), to));
        progress("devices tainted", number, bench.args.nodes);
    }
    Ok(())
}

/// The node of a slice in which a device is tainted.
fn reported_node(object: &Value) -> Option<&str> {
    let devices = object["spec"]["devices"].as_array()?;
    let is_tainted =
        devices.iter().any(|device| device["taints"].as_array().is_some_and(|all| !all.is_empty()));
    object["spec"]["nodeName"].as_str().filter(|_| is_tainted)
}

/// The node, which is the pool, of a device that a rule keeps new claims from.
fn tainted_node(object: &Value) -> Option<&str> {
    let is_quarantine = object["spec"]["taint"]["effect"] == "NoSchedule";
    object["spec"]["deviceSelector"]["pool"].as_str().filter(|_| is_quarantine)
}

impl Seen {
    fn hear(&self, line: &[u8], node: impl Fn(&Value) -> Option<&str>) -> Result<()> {
        let at = clock::now();
        let event: Value = serde_json::from_slice(line).context("read an event")?;
        if let Some(node) = node(&event["object"]) {
            self.nodes.borrow_mut().entry(node.to_owned()).or_insert(at);
            self.changed.notify_one();
        }
        Ok(())
    }

    async fn wait(&self, node: &str) -> Result<Instant> {
        loop {
            if let Some(at) = self.nodes.borrow().get(node) {
                return Ok(*at);
            }
            tokio::time::timeout(STALLED, self.changed.notified()).await.context("never")?;
        }
    }
}
