//! Nodes: each one registers and changes itself only, and nothing by which it would draw other pods to itself.

use std::collections::BTreeSet;

use lazaret_json::{Text, Value};

use super::attempt::{Attempt, Operation, Refusal, Verdict, same};

/// Labels under kubernetes.io and k8s.io that nodes set themselves.
const OWN_LABELS: &[&str] = &[
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Prefixes of labels that nodes set themselves, with all that end in these.
const OWN_PREFIXES: &[&str] = &["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The prefix of labels that keep nodes apart: administrators set them, nodes never.
const RESTRICTION: &str = "node-restriction.kubernetes.io";

/// Requests of the claim controllers to a node. Schedulers hold back the devices that they name, so a node must not name those of others.
const QUESTIONS: [&str; 2] = ["lazaret.dev/awaiting-unprepare", "lazaret.dev/awaiting-classic-unprepare"];

pub(super) fn node(attempt: &Attempt<'_>) -> Verdict {
    let Attempt { node, name, object, old, operation, .. } = *attempt;
    let refuse = |why: String| Err(Refusal::Forbidden(format!("node {node:?} is not allowed to {why}")));
    if name != node {
        return refuse(format!("modify node {name:?}"));
    }
    let config = &object["spec"]["configSource"];
    let asks = |node: &Value, question: &str| node["metadata"]["annotations"][question].clone();
    let changed = QUESTIONS.into_iter().find(|question| asks(object, question) != asks(old, question));
    if let Some(question) = changed.filter(|_| operation != Operation::Delete) {
        return refuse(format!("modify annotation {question}"));
    }
    let labels = forbidden_labels(&object["metadata"]["labels"], &old["metadata"]["labels"]);
    match operation {
        Operation::Delete => Ok(()),
        Operation::Create => {
            if !config.is_null() {
                return refuse("create pods with a non-nil configSource".into());
            }
            if !labels.is_empty() {
                return refuse(format!("set the following labels: {}", labels.join(", ")));
            }
            Ok(())
        }
        Operation::Update => {
            if !config.is_null() && *config != old["spec"]["configSource"] {
                return refuse("update configSource to a new non-nil configSource".into());
            }
            if !same(&object["spec"]["taints"], &old["spec"]["taints"]) {
                return refuse("modify taints".into());
            }
            if !same(&object["metadata"]["ownerReferences"], &old["metadata"]["ownerReferences"]) {
                return refuse("modify ownerReferences".into());
            }
            if !labels.is_empty() {
                let why = format!("is not allowed to modify labels: {}", labels.join(", "));
                return Err(Refusal::Forbidden(why));
            }
            Ok(())
        }
    }
}

/// Labels that differ and that a node must leave alone, in order.
fn forbidden_labels(new: &Value, old: &Value) -> Vec<String> {
    differing(new, old).into_iter().filter(|label| is_forbidden(label)).map(String::from).collect()
}

/// Names of labels that one has and the other has not, or that have different values.
pub(super) fn differing(a: &Value, b: &Value) -> BTreeSet<Text> {
    let names = |labels: &Value| -> Vec<Text> {
        labels.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let differ = |name: &Text| a.get(name.as_str()) != b.get(name.as_str());
    names(a).into_iter().chain(names(b)).filter(differ).collect()
}

fn is_forbidden(label: &str) -> bool {
    let prefix = label.split_once('/').map_or("", |(prefix, _)| prefix);
    let is_or_ends_in =
        |suffix: &str| prefix.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let kubernetes = is_or_ends_in("kubernetes.io") || is_or_ends_in("k8s.io");
    let own = OWN_LABELS.contains(&label) || OWN_PREFIXES.iter().any(|prefix| is_or_ends_in(prefix));
    is_or_ends_in(RESTRICTION) || kubernetes && !own
}
