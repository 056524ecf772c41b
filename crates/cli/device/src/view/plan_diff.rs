//! The difference between two plans of the same taint.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Plan, PlanPod};

/// A line for each difference: `+` is new, `-` is no more, `~` is other than before. Empty when the plans agree.
#[must_use]
pub fn diff(old: &Plan, new: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    let names = |plan: &Plan| -> BTreeSet<String> {
        plan.devices.iter().map(|device| format!("device {}", device.name)).collect()
    };
    let claims = |plan: &Plan| -> BTreeSet<String> {
        plan.claims.iter().map(|claim| format!("claim {claim}")).collect()
    };
    sets(&names(old), &names(new), &mut lines);
    sets(&claims(old), &claims(new), &mut lines);
    let (before, after) = (fates(old), fates(new));
    for (pod, fate) in &after {
        match before.get(pod) {
            None => lines.push(format!("+ pod {pod} {fate}")),
            Some(was) if was != fate => lines.push(format!("~ pod {pod} {fate}, it was: {was}")),
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|(pod, _)| !after.contains_key(*pod));
    lines.extend(gone.map(|(pod, fate)| format!("- pod {pod} {fate}")));
    lines
}

fn sets(old: &BTreeSet<String>, new: &BTreeSet<String>, lines: &mut Vec<String>) {
    lines.extend(new.difference(old).map(|name| format!("+ {name}")));
    lines.extend(old.difference(new).map(|name| format!("- {name}")));
}

/// By pod and incarnation. Deadlines are left out: they move with the time of asking.
fn fates(plan: &Plan) -> BTreeMap<String, String> {
    let key = |pod: &PlanPod| format!("{}/{} ({})", pod.namespace, pod.name, pod.uid);
    let fate = |pod: &PlanPod| match pod.toleration_seconds {
        Some(0) if plan.evicts() => "evicted at once".to_owned(),
        Some(seconds) if plan.evicts() => format!("evicted after {seconds}s"),
        Some(_) | None => "stays".to_owned(),
    };
    let all = plan.pods.iter().chain(&plan.tolerating);
    all.map(|pod| (key(pod), fate(pod))).collect()
}
