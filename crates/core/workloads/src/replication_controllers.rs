//! Replication controllers: managed as the replica sets that came after them.

use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus},
        core::v1::{
            ReplicationController, ReplicationControllerCondition, ReplicationControllerSpec,
            ReplicationControllerStatus,
        },
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use crate::{
    claim::concerned_where,
    prelude::*,
    replica_sets::{Managed, reconcile},
    selector,
};

/// Keeps the number of pods that each ReplicationController wants.
pub const RULES: Rules = Rules {
    name: "replicationcontroller",
    needs: &[&resource::REPLICATION_CONTROLLERS, &resource::PODS],
    concerns,
    decide,
};

const REPLICATION_CONTROLLERS: Managed = Managed {
    resource: &resource::REPLICATION_CONTROLLERS,
    component: "replication-controller",
    counts_terminating: false,
};

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    match change.latest() {
        Some(Object::ReplicationController(controller)) => keys.push(Key::of(&controller.metadata)),
        Some(Object::Pod(_)) => {
            let wants = |controller: &ReplicationController, metadata: &ObjectMeta| {
                let selector = controller.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                selector.is_some_and(|selector| !selector.is_empty() && selector::has_all(selector, metadata))
            };
            let kind = &resource::REPLICATION_CONTROLLERS;
            concerned_where(world.replication_controllers(), kind, change, wants, keys);
        }
        Some(_) | None => {}
    }
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(controller) = context.world.replication_controllers().get(context.key) else { return };
    reconcile(context, &as_replica_set(controller), &REPLICATION_CONTROLLERS, plan);
}

fn as_replica_set(controller: &ReplicationController) -> ReplicaSet {
    let ReplicationControllerSpec { min_ready_seconds, replicas, selector, template } =
        controller.spec.clone().unwrap_or_default();
    ReplicaSet {
        metadata: controller.metadata.clone(),
        spec: ReplicaSetSpec {
            min_ready_seconds,
            replicas,
            selector: LabelSelector { match_labels: selector, match_expressions: None },
            template,
        },
        status: controller.status.clone().map(as_status),
    }
}

fn as_status(status: ReplicationControllerStatus) -> ReplicaSetStatus {
    let condition = |condition: ReplicationControllerCondition| ReplicaSetCondition {
        last_transition_time: condition.last_transition_time,
        message: condition.message,
        reason: condition.reason,
        status: Some(condition.status),
        type_: Some(condition.type_),
    };
    ReplicaSetStatus {
        available_replicas: status.available_replicas,
        conditions: status.conditions.map(|list| list.into_iter().map(condition).collect()),
        fully_labeled_replicas: status.fully_labeled_replicas,
        observed_generation: status.observed_generation,
        ready_replicas: status.ready_replicas,
        replicas: status.replicas,
        terminating_replicas: None,
    }
}
