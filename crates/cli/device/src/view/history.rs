//! The history of devices, as far as it is recorded: existing rules record who set them and why; events record changes of objects that are gone, for
//! as long as the server keeps events (an hour by default).

use std::collections::BTreeMap;

use lazaret_eviction::EVENT_REASON;
use lazaret_model::{DeviceId, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    change::describe_selector,
    cluster::{Cluster, Meta},
    gates::is_off,
    rule::{REASON_ANNOTATION, SET_BY_ANNOTATION},
    time::ago,
};

/// The reason of the event about a rule that this command set.
pub const SET_REASON: &str = "DeviceTaintSet";
/// The reason of the event about a rule that this command removed.
pub const REMOVED_REASON: &str = "DeviceTaintRemoved";

/// An event, as far as it matters here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EventFacts {
    /// Its own metadata.
    pub metadata: Meta,
    /// About what.
    pub involved_object: Involved,
    /// In a word.
    pub reason: String,
    /// In a sentence.
    pub message: String,
    first_timestamp: Option<String>,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    /// The component that reports it.
    pub reporting_component: String,
    source: Source,
}

/// The object that an event is about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Involved {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its incarnation.
    pub uid: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Source {
    component: String,
}

impl EventFacts {
    /// When it was last seen.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        let times = [&self.last_timestamp, &self.event_time, &self.first_timestamp];
        let written = times.into_iter().flatten().chain(&self.metadata.creation_timestamp).next()?;
        lazaret_api::parse_time(written).ok()
    }

    /// The component that reports it.
    #[must_use]
    pub fn component(&self) -> &str {
        if self.source.component.is_empty() { &self.reporting_component } else { &self.source.component }
    }

    /// Whether history has a use for it.
    #[must_use]
    pub fn matters(&self) -> bool {
        matches!(self.reason.as_str(), EVENT_REASON | SET_REASON | REMOVED_REASON)
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The kind of entry.
    pub what: What,
    /// The rule, pod or slice that it happened to.
    pub object: String,
    /// In a sentence.
    pub text: String,
    /// The user that did it, where that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the taint is as if it were not set: a feature gate is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_effect: Option<String>,
    /// How long this will be remembered.
    pub kept: Kept,
    /// The identity of the entry.
    #[serde(skip)]
    pub id: String,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum What {
    /// A taint is there.
    Tainted,
    /// A taint was set or changed.
    TaintSet,
    /// A taint was removed.
    TaintRemoved,
    /// A pod had to leave.
    PodEvicted,
    /// An incident passed to a stage, or something was noted in it: a guard that holds it, a repair, a person's word.
    Incident,
    /// A person acknowledged an incident, repaired its device or gave it up.
    IncidentActed,
    /// An incident was removed.
    IncidentRemoved,
    /// A rule waits for approval.
    RuleHeld,
    /// A rule that waited takes effect.
    RuleReleased,
    /// A person approved a rule.
    RuleApproved,
    /// A person approved a ResourceSlicePatch.
    PatchApproved,
    /// A person approved evictions because of a driver's taint.
    TaintApproved,
    /// A rule applies no more, because its time is over.
    RuleExpired,
    /// A guard keeps evictions of a rule from beginning.
    EvictionBlocked,
    /// It does not any more.
    EvictionUnblocked,
    /// A guard was made or changed.
    GuardSet,
    /// A guard was removed.
    GuardRemoved,
    /// A person paused everything that a guard selects.
    Paused,
    /// A person resumed it.
    Resumed,
    /// Too much is out of service: nothing begins.
    BreakerOpened,
    /// Less is out of service again.
    BreakerClosed,
    /// A person lets evictions begin although too much is out of service.
    BreakerReset,
}

/// How long an entry is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Kept {
    /// As long as the taint is there.
    WithTheTaint,
    /// As long as the server keeps events.
    WithTheEvent,
    /// As long as incidents are kept after their end.
    WithTheIncident,
    /// As long as the guard or rule says so.
    WithTheObject,
    /// In the server's record, until newer ones fill it.
    InTheRecord,
}

impl Entry {
    /// For people.
    #[must_use]
    pub fn line(&self, now: Timestamp) -> String {
        let when = self.time.as_ref().and_then(|time| lazaret_api::parse_time(time).ok());
        let by = self.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
        let reason = self.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        let effect = self.no_effect.as_ref().map_or_else(String::new, |why| format!(" (no effect: {why})"));
        format!("{}: {}{by}{reason}{effect}", ago(when, now), self.text)
    }
}

/// All known entries, oldest first; of one device, if one is named.
#[must_use]
pub fn history(cluster: &Cluster, events: &[EventFacts], device: Option<&DeviceId>) -> Vec<Entry> {
    let mut entries: Vec<Dated> = Vec::new();
    for view in cluster.everything().rules() {
        let rule = view.rule;
        let Some(selector) = &rule.selector else { continue };
        let means = |id: &DeviceId| {
            let mut taints = cluster.everything().effective_taints(id);
            taints.any(|taint| matches!(taint.origin, lazaret_fleet::Origin::Rule { name, .. } if *name == rule.name))
        };
        if device.is_none_or(means) {
            let meta = cluster.rules.get(rule.name.as_str());
            let annotation = |key: &str| meta.and_then(|meta| meta.annotations.get(key).cloned());
            let by_manager = || {
                let manager = meta.and_then(Meta::last_manager)?;
                Some(format!("a client called {}", manager.manager))
            };
            let time = rule.taint.time_added.or(rule.created);
            entries.push(Dated {
                time,
                written: meta.map_or(0, written),
                entry: Entry {
                    time: time.map(lazaret_api::format_time),
                    what: What::Tainted,
                    object: format!("DeviceTaintRule/{}", rule.name),
                    text: format!(
                        "{} tainted {} (rule {})",
                        describe_selector(selector),
                        rule.taint,
                        rule.name
                    ),
                    by: annotation(SET_BY_ANNOTATION).or_else(by_manager),
                    reason: annotation(REASON_ANNOTATION)
                        .or_else(|| rule.taint.description.as_ref().map(ToString::to_string)),
                    no_effect: cluster.gates.stops_rules().map(is_off),
                    kept: Kept::WithTheTaint,
                    id: meta.map_or_else(String::new, |meta| meta.uid.clone()),
                },
            });
        }
    }
    if let Some(id) = device {
        entries.extend(other_taints(cluster, id));
    }
    let wanted = device.map(ToString::to_string);
    for event in events.iter().filter(|event| event.matters()) {
        let about = wanted.as_ref().is_none_or(|wanted| names_device(&event.message, wanted));
        // An existing object has more details than the event about it.
        let told = || entries.iter().any(|known| known.entry.text == event.message);
        if about && !told() {
            entries.push(Dated {
                time: event.time(),
                written: written(&event.metadata),
                entry: entry(event),
            });
        }
    }
    // Times have whole seconds: within one, the server's own order of writes tells what came first.
    entries.sort_by(|one, other| {
        (one.time, one.written, &one.entry.object).cmp(&(other.time, other.written, &other.entry.object))
    });
    entries.into_iter().map(|dated| dated.entry).collect()
}

/// An entry and what puts it in its place.
struct Dated {
    time: Option<Timestamp>,
    written: u64,
    entry: Entry,
}

fn written(meta: &Meta) -> u64 {
    meta.resource_version.parse().unwrap_or(0)
}

/// Taints of a device that are not those of rules: of its driver, and of patches.
fn other_taints(cluster: &Cluster, id: &DeviceId) -> Vec<Dated> {
    let taints = cluster.everything().effective_taints(id).filter_map(|effective| match effective.origin {
        lazaret_fleet::Origin::Device { slice, .. } | lazaret_fleet::Origin::TaintSlice { slice, .. } => {
            Some((effective.taint, "ResourceSlice", slice, "its driver".to_owned()))
        }
        lazaret_fleet::Origin::Patch { name, .. } => {
            Some((effective.taint, "ResourceSlicePatch", name, format!("patch {name}")))
        }
        lazaret_fleet::Origin::Rule { .. } => None,
    });
    taints
        .map(|(taint, kind, name, by)| {
            let entry = Entry {
                time: taint.time_added.map(lazaret_api::format_time),
                what: What::Tainted,
                object: format!("{kind}/{name}"),
                text: format!("{id} tainted {taint}"),
                by: Some(by),
                reason: taint.description.as_ref().map(ToString::to_string),
                no_effect: cluster.gates.stops_taints().map(is_off),
                kept: Kept::WithTheTaint,
                id: format!("{name}/{}/{taint}", id.device),
            };
            Dated { time: taint.time_added, written: 0, entry }
        })
        .collect()
}

/// Whether a text names a device, as a whole word.
pub(super) fn names_device(text: &str, device: &str) -> bool {
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '/';
    text.match_indices(device).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + device.len()..].chars().next();
        !before.is_some_and(|c| part_of_name(c) || c == '.') && !after.is_some_and(part_of_name)
    })
}

fn entry(event: &EventFacts) -> Entry {
    let involved = &event.involved_object;
    let place = if involved.namespace.is_empty() || involved.kind != "Pod" {
        involved.name.clone()
    } else {
        format!("{}/{}", involved.namespace, involved.name)
    };
    let annotations: &BTreeMap<String, String> = &event.metadata.annotations;
    let (what, text) = match event.reason.as_str() {
        SET_REASON => (What::TaintSet, event.message.clone()),
        REMOVED_REASON => (What::TaintRemoved, event.message.clone()),
        _ => (What::PodEvicted, format!("pod {place} evicted ({})", event.message.trim_end_matches('.'))),
    };
    let by = annotations.get(SET_BY_ANNOTATION).cloned();
    let component = Some(event.component()).filter(|name| !name.is_empty() && what == What::PodEvicted);
    Entry {
        time: event.time().map(lazaret_api::format_time),
        what,
        object: format!("{}/{place}", involved.kind),
        text,
        by: by.or_else(|| component.map(str::to_owned)),
        reason: annotations.get(REASON_ANNOTATION).cloned(),
        no_effect: None,
        kept: Kept::WithTheEvent,
        id: event.metadata.uid.clone(),
    }
}
