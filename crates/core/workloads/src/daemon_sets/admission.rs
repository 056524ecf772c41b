//! Which nodes a daemon set is meant for.

use k8s_openapi::api::core::v1::{self as core, PodSpec, PodTemplateSpec, Taint, Toleration};
use lazaret_model::{NodeSelector, NodeSelectorTerm, Operator, Requirement, Text};

use crate::{lean::Node, meta, prelude::*, tolerate::tolerates};

/// Taints that every pod of a daemon set tolerates: a node in trouble needs its daemons most.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// And this one, if the pod has the network of its node.
const WITHOUT_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The parts of a pod template that decide whether a node is suitable.
pub(super) struct Admission {
    node: Option<String>,
    labels: BTreeMap<String, String>,
    selector: Option<NodeSelector>,
    tolerations: Vec<Toleration>,
}

/// Whether a pod is made on a node, and whether one that is there stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) runs: bool,
    pub(super) stays: bool,
}

impl Admission {
    pub(super) fn of(template: &PodTemplateSpec) -> Self {
        let none = PodSpec::default();
        let spec = template.spec.as_ref().unwrap_or(&none);
        let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let required =
            affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
        Self {
            node: spec.node_name.clone().filter(|name| !name.is_empty()),
            labels: spec.node_selector.clone().unwrap_or_default(),
            selector: required.map(selector),
            tolerations: tolerations(spec),
        }
    }

    pub(super) fn ask(&self, node: &Node) -> Admitted {
        let name = meta::name(&node.metadata);
        if self.node.as_deref().is_some_and(|wanted| wanted != name) || !self.selects(name, node) {
            return Admitted { runs: false, stays: false };
        }
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        let untolerated = |effects: &[&str]| {
            let concerns = |taint: &&Taint| effects.contains(&taint.effect.as_str());
            let tolerated = |taint: &Taint| self.tolerations.iter().any(|one| tolerates(one, taint));
            taints.iter().filter(concerns).any(|taint| !tolerated(taint))
        };
        let runs = !untolerated(&["NoExecute", "NoSchedule"]);
        Admitted { runs, stays: runs || !untolerated(&["NoExecute"]) }
    }

    fn selects(&self, name: &str, node: &Node) -> bool {
        let labelled = |(key, value): (&String, &String)| meta::label(&node.metadata, key) == Some(value);
        if !self.labels.iter().all(labelled) {
            return false;
        }
        let Some(selector) = &self.selector else { return true };
        let labels = node.metadata.labels.iter().flatten();
        let node = lazaret_model::Node {
            name: name.into(),
            labels: labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
            ..lazaret_model::Node::default()
        };
        // A malformed selector selects nothing.
        selector.matches(&node).unwrap_or(false)
    }
}

/// Whether a change of a node may change what is wanted on it.
pub(super) fn may_differ(change: &Change) -> bool {
    let (Some(Object::Node(old)), Some(Object::Node(new))) = (&change.old, &change.new) else { return true };
    let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    old.metadata.labels != new.metadata.labels || taints(old) != taints(new)
}

/// The tolerations of a pod: the template's, and those of every daemon. One for the same key and effect is replaced.
pub(super) fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let mut all = spec.tolerations.clone().unwrap_or_default();
    let more = (spec.host_network == Some(true)).then_some(&WITHOUT_NETWORK);
    for (key, effect) in TOLERATED.iter().chain(more) {
        let toleration = Toleration {
            key: Some((*key).to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some((*effect).to_owned()),
            ..Toleration::default()
        };
        let same = |known: &&mut Toleration| {
            let value = known.value.as_deref().unwrap_or_default();
            (&known.key, &known.effect, known.operator.as_deref(), value)
                == (&toleration.key, &toleration.effect, Some("Exists"), "")
        };
        match all.iter_mut().find(same) {
            Some(known) => *known = toleration,
            None => all.push(toleration),
        }
    }
    all
}

fn selector(wire: &core::NodeSelector) -> NodeSelector {
    let term = |term: &core::NodeSelectorTerm| NodeSelectorTerm {
        match_expressions: requirements(term.match_expressions.as_ref()),
        match_fields: requirements(term.match_fields.as_ref()),
    };
    NodeSelector { terms: wire.node_selector_terms.iter().map(term).collect() }
}

fn requirements(wire: Option<&Vec<core::NodeSelectorRequirement>>) -> Vec<Requirement> {
    let read = |one: &core::NodeSelectorRequirement| Requirement {
        key: one.key.as_str().into(),
        operator: match one.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::Gt,
            "Lt" => Operator::Lt,
            other => Operator::Unknown(other.into()),
        },
        values: one.values.iter().flatten().map(|value| Text::from(value.as_str())).collect(),
    };
    wire.into_iter().flatten().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(spec: &Value, node: &Value) -> (bool, bool) {
        let template: PodTemplateSpec = serde_json::from_value(json!({"spec": spec})).unwrap();
        let node: Node = serde_json::from_value(node.clone()).unwrap();
        let Admitted { runs, stays } = Admission::of(&template).ask(&node);
        (runs, stays)
    }

    #[test]
    fn nodes_are_chosen_by_name_labels_affinity_and_taints() {
        let affinity = |requirement: Value| {
            json!({"containers": [], "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [requirement]}}}})
        };
        let plain = json!({"metadata": {"name": "a", "labels": {"gpu": "h200"}}});
        let tainted = |key: &str, effect: &str| json!({"metadata": {"name": "a"}, "spec": {"taints": [{"key": key, "effect": effect}]}});
        let rows = [
            (json!({"containers": []}), plain.clone(), (true, true)),
            (json!({"containers": [], "nodeName": "b"}), plain.clone(), (false, false)),
            (json!({"containers": [], "nodeName": "a"}), plain.clone(), (true, true)),
            (json!({"containers": [], "nodeSelector": {"gpu": "h200"}}), plain.clone(), (true, true)),
            (json!({"containers": [], "nodeSelector": {"gpu": "b300"}}), plain.clone(), (false, false)),
            (
                affinity(json!({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]})),
                plain.clone(),
                (true, true),
            ),
            (
                affinity(json!({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]})),
                plain.clone(),
                (false, false),
            ),
            (
                affinity(
                    json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}),
                ),
                plain.clone(),
                (true, true),
            ),
            (
                affinity(json!({"matchExpressions": [{"key": "gpu", "operator": "Near", "values": ["x"]}]})),
                plain,
                (false, false),
            ),
            (json!({"containers": []}), tainted("k", "NoSchedule"), (false, true)),
            (json!({"containers": []}), tainted("k", "NoExecute"), (false, false)),
            (json!({"containers": []}), tainted("k", "PreferNoSchedule"), (true, true)),
            (
                json!({"containers": [], "tolerations": [{"operator": "Exists"}]}),
                tainted("k", "NoExecute"),
                (true, true),
            ),
            (json!({"containers": []}), tainted("node.kubernetes.io/not-ready", "NoExecute"), (true, true)),
            (json!({"containers": []}), tainted("node.kubernetes.io/not-ready", "NoSchedule"), (false, true)),
            (
                json!({"containers": []}),
                tainted("node.kubernetes.io/unschedulable", "NoSchedule"),
                (true, true),
            ),
            (
                json!({"containers": []}),
                tainted("node.kubernetes.io/network-unavailable", "NoSchedule"),
                (false, true),
            ),
            (
                json!({"containers": [], "hostNetwork": true}),
                tainted("node.kubernetes.io/network-unavailable", "NoSchedule"),
                (true, true),
            ),
        ];
        for (spec, node, expected) in rows {
            assert_eq!(admitted(&spec, &node), expected, "{spec} on {node}");
        }
    }

    #[test]
    fn a_toleration_of_the_template_is_not_there_twice() {
        let own = json!({"containers": [], "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]});
        let all = tolerations(&serde_json::from_value(own).unwrap());
        assert_eq!((all.len(), all[0].toleration_seconds), (TOLERATED.len(), None));
    }
}
