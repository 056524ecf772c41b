//! One pod on each node that should have one, none on the others.

use super::{BURST_MAX, Daemons, delete, note, pod};
use crate::{meta, pods, prelude::*};

/// The pause before the second failure in a row on a node is made good, from when that pod was made; it doubles with each. The first is made good
/// at once.
const PAUSE_SECS_MIN: i64 = 1;
/// The longest pause.
const PAUSE_SECS_MAX: i64 = 900;
/// Failures of a node that are this far apart are not in a row.
const FORGOTTEN_SECS: i64 = 2 * PAUSE_SECS_MAX;

pub(super) fn manage(daemons: &Daemons<'_>, plan: &mut Plan) {
    let (mut missing, mut surplus) = (Vec::new(), Vec::new());
    for (name, node) in &daemons.nodes {
        let admitted = daemons.admission.ask(node);
        match daemons.pods.get(*name) {
            None if admitted.runs => missing.push((*name, 0)),
            None => {}
            Some(here) if admitted.stays => {
                let here = NodePods::of(daemons, name, here, &mut surplus, plan);
                let replaces = here.failures.is_some() || (daemons.surges() && !here.pauses);
                if replaces && here.active.is_empty() && admitted.runs {
                    missing.push((*name, here.failures.unwrap_or(0)));
                }
                if daemons.surges() {
                    surplus.extend(beyond_pair(daemons, &here.active));
                } else {
                    surplus.extend(here.active.into_iter().skip(1));
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
    for (number, (node, failures)) in missing.into_iter().take(BURST_MAX).enumerate() {
        pod::create(daemons, node, number, failures, plan);
    }
    surplus.into_iter().take(BURST_MAX).for_each(|pod| delete(daemons.set, pod, plan));
}

/// A node's pods that are not leaving.
#[derive(Default)]
struct NodePods<'a> {
    /// Those that have not finished. Finished ones are deleted, which makes room for another.
    active: Vec<&'a Arc<Pod>>,
    /// How many failed in a row, if one that failed is deleted now.
    failures: Option<u32>,
    /// Whether one that failed is left for now, lest pods that fail at once are made anew without end.
    pauses: bool,
}

impl<'a> NodePods<'a> {
    fn of(
        daemons: &Daemons<'_>,
        node: &str,
        pods: &'a [Arc<Pod>],
        surplus: &mut Vec<&'a Arc<Pod>>,
        plan: &mut Plan,
    ) -> Self {
        let mut here = Self::default();
        for pod in pods.iter().filter(|pod| !meta::is_leaving(&pod.metadata)) {
            let key = Key::of(&pod.metadata);
            let event = match pods::phase(pod) {
                "Failed" => {
                    let (failures, at) = next_attempt(daemons.now, pod);
                    if at > daemons.now {
                        plan.look_again(at);
                        here.pauses = true;
                        continue;
                    }
                    here.failures = here.failures.max(Some(failures));
                    let why = format!("Found failed daemon pod {key} on node {node}, will try to kill it");
                    Note { kind: EventType::Warning, ..note(daemons.set, "FailedDaemonPod", why) }
                }
                "Succeeded" => {
                    let why =
                        format!("Found succeeded daemon pod {key} on node {node}, will try to delete it");
                    note(daemons.set, "SucceededDaemonPod", why)
                }
                _ => {
                    here.active.push(pod);
                    continue;
                }
            };
            plan.write(Write::Event(event));
            surplus.push(pod);
        }
        here
    }
}

/// How many pods have failed in a row with this one, and when it may be replaced.
fn next_attempt(now: Timestamp, pod: &Pod) -> (u32, Timestamp) {
    let made = meta::created(&pod.metadata);
    let before = if made.plus_secs(FORGOTTEN_SECS) < now { 0 } else { pod::failures_before(pod) };
    let pause = match before.checked_sub(1) {
        None => 0,
        Some(doublings) => (PAUSE_SECS_MIN << doublings.min(10)).min(PAUSE_SECS_MAX),
    };
    (before.saturating_add(1), made.plus_secs(pause))
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
