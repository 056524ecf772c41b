//! Devices whose pod was removed before it ended: their node has not unprepared them yet.

use std::{collections::BTreeSet, sync::Arc};

use lazaret_api::{awaiting_to_text, read_node_report};
use lazaret_fleet::Input;
use lazaret_model::{
    AWAITING_UNPREPARE, Allocation, Awaited, DeviceId, DeviceResult, ObjectKey, ResourceClaim, Text,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::Cluster;

/// The unprepare that a device waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AwaitRow {
    /// The node that has to unprepare it.
    pub node: String,
    /// `namespace/name` of the claim that it was given to; it may be gone.
    pub claim: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The same in a sentence, as events have it.
    pub message: String,
}

fn await_row(node: &str, one: &Awaited) -> AwaitRow {
    AwaitRow {
        node: node.to_owned(),
        claim: one.claim.to_string(),
        since: one.since.map(lazaret_api::format_time),
        message: one.words(node),
    }
}

impl Cluster {
    /// The unprepare that a device waits for, if any.
    #[must_use]
    pub fn awaited(&self, id: &DeviceId) -> Option<AwaitRow> {
        self.waiting().find(|(_, one)| one.devices.contains(id)).map(|(node, one)| await_row(node, one))
    }

    /// Everything that is waited for, by node.
    pub fn all_awaited(&self) -> impl Iterator<Item = AwaitRow> {
        self.waiting().map(|(node, one)| await_row(node, one))
    }

    fn waiting(&self) -> impl Iterator<Item = (&str, &Awaited)> {
        let all = self
            .nodes
            .iter()
            .flat_map(|(name, node)| node.awaiting.iter().map(move |one| (name.as_str(), one)));
        all.filter(|(_, one)| one.released.is_none())
    }

    /// Claims that are gone hold what they were given as long as it is waited for: nobody else gets it.
    pub(super) fn hold_awaited(&mut self) {
        let mut wanted = BTreeSet::new();
        let all = self.nodes.values().flat_map(|node| &node.awaiting);
        for one in all.filter(|one| one.released.is_none()) {
            let there = self.fleet.claim_ix(&one.claim).and_then(|ix| self.fleet.claim(ix));
            let there = there.filter(|_| !self.held.contains(&one.claim)).map(|claim| claim.uid == one.uid);
            let key = match there {
                Some(true) => continue,
                // Another claim has the name by now.
                Some(false) => {
                    ObjectKey::new(one.claim.namespace.clone(), format!("{} (removed)", one.claim.name))
                }
                None => one.claim.clone(),
            };
            self.fleet.apply(Input::Claim(Arc::new(held(one, key.clone()))));
            wanted.insert(key);
        }
        for key in std::mem::take(&mut self.held) {
            if !wanted.contains(&key) {
                self.fleet.apply(Input::ClaimGone(key));
            }
        }
        self.held = wanted;
    }
}

/// The claims that a node is asked to unprepare.
pub(super) fn awaiting(json: &str) -> Vec<Awaited> {
    read_node_report(json.as_bytes()).map(|report| report.awaiting).unwrap_or_default()
}

fn held(one: &Awaited, key: ObjectKey) -> ResourceClaim {
    let result = |device: &DeviceId| DeviceResult {
        request: Text::default(),
        device: device.clone(),
        admin_access: false,
        tolerations: Vec::new(),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: None,
        consumed_capacity: Vec::new(),
        skip_node_operations: Vec::new(),
    };
    let allocation =
        Allocation { results: one.devices.iter().map(result).collect(), ..Allocation::default() };
    ResourceClaim {
        key,
        uid: one.uid.clone(),
        allocation: Some(Arc::new(allocation)),
        ..ResourceClaim::default()
    }
}

/// The claims that a device is held for on a node, and the merge patch that releases them; `None` where there is none. The patch is `None`
/// where they are released already.
#[must_use]
pub fn release_patch(node: &Value, device: &DeviceId, reason: &str) -> Option<(Vec<String>, Option<Value>)> {
    let mut awaiting = read_node_report(node.to_string().as_bytes())?.awaiting;
    let mut claims = Vec::new();
    let mut changed = false;
    for one in awaiting.iter_mut().filter(|one| one.devices.contains(device)) {
        claims.push(one.claim.to_string());
        if one.released.is_none() {
            one.released = Some(reason.into());
            changed = true;
        }
    }
    if claims.is_empty() {
        return None;
    }
    let patch = json!({"metadata": {
        "uid": node["metadata"]["uid"],
        "resourceVersion": node["metadata"]["resourceVersion"],
        "annotations": {AWAITING_UNPREPARE: awaiting_to_text(&awaiting)},
    }});
    Some((claims, changed.then_some(patch)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str) -> DeviceId {
        DeviceId { driver: "d".into(), pool: "p".into(), device: name.into() }
    }

    fn node(released: bool) -> Value {
        let one = |name: &str| Awaited {
            claim: ObjectKey::new("default", name),
            uid: name.into(),
            devices: vec![device(name)],
            since: None,
            released: released.then(|| "before".into()),
        };
        let text = awaiting_to_text(&[one("a"), one("b")]);
        json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": "7", "annotations": {AWAITING_UNPREPARE: text}}})
    }

    #[test]
    fn only_the_named_device_is_released_and_only_once() {
        let (claims, patch) = release_patch(&node(false), &device("b"), "replaced").unwrap();
        assert_eq!(claims, ["default/b"]);
        let patch = patch.unwrap();
        assert_eq!(
            (&patch["metadata"]["uid"], &patch["metadata"]["resourceVersion"]),
            (&json!("u"), &json!("7"))
        );
        let written = patch["metadata"]["annotations"][AWAITING_UNPREPARE].as_str().unwrap();
        let released: Vec<_> =
            lazaret_api::read_awaiting(written).into_iter().map(|one| one.released).collect();
        assert_eq!(released, [None, Some("replaced".into())]);
        assert_eq!(release_patch(&node(true), &device("b"), "again").unwrap().1, None);
        assert_eq!(release_patch(&node(false), &device("c"), "x"), None);
        assert_eq!(release_patch(&json!({"metadata": {}}), &device("a"), "x"), None);
    }
}
