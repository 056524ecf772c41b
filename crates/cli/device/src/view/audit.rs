//! The record of a Lazaret control plane: what was decided about devices, also when its objects and events are gone. Where there is none, what
//! guards and rules say of themselves.

use std::collections::BTreeSet;

use lazaret_model::DeviceId;
use serde::Deserialize;
use serde_json::Value;

use super::{
    history::{Entry, Kept, What, names_device},
    rule::{REASON_ANNOTATION, SET_BY_ANNOTATION},
};

/// One record, as the server has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    sequence: u64,
    at: String,
    what: What,
    object: String,
    #[serde(default)]
    uid: String,
    text: String,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    device: Option<String>,
    #[serde(default)]
    selector: Option<Value>,
    #[serde(default)]
    number: Option<u64>,
}

impl AuditRecord {
    /// The identity of the entry. Entries made from the objects of incidents and evictions have the same.
    fn id(&self) -> String {
        match (self.what, self.number) {
            (What::Incident, Some(number)) => format!("{}-{number}", self.uid),
            (What::PodEvicted, _) => self.uid.clone(),
            (_, _) => format!("audit-{}", self.sequence),
        }
    }

    fn is_about(&self, wanted: &str) -> bool {
        if let Some(device) = &self.device {
            return device == wanted;
        }
        if self.what == What::PodEvicted {
            return names_device(&self.text, wanted);
        }
        self.selector.as_ref().map_or(self.object.starts_with("DisruptionGuard/"), |selector| {
            let mut parts = wanted.splitn(3, '/');
            let by_name = ["driver", "pool", "device"].iter().all(|field| {
                let part = parts.next().unwrap_or_default();
                selector[*field].as_str().is_none_or(|named| named == part)
            });
            // The devices that a class or an expression selected then are not known any more.
            by_name && selector["deviceClassName"].is_null() && selector["selectors"].is_null()
        })
    }

    fn entry(&self) -> Entry {
        Entry {
            time: Some(self.at.clone()),
            what: self.what,
            object: self.object.clone(),
            text: self.text.clone(),
            by: self.by.clone().or_else(|| self.user.clone()),
            reason: self.reason.clone(),
            no_effect: None,
            kept: Kept::InTheRecord,
            id: self.id(),
        }
    }
}

/// The entries of the record that objects and events, which are `known`, do not have; of one device, if one is named.
#[must_use]
pub fn audit_entries(records: &[AuditRecord], known: &[Entry], device: Option<&DeviceId>) -> Vec<Entry> {
    let wanted = device.map(ToString::to_string);
    let ids: BTreeSet<&str> = known.iter().map(|entry| entry.id.as_str()).collect();
    let taints = known.iter().filter(|entry| entry.what == What::Tainted);
    let taints: BTreeSet<(&str, &str)> =
        taints.map(|entry| (entry.id.as_str(), entry.text.as_str())).collect();
    let is_told = |record: &AuditRecord| {
        let is_there = record.what == What::TaintSet && taints.contains(&(&*record.uid, &*record.text));
        is_there || ids.contains(record.id().as_str())
    };
    records
        .iter()
        .filter(|record| wanted.as_ref().is_none_or(|wanted| record.is_about(wanted)))
        .filter(|record| !is_told(record))
        .map(AuditRecord::entry)
        .collect()
}

/// Whether the record tells the same as an entry from an event: the event goes, the record stays.
#[must_use]
pub fn is_recorded(entry: &Entry, records: &[AuditRecord]) -> bool {
    let is_taint = matches!(entry.what, What::TaintSet | What::TaintRemoved);
    is_taint && records.iter().any(|record| record.what == entry.what && record.object == entry.object)
}

/// Entries from the conditions of guards and rules, where no record is kept.
#[must_use]
pub fn condition_entries(guards: &[Value], rules: &[Value], device: Option<&DeviceId>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for guard in guards {
        let name = text(&guard["metadata"]["name"]).unwrap_or_default();
        let paused = &guard["spec"]["paused"];
        if paused.is_object() {
            let mut entry = entry_of(guard, "DisruptionGuard", What::Paused, format!("guard {name} paused"));
            entry.reason = text(&paused["reason"]);
            entry.by = text(&guard["metadata"]["annotations"][SET_BY_ANNOTATION]);
            entries.push(entry);
        }
        if let Some(tripped) = condition(guard, "BreakerTripped") {
            let line = format!("breaker of guard {name} opened");
            entries.push(dated(entry_of(guard, "DisruptionGuard", What::BreakerOpened, line), tripped));
        }
    }
    for rule in rules {
        let name = text(&rule["metadata"]["name"]).unwrap_or_default();
        let kind = text(&rule["kind"]).unwrap_or_else(|| "DeviceTaintRule".to_owned());
        for (condition_type, what) in [
            ("Held", What::RuleHeld),
            ("Expired", What::RuleExpired),
            ("EvictionBlocked", What::EvictionBlocked),
        ] {
            if let Some(found) = condition(rule, condition_type) {
                let why = text(&found["reason"]).unwrap_or_default();
                let line = format!("rule {name}: {condition_type}, {why}");
                entries.push(dated(entry_of(rule, &kind, what, line), found));
            }
        }
    }
    // Of one device nothing is said here: what a guard or rule selects by expression is not known to this command.
    if device.is_some() { Vec::new() } else { entries }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = object["status"]["conditions"].as_array()?;
    all.iter().find(|one| one["type"] == kind && one["status"] == "True")
}

fn entry_of(object: &Value, kind: &str, what: What, line: String) -> Entry {
    let metadata = &object["metadata"];
    Entry {
        time: text(&metadata["creationTimestamp"]),
        what,
        object: format!("{kind}/{}", text(&metadata["name"]).unwrap_or_default()),
        text: line,
        by: None,
        reason: text(&metadata["annotations"][REASON_ANNOTATION]),
        no_effect: None,
        kept: Kept::WithTheObject,
        id: format!("{}-{what:?}", text(&metadata["uid"]).unwrap_or_default()),
    }
}

fn dated(entry: Entry, condition: &Value) -> Entry {
    Entry {
        time: text(&condition["lastTransitionTime"]).or(entry.time),
        reason: text(&condition["message"]).or(entry.reason),
        ..entry
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(sequence: u64, what: &str, more: &Value) -> AuditRecord {
        let mut record = json!({
            "sequence": sequence, "at": "2026-01-31T12:00:00Z", "what": what, "object": "DeviceTaintRule/r", "uid": "u",
            "text": format!("{what} happened"), "user": "ada",
        });
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn a_record_is_about_the_devices_that_it_names() {
        let guard = json!({"object": "DisruptionGuard/g"});
        let rows = [
            (record(1, "Incident", &json!({"device": "d/p/a", "number": 0})), [true, false]),
            (record(2, "TaintSet", &json!({"selector": {"driver": "d"}})), [true, true]),
            (record(3, "TaintSet", &json!({"selector": {"driver": "d", "device": "b"}})), [false, true]),
            (record(4, "TaintSet", &json!({"selector": {"deviceClassName": "c"}})), [false, false]),
            (record(5, "Paused", &guard), [true, true]),
            (
                record(6, "PodEvicted", &json!({"text": "pod n/x evicted (taint k:NoExecute on d/p/a)"})),
                [true, false],
            ),
        ];
        for (record, expected) in rows {
            let found = ["a", "b"].map(|name| {
                let id = DeviceId::new("d", "p", name);
                !audit_entries(std::slice::from_ref(&record), &[], Some(&id)).is_empty()
            });
            assert_eq!(found, expected, "{record:?}");
        }
    }

    #[test]
    fn what_objects_and_events_tell_is_told_once() {
        let records = [
            record(1, "Incident", &json!({"number": 3})),
            record(2, "PodEvicted", &json!({"uid": "event"})),
            record(3, "TaintSet", &json!({"text": "same"})),
            record(4, "RuleHeld", &json!({})),
        ];
        let all = audit_entries(&records, &[], None);
        let ids: Vec<&str> = all.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids, ["u-3", "event", "audit-3", "audit-4"]);
        let mut known: Vec<Entry> = all[..2].to_vec();
        known.push(Entry { what: What::Tainted, id: "u".to_owned(), ..all[2].clone() });
        let left = audit_entries(&records, &known, None);
        assert_eq!(left.iter().map(|entry| entry.what).collect::<Vec<_>>(), [What::RuleHeld]);
    }
}
