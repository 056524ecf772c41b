//! Replica sets: as many pods as were asked for.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};

use crate::{
    claim::{claim, concerned},
    meta, pods,
    prelude::*,
    rank, selector,
    writes::{self, count, size, unless_zero},
};

/// Pods created or deleted in one decision.
const BURST_MAX: usize = 500;
const FAILURE: &str = "ReplicaFailure";
const FAILED_CREATE: &str = "FailedCreate";
const FAILED_DELETE: &str = "FailedDelete";

/// Keeps the number of pods that each ReplicaSet wants.
pub const RULES: Rules =
    Rules { name: "replicaset", needs: &[&resource::REPLICA_SETS, &resource::PODS], concerns, decide };

/// A kind that is managed as a replica set is.
pub(crate) struct Managed {
    pub(crate) resource: &'static Resource,
    pub(crate) component: &'static str,
    /// Whether its status counts pods that are terminating.
    pub(crate) counts_terminating: bool,
}

const REPLICA_SETS: Managed = Managed {
    resource: &resource::REPLICA_SETS,
    component: "replicaset-controller",
    counts_terminating: true,
};

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    match change.latest() {
        Some(Object::ReplicaSet(set)) => keys.push(Key::of(&set.metadata)),
        Some(Object::Pod(_)) => {
            concerned(
                world.replica_sets(),
                &resource::REPLICA_SETS,
                change,
                |set| Some(&set.spec.selector),
                keys,
            );
        }
        Some(_) | None => {}
    }
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(set) = context.world.replica_sets().get(context.key) else { return };
    reconcile(context, set, &REPLICA_SETS, plan);
}

/// Plans the writes for a replica set, or for an object that is managed like one.
pub(crate) fn reconcile(context: &Context<'_>, set: &ReplicaSet, kind: &Managed, plan: &mut Plan) {
    let spec = &set.spec;
    let kinds = (kind.resource, &resource::PODS);
    let claimed = claim(context.world.pods(), kinds, &set.metadata, &spec.selector, pods::is_active);
    claimed.writes.into_iter().for_each(|write| plan.write(write));
    let active = claimed.mine;
    if !meta::is_leaving(&set.metadata) {
        manage(context, set, kind, &active, plan);
    }
    report(context, set, kind, &active, plan);
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    if min_ready > 0 {
        let later = active.iter().filter_map(|pod| pods::available_at(pod, min_ready));
        later.filter(|at| *at > context.now).for_each(|at| plan.look_again(at));
    }
}

/// Makes what is missing, deletes what is too much.
fn manage(context: &Context<'_>, set: &ReplicaSet, kind: &Managed, active: &[Arc<Pod>], plan: &mut Plan) {
    let wanted = size(set.spec.replicas.unwrap_or(1));
    if active.len() < wanted {
        // The API server requires one.
        let Some(template) = &set.spec.template else { return };
        let room = context.limits.owner_pods_max.saturating_sub(active.len());
        for number in 0..(wanted - active.len()).min(room).min(BURST_MAX) {
            let body = pods::with_new_name(template, kind.resource, &set.metadata, context.now, number);
            let name = body["metadata"]["name"].as_str().unwrap_or_default();
            let note = note(set, kind, "SuccessfulCreate", format!("Created pod: {name}"));
            let namespace = context.key.namespace.clone();
            plan.write_and_tell(
                Write::Create { resource: &resource::PODS, namespace, body: body.into() },
                note,
            );
        }
        return;
    }
    if active.len() == wanted {
        return;
    }
    let mut dispensable = active.to_vec();
    rank::sort_for_deletion(context.now, &mut dispensable, &related(context.world, set));
    for pod in dispensable.iter().take((active.len() - wanted).min(BURST_MAX)) {
        let message = format!("Deleted pod: {}", meta::name(&pod.metadata));
        plan.write_and_tell(
            writes::delete(&resource::PODS, &pod.metadata),
            note(set, kind, "SuccessfulDelete", message),
        );
    }
}

/// The pods of all replica sets of the same deployment.
fn related(world: &World, set: &ReplicaSet) -> Vec<Arc<Pod>> {
    let sets: Vec<&str> = match meta::controller_of(&set.metadata) {
        Some(owner) => {
            world.replica_sets().managed_by(&owner.uid).map(|set| meta::uid(&set.metadata)).collect()
        }
        None => vec![meta::uid(&set.metadata)],
    };
    sets.into_iter().flat_map(|uid| world.pods().managed_by(uid)).cloned().collect()
}

fn note(set: &ReplicaSet, kind: &Managed, reason: &'static str, message: String) -> Note {
    Note {
        resource: kind.resource,
        key: Key::of(&set.metadata),
        uid: meta::uid(&set.metadata).to_owned(),
        kind: EventType::Normal,
        reason,
        message,
        component: kind.component,
    }
}

/// Writes the status, if it says something else.
fn report(context: &Context<'_>, set: &ReplicaSet, kind: &Managed, active: &[Arc<Pod>], plan: &mut Plan) {
    let spec = &set.spec;
    let old = set.status.as_ref();
    let old_conditions = old.and_then(|old| old.conditions.as_deref()).unwrap_or_default();
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let labels = spec.template.as_ref().and_then(|template| template.metadata.as_ref());
    let labels = labels.and_then(|metadata| metadata.labels.as_ref());
    let full = |pod: &Pod| {
        let mut labels = labels.into_iter().flatten();
        labels.all(|(label, value)| meta::label(&pod.metadata, label) == Some(value))
    };
    let replicas = count(active);
    let labelled = count(active.iter().filter(|pod| full(pod)));
    let ready = count(active.iter().filter(|pod| pods::is_ready(pod)));
    let available = count(active.iter().filter(|pod| pods::is_available(context.now, pod, min_ready)));
    let leaving = context.world.pods().managed_by(meta::uid(&set.metadata));
    let leaving =
        leaving.filter(|pod| pods::is_terminating(pod) && selector::matches(&spec.selector, &pod.metadata));
    let terminating = kind.counts_terminating.then(|| count(leaving));
    let conditions = conditions(context, set, active.len());
    let is_same = |old: &ReplicaSetStatus| {
        old.replicas == replicas
            && old.fully_labeled_replicas.unwrap_or(0) == labelled
            && old.ready_replicas.unwrap_or(0) == ready
            && old.available_replicas.unwrap_or(0) == available
            && old.terminating_replicas == terminating
            && old.observed_generation == set.metadata.generation
            && old_conditions == conditions
    };
    if old.map_or_else(|| is_same(&ReplicaSetStatus::default()), is_same) {
        return;
    }
    let mut status = json!({
        "replicas": replicas,
        "fullyLabeledReplicas": unless_zero(labelled),
        "readyReplicas": unless_zero(ready),
        "availableReplicas": unless_zero(available),
        "observedGeneration": set.metadata.generation,
        "conditions": if conditions.is_empty() { Value::Null } else { json!(conditions) },
    });
    if let Some(terminating) = terminating {
        status["terminatingReplicas"] = json!(terminating);
    }
    let write = writes::status(kind.resource, &set.metadata, status);
    match newly_failed(&conditions, old_conditions) {
        Some((reason, message)) => {
            let note = Note { kind: EventType::Warning, ..note(set, kind, reason, message.to_owned()) };
            plan.write_and_tell(write, note);
        }
        None => plan.write(write),
    }
}

/// Why pods cannot be made or deleted, if that was not so before.
fn newly_failed<'a>(
    conditions: &'a [ReplicaSetCondition],
    before: &[ReplicaSetCondition],
) -> Option<(&'static str, &'a str)> {
    let is_failure = |condition: &&ReplicaSetCondition| condition.type_.as_deref() == Some(FAILURE);
    let found = conditions.iter().find(is_failure).filter(|_| !before.iter().any(|one| is_failure(&one)))?;
    let reason = if found.reason.as_deref() == Some(FAILED_CREATE) { FAILED_CREATE } else { FAILED_DELETE };
    Some((reason, found.message.as_deref().unwrap_or_default()))
}

/// The conditions, with or without one that says why pods cannot be made or deleted.
fn conditions(context: &Context<'_>, set: &ReplicaSet, active: usize) -> Vec<ReplicaSetCondition> {
    let mut conditions = set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let known = conditions.iter().any(|condition| condition.type_.as_deref() == Some(FAILURE));
    let wanted = size(set.spec.replicas.unwrap_or(1));
    match context.limits.refusal(wanted).or_else(|| context.failure.map(str::to_owned)) {
        None => conditions.retain(|condition| condition.type_.as_deref() != Some(FAILURE)),
        Some(_) if known => {}
        Some(why) => {
            let reason = if active < wanted { FAILED_CREATE } else { FAILED_DELETE };
            conditions.push(ReplicaSetCondition {
                type_: Some(FAILURE.to_owned()),
                status: Some("True".to_owned()),
                reason: Some(reason.to_owned()),
                message: Some(why),
                last_transition_time: Some(meta::wire_time(context.now)),
            });
        }
    }
    conditions
}
