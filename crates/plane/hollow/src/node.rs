//! The fields of a Node's JSON that the machines read.

use std::collections::BTreeMap;

use lazaret_api::{read_awaiting, read_unprepared};
use lazaret_kubelet::SeenNode;
use lazaret_model::{AWAITING_CLASSIC_UNPREPARE, AWAITING_UNPREPARE, REPORTS_UNPREPARED, UNPREPARED};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    annotations::{FAIL, PREPARED, UNPREPARE_AFTER, duration_ms},
    checkpoint,
    node_json::NOT_READY,
};

/// A Node as it is.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct HollowNode {
    /// The fields that its kubelet reads.
    pub seen: SeenNode,
    /// Which of its devices fail: the annotation.
    pub fail: Option<String>,
}

impl HollowNode {
    /// Reads a node's JSON. `None` if it is no node.
    #[must_use]
    pub fn read(json: &[u8]) -> Option<Self> {
        let wire: Wire = serde_json::from_slice(json).ok()?;
        let metadata = wire.metadata;
        let marked = |taint: &Value| taint["key"] == NOT_READY;
        let others = || wire.spec.taints.iter().filter(|taint| !marked(taint)).cloned().collect::<Value>();
        let taints_when_ready = wire.spec.taints.iter().any(marked).then(|| others().to_string().into());
        let annotation = |name: &str| metadata.annotations.get(name).map(String::as_str);
        let seen = SeenNode {
            name: metadata.name.as_str().into(),
            uid: metadata.uid.as_str().into(),
            version: metadata.resource_version.as_str().into(),
            ready: wire.status.conditions.iter().any(|there| there.kind == "Ready" && there.status == "True"),
            taints_when_ready,
            unprepare_after_ms: annotation(UNPREPARE_AFTER).and_then(duration_ms),
            reports: annotation(REPORTS_UNPREPARED).is_some_and(|value| value == "true"),
            awaiting: [AWAITING_UNPREPARE, AWAITING_CLASSIC_UNPREPARE]
                .into_iter()
                .filter_map(annotation)
                .flat_map(|text| read_awaiting(text).into_iter().map(|one| one.uid))
                .collect(),
            unprepared: annotation(UNPREPARED).map(read_unprepared).unwrap_or_default(),
            checkpoint: checkpoint::read(annotation(PREPARED)),
        };
        Some(Self { seen, fail: annotation(FAIL).map(str::to_owned) })
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
struct Spec {
    #[serde(default)]
    taints: Vec<Value>,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    status: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_matters() {
        let node = HollowNode::read(
            br#"{"metadata":{"name":"node-1","uid":"u","resourceVersion":"9","annotations":{"hollow.lazaret.dev/fail":"{}"}},
                "spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"},{"key":"a","effect":"NoExecute"}]},
                "status":{"conditions":[{"type":"Ready","status":"True"}]}}"#,
        )
        .unwrap();
        assert!(node.seen.ready);
        let others: Value = serde_json::from_str(&node.seen.taints_when_ready.unwrap()).unwrap();
        assert_eq!(others, serde_json::json!([{"key": "a", "effect": "NoExecute"}]));
        assert_eq!(node.fail.as_deref(), Some("{}"));
        let bare = HollowNode::read(br#"{"metadata":{"name":"node-1"}}"#).unwrap();
        assert_eq!((bare.seen.ready, bare.seen.taints_when_ready), (false, None));
        assert_eq!(HollowNode::read(b"7"), None);
    }
}
