//! Nodes whose devices fail one after the other, and when a watch first told what of each of them.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{bench::Bench, clock, objects::NODES};

const STALLED: Duration = Duration::from_secs(60);

/// When each node was first seen with something.
#[derive(Debug, Default)]
pub(super) struct FirstSeen {
    nodes: RefCell<BTreeMap<String, Instant>>,
    changed: Notify,
}

impl FirstSeen {
    /// Takes in an event of a watch; `node` says of which node its object tells it, if it does.
    pub(super) fn read_event(&self, line: &[u8], node: impl Fn(&Value) -> Option<&str>) -> Result<()> {
        let at = clock::now();
        let event: Value = serde_json::from_slice(line).context("read an event")?;
        if let Some(node) = node(&event["object"]) {
            self.nodes.borrow_mut().entry(node.to_owned()).or_insert(at);
            self.changed.notify_one();
        }
        Ok(())
    }

    /// When a node was first seen so.
    pub(super) async fn wait(&self, node: &str, what: &str) -> Result<Instant> {
        loop {
            if let Some(at) = self.nodes.borrow().get(node) {
                return Ok(*at);
            }
            let changed = tokio::time::timeout(STALLED, self.changed.notified()).await;
            changed.with_context(|| format!("{node} {what}"))?;
        }
    }
}

/// The node of a slice in which a device is tainted.
pub(super) fn reported_node(slice: &Value) -> Option<&str> {
    let devices = slice["spec"]["devices"].as_array()?;
    let is_tainted =
        devices.iter().any(|device| device["taints"].as_array().is_some_and(|all| !all.is_empty()));
    slice["spec"]["nodeName"].as_str().filter(|_| is_tainted)
}

/// Makes the driver of a node report devices of it, by their numbers, with taints of this effect.
pub(super) async fn fail(bench: &mut Bench<'_>, node: &str, devices: usize, effect: &str) -> Result<()> {
    let failed =
        (0..devices).map(|device| (format!("gpu-{device}"), json!({"effect": effect, "reason": "bench"})));
    let failed = Value::Object(failed.collect()).to_string();
    let patch = json!({"metadata": {"annotations": {lazaret_hollow::FAIL: failed}}}).to_string();
    let request = bench.target.patch(&format!("{NODES}/{node}"), &patch);
    let answer = bench.caller.ask(&request).await?;
    if answer.code != 200 {
        bail!("make devices of {node} fail: {}", answer.refusal());
    }
    Ok(())
}
