//! Decisions about devices that a write makes, for the record that outlives events: incidents, guards, rules, approvals, evicted pods.
//!
//! One write gives a few records of a few hundred bytes each. Texts of clients are cut, so that no client can write a large record.

use lazaret_json::{Value, json};
use lazaret_model::{APPROVAL, APPROVED_BY, TAINT_APPROVALS, TAINT_APPROVALS_MAX};

use crate::{OWN_GROUP, controllers::controller_name};

/// Bytes of one text of a record. Reasons and causes are at most as long where they are checked.
const TEXT_BYTES_MAX: usize = 1_024;
/// Bytes of an approval that is read.
const APPROVAL_BYTES_MAX: usize = 4_096;
/// Bytes of the approvals of taints that are read.
const TAINT_APPROVALS_BYTES_MAX: usize = 64 * 1_024;
/// Since when a breaker that was tripped is not, by a person's word.
const BREAKER_RESET: &str = "lazaret.dev/breaker-reset";
/// The annotation with the reason of a taint or a guard, set by its author.
const REASON: &str = "lazaret.dev/reason";
/// The reason of an eviction's event.
const EVICTED: &str = "DeviceTaintManagerEviction";
/// Blocks that guards are the reason of, or windows; others, as a budget, come and go with every pod.
const GUARD_BLOCKS: [&str; 4] = ["Held", "Paused", "Breaker", "Window"];

/// Kinds whose writes are recorded, as group and plural.
pub const RECORDED: [(&str, &str); 6] = [
    (OWN_GROUP, "deviceincidents"),
    (OWN_GROUP, "disruptionguards"),
    (OWN_GROUP, "devicetaintpolicies"),
    ("resource.k8s.io", "devicetaintrules"),
    ("", "events"),
    ("resource.k8s.io", "resourceslicepatches"),
];

/// A write of one object.
#[derive(Clone, Copy, Debug)]
pub struct RecordedWrite<'a> {
    /// The resource, in the plural.
    pub plural: &'a str,
    /// The authenticated user who writes.
    pub user: &'a str,
    /// When.
    pub at: &'a str,
    /// As it was, unless it is new.
    pub old: Option<&'a Value>,
    /// As it will be, unless it is deleted.
    pub new: Option<&'a Value>,
}

/// The decisions of a write, in order.
#[must_use]
pub fn records(write: RecordedWrite<'_>) -> Vec<Value> {
    match write.plural {
        "deviceincidents" => of_incident(write),
        "disruptionguards" => of_guard(write),
        "devicetaintrules" => of_rule(write, "DeviceTaintRule"),
        "devicetaintpolicies" => of_rule(write, "DeviceTaintPolicy"),
        "events" => of_event(write),
        "resourceslicepatches" => of_patch(write),
        _ => Vec::new(),
    }
}

impl<'a> RecordedWrite<'a> {
    /// The object as it is now, or as it was last.
    fn object(self) -> &'a Value {
        const NOTHING: &Value = &Value::Null;
        self.new.or(self.old).unwrap_or(NOTHING)
    }

    /// A field before and after.
    fn both(self, get: impl Fn(&'a Value) -> &'a Value) -> (&'a Value, &'a Value) {
        const NOTHING: &Value = &Value::Null;
        (self.old.map_or(NOTHING, &get), self.new.map_or(NOTHING, &get))
    }

    fn is_by_controllers(self) -> bool {
        controller_name(self.user).is_some()
    }

    /// A record with what all of them have.
    fn record(self, what: &str, kind: &str, text: &str) -> Value {
        let metadata = &self.object()["metadata"];
        json!({
            "at": self.at,
            "what": what,
            "object": format!("{kind}/{}", text_of(&metadata["name"])),
            "uid": metadata["uid"].clone(),
            "text": cut(text),
            "user": cut(self.user),
        })
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn cut(text: &str) -> &str {
    let end = (0..=TEXT_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Adds a text where there is one.
fn set_field(record: &mut Value, field: &str, value: &Value) {
    if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
        record[field] = cut(text).into();
    }
}

fn annotation<'a>(object: &'a Value, name: &str) -> &'a Value {
    &object["metadata"]["annotations"][name]
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    const NOTHING: &Value = &Value::Null;
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|one| one["type"] == kind).unwrap_or(NOTHING)
}

// ---- incidents

fn of_incident(write: RecordedWrite<'_>) -> Vec<Value> {
    let incident = write.object();
    let device = device_of(incident);
    let name = text_of(&incident["metadata"]["name"]);
    let mut records: Vec<Value> = acts(write, &device, name);
    let (old, new) = write.both(|incident| &incident["status"]);
    let known = numbered(old).last().map(|(number, _)| number);
    for (number, entry) in numbered(new).filter(|(number, _)| known.is_none_or(|known| *number > known)) {
        let stage = text_of(&entry["stage"]);
        let mut record =
            write.record("Incident", "DeviceIncident", &format!("{device} {stage} (incident {name})"));
        set_field(&mut record, "at", &entry["at"]);
        set_field(&mut record, "by", &entry["actor"]);
        set_field(&mut record, "reason", &entry["cause"]);
        record["device"] = device.as_str().into();
        record["stage"] = stage.into();
        record["enforced"] = (new["enforced"] == true).into();
        record["number"] = number.into();
        records.push(record);
    }
    if write.new.is_none() {
        let mut record = write.record(
            "IncidentRemoved",
            "DeviceIncident",
            &format!("incident {name} of {device} removed"),
        );
        record["device"] = device.as_str().into();
        set_field(&mut record, "stage", &old["stage"]);
        records.push(record);
    }
    records
}

/// Acts of people in an incident, under the name that the server authenticated.
fn acts(write: RecordedWrite<'_>, device: &str, name: &str) -> Vec<Value> {
    let mut records = Vec::new();
    if write.new.is_none() {
        return records;
    }
    for field in ["acknowledged", "repaired", "abandoned"] {
        let (old, new) = write.both(|incident| &incident["spec"][field]);
        if old != new && new.is_object() {
            let text = format!("incident {name} of {device} {field}");
            let mut record = write.record("IncidentActed", "DeviceIncident", &text);
            record["device"] = device.into();
            set_field(&mut record, "reason", &new["reason"]);
            records.push(record);
        }
    }
    records
}

/// Entries of a timeline, each with the number that it keeps however many are folded away.
fn numbered(status: &Value) -> impl Iterator<Item = (u64, &Value)> {
    let folded = status["timelineFolded"].as_u64().unwrap_or_default();
    let entries = status["timeline"].as_array().into_iter().flatten();
    (0_u64..).zip(entries).map(move |(at, entry)| (if at == 0 { 0 } else { at + folded }, entry))
}

/// The device of an incident, under the name that it has now.
fn device_of(incident: &Value) -> String {
    let now = &incident["status"]["device"];
    let device = if now.is_object() { now } else { &incident["spec"]["device"] };
    let part = |field: &str| text_of(&device[field]);
    format!("{}/{}/{}", part("driver"), part("pool"), part("device"))
}

// ---- guards

fn of_guard(write: RecordedWrite<'_>) -> Vec<Value> {
    let guard = write.object();
    let name = text_of(&guard["metadata"]["name"]);
    let mut records = Vec::new();
    let mut add = |what: &str, text: String, reason: &Value| {
        let mut record = write.record(what, "DisruptionGuard", &text);
        set_field(&mut record, "reason", reason);
        if guard["spec"]["deviceSelector"].is_object() {
            record["selector"] = guard["spec"]["deviceSelector"].clone();
        }
        records.push(record);
    };
    let (was, is) = write.both(|guard| &guard["spec"]["paused"]);
    let rest = |spec: &Value| -> Vec<(String, Value)> {
        let fields = spec.as_object().into_iter().flatten().filter(|(field, _)| field.as_str() != "paused");
        fields.map(|(field, value)| (field.to_string(), value.clone())).collect()
    };
    let (spec_was, spec_is) = write.both(|guard| &guard["spec"]);
    if write.new.is_some() && (write.old.is_none() || rest(spec_was) != rest(spec_is)) {
        add("GuardSet", format!("guard {name} set"), annotation(guard, REASON));
    }
    if was != is && is.is_object() {
        let until = is["until"].as_str().map_or_else(String::new, |until| format!(" until {until}"));
        add("Paused", format!("guard {name} paused{until}"), &is["reason"]);
    }
    if was.is_object() && !is.is_object() {
        add("Resumed", format!("guard {name} resumed"), &Value::Null);
    }
    let (was, is) = write.both(|guard| annotation(guard, BREAKER_RESET));
    if was != is && is.is_string() {
        add("BreakerReset", format!("breaker of guard {name} reset"), annotation(guard, REASON));
    }
    let (was, is) = write.both(|guard| &guard["status"]["breaker"]["tripped"]);
    let why = &condition(guard, "BreakerTripped")["message"];
    match (*was == true, *is == true) {
        (false, true) => add("BreakerOpened", format!("breaker of guard {name} opened"), why),
        (true, false) if write.new.is_some() => {
            add("BreakerClosed", format!("breaker of guard {name} closed"), why);
        }
        (true, false) | (false, false) | (true, true) => {}
    }
    for said in new_taint_approvals(write) {
        let (driver, by) = (text_of(&said["driver"]), text_of(&said["by"]));
        let by = if by.is_empty() { write.user } else { by };
        let taint = taint_words(text_of(&said["key"]), text_of(&said["value"]), "NoExecute");
        let text =
            format!("taint {taint} of driver {driver} approved by {by} in guard {name} for {}", reach(&said));
        add("TaintApproved", text, &said["reason"]);
    }
    if write.new.is_none() {
        add("GuardRemoved", format!("guard {name} removed"), &Value::Null);
    }
    records
}

// ---- rules

fn of_rule(write: RecordedWrite<'_>, kind: &str) -> Vec<Value> {
    let rule = write.object();
    let name = text_of(&rule["metadata"]["name"]);
    let mut records = Vec::new();
    let mut add = |what: &str, text: String, reason: &Value| {
        let mut record = write.record(what, kind, &text);
        set_field(&mut record, "reason", reason);
        let selector = &rule["spec"]["deviceSelector"];
        if selector.is_object() {
            record["selector"] = selector.clone();
        }
        records.push(record);
    };
    let tainted = || format!("{} tainted {} (rule {name})", selected(rule), taint(rule));
    let (was, is) = write.both(|rule| &rule["spec"]);
    let is_other = |field: &str| was[field] != is[field];
    // A rule that controllers make for an incident or a policy is recorded with that object.
    if !(write.is_by_controllers() && is_made_for_another(rule)) {
        if write.new.is_none() {
            add(
                "TaintRemoved",
                format!("{} no longer tainted {} (rule {name})", selected(rule), taint(rule)),
                &Value::Null,
            );
        } else if write.old.is_none() || is_other("deviceSelector") || is_other_taint(was, is) {
            add("TaintSet", tainted(), annotation(rule, REASON));
        }
    }
    if let Some((said, by)) = new_approval(write) {
        add("RuleApproved", format!("rule {name} approved by {by} for {}", reach(&said)), &said["reason"]);
    }
    for (kind, begun, ended) in [
        ("Held", "RuleHeld", "RuleReleased"),
        ("Expired", "RuleExpired", ""),
        ("EvictionBlocked", "EvictionBlocked", "EvictionUnblocked"),
    ] {
        let (was, is) = write.both(|rule| condition(rule, kind));
        let concerns = |one: &Value| {
            one["status"] == "True"
                && (kind != "EvictionBlocked" || GUARD_BLOCKS.contains(&text_of(&one["reason"])))
        };
        match (concerns(was), concerns(is)) {
            (before, true) if !before || was["reason"] != is["reason"] => {
                let text = format!("rule {name}: {kind}, {}", text_of(&is["reason"]));
                add(begun, text, &is["message"]);
            }
            (true, false) if write.new.is_some() && !ended.is_empty() => {
                add(ended, format!("rule {name}: {kind} no longer"), &is["message"]);
            }
            (true, true) | (true, false) | (false, true) | (false, false) => {}
        }
    }
    records
}

fn of_patch(write: RecordedWrite<'_>) -> Vec<Value> {
    let Some((said, by)) = new_approval(write) else { return Vec::new() };
    let patch = write.object();
    let name = text_of(&patch["metadata"]["name"]);
    let text = format!("patch {name} approved by {by} for {}", reach(&said));
    let mut record = write.record("PatchApproved", "ResourceSlicePatch", &text);
    set_field(&mut record, "reason", &said["reason"]);
    let devices = &patch["spec"]["devices"];
    if let Some(selector) =
        ["deviceSelector", "filter"].iter().map(|field| &devices[*field]).find(|one| one.is_object())
    {
        record["selector"] = selector.clone();
    }
    vec![record]
}

// ---- approvals

/// An approval of a rule or a patch that is new with a write, and whose it is.
fn new_approval(write: RecordedWrite<'_>) -> Option<(Value, &str)> {
    let (was, is) = write.both(|object| annotation(object, APPROVAL));
    if write.old.is_none() || was == is || !is.is_string() {
        return None;
    }
    let by = text_of(annotation(write.object(), APPROVED_BY));
    Some((approval(text_of(is)), if by.is_empty() { write.user } else { by }))
}

/// The approvals of drivers' taints that are new with a write of a guard, as the server signed them.
fn new_taint_approvals(write: RecordedWrite<'_>) -> Vec<Value> {
    let (was, is) = write.both(|guard| annotation(guard, TAINT_APPROVALS));
    let read = |text: &Value| -> Vec<Value> {
        let text = text_of(text);
        let is_short = text.len() <= TAINT_APPROVALS_BYTES_MAX;
        is_short.then(|| serde_json::from_str(text).ok()).flatten().unwrap_or_default()
    };
    if was == is {
        return Vec::new();
    }
    let known = read(was);
    read(is)
        .into_iter()
        .take(TAINT_APPROVALS_MAX)
        .filter(|one| one.is_object() && !known.contains(one))
        .collect()
}

/// How much an approval says to have seen.
fn reach(said: &Value) -> String {
    let seen = |what: &str| said[what].as_u64().unwrap_or_default();
    let (pods, namespaces, devices) = (seen("pods"), seen("namespaces"), seen("devices"));
    format!("{pods} pods in {namespaces} namespaces and {devices} devices")
}

/// The fields of an approval. Any user may write annotations: text that is no approval has none.
fn approval(text: &str) -> Value {
    let is_short = text.len() <= APPROVAL_BYTES_MAX;
    is_short.then(|| serde_json::from_str(text).ok()).flatten().unwrap_or_default()
}

/// Whether something else than the time differs, which the server sets.
fn is_other_taint(was: &Value, is: &Value) -> bool {
    ["key", "value", "effect"].into_iter().any(|field| was["taint"][field] != is["taint"][field])
}

fn is_made_for_another(rule: &Value) -> bool {
    let owners = rule["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().any(|owner| owner["controller"] == true)
}

/// The selector of a rule, as `kubectl device` writes it.
fn selected(rule: &Value) -> String {
    let selector = &rule["spec"]["deviceSelector"];
    let part = |field: &str| selector[field].as_str().unwrap_or("*");
    let mut text = format!("{}/{}/{}", part("driver"), part("pool"), part("device"));
    if let Some(class) = selector["deviceClassName"].as_str() {
        text.push_str(&format!(" of class {class}"));
    }
    if selector["selectors"].as_array().is_some_and(|all| !all.is_empty()) {
        text.push_str(" by expression");
    }
    text
}

fn taint(rule: &Value) -> String {
    let taint = &rule["spec"]["taint"];
    taint_words(text_of(&taint["key"]), text_of(&taint["value"]), text_of(&taint["effect"]))
}

fn taint_words(key: &str, value: &str, effect: &str) -> String {
    if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") }
}

// ---- events

/// Only events of controllers are recorded: any user who may write events in a namespace could fill the record otherwise.
fn of_event(write: RecordedWrite<'_>) -> Vec<Value> {
    let (None, Some(event)) = (write.old, write.new) else { return Vec::new() };
    if !write.is_by_controllers() || event["reason"] != EVICTED {
        return Vec::new();
    }
    let involved = &event["involvedObject"];
    let place = format!("{}/{}", text_of(&involved["namespace"]), text_of(&involved["name"]));
    let message = text_of(&event["message"]).trim_end_matches('.');
    let mut record = write.record("PodEvicted", "Pod", &format!("pod {place} evicted ({message})"));
    record["object"] = format!("Pod/{place}").into();
    set_field(&mut record, "by", &event["source"]["component"]);
    set_field(&mut record, "by", &event["reportingComponent"]);
    vec![record]
}
