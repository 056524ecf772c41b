//! The status of one pod in the TaintReplacementPolicies of its namespace.

use lazaret_model::{ObjectKey, Timestamp};
use serde::{Deserialize, Serialize};

use super::{history::EventFacts, time::age};

/// A policy, as far as it speaks of pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PolicyFacts {
    metadata: Named,
    status: PolicyStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    namespace: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PolicyStatus {
    pods: Vec<Line>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Line {
    pod: String,
    node: String,
    device: String,
    taint_key: String,
    condition: String,
    since: String,
    due: String,
    replace_after: String,
    replacement: String,
    message: String,
}

/// The action of a policy for a pod because of one taint.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacementWhy {
    /// The policy's name.
    pub policy: String,
    /// `NodeTaintDetected` and so on.
    pub condition: String,
    /// The taint's key.
    pub taint_key: String,
    /// The node or the device that is tainted.
    pub place: String,
    /// Since when the taint counts.
    pub since: String,
    /// When the pod is or was marked to be replaced; empty for never.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub due: String,
    /// From when on it may be replaced; empty for never.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replace_after: String,
    /// The pod that takes its place.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replacement: String,
    /// The condition that it waits for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// All that is said about a pod, policy by policy.
#[must_use]
pub fn replacements(policies: &[PolicyFacts], pod: &ObjectKey) -> Vec<ReplacementWhy> {
    let mut found = Vec::new();
    for policy in policies.iter().filter(|policy| policy.metadata.namespace == *pod.namespace) {
        let tripped =
            policy.status.conditions.iter().find(|one| one.kind == "BreakerTripped" && one.status == "True");
        for line in policy.status.pods.iter().filter(|line| line.pod == *pod.name) {
            let held = tripped.filter(|_| line.replacement.is_empty() && line.message.is_empty());
            found.push(ReplacementWhy {
                policy: policy.metadata.name.clone(),
                condition: line.condition.clone(),
                taint_key: line.taint_key.clone(),
                place: if line.device.is_empty() {
                    format!("node {}", line.node)
                } else {
                    format!("device {}", line.device)
                },
                since: line.since.clone(),
                due: line.due.clone(),
                replace_after: line.replace_after.clone(),
                replacement: line.replacement.clone(),
                message: held.map_or_else(|| line.message.clone(), |breaker| breaker.message.clone()),
            });
        }
    }
    found
}

/// How a pod stands, in a few words, if any policy speaks of it.
pub(super) fn summary(replacements: &[ReplacementWhy]) -> Option<String> {
    let first = replacements.first()?;
    let stands = if replacements.iter().any(|one| !one.replacement.is_empty()) {
        "is being replaced"
    } else if replacements.iter().any(|one| one.condition.ends_with("Replacing")) {
        "is to be replaced"
    } else if replacements.iter().any(|one| !one.replace_after.is_empty()) {
        "is to be replaced if the taint stays"
    } else {
        "is not to be replaced, though it is on a taint"
    };
    Some(format!("{stands}: {} is tainted {}", first.place, first.taint_key))
}

/// The reasons of events about a pod that is, or was, replaced.
const TOLD: [&str; 3] = ["TaintReplacementStarted", "TaintReplaced", "TaintReplacementMissing"];

impl EventFacts {
    /// Whether it is about a pod that is, or was, replaced.
    #[must_use]
    pub fn tells_of_replacement(&self) -> bool {
        self.involved_object.kind == "Pod" && TOLD.contains(&self.reason.as_str())
    }
}

/// The events of a replacement, oldest first.
pub(super) fn story(pod: &ObjectKey, events: &[EventFacts]) -> Vec<String> {
    let about = |event: &&EventFacts| {
        let object = &event.involved_object;
        event.tells_of_replacement() && object.namespace == *pod.namespace && object.name == *pod.name
    };
    let mut told: Vec<&EventFacts> = events.iter().filter(about).collect();
    told.sort_by_key(|event| event.time());
    told.into_iter().map(|event| format!("{}: {}", event.reason, event.message)).collect()
}

impl ReplacementWhy {
    /// For people.
    #[must_use]
    pub fn line(&self, now: Timestamp) -> String {
        let time = |text: &str| lazaret_api::parse_time(text).ok();
        let since = time(&self.since).map_or_else(|| "an unknown time".to_owned(), |then| age(then, now));
        let mut line = format!(
            "TaintReplacementPolicy {}: {}, {} on {} has counted for {since}",
            self.policy, self.condition, self.taint_key, self.place,
        );
        if !self.replacement.is_empty() {
            line.push_str(&format!("; {} takes its place", self.replacement));
        } else if let Some(after) = time(&self.replace_after) {
            let wait = after.millis_since(now);
            line.push_str(&if wait > 0 {
                format!("; to be replaced in {} s at the earliest", (wait + 999) / 1_000)
            } else {
                "; to be replaced as soon as its turn comes".to_owned()
            });
        } else {
            line.push_str("; never to be replaced for it");
        }
        if !self.message.is_empty() {
            line.push_str(&format!(" ({})", self.message));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_policy_speaks_of_its_own_namespace_only() {
        let policies: Vec<PolicyFacts> = serde_json::from_value(json!([
            {"metadata": {"name": "p", "namespace": "a"}, "status": {
                "pods": [
                    {"pod": "x", "node": "n1", "taintKey": "k", "condition": "NodeTaintReplacing",
                     "since": "1970-01-01T00:00:00Z", "due": "1970-01-01T00:00:05Z", "replaceAfter": "1970-01-01T00:01:00Z"},
                    {"pod": "y", "node": "n1", "taintKey": "k"},
                ],
                "conditions": [{"type": "BreakerTripped", "status": "True", "message": "3 of 4 fault domains are tainted"}],
            }},
            {"metadata": {"name": "q", "namespace": "b"}, "status": {"pods": [{"pod": "x"}]}},
        ]))
        .unwrap();
        let found = replacements(&policies, &ObjectKey::new("a", "x"));
        assert_eq!(found.len(), 1);
        let line = found[0].line(Timestamp::from_secs(20));
        assert!(
            line.starts_with(
                "TaintReplacementPolicy p: NodeTaintReplacing, k on node n1 has counted for 20s"
            ),
            "{line}"
        );
        assert!(
            line.ends_with("; to be replaced in 40 s at the earliest (3 of 4 fault domains are tainted)"),
            "{line}"
        );
    }
}
