//! Pods that no other controller deletes: those of nodes that are gone, those that terminate on a node that is out of service, or without
//! ever having had a node, and those that finished long ago when there are too many.
//!
//! A key is a node, a pod, or nothing at all: the store of pods that have ended.

use crate::{lean::Node, meta, nodes, pods, prelude::*, writes};

/// Finished pods that are kept.
const FINISHED_MAX: usize = 12_500;
/// A node may be absent for this long: one that registers anew keeps its pods.
const QUARANTINE_SECS: i64 = 40;
/// A terminating pod without a node is kept for this long: the owner of a finalizer sees it terminate before it has failed. Kubernetes looks for
/// such pods as often.
const UNBOUND_SECS: i64 = 20;
/// The taint by which a person says that nothing on a node runs any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Pods deleted in one decision.
const BURST_MAX: usize = 500;

/// Deletes finished pods beyond the limit, and pods whose node is gone.
pub const RULES: Rules =
    Rules { name: "podgc", needs: &[&resource::PODS, &resource::NODES], concerns, decide };

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    match change.latest() {
        Some(Object::Node(node)) => keys.push(Key::of(&node.metadata)),
        Some(Object::Pod(pod)) if change.new.is_some() => {
            let (node, leaving) = (Key::new("", pods::node(pod)), meta::is_leaving(&pod.metadata));
            if node.name.is_empty() {
                if leaving {
                    keys.push(Key::of(&pod.metadata));
                }
            } else if world.nodes().get(&node).is_none_or(|node| leaving && is_out_of_service(node)) {
                keys.push(node);
            }
            if world.pod_index().finished().len() > FINISHED_MAX {
                keys.push(Key::default());
            }
        }
        Some(_) | None => {}
    }
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    if context.key.name.is_empty() {
        forget_finished(context.world, plan);
    } else if context.key.namespace.is_empty() {
        clear_node(context, plan);
    } else if let Some(pod) = context.world.pods().get(context.key)
        && pods::node(pod).is_empty()
        && let Some(since) = meta::leaving_since(&pod.metadata)
    {
        let at = since.plus_secs(UNBOUND_SECS);
        if at > context.now {
            plan.look_again(at);
        } else {
            force_delete(context.now, pod, "", plan);
        }
    }
}

/// Whether nothing can end pods on a node but the deletion of their objects: it is not ready, and a person says that it is out of service.
fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    !nodes::is_ready(node) && taints.map(|taint| taint.key.as_str()).any(|key| key == OUT_OF_SERVICE)
}

/// Deletes the oldest pods that have ended, beyond the limit.
fn forget_finished(world: &World, plan: &mut Plan) {
    let finished = world.pod_index().finished();
    let surplus = finished.len().saturating_sub(FINISHED_MAX).min(BURST_MAX);
    for (_, key) in finished.iter().take(surplus) {
        if let Some(pod) = world.pods().get(key).filter(|pod| !meta::is_leaving(&pod.metadata)) {
            plan.write(delete_now(pod));
        }
    }
}

/// Deletes the pods of a node that has gone for good, and those that leave one that is out of service.
fn clear_node(context: &Context<'_>, plan: &mut Plan) {
    let bound = context.world.pod_index().on_node(&context.key.name);
    let mut bound = bound.filter_map(|key| context.world.pods().get(key)).peekable();
    if let Some(node) = context.world.nodes().get(context.key) {
        if is_out_of_service(node) {
            let leaving = bound.filter(|pod| meta::is_leaving(&pod.metadata)).take(BURST_MAX);
            leaving.for_each(|pod| force_delete(context.now, pod, "", plan));
        }
        return;
    }
    if bound.peek().is_none() {
        return;
    }
    // The mark says no more than that it is not there.
    plan.remember(0);
    let at = context.since(0).plus_secs(QUARANTINE_SECS);
    if at > context.now {
        plan.look_again(at);
        return;
    }
    if !context.world.graph().is_absent("", &resource::NODES, context.key) {
        plan.write(Write::Confirm {
            resource: &resource::NODES,
            key: context.key.clone(),
            uid: String::new(),
        });
        return;
    }
    for pod in bound.take(BURST_MAX) {
        force_delete(context.now, pod, "PodGC: node no longer exists", plan);
    }
}

/// Sets the pod's phase to `Failed`, for controllers that count, and then deletes it at once. One that only finalizers hold is left: deleting it again
/// changes nothing.
fn force_delete(now: Timestamp, pod: &Pod, why: &str, plan: &mut Plan) {
    if pods::is_finished(pod) {
        let only_held =
            meta::is_leaving(&pod.metadata) && pod.metadata.deletion_grace_period_seconds.unwrap_or(0) == 0;
        if !only_held {
            plan.write(delete_now(pod));
        }
        return;
    }
    let mut status = json!({"phase": "Failed"});
    if !why.is_empty()
        && let Some(Write::Patch { body, .. }) =
            pods::with_condition(now, pod, "DisruptionTarget", "True", "DeletionByPodGC", why)
    {
        status["conditions"] = body["status"]["conditions"].clone();
    }
    plan.write(writes::status(&resource::PODS, &pod.metadata, status));
}

fn delete_now(pod: &Pod) -> Write {
    Write::Delete {
        resource: &resource::PODS,
        key: Key::of(&pod.metadata),
        uid: meta::uid(&pod.metadata).to_owned(),
        resource_version: None,
        propagation: Propagation::Background,
        grace: Some(0),
    }
}
