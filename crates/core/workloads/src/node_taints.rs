//! Pods leave a node whose taints they do not tolerate, at once or when their patience ends.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::{lean::Node, meta, pods, prelude::*, tolerate::tolerates, writes};

const COMPONENT: &str = "taint-eviction-controller";

/// Evicts pods that do not tolerate a `NoExecute` taint of their node.
pub const RULES: Rules =
    Rules { name: "taint-eviction", needs: &[&resource::PODS, &resource::NODES], concerns, decide };

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    match (&change.old, &change.new) {
        (old, Some(Object::Pod(pod))) => {
            let was = old.as_ref().is_some_and(|old| matches!(old, Object::Pod(old) if same_place(old, pod)));
            let node = Key::new("", pods::node(pod));
            if !was && world.nodes().get(&node).is_some_and(|node| evicting(node).next().is_some()) {
                keys.push(Key::of(&pod.metadata));
            }
        }
        (old, Some(Object::Node(node))) => {
            let taints = |object: &Object| {
                let Object::Node(node) = object else { return Vec::<Taint>::new() };
                evicting(node).cloned().collect()
            };
            if old.as_ref().map(taints).unwrap_or_default() != evicting(node).cloned().collect::<Vec<_>>() {
                keys.extend(world.pod_index().on_node(meta::name(&node.metadata)).cloned());
            }
        }
        _ => {}
    }
}

fn same_place(old: &Pod, new: &Pod) -> bool {
    let tolerations = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.tolerations.clone());
    pods::node(old) == pods::node(new)
        && tolerations(old) == tolerations(new)
        && pods::condition(old, "DisruptionTarget") == pods::condition(new, "DisruptionTarget")
}

fn evicting(node: &Node) -> impl Iterator<Item = &Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute")
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(pod) = context.world.pods().get(context.key) else { return };
    if !pods::is_active(pod) {
        return;
    }
    // It has no node, or its node is gone.
    let Some(node) = context.world.nodes().get(&Key::new("", pods::node(pod))) else { return };
    if evicting(node).next().is_none() {
        return;
    }
    // Taints without a time count from when they were first seen here.
    plan.remember(0);
    let seen = context.since(0);
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let deadlines = evicting(node).map(|taint| deadline(taint, tolerations, seen));
    // It tolerates every taint forever.
    let Some(at) = deadlines.min().filter(|at| *at != Timestamp::NEVER) else { return };
    if at > context.now {
        plan.look_again(at);
        return;
    }
    let why = "Taint manager: deleting due to NoExecute taint";
    let said =
        pods::with_condition(context.now, pod, "DisruptionTarget", "True", "DeletionByTaintManager", why);
    if let Some(write) = said {
        plan.write(write);
        return;
    }
    let note = Note {
        resource: &resource::PODS,
        key: context.key.clone(),
        uid: meta::uid(&pod.metadata).to_owned(),
        kind: EventType::Normal,
        reason: "TaintManagerEviction",
        message: format!("Marking for deletion Pod {}", context.key),
        component: COMPONENT,
    };
    plan.write_and_tell(writes::delete(&resource::PODS, &pod.metadata), note);
}

/// When a pod with these tolerations must leave because of a taint. Of several that fit, the least patient counts.
fn deadline(taint: &Taint, tolerations: &[Toleration], seen: Timestamp) -> Timestamp {
    let since = taint.time_added.as_ref().map_or(seen, meta::timestamp);
    let fitting: Vec<&Toleration> =
        tolerations.iter().filter(|toleration| tolerates(toleration, taint)).collect();
    if fitting.is_empty() {
        return since;
    }
    let patience = fitting.iter().filter_map(|toleration| toleration.toleration_seconds).min();
    patience.map_or(Timestamp::NEVER, |secs| since.plus_secs(secs.max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_leave_when_their_patience_ends() {
        let taint: Taint = serde_json::from_value(
            json!({"key": "k", "value": "5", "effect": "NoExecute", "timeAdded": "1970-01-01T00:01:40Z"}),
        )
        .unwrap();
        let rows = [
            (json!([]), Some(100)),
            (json!([{"key": "other", "operator": "Exists"}]), Some(100)),
            (json!([{"operator": "Exists"}]), None),
            (json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]), Some(100)),
            (
                json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]),
                Some(130),
            ),
            (
                json!([{"key": "k", "value": "5", "tolerationSeconds": 30}, {"operator": "Exists", "tolerationSeconds": 7}]),
                Some(107),
            ),
            (json!([{"key": "k", "value": "6"}]), Some(100)),
            (json!([{"key": "k", "operator": "Gt", "value": "4"}]), Some(100)),
            (json!([{"operator": "Exists", "tolerationSeconds": -5}]), Some(100)),
        ];
        for (text, expected) in rows {
            let tolerations: Vec<Toleration> = serde_json::from_value(text.clone()).unwrap();
            let at = deadline(&taint, &tolerations, Timestamp::EPOCH);
            assert_eq!(at, expected.map_or(Timestamp::NEVER, Timestamp::from_secs), "{text}");
        }
    }
}
