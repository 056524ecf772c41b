//! Problems of Lazaret's own installation in a cluster.

use lazaret_api::parse_time;
use lazaret_model::Timestamp;
use serde_json::Value;

use super::{
    check::{Check, State, check, found},
    components::components,
    webhook::{Webhook, webhooks},
};

pub(super) const SECTION: &str = "installation";
/// A lease that was not renewed for this many times its duration, and for `STALE_SECONDS_MIN`, has no holder: the time in a short lease is as exact
/// as its holder's clock.
const STALE_DURATIONS: i64 = 2;
const STALE_SECONDS_MIN: i64 = 2 * SKEW_SECONDS_MAX;
/// Clocks that differ by more than this make times in taints and tolerations wrong by as much.
const SKEW_SECONDS_MAX: i64 = 5;
const DAY_SECONDS: i64 = 86_400;
/// Releases of Kubernetes that Lazaret was tried with.
const MINOR_MIN: u32 = 34;
const MINOR_MAX: u32 = 37;
/// The reason of eviction events, by Lazaret's and by Kubernetes' controller.
const EVICTION_REASON: &str = "DeviceTaintManagerEviction";

/// Facts about the installation. `None`: this user may not see it.
#[derive(Clone, Debug, Default)]
pub struct Installation {
    /// The release that the server behaves as: 37 for 1.37.
    pub minor: u32,
    /// The version of this program.
    pub program: &'static str,
    /// Definitions that there should be: name, and what tells versions of it apart.
    pub wanted: Vec<(String, String)>,
    /// Definitions of the group `lazaret.dev` that there are.
    pub definitions: Option<Vec<Value>>,
    /// Deployments of the chart, in all namespaces.
    pub deployments: Option<Vec<Value>>,
    /// DaemonSets of the chart, in all namespaces.
    pub daemon_sets: Option<Vec<Value>>,
    /// Pods of the chart, in all namespaces.
    pub pods: Option<Vec<Value>>,
    /// Pods that no scheduler has placed and that name Lazaret's.
    pub waiting: Option<Vec<Value>>,
    /// Admission policies of the chart, and all bindings.
    pub admission: Option<(Vec<Value>, Vec<Value>)>,
    /// Webhooks of the chart.
    pub webhooks: Option<Vec<Webhook>>,
    /// Roles of `kubectl device` that are missing.
    pub roles_missing: Option<Vec<&'static str>>,
    /// Permissions that the service accounts of components need and lack: the account, and the verb and resource.
    pub refused: Option<Vec<(String, String)>>,
    /// Leases, in all namespaces.
    pub leases: Option<Vec<Value>>,
    /// Objects of Lazaret's own kinds, in all namespaces.
    pub policies: Option<Vec<Value>>,
    /// Events of evictions.
    pub events: Option<Vec<Value>>,
    /// The time by the server's clock, if it told.
    pub server_time: Option<Timestamp>,
}

/// Everything about the installation. A cluster without one has nothing wrong with it: definitions are looked at in any case.
pub fn installation(facts: &Installation, now: Timestamp) -> Vec<Check> {
    let mut checks = vec![release(facts), definitions(facts), clock(facts, now)];
    checks.extend(components(facts));
    checks.extend(webhooks(facts.webhooks.as_deref()));
    checks.extend(leases(facts));
    checks.push(policies(facts));
    checks.push(evictors(facts));
    checks
}

/// Conditions of policies that say that less is done than they ask for, and the status that says it.
const BAD_CONDITIONS: [(&str, &str); 4] =
    [("Degraded", "True"), ("Compiled", "False"), ("Accepted", "False"), ("AttributesApplied", "False")];

fn policies(facts: &Installation) -> Check {
    let name = "policies are in effect";
    let Some(there) = &facts.policies else { return unseen(name, "policies of lazaret.dev") };
    let mut wrong = Vec::new();
    for policy in there {
        let conditions = policy["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_bad = |one: &&Value| {
            BAD_CONDITIONS.iter().any(|(kind, status)| one["type"] == *kind && one["status"] == *status)
        };
        let messages = conditions.iter().filter(is_bad).filter_map(|one| one["message"].as_str());
        wrong
            .extend(messages.map(|message| format!("{} ({message})", place(policy).trim_start_matches('/'))));
    }
    found(
        SECTION,
        name,
        &wrong,
        State::Warning,
        "kubectl describe the policy; a role or a kind may be missing",
    )
}

fn release(facts: &Installation) -> Check {
    let name = "the release is one that Lazaret was tried with";
    let detail = format!("1.{}", facts.minor);
    match facts.minor {
        0 => check(SECTION, name, State::Skipped, "the server does not tell".into(), ""),
        minor if minor < MINOR_MIN => check(
            SECTION,
            name,
            State::Failed,
            detail,
            "resource.k8s.io/v1 came with Kubernetes 1.34: upgrade the cluster",
        ),
        minor if minor > MINOR_MAX => check(
            SECTION,
            name,
            State::Warning,
            detail,
            "a newer release may have changed what Lazaret relies on: look for a newer Lazaret",
        ),
        _ => check(SECTION, name, State::Ok, detail, ""),
    }
}

fn definitions(facts: &Installation) -> Check {
    let name = "Lazaret's own kinds are defined";
    let hint = "lazaret install --crds-only | kubectl apply -f -";
    let Some(there) = &facts.definitions else { return unseen(name, "customresourcedefinitions") };
    let (mut wrong, mut worst) = (Vec::new(), State::Ok);
    for (wanted, schema) in &facts.wanted {
        let found = there.iter().find(|one| one["metadata"]["name"] == **wanted);
        let (state, what) = match found {
            None => (State::Warning, "missing"),
            Some(one) if one["metadata"]["deletionTimestamp"].is_string() => (State::Failed, "being deleted"),
            Some(one) if !condition(one, "Established") => (State::Failed, "not established"),
            Some(one) if one["metadata"]["annotations"]["lazaret.dev/schema"] != **schema => {
                (State::Warning, "of another version of Lazaret")
            }
            Some(one) if stores_what_is_not_served(one) => {
                (State::Failed, "holds objects in a version that is not served")
            }
            Some(_) => continue,
        };
        worst = worst.max(state);
        wrong.push(format!("{wanted} ({what})"));
    }
    let detail = if wrong.is_empty() { String::new() } else { wrong.join(", ") };
    check(SECTION, name, worst, detail, if worst == State::Ok { "" } else { hint })
}

/// Such objects cannot be read until the version is back.
fn stores_what_is_not_served(definition: &Value) -> bool {
    let versions = |field: &Value| field.as_array().cloned().unwrap_or_default();
    let served = versions(&definition["spec"]["versions"]);
    let is_served = |name: &Value| served.iter().any(|one| one["name"] == *name && one["served"] == true);
    versions(&definition["status"]["storedVersions"]).iter().any(|name| !is_served(name))
}

pub(super) fn condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|one| one["type"] == kind && one["status"] == "True")
}

fn clock(facts: &Installation, now: Timestamp) -> Check {
    let name = "clocks agree";
    let Some(server) = facts.server_time else {
        return check(SECTION, name, State::Skipped, "the server does not tell its time".into(), "");
    };
    let mut skewed = Vec::new();
    let mut compare = |whose: String, time: Timestamp, only_ahead: bool| {
        let seconds = time.as_secs() - server.as_secs();
        if seconds > SKEW_SECONDS_MAX || !only_ahead && seconds < -SKEW_SECONDS_MAX {
            let side = if seconds > 0 { "ahead of" } else { "behind" };
            let much = if seconds.abs() > DAY_SECONDS {
                "more than a day".into()
            } else {
                format!("{}s", seconds.abs())
            };
            skewed.push(format!("{whose} is {much} {side} the server"));
        }
    };
    compare("this machine".into(), now, false);
    for lease in ours(facts) {
        // A lease that was renewed in the past may simply have been renewed then.
        if let Some(renewed) = renewed(lease) {
            compare(format!("the holder of lease {}", place(lease)), renewed, true);
        }
    }
    found(
        SECTION,
        name,
        &skewed,
        State::Warning,
        "set the clocks by NTP: taints and tolerations count seconds",
    )
}

fn ours(facts: &Installation) -> impl Iterator<Item = &Value> {
    let known = |lease: &&Value| {
        let name = lease["metadata"]["name"].as_str().unwrap_or_default();
        ["lazaret-controllers", "lazaret-scheduler"].contains(&name)
    };
    facts.leases.iter().flatten().filter(known)
}

fn renewed(lease: &Value) -> Option<Timestamp> {
    let text = lease["spec"]["renewTime"].as_str()?;
    // Its fraction of a second is of no use here.
    let whole = text.split('.').next().unwrap_or(text).trim_end_matches('Z');
    parse_time(&format!("{whole}Z")).ok()
}

fn leases(facts: &Installation) -> Vec<Check> {
    let (one_leads, renewed_in_time) = ("one process leads", "leases are renewed");
    if facts.leases.is_none() {
        return vec![unseen(one_leads, "leases.coordination.k8s.io")];
    }
    let Some(server) = facts.server_time else { return Vec::new() };
    let (mut fresh, mut stale): (Vec<&Value>, Vec<String>) = (Vec::new(), Vec::new());
    for lease in ours(facts) {
        let spec = &lease["spec"];
        let lasts = spec["leaseDurationSeconds"].as_i64().unwrap_or_default();
        let age = renewed(lease).map_or(i64::MAX, |renewed| server.as_secs() - renewed.as_secs());
        if spec["holderIdentity"].as_str().unwrap_or_default().is_empty() {
            continue;
        }
        if age > lasts.saturating_mul(STALE_DURATIONS).max(STALE_SECONDS_MIN) {
            let holder = spec["holderIdentity"].as_str().unwrap_or_default();
            stale.push(format!("{} (held by {holder}, last renewed {age}s ago)", place(lease)));
        } else {
            fresh.push(lease);
        }
    }
    let mut several = Vec::new();
    for (at, lease) in fresh.iter().enumerate() {
        let same = |other: &&Value| other["metadata"]["name"] == lease["metadata"]["name"];
        if fresh[..at].iter().any(same) {
            several.push(place(lease));
        }
    }
    vec![
        found(
            SECTION,
            one_leads,
            &several,
            State::Failed,
            "processes with leases in different namespaces all act: give them one --lease-namespace, or stop all but one",
        ),
        found(
            SECTION,
            renewed_in_time,
            &stale,
            State::Warning,
            "nothing leads: start the controllers, or delete the lease if they are not to run",
        ),
    ]
}

/// The controllers that evict, by the events of each.
fn evictors(facts: &Installation) -> Check {
    let name = "one controller evicts pods from tainted devices";
    let Some(events) = &facts.events else { return unseen(name, "events") };
    let mut ours_at = Vec::new();
    let mut theirs = Vec::new();
    let is_eviction = |event: &&Value| {
        let cancels = |text: &str| text.starts_with("Cancelling");
        event["reason"] == EVICTION_REASON && !event["message"].as_str().is_some_and(cancels)
    };
    for event in events.iter().filter(is_eviction) {
        let of = |field: &Value| field.as_str().is_some_and(|text| !text.is_empty());
        let component =
            [&event["reportingComponent"], &event["source"]["component"]].into_iter().find(|field| of(field));
        let instance = event["reportingInstance"].as_str().unwrap_or_default();
        // Lazaret's controller names itself as the instance too; Kubernetes' names its host.
        let is_ours = component.is_some_and(|component| component.as_str() == Some(instance));
        if is_ours { &mut ours_at } else { &mut theirs }.push(event);
    }
    let (ours_span, theirs_span) = (span(&ours_at), span(&theirs));
    match (ours_span, theirs_span) {
        // One that evicted before the other began has been turned off since.
        (Some(ours), Some(theirs)) if ours.1 < theirs.0 => kubernetes_evicts(name),
        (Some(ours), Some(theirs)) if theirs.1 < ours.0 => lazaret_evicts(name),
        (Some(_), Some(_)) => check(
            SECTION,
            name,
            State::Warning,
            format!(
                "Lazaret evicted pods ({}) and so did Kubernetes' controller manager ({})",
                ours_at.len(),
                theirs.len()
            ),
            "no pace is kept while both evict: start the controller manager with --controllers=*,-device-taint-eviction-controller, or Lazaret without eviction",
        ),
        (Some(_), None) => lazaret_evicts(name),
        (None, Some(_)) => kubernetes_evicts(name),
        (None, None) => {
            check(SECTION, name, State::Skipped, "no eviction was seen in the events there are".into(), "")
        }
    }
}

fn lazaret_evicts(name: &str) -> Check {
    check(SECTION, name, State::Ok, "Lazaret".into(), "")
}

fn kubernetes_evicts(name: &str) -> Check {
    check(SECTION, name, State::Ok, "Kubernetes' controller manager".into(), "")
}

/// When the first and the last of these happened. Times in whole seconds are in order as texts.
fn span<'a>(events: &[&'a Value]) -> Option<(&'a str, &'a str)> {
    let time = |event: &&'a Value| {
        let event: &'a Value = event;
        event["lastTimestamp"].as_str().or(event["metadata"]["creationTimestamp"].as_str())
    };
    let first = events.iter().filter_map(time).min()?;
    let last = events.iter().filter_map(time).max()?;
    Some((first, last))
}

pub(super) fn place(object: &Value) -> String {
    let metadata = &object["metadata"];
    let of = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", of("namespace"), of("name"))
}

pub(super) fn unseen(name: &str, resource: &str) -> Check {
    check(SECTION, name, State::Skipped, format!("unknown, because this user may not list {resource}"), "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_forged_schema_is_a_word_of_check() {
        let said = |schema: &str| {
            let facts = Installation {
                wanted: vec![("a.lazaret.dev".into(), "1".into())],
                definitions: Some(vec![json!({
                    "metadata": {"name": "a.lazaret.dev", "annotations": {"lazaret.dev/schema": schema}},
                    "spec": {"versions": [{"name": "v1alpha1", "served": true}]},
                    "status": {"storedVersions": ["v1alpha1"], "conditions": [{"type": "Established", "status": "True"}]},
                })]),
                ..Installation::default()
            };
            definitions(&facts).detail
        };
        assert_eq!(said("1"), "");
        assert!(said("forged").contains("a.lazaret.dev"), "{}", said("forged"));
    }

    #[test]
    fn objects_in_a_version_that_is_not_served_are_noticed() {
        let definition = |is_served: bool| {
            json!({
                "metadata": {"name": "a.lazaret.dev", "annotations": {"lazaret.dev/schema": "1"}},
                "spec": {"versions": [{"name": "v1alpha0", "served": is_served}, {"name": "v1alpha1", "served": true}]},
                "status": {"storedVersions": ["v1alpha0", "v1alpha1"], "conditions": [{"type": "Established", "status": "True"}]},
            })
        };
        for (is_served, detail) in
            [(true, ""), (false, "a.lazaret.dev (holds objects in a version that is not served)")]
        {
            let facts = Installation {
                wanted: vec![("a.lazaret.dev".into(), "1".into())],
                definitions: Some(vec![definition(is_served)]),
                ..Installation::default()
            };
            assert_eq!(definitions(&facts).detail, detail);
        }
    }
}
