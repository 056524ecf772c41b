//! Incidents of devices, as people read them.

use std::collections::BTreeSet;

use lazaret_eviction::{IncidentFacts, Wait, WaitFacts, wait};
use lazaret_model::{Timestamp, human_duration};
use serde_json::Value;

use super::time::age;

/// One line of a list of incidents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentRow {
    /// Its name.
    pub name: String,
    /// `driver/pool/device`, under the name that the device has now.
    pub device: String,
    /// How far it is.
    pub stage: String,
    /// The policy and the rule.
    pub because: String,
    /// The condition that it waits for.
    pub waits_for: String,
    /// Since when it is in its stage.
    pub since: Option<Timestamp>,
    /// The policy that governs it.
    pub policy: String,
    /// The guard that holds it, and its reason.
    pub held: Option<(String, String)>,
    /// Whether anything is done to the device.
    pub is_enforced: bool,
    /// Key and value of its taint.
    pub taint: String,
    /// The user that acknowledged it.
    pub acknowledged_by: String,
    /// How many pods were evicted.
    pub pods_evicted: u64,
    /// When it was opened.
    pub opened: Option<Timestamp>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn time(value: &Value) -> Option<Timestamp> {
    lazaret_api::parse_time(value.as_str()?).ok()
}

/// The device of an incident, under the name that it has now.
fn device(incident: &Value) -> String {
    let device = if incident["status"]["device"].is_object() {
        &incident["status"]["device"]
    } else {
        &incident["spec"]["device"]
    };
    let part = |field: &str| device[field].as_str().unwrap_or_default();
    format!("{}/{}/{}", part("driver"), part("pool"), part("device"))
}

/// The line of an incident.
#[must_use]
pub fn incident_row(incident: &Value) -> IncidentRow {
    let (spec, status) = (&incident["spec"], &incident["status"]);
    let or_opened = |field: &str| {
        let now = text(&status[field]);
        if now.is_empty() { text(&spec[field]) } else { now }
    };
    IncidentRow {
        name: text(&incident["metadata"]["name"]),
        device: device(incident),
        stage: or_opened("stage"),
        because: format!("{}/{}", text(&spec["policy"]), or_opened("rule")),
        waits_for: text(&status["waitsFor"]),
        since: time(&status["since"]).or(time(&spec["openedAt"])),
        policy: or_opened("policy"),
        held: status["held"]
            .is_object()
            .then(|| (text(&status["held"]["guard"]), text(&status["held"]["reason"]))),
        is_enforced: status["enforced"] == true,
        taint: match or_opened("taintKey") {
            key if key.is_empty() => or_opened("taintValue"),
            key => format!("{key}={}", or_opened("taintValue")),
        },
        acknowledged_by: text(&status["acknowledgedBy"]),
        pods_evicted: status["cost"]["podsEvicted"].as_u64().unwrap_or_default(),
        opened: time(&spec["openedAt"]),
    }
}

impl IncidentRow {
    /// Whether it goes on.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stage != "Cleared"
    }

    /// Whether a word means it: its name, or its device in full or without its driver or pool.
    #[must_use]
    pub fn is_meant(&self, word: &str) -> bool {
        self.name == word || self.device == word || self.device.ends_with(&format!("/{word}"))
    }
}

/// The wait of an incident that is open. `policies`: the names of all DeviceHealthPolicies, if they are known.
#[must_use]
pub fn incident_wait(row: &IncidentRow, policies: Option<&BTreeSet<String>>) -> Option<Wait> {
    if !row.is_open() {
        return None;
    }
    let since = row.since.map_or_else(String::new, lazaret_api::format_time);
    Some(wait(&WaitFacts::Incident(IncidentFacts {
        device: &row.device,
        stage: &row.stage,
        waits_for: &row.waits_for,
        since: &since,
        held: row.held.as_ref().map(|(guard, reason)| (guard.as_str(), reason.as_str())),
        is_orphan: policies.is_some_and(|known| !known.contains(&row.policy)),
    })))
}

/// The line about an open incident, with its wait: the same wherever incidents stand beside something else.
#[must_use]
pub fn incident_line(row: &IncidentRow) -> String {
    let IncidentRow { name, device, stage, because, .. } = row;
    let waits = incident_wait(row, None).map_or_else(String::new, |wait| format!(", {}", wait.line()));
    format!("incident {name} of {device} is {stage} by {because}{waits}")
}

/// Everything about one incident.
#[must_use]
pub fn describe_incident(incident: &Value, now: Timestamp) -> String {
    let (row, spec, status) = (incident_row(incident), &incident["spec"], &incident["status"]);
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            out.push_str(&format!("{:<14}{value}\n", format!("{name}:")));
        }
    };
    line("Name", &row.name);
    line("Device", &row.device);
    line("Hardware ID", &text(&spec["hardwareID"]));
    line("Policy", &text(&spec["policy"]));
    let mode = if row.is_enforced { "" } else { " (observed only: nothing is done to the device)" };
    line("Stage", &format!("{}{mode}", row.stage));
    if row.is_enforced && row.is_open() {
        line("Taint", &row.taint);
    }
    if let Some(wait) = incident_wait(&row, None) {
        line("Waits for", wait.words.strip_prefix("waits for ").unwrap_or(&wait.words));
        line("Ends", &wait.ends);
    }
    let flaps = status["flaps"].as_array().map_or(0, Vec::len);
    let counted = |count: usize| format!("{count}, over all incidents of this hardware");
    line("Flaps", &Some(flaps).filter(|count| *count > 0).map_or_else(String::new, counted));
    line("Acknowledged", &row.acknowledged_by);
    line("Opened", &row.opened.map_or_else(String::new, |at| format!("{} ago", age(at, now))));
    let cost = &status["cost"];
    let closed = cost["outOfServiceSeconds"].as_i64().unwrap_or_default();
    let open = time(&cost["outOfServiceSince"]).map_or(0, |since| now.millis_since(since).max(0) / 1_000);
    let namespaces: Vec<String> = cost["namespaces"].as_array().into_iter().flatten().map(text).collect();
    let of = if namespaces.is_empty() {
        String::new()
    } else {
        format!(" (namespaces {})", namespaces.join(", "))
    };
    let pods = if row.pods_evicted == 1 { "1 pod".to_owned() } else { format!("{} pods", row.pods_evicted) };
    line("Cost", &format!("{pods} evicted{of}, out of service for {}", human_duration(closed + open)));
    if let Some(whole) = status["timeToRecoverSeconds"].as_i64() {
        line("Recovered in", &human_duration(whole));
    }
    out.push_str("Timeline:\n");
    let folded = status["timelineFolded"].as_u64().unwrap_or_default();
    let first = [serde_json::json!({
        "at": spec["openedAt"], "stage": spec["stage"], "cause": spec["cause"],
        "actor": format!("policy {}", text(&spec["policy"])),
    })];
    let entries = status["timeline"].as_array().map_or(&first[..], Vec::as_slice);
    for (at, entry) in entries.iter().enumerate() {
        if at == 1 && folded > 0 {
            out.push_str(&format!("  … {folded} entries left out\n"));
        }
        out.push_str(&format!(
            "  {:<28}{:<13}{} [{}]\n",
            text(&entry["at"]),
            text(&entry["stage"]),
            text(&entry["cause"]),
            text(&entry["actor"]),
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_incident_is_meant_by_its_name_and_by_its_device() {
        let row = incident_row(&json!({
            "metadata": {"name": "gpu-0-00c0ffee-1"},
            "spec": {"device": {"driver": "d", "pool": "node-1", "device": "gpu-0"}, "stage": "Suspect"},
        }));
        for word in ["gpu-0-00c0ffee-1", "d/node-1/gpu-0", "node-1/gpu-0", "gpu-0"] {
            assert!(row.is_meant(word), "{word}");
        }
        assert!(!row.is_meant("pu-0") && !row.is_meant("gpu-1"));
        assert_eq!(
            (row.stage.as_str(), row.is_open()),
            ("Suspect", true),
            "without a status it is as it was opened"
        );
    }

    #[test]
    fn an_incident_says_which_taint_its_device_has() {
        let mut incident = json!({
            "metadata": {"name": "gpu-0-00c0ffee-1"},
            "spec": {"stage": "Suspect", "taintKey": "example.com/warm", "taintValue": "hot", "policy": "p"},
            "status": {"stage": "Draining", "enforced": true, "taintKey": "example.com/dead", "taintValue": "xid"},
        });
        let says = |incident: &Value| describe_incident(incident, Timestamp::EPOCH);
        assert!(says(&incident).contains("\nTaint:        example.com/dead=xid\n"), "{}", says(&incident));
        incident["status"]["enforced"] = false.into();
        assert!(!says(&incident).contains("Taint:"), "it has none");
        incident["status"] = json!({"stage": "Cleared", "enforced": true});
        assert!(!says(&incident).contains("Taint:"), "it has none any more");
    }
}
