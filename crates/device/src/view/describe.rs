//! Everything about one device.

use lazaret_fleet::DeviceRef;
use lazaret_model::{AttrValue, DeviceId, Effect, Taint, Timestamp};
use serde::Serialize;

use super::{
    change::selector_of,
    cluster::Cluster,
    device::{DeviceRow, row},
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
    /// Attributes, by name.
    pub attributes: Vec<(String, String)>,
    /// Capacities, by name.
    pub capacity: Vec<(String, String)>,
    /// May be given to several requests at once.
    pub shared: bool,
    /// What a NoExecute taint would do now.
    pub no_execute: Plan,
    /// What events still tell, oldest first.
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
    Some(Description {
        attributes: device.map(attributes).unwrap_or_default(),
        capacity: device.map(capacity).unwrap_or_default(),
        shared: device.is_some_and(DeviceRef::allow_multiple),
        no_execute: plan(cluster, now, &[selector_of(id)], &taint),
        history: history(cluster, events, Some(id)),
        partial: cluster.hidden.claims || cluster.hidden.pods,
        row,
    })
}

fn attributes(device: DeviceRef<'_>) -> Vec<(String, String)> {
    device.attributes().map(|(key, _, value)| (key.to_string(), attribute(value))).collect()
}

fn capacity(device: DeviceRef<'_>) -> Vec<(String, String)> {
    device.capacity().map(|(key, _, value)| (key.to_string(), value.value.to_string())).collect()
}

fn attribute(value: &AttrValue) -> String {
    let list = |texts: Vec<String>| format!("[{}]", texts.join(", "));
    match value {
        AttrValue::Int(number) => number.to_string(),
        AttrValue::Bool(truth) => truth.to_string(),
        AttrValue::String(text) => text.to_string(),
        AttrValue::Version(version) => version.text.to_string(),
        AttrValue::Ints(numbers) => list(numbers.iter().map(ToString::to_string).collect()),
        AttrValue::Bools(truths) => list(truths.iter().map(ToString::to_string).collect()),
        AttrValue::Strings(texts) => list(texts.iter().map(ToString::to_string).collect()),
        AttrValue::Versions(versions) => list(versions.iter().map(|v| v.text.to_string()).collect()),
        AttrValue::Unsupported => "<a value that this version does not know>".to_owned(),
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
            lines.push("Shared:       may be given to several requests at once".to_owned());
        }
        pairs(&mut lines, "Attributes:", &self.attributes);
        pairs(&mut lines, "Capacity:", &self.capacity);
        self.taints(&mut lines, now);
        self.holders(&mut lines);
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
        let none = plan.pods.is_empty() && plan.tolerating.is_empty();
        lines.push(match (none, self.partial) {
            (true, false) => "If NoExecute: no pod would leave".to_owned(),
            (true, true) => "If NoExecute: <unknown>".to_owned(),
            (false, false) => "If NoExecute:".to_owned(),
            (false, true) => "If NoExecute: of the pods that this user may see".to_owned(),
        });
        for pod in &plan.pods {
            let when = match pod.toleration_seconds {
                Some(seconds @ 1..) => format!("would leave after {seconds}s"),
                Some(_) | None => "would leave at once".to_owned(),
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

fn pairs(lines: &mut Vec<String>, title: &str, pairs: &[(String, String)]) {
    if pairs.is_empty() {
        return;
    }
    lines.push(title.to_owned());
    let width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or(0) + 1;
    lines.extend(pairs.iter().map(|(key, value)| format!("  {:<width$} {value}", format!("{key}:"))));
}
