//! Pods, nodes and replica sets of the API become those of the core.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{apps::v1::ReplicaSet as ApiReplicaSet, core::v1::Node as ApiNode},
    apimachinery::pkg::apis::meta::v1::{LabelSelector as WireSelector, Time},
};
use lazaret_api::REPLACEMENT_MARK;
use lazaret_machine::LabelSelector;
use lazaret_model::{
    ClaimSource, Condition, ConditionStatus, Operator, Pod as Known, PodPhase, Requirement, Text, Timestamp,
};
use lazaret_replacement::{FailingNode, Node, NodeTaint, Pod, Problem, ReplicaSet};
use lazaret_runtime::Object;

use super::mark;
use crate::proof::Proofs;

pub(super) fn pod(object: &Object, pod: &Known, proofs: &Proofs) -> Pod {
    let is_ready =
        |condition: &Condition| condition.kind == "Ready" && condition.status == ConditionStatus::True;
    let rare = pod.rare.as_ref();
    Pod {
        key: object.key.clone(),
        uid: object.uid.clone(),
        version: object.resource_version.clone(),
        labels: Arc::clone(&pod.labels),
        node: pod.node.clone(),
        owner: pod.owner.clone(),
        created: pod.created.unwrap_or(Timestamp::EPOCH),
        ready: pod.conditions.iter().any(is_ready),
        finished: pod.phase.is_finished(),
        succeeded: pod.phase == PodPhase::Succeeded,
        deleting: pod.deleting_since.is_some(),
        pinned: pod.claims.iter().any(|claim| matches!(claim.source, ClaimSource::Claim(_))),
        gated: pod.spec.gates.iter().any(|gate| gate == REPLACEMENT_MARK),
        mirror: rare.is_some_and(|rare| rare.mirror),
        mark: rare.and_then(|rare| mark::read(proofs, object, rare.replacement.as_deref()?)),
    }
}

pub(super) fn node(object: &Object, node: &ApiNode) -> Node {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let taints = taints.iter().map(|taint| NodeTaint {
        key: taint.key.as_str().into(),
        value: taint.value.as_deref().unwrap_or_default().into(),
        effect: taint.effect.as_str().into(),
        time_added: taint.time_added.as_ref().map(time),
    });
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status != "True");
    let failing = ready.and_then(|condition| {
        let key = if condition.status == "False" { "not-ready" } else { "unreachable" };
        let since = condition.last_transition_time.as_ref().map(time)?;
        Some(FailingNode { key: format!("node.kubernetes.io/{key}").into(), since })
    });
    Node {
        name: object.key.name.clone(),
        labels: labels(node.metadata.labels.as_ref()),
        taints: taints.collect(),
        failing,
    }
}

pub(super) fn replica_set(object: &Object, set: &ApiReplicaSet) -> ReplicaSet {
    ReplicaSet {
        key: object.key.clone(),
        uid: object.uid.clone(),
        replicas: set.spec.replicas.map_or(1, |replicas| u32::try_from(replicas).unwrap_or(0)),
        selector: selector(&set.spec.selector).unwrap_or_default(),
    }
}

/// A label selector.
///
/// # Errors
/// An operator that does not exist, or values that it cannot have.
pub(super) fn selector(selector: &WireSelector) -> Result<LabelSelector, Problem> {
    let mut all = LabelSelector::default();
    for (key, value) in selector.match_labels.iter().flatten() {
        all.require(key.as_str(), value.as_str());
    }
    for (at, wanted) in selector.match_expressions.iter().flatten().enumerate() {
        let problem = |field: &str, message: String| {
            Err(Problem::new(format!("spec.podSelector.matchExpressions[{at}].{field}"), message))
        };
        let values: Vec<Text> = wanted.values.iter().flatten().map(|value| value.as_str().into()).collect();
        let operator = match (wanted.operator.as_str(), values.is_empty()) {
            ("In", false) => Operator::In,
            ("NotIn", false) => Operator::NotIn,
            ("Exists", true) => Operator::Exists,
            ("DoesNotExist", true) => Operator::DoesNotExist,
            (operator @ ("In" | "NotIn"), true) => {
                return problem("values", format!("must not be empty, for the operator is {operator}"));
            }
            (operator @ ("Exists" | "DoesNotExist"), false) => {
                return problem("values", format!("must be empty, for the operator is {operator}"));
            }
            (other, _) => {
                let message = format!("must be In, NotIn, Exists or DoesNotExist, is {other:?}");
                return problem("operator", message);
            }
        };
        all.requirements.push(Requirement { key: wanted.key.as_str().into(), operator, values });
    }
    Ok(all)
}

fn labels(labels: Option<&BTreeMap<String, String>>) -> Arc<BTreeMap<Text, Text>> {
    let pair = |(key, value): (&String, &String)| (key.as_str().into(), value.as_str().into());
    Arc::new(labels.into_iter().flatten().map(pair).collect())
}

fn time(time: &Time) -> Timestamp {
    Timestamp::from_millis(time.0.as_millisecond())
}
