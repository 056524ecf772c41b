//! Pods and nodes without what no controller here looks at: there are thousands of them, and most of each is about how to run containers.
//! The rest is passed over, not read and dropped.

use k8s_openapi::api::core::v1::{
    Affinity, Container, ContainerPort, ContainerState, ContainerStatus, Node, NodeAffinity, NodeCondition,
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, NodeSpec, NodeStatus, Pod, PodCondition, PodIP,
    PodSpec, PodStatus, Taint, Toleration,
};
use serde::Deserialize;

use crate::prelude::*;

/// The pod that this JSON describes, as far as controllers look at it.
pub(crate) fn pod(text: &[u8]) -> Result<Pod, serde_json::Error> {
    let LeanPod { metadata, spec, status } = serde_json::from_slice(text)?;
    Ok(Pod {
        metadata: without_record(metadata),
        spec: spec.map(|spec| PodSpec {
            node_name: spec.node_name,
            tolerations: spec.tolerations,
            affinity: spec.affinity.and_then(named_nodes),
            hostname: spec.hostname,
            subdomain: spec.subdomain,
            containers: spec.containers.into_iter().filter_map(with_named_ports).collect(),
            init_containers: spec.init_containers.map(|list| list.into_iter().map(container).collect()),
            ..PodSpec::default()
        }),
        status: status.map(|status| PodStatus {
            phase: status.phase,
            conditions: status.conditions,
            pod_ips: status.pod_ips.or_else(|| status.pod_ip.map(|ip| vec![PodIP { ip }])),
            container_statuses: statuses(status.container_statuses),
            init_container_statuses: statuses(status.init_container_statuses),
            ..PodStatus::default()
        }),
    })
}

/// The node that this JSON describes, as far as controllers look at it.
pub(crate) fn node(text: &[u8]) -> Result<Node, serde_json::Error> {
    let LeanNode { metadata, spec, status } = serde_json::from_slice(text)?;
    Ok(Node {
        metadata: without_record(metadata),
        spec: spec.map(|spec| NodeSpec {
            taints: spec.taints,
            unschedulable: spec.unschedulable,
            ..NodeSpec::default()
        }),
        status: status.map(|status| NodeStatus { conditions: status.conditions, ..NodeStatus::default() }),
    })
}

#[derive(Deserialize)]
struct LeanPod {
    #[serde(default)]
    metadata: ObjectMeta,
    spec: Option<LeanPodSpec>,
    status: Option<LeanPodStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeanPodSpec {
    node_name: Option<String>,
    tolerations: Option<Vec<Toleration>>,
    affinity: Option<LeanAffinity>,
    hostname: Option<String>,
    subdomain: Option<String>,
    #[serde(default)]
    containers: Vec<LeanContainer>,
    init_containers: Option<Vec<LeanContainer>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeanAffinity {
    node_affinity: Option<LeanNodeAffinity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeanNodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<LeanNodeSelector>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeanNodeSelector {
    #[serde(default)]
    node_selector_terms: Vec<LeanTerm>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeanTerm {
    match_fields: Option<Vec<NodeSelectorRequirement>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeanContainer {
    #[serde(default)]
    name: String,
    restart_policy: Option<String>,
    #[serde(default)]
    ports: Vec<ContainerPort>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeanPodStatus {
    phase: Option<String>,
    conditions: Option<Vec<PodCondition>>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIP>>,
    container_statuses: Option<Vec<LeanContainerStatus>>,
    init_container_statuses: Option<Vec<LeanContainerStatus>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeanContainerStatus {
    #[serde(default)]
    name: String,
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    restart_count: i32,
    state: Option<ContainerState>,
    last_state: Option<ContainerState>,
}

#[derive(Deserialize)]
struct LeanNode {
    #[serde(default)]
    metadata: ObjectMeta,
    spec: Option<LeanNodeSpec>,
    status: Option<LeanNodeStatus>,
}

#[derive(Deserialize)]
struct LeanNodeSpec {
    taints: Option<Vec<Taint>>,
    unschedulable: Option<bool>,
}

#[derive(Deserialize)]
struct LeanNodeStatus {
    conditions: Option<Vec<NodeCondition>>,
}

/// Which nodes an affinity admits by name; what it asks of labels is for the scheduler.
fn named_nodes(lean: LeanAffinity) -> Option<Affinity> {
    let required = lean.node_affinity?.required_during_scheduling_ignored_during_execution?;
    let terms = required.node_selector_terms.into_iter().filter(|term| term.match_fields.is_some());
    let terms: Vec<NodeSelectorTerm> = terms
        .map(|term| NodeSelectorTerm { match_fields: term.match_fields, ..NodeSelectorTerm::default() })
        .collect();
    let selector = NodeSelector { node_selector_terms: terms };
    (!selector.node_selector_terms.is_empty()).then(|| Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(selector),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    })
}

fn container(lean: LeanContainer) -> Container {
    let ports = named(lean.ports);
    Container { name: lean.name, restart_policy: lean.restart_policy, ports, ..Container::default() }
}

/// A container whose ports Services may ask for by name; of the others nothing is kept.
fn with_named_ports(lean: LeanContainer) -> Option<Container> {
    named(lean.ports).map(|ports| Container { ports: Some(ports), ..Container::default() })
}

fn named(ports: Vec<ContainerPort>) -> Option<Vec<ContainerPort>> {
    let named = ports.into_iter().filter(|port| port.name.is_some()).map(|port| ContainerPort {
        name: port.name,
        container_port: port.container_port,
        protocol: port.protocol,
        ..ContainerPort::default()
    });
    Some(named.collect::<Vec<_>>()).filter(|ports| !ports.is_empty())
}

fn statuses(list: Option<Vec<LeanContainerStatus>>) -> Option<Vec<ContainerStatus>> {
    let whole = |lean: LeanContainerStatus| ContainerStatus {
        name: lean.name,
        ready: lean.ready,
        restart_count: lean.restart_count,
        state: lean.state,
        last_state: lean.last_state,
        ..ContainerStatus::default()
    };
    list.map(|list| list.into_iter().map(whole).collect())
}

/// Nobody here asks who wrote which field, and the answer is longer than most objects.
fn without_record(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta { managed_fields: None, ..metadata }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controllers_look_at_is_read_as_it_is_in_whole_objects() {
        let text = br#"{"apiVersion":"v1","kind":"Pod",
            "metadata":{"name":"p","labels":{"a":"b"},"managedFields":[{"manager":"m"}],"creationTimestamp":"2026-01-01T00:00:00Z"},
            "spec":{"affinity":{"podAffinity":{},"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
                    {"matchExpressions":[{"key":"k","operator":"Exists"}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n2"]}]}]}}},
                "nodeName":"n","volumes":[{"name":"v"}],"tolerations":[{"key":"k","operator":"Exists"}],
                "initContainers":[{"name":"i","image":"x","restartPolicy":"Always"}],"hostname":"h","subdomain":"s","containers":[{"name":"c","image":"x"},
                    {"name":"d","image":"x","ports":[{"containerPort":1},{"containerPort":80,"name":"web","protocol":"TCP"}]}]},
            "status":{"phase":"Failed","podIP":"10.0.0.1","conditions":[{"type":"Ready","status":"True"}],
                "containerStatuses":[{"name":"c","ready":true,"restartCount":3,"imageID":"x","image":"x",
                    "state":{"terminated":{"exitCode":7}},"lastState":{}}]}}"#;
        let (lean, whole) = (pod(text).unwrap(), serde_json::from_slice::<Pod>(text).unwrap());
        let unbound = |pod: &Pod| {
            let mut pod = pod.clone();
            pod.spec.as_mut().unwrap().node_name = None;
            crate::pods::target(&pod).map(ToOwned::to_owned)
        };
        assert_eq!((unbound(&lean).as_deref(), unbound(&lean)), (Some("n2"), unbound(&whole)));
        assert_eq!((crate::pods::target(&lean), crate::pods::target(&whole)), (Some("n"), Some("n")));
        let (spec, all) = (lean.spec.unwrap(), whole.spec.unwrap());
        assert_eq!((spec.node_name, spec.tolerations), (all.node_name, all.tolerations));
        let ports: Vec<_> = spec.containers.iter().flat_map(|one| one.ports.iter().flatten()).collect();
        assert_eq!(ports, vec![&all.containers[1].ports.as_ref().unwrap()[1]], "those that have names");
        assert_eq!((spec.hostname, spec.subdomain), (all.hostname, all.subdomain));
        assert_eq!((spec.containers.len(), spec.volumes), (1, None));
        let (init, all) = (&spec.init_containers.unwrap()[0], &all.init_containers.unwrap()[0]);
        assert_eq!((&init.name, &init.restart_policy, &init.image), (&all.name, &all.restart_policy, &None));
        let (status, all) = (lean.status.unwrap(), whole.status.unwrap());
        assert_eq!((status.phase, status.conditions, status.pod_ip), (all.phase, all.conditions, None));
        assert_eq!(status.pod_ips, Some(vec![PodIP { ip: "10.0.0.1".to_owned() }]));
        let (one, all) = (&status.container_statuses.unwrap()[0], &all.container_statuses.unwrap()[0]);
        assert_eq!((&one.name, one.ready, one.restart_count), (&all.name, all.ready, all.restart_count));
        assert_eq!((&one.state, &one.last_state), (&all.state, &all.last_state));
        assert_eq!((lean.metadata.managed_fields, lean.metadata.labels), (None, whole.metadata.labels));
    }

    #[test]
    fn of_a_node_taints_and_conditions_are_read() {
        let text = br#"{"metadata":{"name":"n"},"spec":{"podCIDR":"x","unschedulable":true,"taints":[{"key":"k","effect":"NoExecute"}]},
            "status":{"capacity":{"cpu":"1"},"conditions":[{"type":"Ready","status":"Unknown"}]}}"#;
        let (lean, whole) = (node(text).unwrap(), serde_json::from_slice::<Node>(text).unwrap());
        let (spec, all) = (lean.spec.unwrap(), whole.spec.unwrap());
        assert_eq!((spec.taints, spec.unschedulable, spec.pod_cidr), (all.taints, all.unschedulable, None));
        let (status, all) = (lean.status.unwrap(), whole.status.unwrap());
        assert_eq!((status.conditions, status.capacity), (all.conditions, None));
        assert!(pod(b"[]").is_err() && node(br#"{"spec":{"taints":1}}"#).is_err());
    }
}
