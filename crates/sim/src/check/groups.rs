//! Groups are whole: where a rule wants that, all pods of a group that have to leave are evicted at once, or none.

use lazaret_eviction::{Evict, Manner};
use lazaret_model::{GroupMode, Pod, Text};

use crate::{
    check::decide::rule_of,
    coverage::Mark,
    reference::{self, Cause},
    world::World,
};

/// What pods have in common that leave together.
fn group_of(pod: &Pod) -> Option<(&Text, &str, &Text)> {
    let namespace = &pod.key.namespace;
    let label = pod.eviction_group.as_ref().map(|group| (namespace, "label", group));
    label.or_else(|| pod.group.as_ref().map(|group| (namespace, "group", group)))
}

/// Whether a cause wants groups of pods to leave together.
pub(super) fn is_together(cause: &Cause<'_>) -> bool {
    cause.taint.eviction.as_ref().is_some_and(|spec| spec.groups == GroupMode::Together)
}

impl World {
    /// A pod goes because of rules that want groups to be whole: the others of its group have to go in the same step, and may.
    pub(super) fn check_group(&mut self, number: usize, evict: &Evict) {
        let now = self.controllers[number].clock(self.now);
        let life = self.controllers[number].life;
        let seen = self.seen(number);
        let Some(pod) = seen.pod(&evict.pod).filter(|pod| pod.uid == evict.uid) else { return };
        let causes = reference::causes(seen, pod);
        let due: Vec<&Cause<'_>> = causes.iter().filter(|cause| cause.deadline <= now).collect();
        let Some(group) = group_of(&pod) else { return };
        // One whose time is over waits for nobody, and one that has another reason to leave need not.
        if evict.manner == Manner::DeleteOverdue || due.len() != 1 || !is_together(due[0]) {
            return;
        }
        let Some(rule) = rule_of(due[0].source) else { return };
        let mut members = Vec::new();
        let mut early = None;
        for other in seen.pods().filter(|other| other.uid != pod.uid && group_of(other) == Some(group)) {
            let causes = reference::causes(seen, other);
            let Some(cause) = causes.iter().find(|cause| rule_of(cause.source) == Some(rule)) else {
                continue;
            };
            if self.checker.heard_gone.contains(&(number, life, other.uid.clone())) {
                continue;
            }
            if cause.deadline > now {
                early = Some(format!("{} goes, and {} need not yet", evict.pod, other.key));
            }
            members.push((number, life, other.uid.clone()));
        }
        if !members.is_empty() {
            self.coverage.hit(Mark::GroupLeft);
        }
        self.checker.parties.extend(members);
        if let Some(detail) = early {
            self.violate("groups are whole", detail);
        }
    }

    /// Whoever had to go with others of its group was evicted.
    pub(super) fn check_parties(&mut self) {
        for key in core::mem::take(&mut self.checker.parties) {
            if !self.checker.attempts.contains_key(&key) {
                let detail = format!("{} is left behind by controller {}", key.2, key.0);
                return self.violate("groups are whole", detail);
            }
        }
    }
}
