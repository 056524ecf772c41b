//! Groups are whole: where a rule wants that, all pods of a group that have to leave are evicted at once, or none.

use lazaret_eviction::{Evict, Manner, Outcome};
use lazaret_model::{GroupMode, ObjectKey, Pod, Text, Uid};

use crate::{
    check::{Attempt, decide::rule_of, protection::is_overdue},
    coverage::Mark,
    reference::{self, Cause},
    world::World,
};

/// The key that pods which leave together share.
fn group_of(pod: &Pod) -> Option<(&Text, &str, &Text)> {
    let namespace = &pod.key.namespace;
    let label = pod.eviction_group.as_ref().map(|group| (namespace, "label", group));
    label.or_else(|| pod.group.as_ref().map(|group| (namespace, "group", group)))
}

/// Whether a cause wants groups of pods to leave together.
pub(super) fn is_together(cause: &Cause<'_>) -> bool {
    cause.taint.eviction.as_ref().is_some_and(|spec| spec.groups == GroupMode::Together)
}

/// Pods that a controller decided to evict in one step.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    controller: usize,
    life: u64,
    term: u64,
    /// When that was decided, in ms.
    since: u64,
    /// How long it takes to send as many requests.
    takes: u64,
    pods: Vec<(ObjectKey, Uid)>,
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
        let is_late = due.iter().any(|cause| is_overdue(&pod, cause, now));
        if evict.manner == Manner::DeleteOverdue || is_late || due.len() != 1 || !is_together(due[0]) {
            return;
        }
        let Some(rule) = rule_of(due[0].source) else { return };
        let (mut members, mut pods) = (Vec::new(), vec![(pod.key.clone(), pod.uid.clone())]);
        let mut early = None;
        for other in seen.pods().filter(|other| other.uid != pod.uid && group_of(other) == Some(group)) {
            let causes = reference::causes(seen, other);
            let Some(cause) = causes.iter().find(|cause| rule_of(cause.source) == Some(rule)) else {
                continue;
            };
            if self.checker.heard_gone.contains(&(number, life, other.uid.clone())) {
                continue;
            }
            // A pod that leaves already because of another rule blocks no other.
            let attempt = self.checker.attempts.get(&(number, life, other.uid.clone()));
            if cause.deadline > now && !matches!(attempt, Some(Attempt::UnderWay(_))) {
                early = Some(format!("{} goes, and {} need not yet", evict.pod, other.key));
            }
            members.push((number, life, other.uid.clone()));
            pods.push((other.key.clone(), other.uid.clone()));
        }
        if !members.is_empty() {
            self.coverage.hit(Mark::GroupLeft);
        }
        if !members.is_empty() {
            let term = self.controllers[number].term();
            let takes = (u64::from(self.config.latency_ms) * 3 / 2 + 2) * self.controllers[number].rounds();
            let leaving = Leaving { controller: number, life, term, since: self.now, takes, pods };
            self.checker.leaving.push(leaving);
        }
        self.checker.parties.extend(members);
        if let Some(detail) = early {
            self.violate("groups are whole", detail);
        }
    }

    /// Each pod that had to leave with others of its group was evicted.
    pub(super) fn check_parties(&mut self) {
        for key in core::mem::take(&mut self.checker.parties) {
            if !self.checker.attempts.contains_key(&key) {
                let detail = format!("{} is left behind by controller {}", key.2, key.0);
                return self.violate("groups are whole", detail);
            }
        }
    }

    /// No pod of a group that leaves stays for longer than it takes to send as many requests, unless something came in between: the controller ended,
    /// lost its lease or was stopped, requests failed, or a budget refused one of them.
    pub(super) fn check_leaving(&mut self) {
        let is_due = |leaving: &Leaving| self.now > leaving.since + leaving.takes;
        let Some(due) = self.checker.leaving.iter().position(is_due) else { return };
        let leaving = self.checker.leaving.remove(due);
        let controller = &self.controllers[leaving.controller];
        let is_disturbed = (self.resting && leaving.since < u64::from(self.config.horizon_ms))
            || controller.life != leaving.life
            || controller.term() != leaving.term
            || !controller.holds(self.now)
            || controller.was_frozen_since(leaving.since)
            || controller.was_paused_since(leaving.since)
            || self.errors.is_some_and(|errors| errors.until > leaving.since)
            || leaving.pods.iter().any(|(key, _)| self.has_budget(&key.namespace));
        if is_disturbed {
            return;
        }
        let is_there = |(key, uid): &&(ObjectKey, Uid)| {
            let stored = self.api.pods.get(key).filter(|stored| stored.object.uid == *uid);
            let attempt = self.checker.attempts.get(&(leaving.controller, leaving.life, uid.clone()));
            // One that failed before is tried again later.
            let is_sent = matches!(attempt, Some(Attempt::UnderWay(_) | Attempt::Over(Outcome::Done)));
            is_sent && stored.is_some_and(|stored| stored.object.deleting_since.is_none())
        };
        self.coverage.hit(Mark::GroupGone);
        if let Some((key, _)) = leaving.pods.iter().find(is_there) {
            let detail = format!("{key} is there {} ms after its group was to leave", leaving.takes);
            self.violate("groups are gone at once", detail);
        }
    }
}
