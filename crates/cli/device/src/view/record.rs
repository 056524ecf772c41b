//! The record of incidents: what happened to devices by policies, guards and people, for as long as incidents are kept.

use lazaret_model::{DeviceId, Timestamp};
use serde_json::{Value, json};

use super::{
    history::{Entry, Kept, What},
    incidents::incident_row,
};

/// Entries of the timelines of incidents, of one device if one is named.
#[must_use]
pub fn incident_entries(incidents: &[Value], device: Option<&DeviceId>) -> Vec<Entry> {
    let wanted = device.map(ToString::to_string);
    let mut entries = Vec::new();
    for incident in incidents {
        let row = incident_row(incident);
        // A device that was renamed is known under both names.
        let opened = &incident["spec"]["device"];
        let part = |field: &str| opened[field].as_str().unwrap_or_default();
        let opened = format!("{}/{}/{}", part("driver"), part("pool"), part("device"));
        if wanted.as_ref().is_some_and(|wanted| *wanted != row.device && *wanted != opened) {
            continue;
        }
        let uid = incident["metadata"]["uid"].as_str().unwrap_or_default();
        let folded = incident["status"]["timelineFolded"].as_u64().unwrap_or_default();
        let timeline = incident["status"]["timeline"].as_array();
        for (number, line) in (0_u64..).zip(timeline.into_iter().flatten()) {
            let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
            let some = |text: String| Some(text).filter(|text| !text.is_empty());
            // The first entry stays; those after it are folded away in order.
            let number = if number == 0 { 0 } else { number + folded };
            entries.push(Entry {
                time: some(text("at")),
                what: What::Incident,
                object: format!("DeviceIncident/{}", row.name),
                text: format!("{} {} (incident {})", row.device, text("stage"), row.name),
                by: some(text("actor")),
                reason: some(text("cause")),
                no_effect: (!row.is_enforced && row.is_open())
                    .then(|| "nothing is done to the device".to_owned()),
                kept: Kept::WithTheIncident,
                id: format!("{uid}-{number}"),
            });
        }
    }
    entries
}

/// All entries in the order in which they happened.
#[must_use]
pub fn in_order(mut entries: Vec<Entry>) -> Vec<Entry> {
    // Events have whole seconds: one of a second comes after what is known to have happened in it.
    let time = |entry: &Entry| -> Option<Timestamp> {
        let text = entry.time.as_ref()?;
        let at = lazaret_api::parse_time(text).ok()?;
        Some(if text.contains('.') { at } else { at.plus_millis(999) })
    };
    entries.sort_by_key(time);
    entries
}

/// An entry as a CloudEvent, version 1.0, in its JSON form.
#[must_use]
pub fn cloud_event(entry: &Entry) -> Value {
    let kind = match entry.what {
        What::Tainted | What::TaintSet => "dev.lazaret.taint.set",
        What::TaintRemoved => "dev.lazaret.taint.removed",
        What::PodEvicted => "dev.lazaret.pod.evicted",
        What::Incident => "dev.lazaret.incident.changed",
        What::IncidentActed => "dev.lazaret.incident.acted",
        What::IncidentRemoved => "dev.lazaret.incident.removed",
        What::RuleHeld => "dev.lazaret.rule.held",
        What::RuleReleased => "dev.lazaret.rule.released",
        What::RuleApproved => "dev.lazaret.rule.approved",
        What::PatchApproved => "dev.lazaret.patch.approved",
        What::TaintApproved => "dev.lazaret.taint.approved",
        What::RuleExpired => "dev.lazaret.rule.expired",
        What::EvictionBlocked => "dev.lazaret.eviction.blocked",
        What::EvictionUnblocked => "dev.lazaret.eviction.unblocked",
        What::GuardSet => "dev.lazaret.guard.set",
        What::GuardRemoved => "dev.lazaret.guard.removed",
        What::Paused => "dev.lazaret.guard.paused",
        What::Resumed => "dev.lazaret.guard.resumed",
        What::BreakerOpened => "dev.lazaret.breaker.opened",
        What::BreakerClosed => "dev.lazaret.breaker.closed",
        What::BreakerReset => "dev.lazaret.breaker.reset",
    };
    let mut event = json!({
        "specversion": "1.0",
        "id": if entry.id.is_empty() { &entry.object } else { &entry.id },
        "source": format!("/lazaret/{}", entry.object),
        "type": kind,
        "subject": entry.object,
        "datacontenttype": "application/json",
        "data": entry,
    });
    if let Some(time) = &entry.time {
        event["time"] = time.as_str().into();
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incident() -> Value {
        let entry = |at: &str, stage: &str, cause: &str| json!({"at": at, "stage": stage, "cause": cause, "actor": "lazaret"});
        json!({
            "metadata": {"name": "gpu-0-c0ffee-1", "uid": "u"},
            "spec": {"device": {"driver": "d", "pool": "p", "device": "gpu-0"}},
            "status": {
                "device": {"driver": "d", "pool": "p", "device": "gpu-7"}, "stage": "Probation", "enforced": true,
                "timelineFolded": 2,
                "timeline": [
                    entry("2026-01-31T12:00:00.500Z", "Quarantined", "rule hot"),
                    entry("2026-01-31T12:05:00Z", "Probation", "calm for 60 s"),
                ],
            },
        })
    }

    #[test]
    fn an_entry_has_the_same_number_however_many_were_folded_away() {
        let entries = incident_entries(&[incident()], None);
        let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids, ["u-0", "u-3"]);
        let event = cloud_event(&entries[1]);
        assert_eq!(
            (&event["specversion"], &event["id"], &event["type"], &event["time"]),
            (
                &json!("1.0"),
                &json!("u-3"),
                &json!("dev.lazaret.incident.changed"),
                &json!("2026-01-31T12:05:00Z")
            )
        );
        assert_eq!(event["data"]["reason"], "calm for 60 s");
    }

    #[test]
    fn a_renamed_device_is_known_under_both_names() {
        for (name, count) in [("gpu-0", 2), ("gpu-7", 2), ("gpu-1", 0)] {
            let device = DeviceId::new("d", "p", name);
            assert_eq!(incident_entries(&[incident()], Some(&device)).len(), count, "{name}");
        }
    }
}
