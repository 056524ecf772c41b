//! The waits of open incidents, in the report of `check`: the condition, since when, and how each ends.

use std::collections::BTreeSet;

use lazaret_eviction::Wait;
use serde_json::Value;

use super::{
    check::{Check, State, check},
    incidents::{IncidentRow, incident_row, incident_wait},
};

const SECTION: &str = "incidents";
/// Incidents that get a row of their own at most.
const ROWS_MAX: usize = 20;

/// A row for each incident that waits, those that need a person first. `incidents`: nothing if this user may not read them.
#[must_use]
pub fn incident_checks(incidents: Option<&[Value]>, policies: Option<&[Value]>) -> Vec<Check> {
    let name = "no device has an open incident";
    let Some(incidents) = incidents else {
        let detail = "unknown, because this user may not read deviceincidents".to_owned();
        return vec![check(SECTION, name, State::Skipped, detail, "")];
    };
    let policies = policies.map(health_policies);
    let mut waits: Vec<(IncidentRow, Wait)> = incidents
        .iter()
        .map(incident_row)
        .filter_map(|row| incident_wait(&row, policies.as_ref()).map(|wait| (row, wait)))
        .collect();
    if waits.is_empty() {
        return vec![check(SECTION, name, State::Ok, String::new(), "")];
    }
    waits.sort_by(|(row, wait), (other_row, other)| {
        let key = |row: &IncidentRow, wait: &Wait| (!wait.end.needs_person(), row.since, row.name.clone());
        key(row, wait).cmp(&key(other_row, other))
    });
    let more = waits.len().saturating_sub(ROWS_MAX);
    let mut checks: Vec<Check> = waits
        .iter()
        .take(ROWS_MAX)
        .map(|(row, wait)| {
            let observed = if row.is_enforced { "" } else { ", observed only" };
            let name = format!("incident {} of {} is {}{observed}", row.name, row.device, row.stage);
            check(SECTION, &name, State::Warning, wait.words.clone(), &wait.ends)
        })
        .collect();
    if more > 0 {
        let name = format!("{more} more incidents are open");
        checks.push(check(SECTION, &name, State::Warning, String::new(), "kubectl device incidents"));
    }
    checks
}

/// The names of the health policies among policies of several kinds. In a list they need not name their kind.
fn health_policies(policies: &[Value]) -> BTreeSet<String> {
    let is_one = |policy: &&Value| policy["kind"].as_str().is_none_or(|kind| kind == "DeviceHealthPolicy");
    let names = policies.iter().filter(is_one).filter_map(|policy| policy["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn incident(name: &str, stage: &str, more: Value) -> Value {
        let mut status = json!({
            "stage": stage, "enforced": true, "waitsFor": "calm for 60 s", "since": "2026-01-01T11:00:00Z",
        });
        for (field, value) in more.as_object().unwrap() {
            status[field] = value.clone();
        }
        json!({
            "metadata": {"name": name}, "status": status,
            "spec": {
                "device": {"driver": "d", "pool": "n", "device": "gpu-0"}, "policy": "p",
                "openedAt": "2026-01-01T09:00:00Z",
            },
        })
    }

    fn ends(incident: &Value, policies: &[&str]) -> (String, bool) {
        let policies = policies.iter().map(|name| (*name).to_owned()).collect();
        let wait = incident_wait(&incident_row(incident), Some(&policies)).unwrap();
        (wait.ends, wait.end.needs_person())
    }

    #[test]
    fn each_wait_has_an_end() {
        let held = |reason: &str| json!({"held": {"guard": "fleet", "reason": reason}});
        let mut tripped = held("Breaker");
        tripped["waitsFor"] =
            "DisruptionGuard fleet is tripped: 3 of 10 devices out of service, 2 permitted".into();
        let rows = [
            (incident("i", "Draining", held("Breaker")), "it goes on when less is out of service", false),
            (incident("i", "Draining", held("Paused")), "kubectl device resume fleet", true),
            (incident("i", "Draining", tripped), "kubectl device guard reset fleet --reason TEXT", true),
            (
                incident("i", "Draining", held("Window")),
                "it goes on when a window opens; to end it now: kubectl device repaired d/n/gpu-0",
                false,
            ),
            (incident("i", "Abandoned", json!({})), "kubectl device repaired d/n/gpu-0", true),
            (incident("i", "Repairing", json!({})), "kubectl device repaired d/n/gpu-0", true),
            (
                incident("i", "Suspect", json!({})),
                "it ends by itself; to give the device up: kubectl device abandon d/n/gpu-0 --reason TEXT",
                false,
            ),
        ];
        for (incident, wanted, needs_person) in rows {
            assert_eq!(ends(&incident, &["p"]), (wanted.to_owned(), needs_person));
        }
        let orphan = ends(&incident("i", "Probation", json!({})), &["other"]);
        let wanted =
            "kubectl device repaired d/n/gpu-0, or kubectl device abandon d/n/gpu-0 --reason TEXT".to_owned();
        assert_eq!(orphan, (wanted, true));
        assert_eq!(incident_wait(&incident_row(&incident("i", "Cleared", json!({}))), None), None);
    }

    #[test]
    fn the_report_names_each_with_since_when_and_is_bounded() {
        let all = [
            incident("calm", "Suspect", json!({})),
            incident("lost", "Abandoned", json!({"waitsFor": "a person"})),
            incident("over", "Cleared", json!({})),
        ];
        let checks = incident_checks(Some(&all), Some(&[json!({"metadata": {"name": "p"}})]));
        let said: Vec<(&str, &str)> =
            checks.iter().map(|row| (row.name.as_str(), row.detail.as_str())).collect();
        assert_eq!(
            said,
            [
                ("incident lost of d/n/gpu-0 is Abandoned", "waits for a person since 2026-01-01T11:00:00Z"),
                (
                    "incident calm of d/n/gpu-0 is Suspect",
                    "waits for calm for 60 s since 2026-01-01T11:00:00Z"
                ),
            ]
        );
        assert!(checks.iter().all(|row| row.state == State::Warning));
        let many: Vec<Value> =
            (0..25).map(|at| incident(&format!("i{at:02}"), "Suspect", json!({}))).collect();
        let checks = incident_checks(Some(&many), None);
        assert_eq!((checks.len(), checks[20].name.as_str()), (21, "5 more incidents are open"));
        assert_eq!(incident_checks(Some(&[]), None)[0].state, State::Ok);
        assert_eq!(incident_checks(None, None)[0].state, State::Skipped);
    }
}
