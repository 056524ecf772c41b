//! A drain and the cluster: which pods it sees, and which rules it would make.

use std::collections::BTreeSet;

use lazaret_eviction::{Patience, blocked_condition, patience, waits_in};
use lazaret_model::{DeviceId, Effect, Pod, PodPhase, Taint, Timestamp};

use super::{
    super::{
        change::selector_of,
        cluster::Cluster,
        forecast::Planned,
        plan::planned_rule,
        rule::{DRAIN_KEY, rule_name},
    },
    Drain, Manner, Order, PodSeen,
};

/// The rules that a drain would make, each when it would make pods leave: by the machine that drains.
#[must_use]
pub fn planned_drain(
    cluster: &Cluster,
    devices: &[DeviceId],
    manner: Manner,
    now: Timestamp,
    evictions_per_second: Option<i64>,
) -> Vec<Planned> {
    let mut drain = Drain::new(devices.len(), manner, now);
    drain.observe(now, &pods_seen(cluster, devices));
    let taint = drain_taint(Effect::NoExecute, evictions_per_second);
    let mut planned = Vec::new();
    let mut at = now;
    loop {
        while let Some(order) = drain.poll_order(at) {
            if let Order::Empty(place) = order {
                let selector = selector_of(&devices[place]);
                let name = rule_name(&selector, DRAIN_KEY, None);
                planned.push(planned_rule(&selector, name, &taint, at));
            }
        }
        match drain.wake_at() {
            Some(next) => at = next.max(at),
            None => return planned,
        }
    }
}

/// The taint of a drain.
#[must_use]
pub fn drain_taint(effect: Effect, evictions_per_second: Option<i64>) -> Taint {
    Taint { key: DRAIN_KEY.into(), effect, evictions_per_second, ..Taint::default() }
}

/// All pods with devices, and which of `devices` each uses.
#[must_use]
pub fn pods_seen(cluster: &Cluster, devices: &[DeviceId]) -> Vec<PodSeen> {
    let fleet = &cluster.fleet;
    let taint = drain_taint(Effect::NoExecute, None);
    let mut pods: Vec<PodSeen> = Vec::new();
    for (ix, pod) in fleet.pods() {
        let finished = pod.phase.is_finished();
        let (mut used, mut stays) = (Vec::new(), true);
        for held in fleet.claims_of_pod(ix).flat_map(|claim| fleet.held(claim)) {
            let Some(at) = devices.iter().position(|device| device == held.device) else { continue };
            used.push(at);
            stays &= patience(&taint, &held.result_ref.tolerations) == Patience::Forever;
        }
        used.sort_unstable();
        used.dedup();
        pods.push(PodSeen {
            key: pod.key.clone(),
            uid: pod.uid.clone(),
            owner: pod.owner.as_ref().map(|owner| owner.uid.clone()),
            node: pod.node.as_ref().map(ToString::to_string),
            runs: pod.phase == PodPhase::Running,
            pending: (pod.phase == PodPhase::Pending).then(|| scheduler_message(pod)),
            ends: pod.deleting_since.is_some(),
            stays,
            devices: if finished { Vec::new() } else { used },
        });
    }
    pods
}

/// The message of the scheduler about a pod that it could not place.
fn scheduler_message(pod: &Pod) -> String {
    let scheduled = pod.conditions.iter().find(|condition| condition.kind == "PodScheduled");
    scheduled.map_or_else(String::new, |condition| condition.message.to_string())
}

/// The waits of pods on these devices, a line for each, by the conditions of the rules that drain them.
#[must_use]
pub fn waits_of_drain(cluster: &Cluster, devices: &[DeviceId]) -> BTreeSet<String> {
    let rules = devices.iter().filter_map(|device| {
        cluster.fleet.rule(&rule_name(&selector_of(device), DRAIN_KEY, None)).map(|view| view.rule)
    });
    let conditions = rules.filter_map(|rule| blocked_condition(rule));
    conditions.flat_map(|condition| waits_in(&condition.message)).map(|wait| wait.line()).collect()
}
