//! The claim controller's question to a node about claims that may be prepared on it, and the node's answer: annotations of the Node.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_model::{
    AWAITED_PER_NODE_MAX, AWAITING_CLASSIC_UNPREPARE, AWAITING_UNPREPARE, Awaited, DeviceId, NodeReport,
    OUT_OF_SERVICE, ObjectKey, REPORTS_UNPREPARED, Text, UNPREPARED, Uid,
};
use serde::Serialize;

use crate::{
    decode::{parse_quietly, read_quietly},
    fields, format_time, parse_time,
    wire::Nullable,
};

/// A longer annotation was not written by Lazaret.
const BYTES_MAX: usize = 192 << 10;
/// A claim is given at most this many devices.
const DEVICES_MAX: usize = 32;

fields! {
    #[derive(Serialize)]
    struct Entry {
        claim: String = "claim",
        uid: Option<String> = "uid",
        devices: Nullable<Vec<Device>> = "devices",
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<String> = "since",
        #[serde(skip_serializing_if = "Option::is_none")]
        released: Option<String> = "released",
    }

    #[derive(Serialize)]
    struct Device {
        driver: Option<String> = "driver",
        pool: Option<String> = "pool",
        device: Option<String> = "device",
    }
}

/// The text of the annotation [`AWAITING_UNPREPARE`] of a Node.
#[must_use]
pub fn awaiting_to_text(awaiting: &[Awaited]) -> String {
    let device = |id: &DeviceId| Device {
        driver: Some(id.driver.to_string()),
        pool: Some(id.pool.to_string()),
        device: Some(id.device.to_string()),
    };
    let entry = |one: &Awaited| Entry {
        claim: one.claim.to_string(),
        uid: Some(one.uid.to_string()),
        devices: Nullable(one.devices.iter().map(device).collect()),
        since: one.since.map(format_time),
        released: one.released.as_ref().map(ToString::to_string),
    };
    let entries: Vec<Entry> = awaiting.iter().map(entry).collect();
    // Texts cannot fail.
    serde_json::to_string(&entries).unwrap_or_default()
}

/// Reads the annotation [`AWAITING_UNPREPARE`] of a Node. Any writer of Nodes may set it: text that cannot be parsed counts as none.
#[must_use]
pub fn read_awaiting(text: &str) -> Vec<Awaited> {
    if text.len() > BYTES_MAX {
        return Vec::new();
    }
    let entries: Vec<Entry> = parse_quietly(text).unwrap_or_default();
    let device = |wire: Device| {
        Some(DeviceId { driver: wire.driver?.into(), pool: wire.pool?.into(), device: wire.device?.into() })
    };
    let awaited = |entry: Entry| {
        let (namespace, name) = entry.claim.split_once('/')?;
        Some(Awaited {
            claim: ObjectKey::new(namespace, name),
            uid: entry.uid?.into(),
            devices: entry.devices.0.into_iter().take(DEVICES_MAX).map(device).collect::<Option<_>>()?,
            since: entry.since.and_then(|since| parse_time(&since).ok()),
            released: entry.released.map(Text::from),
        })
    };
    entries.into_iter().take(AWAITED_PER_NODE_MAX).filter_map(awaited).collect()
}

/// The text of the annotation [`UNPREPARED`] of a Node.
#[must_use]
pub fn unprepared_to_text(claims: &BTreeSet<Uid>) -> String {
    let claims: Vec<&str> = claims.iter().take(AWAITED_PER_NODE_MAX).map(|uid| &**uid).collect();
    serde_json::to_string(&claims).unwrap_or_default()
}

/// Reads the annotation [`UNPREPARED`] of a Node.
#[must_use]
pub fn read_unprepared(text: &str) -> BTreeSet<Uid> {
    if text.len() > BYTES_MAX {
        return BTreeSet::new();
    }
    let claims: Vec<String> = parse_quietly(text).unwrap_or_default();
    claims.into_iter().take(AWAITED_PER_NODE_MAX).map(Uid::from).collect()
}

fields! {
    struct WireNode {
        metadata: Nullable<WireMetadata> = "metadata",
        spec: Nullable<WireSpec> = "spec",
    }

    struct WireMetadata {
        name: Nullable<String> = "name",
        uid: Nullable<String> = "uid",
        resource_version: Nullable<String> = "resourceVersion",
        annotations: Nullable<BTreeMap<String, Nullable<String>>> = "annotations",
    }

    struct WireSpec {
        taints: Nullable<Vec<WireTaint>> = "taints",
    }

    struct WireTaint {
        key: Nullable<String> = "key",
    }
}

/// Reads the requests and answers about unpreparing claims from the JSON of a Node; `None` if it is no node.
#[must_use]
pub fn read_node_report(json: &[u8]) -> Option<NodeReport> {
    report(json, AWAITING_UNPREPARE)
}

/// The same for classic claims.
#[must_use]
pub fn read_classic_node_report(json: &[u8]) -> Option<NodeReport> {
    report(json, AWAITING_CLASSIC_UNPREPARE)
}

fn report(json: &[u8], awaiting: &str) -> Option<NodeReport> {
    let wire: WireNode = read_quietly(json)?;
    let (metadata, taints) = (wire.metadata.0, wire.spec.0.taints.0);
    let annotations = metadata.annotations.0;
    Some(NodeReport {
        name: metadata.name.0.into(),
        uid: metadata.uid.0.into(),
        version: metadata.resource_version.0.into(),
        reports: annotations.get(REPORTS_UNPREPARED).is_some_and(|value| value.0 == "true"),
        out_of_service: taints.iter().any(|taint| taint.key.0 == OUT_OF_SERVICE),
        awaiting: annotations.get(awaiting).map(|text| read_awaiting(&text.0)).unwrap_or_default(),
        unprepared: annotations.get(UNPREPARED).map(|text| read_unprepared(&text.0)).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use lazaret_model::Timestamp;

    use super::*;

    fn awaited(uid: &str) -> Awaited {
        Awaited {
            claim: ObjectKey::new("default", "train"),
            uid: uid.into(),
            devices: vec![DeviceId { driver: "d".into(), pool: "node-1".into(), device: "gpu-0".into() }],
            since: Some(Timestamp::from_secs(1_700_000_000)),
            released: None,
        }
    }

    #[test]
    fn what_is_asked_is_read_back() {
        let mut asked = vec![awaited("u-1"), awaited("u-2")];
        asked[1].released = Some("replaced".into());
        let text = awaiting_to_text(&asked);
        assert!(text.starts_with(
            r#"[{"claim":"default/train","uid":"u-1","devices":[{"driver":"d","pool":"node-1","device":"gpu-0"}],"since":"2023-11-14T22:13:20Z"},"#
        ));
        assert_eq!(read_awaiting(&text), asked);
        for other in ["", "{}", "[1]", r#"[{"claim":"x"}]"#, &" ".repeat(BYTES_MAX + 1)] {
            assert_eq!(read_awaiting(other), [], "{:.20}", other);
        }
        let many: Vec<Awaited> = (0..100).map(|number| awaited(&number.to_string())).collect();
        assert_eq!(read_awaiting(&awaiting_to_text(&many)).len(), AWAITED_PER_NODE_MAX);
    }

    #[test]
    fn a_node_that_says_nothing_reports_nothing() {
        let bare =
            read_node_report(br#"{"metadata":{"name":"n","annotations":null},"spec":{"taints":null}}"#);
        assert_eq!(bare, Some(NodeReport { name: "n".into(), ..NodeReport::default() }));
        assert_eq!(read_node_report(b"7"), None);
        let node = read_node_report(
            br#"{"metadata":{"name":"n","uid":"u","resourceVersion":"7","annotations":{
                "lazaret.dev/reports-unprepared":"true","lazaret.dev/unprepared":"[\"a\",\"b\"]"}},
                "spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}"#,
        )
        .unwrap();
        assert!(node.reports && node.out_of_service);
        assert_eq!(node.unprepared, ["a".into(), "b".into()].into());
        assert_eq!(read_unprepared(&unprepared_to_text(&node.unprepared)), node.unprepared);
    }
}
