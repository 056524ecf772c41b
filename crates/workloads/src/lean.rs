//! Pods and nodes without what no controller here looks at: there are thousands of them, and most of each is about how to run containers.

use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, Node, NodeSpec, NodeStatus, Pod, PodSpec, PodStatus,
};

use crate::{object::Object, prelude::*};

/// The object, as far as controllers look at it.
pub(crate) fn lean(object: Object) -> Object {
    if let Object::Pod(pod) = &object {
        Object::Pod(Arc::new(lean_pod(pod)))
    } else if let Object::Node(node) = &object {
        Object::Node(Arc::new(lean_node(node)))
    } else {
        object
    }
}

fn lean_pod(pod: &Pod) -> Pod {
    Pod {
        metadata: without_record(&pod.metadata),
        spec: pod.spec.as_ref().map(|spec| PodSpec {
            node_name: spec.node_name.clone(),
            tolerations: spec.tolerations.clone(),
            init_containers: spec
                .init_containers
                .as_ref()
                .map(|list| list.iter().map(lean_container).collect()),
            ..PodSpec::default()
        }),
        status: pod.status.as_ref().map(|status| PodStatus {
            phase: status.phase.clone(),
            conditions: status.conditions.clone(),
            container_statuses: statuses(status.container_statuses.as_ref()),
            init_container_statuses: statuses(status.init_container_statuses.as_ref()),
            ..PodStatus::default()
        }),
    }
}

fn lean_container(container: &Container) -> Container {
    Container {
        name: container.name.clone(),
        restart_policy: container.restart_policy.clone(),
        ..Container::default()
    }
}

fn statuses(list: Option<&Vec<ContainerStatus>>) -> Option<Vec<ContainerStatus>> {
    let lean = |status: &ContainerStatus| ContainerStatus {
        name: status.name.clone(),
        ready: status.ready,
        restart_count: status.restart_count,
        state: status.state.clone(),
        last_state: status.last_state.clone(),
        ..ContainerStatus::default()
    };
    list.map(|list| list.iter().map(lean).collect())
}

fn lean_node(node: &Node) -> Node {
    Node {
        metadata: without_record(&node.metadata),
        spec: node.spec.as_ref().map(|spec| NodeSpec {
            taints: spec.taints.clone(),
            unschedulable: spec.unschedulable,
            ..NodeSpec::default()
        }),
        status: node
            .status
            .as_ref()
            .map(|status| NodeStatus { conditions: status.conditions.clone(), ..NodeStatus::default() }),
    }
}

fn without_record(metadata: &ObjectMeta) -> ObjectMeta {
    let mut metadata = metadata.clone();
    metadata.managed_fields = None;
    metadata
}
