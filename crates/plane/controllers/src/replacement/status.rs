//! A policy's status, on the wire and in the core.

use lazaret_api::format_time;
use lazaret_model::{Condition, ConditionStatus, Timestamp};
use lazaret_replacement::{PodStatus, RecordStatus, Status, Totals};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::{self, WireCause, WireRecord};
use crate::wire;

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireStatus {
    observed_generation: i64,
    #[serde(with = "WireTotals")]
    totals: Totals,
    pods: Vec<WirePod>,
    replacements: Vec<WireRecord>,
    conditions: Vec<Value>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(remote = "Totals", rename_all = "camelCase", default)]
struct WireTotals {
    selected: u64,
    detected: u64,
    due: u64,
    in_flight: u64,
    replaced: u64,
    overdue: u64,
    #[serde(rename = "faultDomains")]
    domains: u64,
    #[serde(rename = "faultDomainsTainted")]
    domains_tainted: u64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WirePod {
    pod: String,
    uid: String,
    #[serde(flatten)]
    place: WireCause,
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    first_seen: bool,
    condition: String,
    /// Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replace_after: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    replacement: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

pub(super) fn to_wire(status: &Status) -> WireStatus {
    WireStatus {
        observed_generation: status.observed_generation,
        totals: status.totals,
        pods: status.pods.iter().map(pod_to_wire).collect(),
        replacements: status.replacements.iter().map(record_to_wire).collect(),
        conditions: status.conditions.iter().map(wire::condition).collect(),
    }
}

pub(super) fn from_wire(status: &WireStatus) -> Status {
    Status {
        observed_generation: status.observed_generation,
        totals: status.totals,
        pods: status.pods.iter().filter_map(pod_from_wire).collect(),
        replacements: status.replacements.iter().filter_map(record_from_wire).collect(),
        conditions: status.conditions.iter().filter_map(condition).collect(),
    }
}

fn pod_to_wire(pod: &PodStatus) -> WirePod {
    let text = |text: &lazaret_model::Text| text.as_str().to_owned();
    let time = |at: Timestamp| (at < Timestamp::NEVER).then(|| format_time(at));
    WirePod {
        pod: text(&pod.pod),
        uid: text(&pod.uid),
        place: WireCause::new(&pod.node, &pod.cause, pod.since),
        first_seen: pod.first_seen,
        condition: text(&pod.condition),
        due: time(pod.due),
        replace_after: time(pod.after),
        replacement: pod.replacement.as_ref().map(text).unwrap_or_default(),
        message: text(&pod.message),
    }
}

fn pod_from_wire(pod: &WirePod) -> Option<PodStatus> {
    let time = |text: &Option<String>| match text {
        Some(text) => record::time(text),
        None => Some(Timestamp::NEVER),
    };
    Some(PodStatus {
        pod: pod.pod.as_str().into(),
        uid: pod.uid.as_str().into(),
        node: pod.place.node(),
        cause: pod.place.cause(),
        condition: pod.condition.as_str().into(),
        since: pod.place.since()?,
        first_seen: pod.first_seen,
        due: time(&pod.due)?,
        after: time(&pod.replace_after)?,
        replacement: (!pod.replacement.is_empty()).then(|| pod.replacement.as_str().into()),
        message: pod.message.as_str().into(),
    })
}

fn record_to_wire(entry: &RecordStatus) -> WireRecord {
    let mut wire = record::to_wire(&entry.record);
    if let Some(replacement) = &entry.replacement {
        wire.replacement = replacement.as_str().to_owned();
    }
    wire.overdue = entry.overdue;
    wire
}

fn record_from_wire(wire: &WireRecord) -> Option<RecordStatus> {
    let replacement = (!wire.replacement.is_empty()).then(|| wire.replacement.as_str().into());
    Some(RecordStatus { record: record::from_wire(wire)?, replacement, overdue: wire.overdue })
}

fn condition(value: &Value) -> Option<Condition> {
    let text = |name: &str| value[name].as_str();
    Some(Condition {
        kind: text("type")?.into(),
        status: match text("status")? {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            _ => ConditionStatus::Unknown,
        },
        reason: text("reason").unwrap_or_default().into(),
        message: text("message").unwrap_or_default().into(),
        observed_generation: value["observedGeneration"].as_i64().unwrap_or(0),
        last_transition: text("lastTransitionTime").and_then(record::time),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_model::{ObjectKey, Owner};
    use lazaret_replacement::{Cause, Origin, Plan, Record};

    fn cause(origin: Origin, place: &str, value: &str, effect: &str) -> Cause {
        let (place, value, effect) = (place.into(), value.into(), effect.into());
        Cause { origin, place, key: "k".into(), value, effect }
    }

    /// A status that came back otherwise than it was written would be written for ever.
    #[test]
    fn what_is_written_is_what_is_read() {
        let at = Timestamp::from_secs(1_700_000_000);
        let device = cause(Origin::Device, "d/w/gpu-0", "v", "NoExecute");
        let owner =
            Owner { group: "apps".into(), kind: "ReplicaSet".into(), name: "web".into(), uid: "o".into() };
        let record = |plan| Record {
            policy: "p".into(),
            counted_by: vec!["p".into(), "q".into()],
            pod: ObjectKey::new("n", "a"),
            uid: "u".into(),
            node: "w".into(),
            cause: device.clone(),
            since: at,
            started: at,
            lacking: 2,
            plan,
        };
        let plans = [
            Plan::Release { owner: owner.clone(), label: "pod-template-hash".into() },
            Plan::Evict { owner },
            Plan::Copy { name: "a-r1".into() },
            Plan::Rebuild { name: "a-r1".into() },
        ];
        let pod = |cause| PodStatus {
            pod: "a".into(),
            uid: "u".into(),
            node: "w".into(),
            cause,
            condition: "NodeTaintDetected".into(),
            since: at,
            first_seen: true,
            due: at.plus_secs(5),
            after: Timestamp::NEVER,
            replacement: None,
            message: "".into(),
        };
        let status = Status {
            observed_generation: 4,
            totals: Totals {
                selected: 1,
                detected: 2,
                due: 3,
                in_flight: 4,
                replaced: 5,
                overdue: 6,
                domains: 7,
                domains_tainted: 8,
            },
            pods: vec![pod(device.clone()), pod(cause(Origin::Node, "w", "", ""))],
            replacements: plans
                .into_iter()
                .map(|plan| RecordStatus {
                    record: record(plan),
                    replacement: Some("b".into()),
                    overdue: true,
                })
                .collect(),
            conditions: vec![Condition {
                kind: "Degraded".into(),
                status: ConditionStatus::False,
                reason: "AsExpected".into(),
                message: "".into(),
                observed_generation: 4,
                last_transition: Some(at.truncated_to_secs()),
            }],
        };
        let text = serde_json::to_string(&to_wire(&status)).unwrap();
        let read: WireStatus = serde_json::from_str(&text).unwrap();
        assert_eq!(from_wire(&read), status);
    }
}
