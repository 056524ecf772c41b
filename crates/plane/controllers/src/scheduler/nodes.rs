//! Nodes, namespaces and budgets as the scheduler sees them.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        core::v1::{Namespace, Node as WireNode},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::{
        api::resource::Quantity as WireQuantity, apis::meta::v1::LabelSelector as WireSelector,
    },
};
use lazaret_api::read_awaiting;
use lazaret_model::{
    AWAITING_UNPREPARE, Effect, Operator, Quantity, REPORTS_UNPREPARED, Requirement, Taint, Text, Timestamp,
    whole_units,
};
use lazaret_runtime::{Model, Object};
use lazaret_scheduler::{Amounts, Budget, LabelSelector, Labels, Node};

pub(super) fn node(object: &Object) -> Option<Node> {
    let Ok(Model::Node(facts)) = object.model() else { return None };
    let typed = object.read::<WireNode>().ok()?;
    let allocatable = typed.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let quantities: BTreeMap<&str, Quantity> =
        allocatable.into_iter().flatten().filter_map(quantity).collect();
    let spec = typed.spec.as_ref();
    let annotation = |name: &str| typed.metadata.annotations.as_ref()?.get(name);
    // The scheduler keeps taints apart: a node that is tainted is the same node to the allocator.
    let facts = if facts.taints.is_empty() {
        Arc::clone(facts)
    } else {
        Arc::new(lazaret_model::Node { taints: Vec::new(), ..lazaret_model::Node::clone(facts) })
    };
    Some(Node {
        facts,
        taints: spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten().map(taint).collect(),
        unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
        pods_max: quantities.get("pods").map_or(0, whole_units),
        allocatable: Amounts::of(quantities.iter().map(|(name, quantity)| (*name, quantity))),
        reports: annotation(REPORTS_UNPREPARED).is_some_and(|value| value == "true"),
        awaiting: annotation(AWAITING_UNPREPARE).map(|text| read_awaiting(text)).unwrap_or_default(),
    })
}

fn quantity<'a>((name, wire): (&'a String, &WireQuantity)) -> Option<(&'a str, Quantity)> {
    Some((name, Quantity::parse(&wire.0).ok()?))
}

fn taint(wire: &k8s_openapi::api::core::v1::Taint) -> Taint {
    Taint {
        key: wire.key.as_str().into(),
        value: wire.value.as_deref().unwrap_or_default().into(),
        effect: Effect::from_name(&wire.effect),
        time_added: wire.time_added.as_ref().map(|time| Timestamp::from_millis(time.0.as_millisecond())),
        ..Taint::default()
    }
}

pub(super) fn namespace(object: &Object) -> Option<(Text, Arc<Labels>)> {
    let typed = object.read::<Namespace>().ok()?;
    let labels = typed.metadata.labels.iter().flatten();
    let labels = labels.map(|(key, value)| (key.as_str().into(), value.as_str().into()));
    Some((object.key.name.clone(), Arc::new(labels.collect())))
}

pub(super) fn budget(object: &Object) -> Option<Budget> {
    let typed = object.read::<PodDisruptionBudget>().ok()?;
    let status = typed.status.as_ref();
    Some(Budget {
        key: object.key.clone(),
        selector: typed.spec.as_ref().and_then(|spec| spec.selector.as_ref()).map(selector),
        allowed: status.and_then(|status| status.disruptions_allowed).map_or(0, i64::from),
        leaving: status
            .and_then(|status| status.disrupted_pods.as_ref())
            .into_iter()
            .flat_map(|pods| pods.keys())
            .map(|name| name.as_str().into())
            .collect(),
    })
}

fn selector(wire: &WireSelector) -> LabelSelector {
    let mut selector = LabelSelector::default();
    for (key, value) in wire.match_labels.iter().flatten() {
        selector.require(key.as_str(), value.as_str());
    }
    let listed = wire.match_expressions.iter().flatten().map(|wire| Requirement {
        key: wire.key.as_str().into(),
        operator: Operator::from_name(&wire.operator),
        values: wire.values.iter().flatten().map(|value| value.as_str().into()).collect(),
    });
    selector.requirements.extend(listed);
    selector
}
