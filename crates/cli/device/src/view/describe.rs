//! Everything about one device.

use std::collections::BTreeMap;

use lazaret_fleet::DeviceRef;
use lazaret_model::{AttrValue, DeviceId, Effect, Taint, Timestamp};
use serde::Serialize;

use super::{
    change::selector_of,
    cluster::Cluster,
    device::{DeviceRow, row},
    gates::is_off,
    history::{Entry, EventFacts, history},
    plan::{Plan, plan},
    time::ago,
};

/// The key of a taint that nobody set: what a NoExecute taint would do that nobody tolerates by key.
const ANY_KEY: &str = "example.com/any";

/// Everything about one device.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// As in a list.
    #[serde(flatten)]
    pub row: DeviceRow,
    /// Attributes by name, each with its type as a ResourceSlice has it.
    pub attributes: BTreeMap<String, Attribute>,
    /// Capacities by name.
    pub capacity: BTreeMap<String, Capacity>,
    /// May be given to several requests at once.
    pub shared: bool,
    /// The consequences of a NoExecute taint set now.
    pub no_execute: Plan,
    /// Entries of the events that still exist, oldest first.
    pub history: Vec<Entry>,
    /// There may be holders and pods that this user may not see.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// Describes a device, if anything is known of it.
#[must_use]
pub fn describe(
    cluster: &Cluster,
    id: &DeviceId,
    events: &[EventFacts],
    now: Timestamp,
) -> Option<Description> {
    let row = row(cluster, id)?;
    let device = cluster.fleet.device(id);
    let taint = Taint { key: ANY_KEY.into(), effect: Effect::NoExecute, ..Taint::default() };
    let no_execute = plan(cluster, now, &[selector_of(id)], &taint);
    // A driver may set the taint as well: that rules are off is not the whole answer.
    let no_effect = cluster.gates.stops_taints().map(is_off);
    Some(Description {
        attributes: device.map(attributes).unwrap_or_default(),
        capacity: device.map(capacity).unwrap_or_default(),
        shared: device.is_some_and(DeviceRef::allow_multiple),
        no_execute: Plan { no_effect, ..no_execute },
        history: history(cluster, events, Some(id)),
        partial: cluster.hidden.claims || cluster.hidden.pods,
        row,
    })
}

/// The value of an attribute, in the field that a ResourceSlice has for its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Attribute {
    /// A number.
    Int(i64),
    /// Yes or no.
    Bool(bool),
    /// A text.
    String(String),
    /// A semantic version.
    Version(String),
    /// Numbers.
    Ints(Vec<i64>),
    /// Yes or no, several times.
    Bools(Vec<bool>),
    /// Texts.
    Strings(Vec<String>),
    /// Semantic versions.
    Versions(Vec<String>),
    /// A type that this version does not know.
    Unknown,
}

/// An amount of something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capacity {
    /// A quantity: `40Gi`.
    pub value: String,
}

fn attributes(device: DeviceRef<'_>) -> BTreeMap<String, Attribute> {
    device.attributes().map(|(key, _, value)| (key.to_string(), attribute(value))).collect()
}

fn capacity(device: DeviceRef<'_>) -> BTreeMap<String, Capacity> {
    device
        .capacity()
        .map(|(key, _, value)| (key.to_string(), Capacity { value: value.value.to_string() }))
        .collect()
}

fn attribute(value: &AttrValue) -> Attribute {
    match value {
        AttrValue::Int(number) => Attribute::Int(*number),
        AttrValue::Bool(truth) => Attribute::Bool(*truth),
        AttrValue::String(text) => Attribute::String(text.to_string()),
        AttrValue::Version(version) => Attribute::Version(version.text.to_string()),
        AttrValue::Ints(numbers) => Attribute::Ints(numbers.to_vec()),
        AttrValue::Bools(truths) => Attribute::Bools(truths.to_vec()),
        AttrValue::Strings(texts) => Attribute::Strings(texts.iter().map(ToString::to_string).collect()),
        AttrValue::Versions(versions) => {
            Attribute::Versions(versions.iter().map(|version| version.text.to_string()).collect())
        }
        AttrValue::Unsupported => Attribute::Unknown,
    }
}

impl std::fmt::Display for Attribute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        fn list<T: ToString>(f: &mut std::fmt::Formatter<'_>, values: &[T]) -> std::fmt::Result {
            write!(f, "[{}]", values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Bool(truth) => truth.fmt(f),
            Self::String(text) | Self::Version(text) => text.fmt(f),
            Self::Ints(numbers) => list(f, numbers),
            Self::Bools(truths) => list(f, truths),
            Self::Strings(texts) | Self::Versions(texts) => list(f, texts),
            Self::Unknown => f.write_str("<a type that this version does not know>"),
        }
    }
}

impl Description {
    /// For people, as `kubectl describe` writes.
    #[must_use]
    pub fn text(&self, now: Timestamp) -> String {
        let row = &self.row;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "<none>".to_owned());
        let mut lines = vec![
            format!("Name:         {}", row.name),
            format!("Driver:       {}", row.driver),
            format!("Pool:         {}", row.pool),
            format!("Device:       {}", row.device),
            format!("Node:         {}", or_none(row.node.as_ref().map(ToString::to_string))),
            format!("Model:        {}", or_none(row.model.clone())),
            format!("State:        {}", row.state.word()),
            format!("Slice:        {}", or_none(row.slice.as_ref().map(ToString::to_string))),
        ];
        if self.shared {
            lines.push("Shared:       may be allocated to several requests at once".to_owned());
        }
        let attributes = self.attributes.iter().map(|(name, value)| (name, value.to_string()));
        pairs(&mut lines, "Attributes:", &attributes.collect::<Vec<_>>());
        let capacity = self.capacity.iter().map(|(name, capacity)| (name, capacity.value.clone()));
        pairs(&mut lines, "Capacity:", &capacity.collect::<Vec<_>>());
        self.taints(&mut lines, now);
        self.holders(&mut lines);
        if let Some(awaited) = &row.awaiting_unprepare {
            lines.push(format!("Unprepare:    {}", awaited.message));
        }
        self.consequences(&mut lines);
        lines.push(if self.history.is_empty() { "History:      <none>" } else { "History:" }.to_owned());
        lines.extend(self.history.iter().map(|entry| format!("  {}", entry.line(now))));
        lines.join("\n") + "\n"
    }

    fn taints(&self, lines: &mut Vec<String>, now: Timestamp) {
        if self.row.taints.is_empty() {
            lines.push("Taints:       <none>".to_owned());
            return;
        }
        lines.push("Taints:".to_owned());
        for taint in &self.row.taints {
            let since = taint.time_added.as_ref().and_then(|time| lazaret_api::parse_time(time).ok());
            lines.push(format!("  {}", taint.taint()));
            lines.push(format!("    From:    {} {}", taint.origin, taint.origin_name));
            lines.push(format!("    Since:   {}", ago(since, now)));
            if let Some(why) = &taint.no_effect {
                lines.push(format!("    Effect:  none, because {why}"));
            }
            if let Some(who) = &taint.set_by {
                lines.push(format!("    Set by:  {who}"));
            }
            if let Some(reason) = &taint.reason {
                lines.push(format!("    Reason:  {reason}"));
            }
        }
    }

    fn holders(&self, lines: &mut Vec<String>) {
        if self.row.holders.is_empty() {
            let nobody = if self.partial { "<unknown>" } else { "<none>" };
            lines.push(format!("Held by:      {nobody}"));
            return;
        }
        lines.push("Held by:".to_owned());
        for holder in &self.row.holders {
            let pods: Vec<String> = holder.pods.iter().map(ToString::to_string).collect();
            let pods = if pods.is_empty() { "<none>".to_owned() } else { pods.join(", ") };
            let watching = if holder.admin_access { " (admin access)" } else { "" };
            lines.push(format!("  claim {}/{}{watching}, pods {pods}", holder.namespace, holder.claim));
        }
    }

    fn consequences(&self, lines: &mut Vec<String>) {
        let plan = &self.no_execute;
        if let Some(why) = &plan.no_effect {
            lines.push(format!("If NoExecute: no pod would be evicted, because {why}"));
            return;
        }
        let none = plan.pods.is_empty() && plan.tolerating.is_empty();
        lines.push(match (none, self.partial) {
            (true, false) => "If NoExecute: no pod would be evicted".to_owned(),
            (true, true) => "If NoExecute: <unknown>".to_owned(),
            (false, false) => "If NoExecute:".to_owned(),
            (false, true) => "If NoExecute: of the pods that this user may see".to_owned(),
        });
        for pod in &plan.pods {
            let when = match pod.toleration_seconds {
                Some(seconds @ 1..) => format!("would be evicted after {seconds}s"),
                Some(_) | None => "would be evicted at once".to_owned(),
            };
            let owner = pod.owner.as_ref().map_or_else(String::new, |owner| format!(" of {owner}"));
            lines.push(format!("  pod {}/{}{owner} {when}", pod.namespace, pod.name));
        }
        let staying = plan.tolerating.iter();
        lines.extend(
            staying.map(|pod| {
                format!("  pod {}/{} tolerates any taint and would stay", pod.namespace, pod.name)
            }),
        );
    }
}

fn pairs(lines: &mut Vec<String>, title: &str, pairs: &[(&String, String)]) {
    if pairs.is_empty() {
        return;
    }
    lines.push(title.to_owned());
    let width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or(0) + 1;
    lines.extend(pairs.iter().map(|(key, value)| format!("  {:<width$} {value}", format!("{key}:"))));
}
