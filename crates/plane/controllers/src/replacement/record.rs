//! A replacement as it is written down: in a policy's status, and on the pods it is about.

use lazaret_api::{format_time, parse_time};
use lazaret_model::{ObjectKey, Owner, Text, Timestamp};
use lazaret_replacement::{Cause, Origin, Plan, Record};
use serde::{Deserialize, Serialize};

/// A record on the wire.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireRecord {
    policy: String,
    counted_by: Vec<String>,
    namespace: String,
    pub(super) pod: String,
    uid: String,
    #[serde(flatten)]
    place: WireCause,
    started: String,
    lacking: u32,
    plan: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<WireOwner>,
    #[serde(skip_serializing_if = "String::is_empty")]
    label: String,
    /// The name that a copy has or will have.
    #[serde(skip_serializing_if = "String::is_empty")]
    copy: String,
    /// The pod that takes its place, once it is there.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) replacement: String,
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub(super) overdue: bool,
}

/// A taint around a pod, and since when it counts.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireCause {
    node: String,
    /// Empty if the node is tainted.
    #[serde(skip_serializing_if = "String::is_empty")]
    device: String,
    taint_key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    taint_value: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    taint_effect: String,
    since: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct WireOwner {
    group: String,
    kind: String,
    name: String,
    uid: String,
}

/// The text of a mark.
pub(super) fn format(record: &Record) -> String {
    // A struct of strings always has a JSON form.
    serde_json::to_string(&to_wire(record)).unwrap_or_default()
}

/// Reads a mark; `None` when it is not a record, and so by another writer.
pub(super) fn parse(text: &str) -> Option<Record> {
    from_wire(&serde_json::from_str(text).ok()?)
}

pub(super) fn to_wire(record: &Record) -> WireRecord {
    let text = |text: &Text| text.as_str().to_owned();
    let (owner, label, copy) = match &record.plan {
        Plan::Release { owner, label } => (Some(owner), text(label), String::new()),
        Plan::Evict { owner } => (Some(owner), String::new(), String::new()),
        Plan::Copy { name } | Plan::Rebuild { name } => (None, String::new(), text(name)),
    };
    WireRecord {
        policy: text(&record.policy),
        counted_by: record.counted_by.iter().map(text).collect(),
        namespace: text(&record.pod.namespace),
        pod: text(&record.pod.name),
        uid: text(&record.uid),
        place: WireCause::new(&record.node, &record.cause, record.since),
        started: format_time(record.started),
        lacking: record.lacking,
        plan: record.plan.name().to_owned(),
        owner: owner.map(|owner| WireOwner {
            group: text(&owner.group),
            kind: text(&owner.kind),
            name: text(&owner.name),
            uid: text(&owner.uid),
        }),
        label,
        copy,
        replacement: String::new(),
        overdue: false,
    }
}

pub(super) fn from_wire(wire: &WireRecord) -> Option<Record> {
    let owner = || {
        let owner = wire.owner.as_ref()?;
        Some(Owner {
            group: owner.group.as_str().into(),
            kind: owner.kind.as_str().into(),
            name: owner.name.as_str().into(),
            uid: owner.uid.as_str().into(),
        })
    };
    let plan = match wire.plan.as_str() {
        "Release" => Plan::Release { owner: owner()?, label: wire.label.as_str().into() },
        "Evict" => Plan::Evict { owner: owner()? },
        "Copy" => Plan::Copy { name: wire.copy.as_str().into() },
        "Rebuild" => Plan::Rebuild { name: wire.copy.as_str().into() },
        _ => return None,
    };
    Some(Record {
        policy: wire.policy.as_str().into(),
        counted_by: wire.counted_by.iter().map(|name| Text::from(name.as_str())).collect(),
        pod: ObjectKey::new(wire.namespace.as_str(), wire.pod.as_str()),
        uid: wire.uid.as_str().into(),
        node: wire.place.node(),
        cause: wire.place.cause(),
        since: wire.place.since()?,
        started: time(&wire.started)?,
        lacking: wire.lacking,
        plan,
    })
}

impl WireCause {
    pub(super) fn new(node: &Text, cause: &Cause, since: Timestamp) -> Self {
        let text = |text: &Text| text.as_str().to_owned();
        Self {
            node: text(node),
            device: match cause.origin {
                Origin::Node => String::new(),
                Origin::Device => text(&cause.place),
            },
            taint_key: text(&cause.key),
            taint_value: text(&cause.value),
            taint_effect: text(&cause.effect),
            since: format_time(since),
        }
    }

    pub(super) fn node(&self) -> Text {
        self.node.as_str().into()
    }

    pub(super) fn since(&self) -> Option<Timestamp> {
        time(&self.since)
    }

    pub(super) fn cause(&self) -> Cause {
        let (origin, place) =
            if self.device.is_empty() { (Origin::Node, &self.node) } else { (Origin::Device, &self.device) };
        Cause {
            origin,
            place: place.as_str().into(),
            key: self.taint_key.as_str().into(),
            value: self.taint_value.as_str().into(),
            effect: self.taint_effect.as_str().into(),
        }
    }
}

pub(super) fn time(text: &str) -> Option<Timestamp> {
    parse_time(text).ok()
}
