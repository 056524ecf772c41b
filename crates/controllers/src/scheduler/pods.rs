//! Pods as the scheduler sees them.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{self as core, Affinity, PodAffinityTerm, TopologySpreadConstraint},
    apimachinery::pkg::apis::meta::v1::LabelSelector as WireSelector,
};
use lazaret_model::{
    Effect, NodeSelector, NodeSelectorTerm, Operator, Requirement, Text, Timestamp, Toleration,
    TolerationOperator,
};
use lazaret_runtime::{Model, Object};
use lazaret_scheduler::{
    Container, DEFAULT_SCHEDULER, Extended, HostPort, LabelSelector, Labels, Pod, PodSpec, PodTerm, Role,
    Spread, Unscheduled,
};

use super::{
    allocatable, amounts,
    specs::{Outline, Reading, Specs},
};

/// A pod to be scheduled or already bound; `None` when it cannot be decoded.
pub(super) fn pod(specs: &mut Specs, object: &Object) -> Option<Pod> {
    let Ok(Model::Pod(known)) = object.model() else { return None };
    let outline: Outline<'_> = serde_json::from_str(object.text()).ok()?;
    let Reading { labels, spec } = specs.read(known, &outline, object.text())?;
    let (metadata, status) = (outline.metadata, outline.status.unwrap_or_default());
    let condition = known.conditions.iter().find(|condition| condition.kind == "PodScheduled");
    Some(Pod {
        key: known.key.clone(),
        uid: known.uid.clone(),
        owner: known.owner.clone(),
        node: known.node.clone(),
        phase: known.phase,
        deleting: known.deleting_since.is_some(),
        created: metadata.creation_timestamp.as_ref().map_or(Timestamp::EPOCH, time),
        started: status.start_time.as_ref().map(time),
        nominated: text(status.nominated_node_name.as_ref()),
        unscheduled: condition
            .filter(|condition| condition.status == lazaret_model::ConditionStatus::False)
            .map(|condition| Unscheduled {
                reason: condition.reason.clone(),
                message: condition.message.clone(),
            }),
        claims: known.claims.clone(),
        extended_claim: known.extended_claim.clone(),
        group: known.group.clone(),
        extra: status
            .node_allocatable_resource_claim_statuses
            .and_then(|statuses| allocatable::extra(&statuses, &spec)),
        spec,
        labels,
    })
}

fn time(time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time) -> Timestamp {
    Timestamp::from_millis(time.0.as_millisecond())
}

fn text(text: Option<&String>) -> Option<Text> {
    text.filter(|text| !text.is_empty()).map(|text| text.as_str().into())
}

pub(super) fn labels(map: Option<&BTreeMap<String, String>>) -> Labels {
    map.into_iter().flatten().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
}

pub(super) fn pod_spec(namespace: &Text, labels: &Labels, priority: i32, spec: &core::PodSpec) -> PodSpec {
    let none = Affinity::default();
    let affinity = spec.affinity.as_ref().unwrap_or(&none);
    let nodes = affinity.node_affinity.as_ref();
    let near = affinity.pod_affinity.as_ref();
    let far = affinity.pod_anti_affinity.as_ref();
    let term = |wire: &PodAffinityTerm| pod_term(namespace, labels, wire);
    let terms = |wire: Option<&Vec<PodAffinityTerm>>| wire.into_iter().flatten().map(term).collect();
    let preferred = near
        .and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref())
        .into_iter()
        .flatten()
        .map(|wire| (i64::from(wire.weight), term(&wire.pod_affinity_term)));
    let avoided = far
        .and_then(|far| far.preferred_during_scheduling_ignored_during_execution.as_ref())
        .into_iter()
        .flatten()
        .map(|wire| (-i64::from(wire.weight), term(&wire.pod_affinity_term)));
    PodSpec {
        scheduler: text(spec.scheduler_name.as_ref()).unwrap_or_else(|| DEFAULT_SCHEDULER.into()),
        gates: spec.scheduling_gates.iter().flatten().map(|gate| gate.name.as_str().into()).collect(),
        priority,
        preempts: spec.preemption_policy.as_deref() != Some("Never"),
        requests: amounts::requests(spec),
        weighed: amounts::weighed(spec),
        containers: containers(spec),
        classic: Vec::new(),
        claim_users: claim_users(spec),
        pod_level: amounts::pod_level(spec),
        ports: ports(spec),
        tolerations: spec.tolerations.iter().flatten().map(toleration).collect(),
        node_selector: self::labels(spec.node_selector.as_ref()),
        node_affinity: nodes
            .and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution.as_ref())
            .map(|wire| NodeSelector { terms: wire.node_selector_terms.iter().map(node_term).collect() }),
        preferred_nodes: nodes
            .and_then(|nodes| nodes.preferred_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(|wire| (i64::from(wire.weight), node_term(&wire.preference)))
            .collect(),
        affinity: terms(
            near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref()),
        ),
        anti_affinity: terms(
            far.and_then(|far| far.required_during_scheduling_ignored_during_execution.as_ref()),
        ),
        preferred_pods: preferred.chain(avoided).collect(),
        spread: spec.topology_spread_constraints.iter().flatten().map(|wire| spread(labels, wire)).collect(),
    }
}

/// Containers that ask for what only a plugin or a device class can give.
fn containers(spec: &core::PodSpec) -> Vec<Container> {
    let init = spec.init_containers.iter().flatten().map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        (container, if sidecar { Role::Sidecar } else { Role::Init })
    });
    let main = spec.containers.iter().map(|container| (container, Role::Main));
    let wanting = init.chain(main).enumerate().filter_map(|(index, (container, role))| {
        let requests = container.resources.as_ref()?.requests.as_ref()?;
        let extended: BTreeMap<Text, Extended> = requests
            .iter()
            .enumerate()
            .filter(|(_, (name, _))| is_extended(name))
            .map(|(place, (name, quantity))| {
                (name.as_str().into(), Extended { amount: amounts::whole(&quantity.0), place })
            })
            .collect();
        (!extended.is_empty()).then(|| Container {
            name: container.name.as_str().into(),
            index,
            role,
            extended,
        })
    });
    wanting.collect()
}

/// Containers that use claims, and by which entries of the pod.
fn claim_users(spec: &core::PodSpec) -> Vec<(Text, Vec<Text>)> {
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let users = all.filter_map(|container| {
        let claims = container.resources.as_ref()?.claims.as_ref().filter(|claims| !claims.is_empty())?;
        let entries = claims.iter().map(|claim| claim.name.as_str().into()).collect();
        Some((container.name.as_str().into(), entries))
    });
    users.collect()
}

fn is_extended(name: &str) -> bool {
    name.contains('/')
        && (!name.contains("kubernetes.io/") || name.starts_with("deviceclass.resource.kubernetes.io/"))
}

fn ports(spec: &core::PodSpec) -> Vec<HostPort> {
    let sidecars =
        spec.init_containers.iter().flatten().filter(|one| one.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let wanted = ports.filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        Some(HostPort {
            port: number,
            protocol: text(port.protocol.as_ref()).unwrap_or_else(|| "TCP".into()),
            address: text(port.host_ip.as_ref()).unwrap_or_else(|| "0.0.0.0".into()),
        })
    });
    wanted.collect()
}

fn toleration(wire: &core::Toleration) -> Toleration {
    let some = |text: Option<&String>| Text::from(text.map_or("", String::as_str));
    Toleration {
        key: some(wire.key.as_ref()),
        operator: match wire.operator.as_deref() {
            Some("Exists") => TolerationOperator::Exists,
            None | Some("" | "Equal") => TolerationOperator::Equal,
            Some(other) => TolerationOperator::Unknown(other.into()),
        },
        value: some(wire.value.as_ref()),
        effect: text(wire.effect.as_ref()).map(|effect| Effect::from_name(&effect)),
        seconds: wire.toleration_seconds,
    }
}

fn node_term(wire: &core::NodeSelectorTerm) -> NodeSelectorTerm {
    let requirements = |wire: Option<&Vec<core::NodeSelectorRequirement>>| {
        let read = |wire: &core::NodeSelectorRequirement| {
            requirement(&wire.key, &wire.operator, wire.values.as_ref())
        };
        wire.into_iter().flatten().map(read).collect()
    };
    NodeSelectorTerm {
        match_expressions: requirements(wire.match_expressions.as_ref()),
        match_fields: requirements(wire.match_fields.as_ref()),
    }
}

fn requirement(key: &str, operator: &str, values: Option<&Vec<String>>) -> Requirement {
    let operator = match operator {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        other => Operator::Unknown(other.into()),
    };
    Requirement {
        key: key.into(),
        operator,
        values: values.into_iter().flatten().map(|value| value.as_str().into()).collect(),
    }
}

/// A selector of labels.
pub(super) fn selector(wire: &WireSelector) -> LabelSelector {
    let equal = wire.match_labels.iter().flatten().map(|(key, value)| Requirement {
        key: key.as_str().into(),
        operator: Operator::In,
        values: vec![value.as_str().into()],
    });
    let listed = wire.match_expressions.iter().flatten();
    let listed = listed.map(|wire| requirement(&wire.key, &wire.operator, wire.values.as_ref()));
    LabelSelector { requirements: equal.chain(listed).collect() }
}

/// A selector that also asks for the pod's own values of some labels, or for others than these.
fn own_selector(
    labels: &Labels,
    wire: Option<&WireSelector>,
    same: Option<&Vec<String>>,
    other: Option<&Vec<String>>,
) -> Option<LabelSelector> {
    let mut selector = selector(wire?);
    for (keys, operator) in [(same, Operator::In), (other, Operator::NotIn)] {
        for key in keys.into_iter().flatten() {
            // A label that the pod lacks asks for nothing.
            if let Some(value) = labels.get(key.as_str()) {
                let operator = operator.clone();
                selector.requirements.push(Requirement {
                    key: key.as_str().into(),
                    operator,
                    values: vec![value.clone()],
                });
            }
        }
    }
    Some(selector)
}

fn pod_term(namespace: &Text, labels: &Labels, wire: &PodAffinityTerm) -> PodTerm {
    let mut namespaces: Vec<Text> =
        wire.namespaces.iter().flatten().map(|name| name.as_str().into()).collect();
    if namespaces.is_empty() && wire.namespace_selector.is_none() {
        namespaces.push(namespace.clone());
    }
    PodTerm {
        selector: own_selector(
            labels,
            wire.label_selector.as_ref(),
            wire.match_label_keys.as_ref(),
            wire.mismatch_label_keys.as_ref(),
        ),
        namespaces,
        namespace_selector: wire.namespace_selector.as_ref().map(selector),
        topology: wire.topology_key.as_str().into(),
    }
}

fn spread(labels: &Labels, wire: &TopologySpreadConstraint) -> Spread {
    let honors = |policy: Option<&String>, default| policy.map_or(default, |policy| policy == "Honor");
    Spread {
        skew_max: i64::from(wire.max_skew),
        topology: wire.topology_key.as_str().into(),
        required: wire.when_unsatisfiable == "DoNotSchedule",
        selector: own_selector(labels, wire.label_selector.as_ref(), wire.match_label_keys.as_ref(), None),
        domains_min: i64::from(wire.min_domains.unwrap_or(1)),
        honors_affinity: honors(wire.node_affinity_policy.as_ref(), true),
        honors_taints: honors(wire.node_taints_policy.as_ref(), false),
    }
}
