//! One node after the other says that its devices have failed: from the slice that says so to the pod that leaves, both as a watch
//! tells them.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::schedule;
use crate::{
    clock,
    objects::{NODES, SLICES},
    output::progress,
    pods::{self, Pods},
    report::{Phase, Report},
    run::Bench,
};

const STALLED: Duration = Duration::from_secs(60);

/// When the slice of a node first told of a taint.
#[derive(Debug, Default)]
struct Tainted {
    nodes: RefCell<BTreeMap<String, Instant>>,
    changed: Notify,
}

pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    let pods = schedule::play(bench, report).await?;
    let tainted = Rc::new(Tainted::default());
    let each = |line: &[u8]| tainted.hear(line);
    let path = format!("{SLICES}?watch=true");
    let target = bench.target.clone();
    let (start, mut measured) = (clock::now(), Vec::new());
    tokio::select! {
        failed = pods::watch(&target, &path, None, each) => return failed.map(drop),
        done = nodes(bench, &pods, &tainted, &mut measured) => done?,
    }
    report.phases.push(Phase::new("slice tainted to pod deleted", start, &measured));
    Ok(())
}

async fn nodes(
    bench: &mut Bench<'_>,
    pods: &Pods,
    tainted: &Tainted,
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
        let failed = (0..bench.args.devices)
            .map(|device| (format!("gpu-{device}"), json!({"effect": "NoExecute", "reason": "bench"})));
        let failed = Value::Object(failed.collect()).to_string();
        let patch = json!({"metadata": {"annotations": {lazaret_hollow::FAIL: failed}}}).to_string();
        let request = bench.target.patch(&format!("{NODES}/{node}"), &patch);
        let answer = bench.caller.ask(&request).await?;
        if answer.code != 200 {
            bail!("make the devices of {node} fail: {}", answer.refusal());
        }
        let at = tainted.wait(&node).await?;
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

impl Tainted {
    fn hear(&self, line: &[u8]) -> Result<()> {
        let event: Event = serde_json::from_slice(line).context("read an event")?;
        let tainted = event.object.spec.devices.iter().any(|device| !device.taints.is_empty());
        if tainted {
            self.nodes.borrow_mut().entry(event.object.spec.node_name).or_insert_with(clock::now);
            self.changed.notify_one();
        }
        Ok(())
    }

    async fn wait(&self, node: &str) -> Result<Instant> {
        loop {
            if let Some(at) = self.nodes.borrow().get(node) {
                return Ok(*at);
            }
            tokio::time::timeout(STALLED, self.changed.notified())
                .await
                .with_context(|| format!("{node} publishes its taints"))?;
        }
    }
}

#[derive(Deserialize)]
struct Event {
    object: Slice,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Slice {
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
    devices: Vec<Device>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Device {
    taints: Vec<serde::de::IgnoredAny>,
}
