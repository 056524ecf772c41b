//! Nodes: whether they are alive, and what that means for who may be there.
//!
//! A node lives as long as its lease is renewed or its status is posted. When neither has changed for a while, its
//! conditions become unknown; its taints follow its conditions.

use k8s_openapi::api::core::v1::{NodeCondition, Taint};

use crate::{lean::Node, meta, pods, prelude::*, writes};

/// Time without a sign of life after which a node's conditions become `Unknown`.
const GRACE_SECS: i64 = 50;
/// The same for a node that has never reported a status.
const STARTUP_SECS: i64 = 60;
/// Where leases of nodes are.
const LEASES: &str = "kube-node-lease";
/// Conditions that a kubelet reports, and that become `Unknown` when it stops reporting.
const CONDITIONS: &[&str] = &["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// Condition, its value, and the taint that follows from it.
const TAINTS: &[(&str, &str, &str)] = &[
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Pods marked in one decision.
const BURST_MAX: usize = 500;

/// Marks nodes whose lease has expired, and taints nodes by their conditions.
pub const RULES: Rules = Rules {
    name: "node-lifecycle",
    needs: &[&resource::NODES, &resource::LEASES, &resource::PODS],
    concerns,
    decide,
};

fn concerns(_: &World, change: &Change, keys: &mut Vec<Key>) {
    let Some(object) = change.latest() else { return };
    let key = object.key();
    if matches!(object, Object::Node(_)) {
        keys.push(key);
    } else if matches!(object, Object::Lease(_)) && key.namespace == LEASES {
        keys.push(Key::new("", key.name));
    }
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(node) = context.world.nodes().get(context.key) else { return };
    let sign = last_heartbeat(context.world, node);
    plan.remember(sign);
    let grace = if condition(node, "Ready").is_some() { GRACE_SECS } else { STARTUP_SECS };
    let at = context.since(sign).plus_secs(grace);
    if at > context.now {
        plan.look_again(at);
    } else if let Some(conditions) = unknown(context.now, node) {
        plan.write(writes::status(&resource::NODES, &node.metadata, json!({"conditions": conditions})));
        return;
    }
    if let Some(taints) = taints(context, node) {
        let taints = if taints.is_empty() { Value::Null } else { json!(taints) };
        plan.write(writes::patch(&resource::NODES, &node.metadata, json!({"spec": {"taints": taints}})));
    }
    if condition(node, "Ready").is_some_and(|ready| ready.status != "True") {
        mark_pods_not_ready(context, plan);
    }
}

/// A number that changes whenever the node gives a sign of life.
fn last_heartbeat(world: &World, node: &Node) -> u64 {
    let lease = world.leases().get(&Key::new(LEASES, meta::name(&node.metadata)));
    let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref());
    let renewed = renewed.map_or(0, |at| at.0.as_microsecond());
    let posted = condition(node, "Ready").and_then(|ready| ready.last_heartbeat_time.as_ref());
    let posted = posted.map_or(0, |at| at.0.as_microsecond());
    renewed.cast_unsigned().rotate_left(17) ^ posted.cast_unsigned()
}

fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// The conditions of a node that has been silent for too long, if they do not say so already.
fn unknown(now: Timestamp, node: &Node) -> Option<Vec<NodeCondition>> {
    let old = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut new = old.clone();
    for kind in CONDITIONS {
        match new.iter_mut().find(|condition| condition.type_ == *kind) {
            Some(known) if known.status == "Unknown" => {}
            Some(known) => {
                known.status = "Unknown".to_owned();
                known.reason = Some("NodeStatusUnknown".to_owned());
                known.message = Some("Kubelet stopped posting node status.".to_owned());
                known.last_transition_time = Some(meta::wire_time(now));
            }
            None => new.push(NodeCondition {
                type_: (*kind).to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(meta::wire_time(now)),
            }),
        }
    }
    (new != old).then_some(new)
}

/// The taints that the node should have, if it has others.
fn taints(context: &Context<'_>, node: &Node) -> Option<Vec<Taint>> {
    let now = context.now;
    let old = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let mut wanted: Vec<(&str, &str)> = TAINTS
        .iter()
        .filter(|(kind, value, _)| condition(node, kind).is_some_and(|known| known.status == *value))
        .map(|(_, _, taint)| (*taint, "NoSchedule"))
        .collect();
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let silent =
        wanted.iter().map(|(taint, _)| *taint).find(|taint| [NOT_READY, UNREACHABLE].contains(taint));
    if let Some(taint) = silent.filter(|taint| may_evict(context, &old, taint)) {
        wanted.push((taint, "NoExecute"));
    }
    let ours = |taint: &Taint| {
        let known = TAINTS.iter().any(|(_, _, key)| *key == taint.key) || taint.key == UNSCHEDULABLE;
        let evicts = taint.effect == "NoExecute" && [NOT_READY, UNREACHABLE].contains(&taint.key.as_str());
        (known && taint.effect == "NoSchedule") || evicts
    };
    let is_wanted = |taint: &Taint| wanted.contains(&(taint.key.as_str(), taint.effect.as_str()));
    let mut new: Vec<Taint> = old.iter().filter(|taint| !ours(taint) || is_wanted(taint)).cloned().collect();
    for (key, effect) in wanted {
        if !new.iter().any(|taint| taint.key == key && taint.effect == effect) {
            new.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                value: None,
                time_added: Some(meta::wire_time(now)),
            });
        }
    }
    (new != old).then_some(new)
}

/// Whether pods may be driven from a node that is not ready. When no node at all is, the fault is ours, not the nodes'.
///
/// DEVIATION(node-eviction-rate): nodes are not divided into zones, and taints are not rationed to one in ten seconds.
fn may_evict(context: &Context<'_>, old: &[Taint], taint: &str) -> bool {
    old.iter().any(|known| known.key == taint && known.effect == "NoExecute")
        || context.world.nodes().all().any(|(_, node)| is_ready(node))
}

/// Whether a node says that it is ready.
pub(crate) fn is_ready(node: &Node) -> bool {
    condition(node, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Pods of a node that does not report count as not ready.
fn mark_pods_not_ready(context: &Context<'_>, plan: &mut Plan) {
    let bound = context.world.pod_index().on_node(&context.key.name);
    let ready = bound.filter_map(|key| context.world.pods().get(key)).filter(|pod| pods::is_ready(pod));
    for pod in ready.take(BURST_MAX) {
        if let Some(write) =
            pods::with_condition(context.now, pod, "Ready", "False", "NodeNotReady", "Node is not ready")
        {
            plan.write(write);
        }
    }
}
