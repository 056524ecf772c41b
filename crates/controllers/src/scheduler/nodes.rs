//! Nodes, namespaces and budgets as the scheduler sees them.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{Namespace, Node as WireNode},
    policy::v1::PodDisruptionBudget,
};
use lazaret_api::read_awaiting;
use lazaret_model::{AWAITING_UNPREPARE, Effect, REPORTS_UNPREPARED, Taint, Text, Timestamp};
use lazaret_runtime::{Model, Object};
use lazaret_scheduler::{Budget, Labels, Node};

use super::{amounts, pods};

pub(super) fn node(object: &Object) -> Option<Node> {
    let Ok(Model::Node(facts)) = object.model() else { return None };
    let typed = object.read::<WireNode>().ok()?;
    let allocatable = typed.status.as_ref().and_then(|status| status.allocatable.as_ref());
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
        allocatable: allocatable.map(amounts::listed).unwrap_or_default(),
        pods_max: allocatable.and_then(|list| list.get("pods")).map_or(0, |pods| amounts::whole(&pods.0)),
        reports: annotation(REPORTS_UNPREPARED).is_some_and(|value| value == "true"),
        awaiting: annotation(AWAITING_UNPREPARE).map(|text| read_awaiting(text)).unwrap_or_default(),
    })
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
    Some((object.key.name.clone(), Arc::new(pods::labels(typed.metadata.labels.as_ref()))))
}

pub(super) fn budget(object: &Object) -> Option<Budget> {
    let typed = object.read::<PodDisruptionBudget>().ok()?;
    let status = typed.status.as_ref();
    Some(Budget {
        key: object.key.clone(),
        selector: typed.spec.as_ref().and_then(|spec| spec.selector.as_ref()).map(pods::selector),
        allowed: status.and_then(|status| status.disruptions_allowed).map_or(0, i64::from),
        leaving: status
            .and_then(|status| status.disrupted_pods.as_ref())
            .into_iter()
            .flat_map(|pods| pods.keys())
            .map(|name| name.as_str().into())
            .collect(),
    })
}
