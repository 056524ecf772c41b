//! The scheduling requirements of pods.

use std::collections::BTreeMap;

use lazaret_model::{
    Container, DEFAULT_SCHEDULER, Extended, HostPort, LabelSelector, Labels, Operator, PodSpec, PodTerm,
    Requirement, Role, Spread, Text, whole_units,
};

use super::{
    claim, meta, non_empty,
    pod_amounts::{pod_level, requests, weighed},
    texts,
};
use crate::wire;

pub(super) fn pod_spec(namespace: &Text, labels: &Labels, spec: wire::PodSpec) -> PodSpec {
    let (requests, weighed, pod_level) = (requests(&spec), weighed(&spec), pod_level(&spec));
    let (containers, claim_users, ports) = (containers(&spec), claim_users(&spec), ports(&spec));
    let wire::Affinity { node_affinity, pod_affinity, pod_anti_affinity } = spec.affinity.0;
    let (nodes, near, far) = (node_affinity.0, pod_affinity.0, pod_anti_affinity.0);
    let term = |wire| pod_term(namespace, labels, wire);
    let preferred = near.preferred.0.into_iter();
    let preferred = preferred.map(|wire| (i64::from(wire.weight.0), term(wire.pod_affinity_term.0)));
    let avoided = far.preferred.0.into_iter();
    let avoided = avoided.map(|wire| (-i64::from(wire.weight.0), term(wire.pod_affinity_term.0)));
    let spread_constraints = spec.topology_spread_constraints.0.into_iter();
    PodSpec {
        scheduler: non_empty(spec.scheduler_name.0).unwrap_or_else(|| DEFAULT_SCHEDULER.into()),
        gates: spec.scheduling_gates.0.into_iter().map(|gate| gate.name.0.into()).collect(),
        priority: spec.priority.0,
        preempts: spec.preemption_policy.0 != "Never",
        requests,
        weighed,
        containers,
        claim_users,
        pod_level,
        ports,
        tolerations: spec.tolerations.0.into_iter().map(claim::toleration).collect(),
        node_selector: pairs(spec.node_selector.0).collect(),
        node_affinity: nodes.required.map(meta::node_selector),
        preferred_nodes: nodes
            .preferred
            .0
            .into_iter()
            .map(|wire| (i64::from(wire.weight.0), meta::node_term(wire.preference.0)))
            .collect(),
        preferred_pods: preferred.chain(avoided).collect(),
        affinity: near.required.0.into_iter().map(term).collect(),
        anti_affinity: far.required.0.into_iter().map(term).collect(),
        spread: spread_constraints.map(|wire| spread(labels, wire)).collect(),
    }
}

fn pairs(map: BTreeMap<String, wire::Nullable<String>>) -> impl Iterator<Item = (Text, Text)> {
    map.into_iter().map(|(key, value)| (key.into(), value.0.into()))
}

/// Whether a container that initialises runs until the end.
pub(super) fn is_sidecar(container: &wire::Container) -> bool {
    container.restart_policy.0 == "Always"
}

/// Containers that ask for resources that only a plugin or a device class can give.
fn containers(spec: &wire::PodSpec) -> Vec<Container> {
    let init = spec
        .init_containers
        .0
        .iter()
        .map(|container| (container, if is_sidecar(container) { Role::Sidecar } else { Role::Init }));
    let main = spec.containers.0.iter().map(|container| (container, Role::Main));
    let wanting = init.chain(main).enumerate().filter_map(|(index, (container, role))| {
        let requests = container.resources.0.requests.0.iter().enumerate();
        let extended: BTreeMap<Text, Extended> = requests
            .filter(|(_, (name, _))| is_extended(name))
            .map(|(place, (name, quantity))| {
                (name.as_str().into(), Extended { amount: whole_units(&quantity.0), place })
            })
            .collect();
        (!extended.is_empty()).then(|| Container {
            name: container.name.0.as_str().into(),
            index,
            role,
            extended,
        })
    });
    wanting.collect()
}

fn is_extended(name: &str) -> bool {
    name.contains('/')
        && (!name.contains("kubernetes.io/") || name.starts_with("deviceclass.resource.kubernetes.io/"))
}

/// Containers that use claims, and by which entries of the pod.
fn claim_users(spec: &wire::PodSpec) -> Vec<(Text, Vec<Text>)> {
    let all = spec.init_containers.0.iter().chain(&spec.containers.0);
    let users = all.filter(|container| !container.resources.0.claims.0.is_empty()).map(|container| {
        let entries = container.resources.0.claims.0.iter();
        (container.name.0.as_str().into(), entries.map(|claim| claim.name.0.as_str().into()).collect())
    });
    users.collect()
}

fn ports(spec: &wire::PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.0.iter().filter(|container| is_sidecar(container));
    let ports = spec.containers.0.iter().chain(sidecars).flat_map(|container| &container.ports.0);
    let or = |text: &str, default: &str| Text::from(if text.is_empty() { default } else { text });
    let wanted = ports.filter(|port| port.host_port.0 > 0).map(|port| HostPort {
        port: port.host_port.0,
        protocol: or(&port.protocol.0, "TCP"),
        address: or(&port.host_ip.0, "0.0.0.0"),
    });
    wanted.collect()
}

fn selector(wire: wire::LabelSelector) -> LabelSelector {
    let mut selector = LabelSelector::default();
    pairs(wire.match_labels.0).for_each(|(key, value)| selector.require(key, value));
    selector.requirements.extend(wire.match_expressions.0.into_iter().map(meta::requirement));
    selector
}

/// A selector that also asks for the pod's own values of some labels, or for others than these.
fn own_selector(
    labels: &Labels,
    wire: Option<wire::LabelSelector>,
    same: &[String],
    other: &[String],
) -> Option<LabelSelector> {
    let mut selector = selector(wire?);
    for (keys, operator) in [(same, Operator::In), (other, Operator::NotIn)] {
        for key in keys {
            // A label that the pod lacks asks for nothing.
            if let Some(value) = labels.get(key.as_str()) {
                let (key, operator, values) = (key.as_str().into(), operator.clone(), vec![value.clone()]);
                selector.requirements.push(Requirement { key, operator, values });
            }
        }
    }
    Some(selector)
}

fn pod_term(namespace: &Text, labels: &Labels, wire: wire::PodTerm) -> PodTerm {
    let mut namespaces = texts(wire.namespaces.0);
    if namespaces.is_empty() && wire.namespace_selector.is_none() {
        namespaces.push(namespace.clone());
    }
    let (same, other) = (wire.match_label_keys.0, wire.mismatch_label_keys.0);
    PodTerm {
        selector: own_selector(labels, wire.label_selector, &same, &other),
        namespaces,
        namespace_selector: wire.namespace_selector.map(selector),
        topology: wire.topology_key.0.into(),
    }
}

fn spread(labels: &Labels, wire: wire::SpreadConstraint) -> Spread {
    let honors = |policy: Option<String>, default| policy.map_or(default, |policy| policy == "Honor");
    Spread {
        skew_max: i64::from(wire.max_skew.0),
        topology: wire.topology_key.0.into(),
        required: wire.when_unsatisfiable.0 == "DoNotSchedule",
        selector: own_selector(labels, wire.label_selector, &wire.match_label_keys.0, &[]),
        domains_min: i64::from(wire.min_domains.unwrap_or(1)),
        honors_affinity: honors(wire.node_affinity_policy, true),
        honors_taints: honors(wire.node_taints_policy, false),
    }
}
