//! Pods and nodes without what no controller here looks at: there are thousands of them, and most of each is about how to run containers.
//! The rest is passed over, not read and dropped. Fields have the names that they have in Kubernetes' own types.

use alloc::boxed::Box;

use k8s_openapi::{
    Metadata,
    api::core::v1::{
        self as whole, ContainerPort, NodeCondition, NodeSelectorRequirement, PodCondition, PodIP, Taint,
        Toleration,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde::Deserialize;

use crate::prelude::*;

macro_rules! lean {
    ($($(#[$doc:meta])* $scope:vis $name:ident { $($(#[$attribute:meta])* $field:ident: $of:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(rename_all = "camelCase")]
        $scope struct $name {
            $($(#[$attribute])* pub(crate) $field: $of,)*
        }
    )*};
}

lean! {
    /// A pod, as far as controllers look at it.
    pub Pod {
        #[serde(default)]
        metadata: ObjectMeta,
        spec: Option<PodSpec>,
        status: Option<PodStatus>,
    }

    /// The fields of a pod's spec that controllers read.
    pub(crate) PodSpec {
        node_name: Option<String>,
        tolerations: Option<Vec<Toleration>>,
        affinity: Option<Box<Affinity>>,
        hostname: Option<String>,
        subdomain: Option<String>,
        #[serde(default)]
        containers: Vec<Container>,
        init_containers: Option<Vec<Container>>,
    }

    /// Where a pod may run.
    pub(crate) Affinity {
        node_affinity: Option<NodeAffinity>,
    }

    /// On which nodes.
    pub(crate) NodeAffinity {
        required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    }

    /// Terms of which one must match.
    pub(crate) NodeSelector {
        #[serde(default)]
        node_selector_terms: Vec<NodeSelectorTerm>,
    }

    /// Nodes by name; what is asked of labels is for the scheduler.
    pub(crate) NodeSelectorTerm {
        match_fields: Option<Vec<NodeSelectorRequirement>>,
    }

    /// A container.
    pub(crate) Container {
        #[serde(default)]
        name: String,
        restart_policy: Option<String>,
        ports: Option<Vec<ContainerPort>>,
    }

    /// How far a pod is.
    pub(crate) PodStatus {
        phase: Option<String>,
        conditions: Option<Vec<PodCondition>>,
        #[serde(rename = "podIP")]
        pod_ip: Option<String>,
        #[serde(rename = "podIPs")]
        pod_ips: Option<Vec<PodIP>>,
        container_statuses: Option<Vec<ContainerStatus>>,
        init_container_statuses: Option<Vec<ContainerStatus>>,
    }

    /// How far a container is.
    pub(crate) ContainerStatus {
        #[serde(default)]
        name: String,
        #[serde(default)]
        restart_count: i32,
        state: Option<ContainerState>,
    }

    /// Whether a container has ended.
    pub(crate) ContainerState {
        terminated: Option<Box<Terminated>>,
    }

    /// How a container ended.
    pub(crate) Terminated {
        #[serde(default)]
        exit_code: i32,
        finished_at: Option<Time>,
    }

    /// A node, as far as controllers look at it.
    pub Node {
        #[serde(default)]
        metadata: ObjectMeta,
        spec: Option<NodeSpec>,
        status: Option<NodeStatus>,
    }

    /// The fields of a node's spec that controllers read.
    pub(crate) NodeSpec {
        taints: Option<Vec<Taint>>,
        unschedulable: Option<bool>,
    }

    /// How a node is.
    pub(crate) NodeStatus {
        conditions: Option<Vec<NodeCondition>>,
    }
}

/// The pod that this JSON describes.
pub(crate) fn pod(text: &str) -> Result<Pod, serde_json::Error> {
    let mut pod: Pod = serde_json::from_str(text)?;
    strip(&mut pod.metadata);
    if let Some(spec) = &mut pod.spec {
        spec.containers
            .iter_mut()
            .chain(spec.init_containers.iter_mut().flatten())
            .for_each(keep_named_ports);
        // Services ask for ports by name; of the other containers nothing is looked at.
        spec.containers.retain(|container| container.ports.is_some());
        spec.containers.shrink_to_fit();
    }
    if let Some(status) = &mut pod.status {
        let first = status.pod_ip.take();
        status.pod_ips = status.pod_ips.take().or_else(|| first.map(|ip| vec![PodIP { ip }]));
        status.conditions.iter_mut().for_each(Vec::shrink_to_fit);
        status.container_statuses.iter_mut().for_each(Vec::shrink_to_fit);
    }
    Ok(pod)
}

/// The node that this JSON describes.
pub(crate) fn node(text: &str) -> Result<Node, serde_json::Error> {
    let mut node: Node = serde_json::from_str(text)?;
    strip(&mut node.metadata);
    Ok(node)
}

fn keep_named_ports(container: &mut Container) {
    let ports = container.ports.take().into_iter().flatten().filter(|port| port.name.is_some());
    let ports: Vec<ContainerPort> = ports.collect();
    container.ports = (!ports.is_empty()).then_some(ports);
}

/// Drops metadata that no controller reads: field managers and the prefix of generated names.
fn strip(metadata: &mut ObjectMeta) {
    (metadata.managed_fields, metadata.generate_name) = (None, None);
}

macro_rules! kinds {
    ($($kind:ident)*) => {$(
        impl k8s_openapi::Resource for $kind {
            const API_VERSION: &'static str = <whole::$kind as k8s_openapi::Resource>::API_VERSION;
            const GROUP: &'static str = <whole::$kind as k8s_openapi::Resource>::GROUP;
            const KIND: &'static str = <whole::$kind as k8s_openapi::Resource>::KIND;
            const VERSION: &'static str = <whole::$kind as k8s_openapi::Resource>::VERSION;
            const URL_PATH_SEGMENT: &'static str = <whole::$kind as k8s_openapi::Resource>::URL_PATH_SEGMENT;
            type Scope = <whole::$kind as k8s_openapi::Resource>::Scope;
        }

        impl Metadata for $kind {
            type Ty = ObjectMeta;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    )*};
}

kinds! { Pod Node }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controllers_look_at_is_read_as_it_is_in_whole_objects() {
        let text = r#"{"apiVersion":"v1","kind":"Pod",
            "metadata":{"name":"p","labels":{"a":"b"},"managedFields":[{"manager":"m"}],"creationTimestamp":"2026-01-01T00:00:00Z"},
            "spec":{"affinity":{"podAffinity":{},"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
                    {"matchExpressions":[{"key":"k","operator":"Exists"}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n2"]}]}]}}},
                "nodeName":"n","volumes":[{"name":"v"}],"tolerations":[{"key":"k","operator":"Exists"}],
                "initContainers":[{"name":"i","image":"x","restartPolicy":"Always"}],"hostname":"h","subdomain":"s","containers":[{"name":"c","image":"x"},
                    {"name":"d","image":"x","ports":[{"containerPort":1},{"containerPort":80,"name":"web","protocol":"TCP"}]}]},
            "status":{"phase":"Failed","podIP":"10.0.0.1","conditions":[{"type":"Ready","status":"True"}],
                "containerStatuses":[{"name":"c","ready":true,"restartCount":3,"imageID":"x","image":"x",
                    "state":{"terminated":{"exitCode":7,"finishedAt":"2026-01-01T00:00:01Z"}},"lastState":{}}]}}"#;
        let (lean, all) = (pod(text).unwrap(), serde_json::from_str::<whole::Pod>(text).unwrap());
        let mut unbound = lean.clone();
        unbound.spec.as_mut().unwrap().node_name = None;
        let targets = (crate::pods::target(&lean), crate::pods::target(&unbound));
        assert_eq!(targets, (Some("n"), Some("n2")));
        let metadata = ObjectMeta { managed_fields: None, ..all.metadata };
        assert_eq!(lean.metadata, metadata);
        let (spec, all_spec) = (lean.spec.unwrap(), all.spec.unwrap());
        assert_eq!((spec.node_name, spec.tolerations), (all_spec.node_name, all_spec.tolerations));
        let ports: Vec<_> = spec.containers.iter().flat_map(|one| one.ports.iter().flatten()).collect();
        assert_eq!(ports, vec![&all_spec.containers[1].ports.as_ref().unwrap()[1]], "those that have names");
        assert_eq!((spec.hostname, spec.subdomain), (all_spec.hostname, all_spec.subdomain));
        assert_eq!(spec.containers.len(), 1);
        let (init, all_init) = (&spec.init_containers.unwrap()[0], &all_spec.init_containers.unwrap()[0]);
        assert_eq!((&init.name, &init.restart_policy), (&all_init.name, &all_init.restart_policy));
        let (status, all) = (lean.status.unwrap(), all.status.unwrap());
        assert_eq!((status.phase, status.conditions, status.pod_ip), (all.phase, all.conditions, None));
        assert_eq!(status.pod_ips, Some(vec![PodIP { ip: "10.0.0.1".to_owned() }]));
        let (one, all) = (&status.container_statuses.unwrap()[0], &all.container_statuses.unwrap()[0]);
        assert_eq!((&one.name, one.restart_count), (&all.name, all.restart_count));
        let ended = one.state.as_ref().unwrap().terminated.as_ref().unwrap();
        let all_ended = all.state.as_ref().unwrap().terminated.as_ref().unwrap();
        assert_eq!((ended.exit_code, &ended.finished_at), (all_ended.exit_code, &all_ended.finished_at));
    }

    #[test]
    fn of_a_node_taints_and_conditions_are_read() {
        let text = r#"{"metadata":{"name":"n"},"spec":{"podCIDR":"x","unschedulable":true,"taints":[{"key":"k","effect":"NoExecute"}]},
            "status":{"capacity":{"cpu":"1"},"conditions":[{"type":"Ready","status":"Unknown"}]}}"#;
        let (lean, all) = (node(text).unwrap(), serde_json::from_str::<whole::Node>(text).unwrap());
        let (spec, all_spec) = (lean.spec.unwrap(), all.spec.unwrap());
        assert_eq!((spec.taints, spec.unschedulable), (all_spec.taints, all_spec.unschedulable));
        assert_eq!(lean.status.unwrap().conditions, all.status.unwrap().conditions);
        assert!(pod("[]").is_err() && node(r#"{"spec":{"taints":1}}"#).is_err());
    }

    #[test]
    fn a_pod_is_small() {
        assert!(size_of::<Pod>() <= 800 && size_of::<Pod>() * 2 < size_of::<whole::Pod>());
    }
}
