//! One pod on each node that should have one, none on the others.

use k8s_openapi::api::core::v1::Pod;

use super::{BURST_MAX, Daemons, delete, note, pod};
use crate::{meta, pods, prelude::*};

// DEVIATION(failed-daemons): by the pod's age and not by a count of failures, which a restart would forget.
/// A pod that fails is replaced at once if it is older than this, and otherwise when it is: one that fails at once is not made anew without end.
const FAILED_AGE_SECS: i64 = 60;

pub(super) fn manage(daemons: &Daemons<'_>, plan: &mut Plan) {
    let (mut missing, mut surplus) = (Vec::new(), Vec::new());
    for (name, node) in &daemons.nodes {
        let admitted = daemons.admission.ask(node);
        match daemons.pods.get(*name) {
            None if admitted.runs => missing.push(*name),
            None => {}
            Some(here) if admitted.stays => {
                let active = active(daemons, name, here, &mut surplus, plan);
                if daemons.surges() {
                    if active.is_empty() && admitted.runs {
                        missing.push(*name);
                    }
                    surplus.extend(beyond_pair(daemons, &active));
                } else {
                    surplus.extend(active.into_iter().skip(1));
                }
            }
            Some(here) => surplus.extend(here.iter().filter(|pod| !meta::is_leaving(&pod.metadata))),
        }
    }
    // Pods for nodes that have gone are never bound. Bound ones are collected as garbage.
    let homeless = daemons.pods.iter().filter(|(node, _)| !daemons.nodes.contains_key(node.as_str()));
    surplus.extend(
        homeless
            .flat_map(|(_, pods)| pods)
            .filter(|pod| pods::node(pod).is_empty() && !meta::is_leaving(&pod.metadata)),
    );
    for (number, node) in missing.into_iter().take(BURST_MAX).enumerate() {
        pod::create(daemons, node, number, plan);
    }
    surplus.into_iter().take(BURST_MAX).for_each(|pod| delete(daemons.set, pod, plan));
}

/// The pods of a node that are neither leaving nor finished. Finished ones are deleted, which makes room for another.
fn active<'a>(
    daemons: &Daemons<'_>,
    node: &str,
    here: &'a [Arc<Pod>],
    surplus: &mut Vec<&'a Arc<Pod>>,
    plan: &mut Plan,
) -> Vec<&'a Arc<Pod>> {
    let mut active = Vec::new();
    for pod in here.iter().filter(|pod| !meta::is_leaving(&pod.metadata)) {
        let key = Key::of(&pod.metadata);
        let told = match pods::phase(pod) {
            "Failed" => {
                let at = meta::created(&pod.metadata).plus_secs(FAILED_AGE_SECS);
                if at > daemons.now {
                    plan.look_again(at);
                    continue;
                }
                let why = format!("Found failed daemon pod {key} on node {node}, will try to kill it");
                Note { kind: EventType::Warning, ..note(daemons.set, "FailedDaemonPod", why) }
            }
            "Succeeded" => {
                let why = format!("Found succeeded daemon pod {key} on node {node}, will try to delete it");
                note(daemons.set, "SucceededDaemonPod", why)
            }
            _ => {
                active.push(pod);
                continue;
            }
        };
        plan.write(Write::Event(told));
        surplus.push(pod);
    }
    active
}

/// In an update that begins with the new pod a node has two pods while the new one is not available and the old one is ready. All others go.
fn beyond_pair<'a>(daemons: &Daemons<'_>, active: &[&'a Arc<Pod>]) -> Vec<&'a Arc<Pod>> {
    if active.len() < 2 {
        return Vec::new();
    }
    let (new, old): (Vec<_>, Vec<_>) =
        active.iter().partition(|pod| super::revision_of(pod) == daemons.revision);
    let mut surplus: Vec<&Arc<Pod>> = new.iter().skip(1).chain(old.iter().skip(1)).copied().collect();
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!pods::is_ready(old) || daemons.is_available(new))
    {
        surplus.push(old);
    }
    surplus
}
