//! Which pod takes an old one's place, and whether it is taken.

use alloc::{sync::Arc, vec::Vec};
use core::cmp::Reverse;

use lazaret_model::{ObjectKey, Timestamp, Uid};

use crate::{flight::Flight, input::Source, machine::Replacement, objects::Pod, record::Mark};

/// How long the owner of a pod may take to start another, where no policy says.
const READY_SECS: i64 = 600;

impl Replacement {
    /// Whether the old pod's place is taken. A replica set's pods are alike, so they are counted: as many serve as it
    /// wants, but for those that younger replacements wait for and those that were broken before.
    pub(crate) fn is_served(&self, flight: &Flight, bound: Option<&Pod>) -> bool {
        let Some(owner) = flight.record.plan.owner() else { return bound.is_some_and(Pod::serves) };
        let Some(set) = self.tables.replica_sets.get(&owner.uid) else {
            return bound.is_some_and(Pod::serves) || self.owner_is_gone(flight);
        };
        let serving = self.tables.serving_of(&owner.uid);
        let rank = |flight: &Flight| (flight.record.started, flight.record.uid.clone());
        // A new pod is the oldest replacement's; only younger ones may still wait for theirs.
        let younger = self.flights.values().filter(|other| {
            rank(other) > rank(flight)
                && !other.relieved
                && other.record.plan.owner().is_some_and(|other| other.uid == owner.uid)
                && self.has_released_pod(other, &owner.uid)
        });
        let mut younger: Vec<&Flight> = younger.collect();
        younger.sort_unstable_by_key(|other| Reverse(rank(other)));
        let is_enough = |waiting: usize, flight: &Flight| {
            serving + waiting + flight.record.lacking as usize >= set.replicas as usize
        };
        // One that lacked more when it began may have its pod, and waits for none.
        let waiting =
            younger.into_iter().fold(0, |waiting, other| waiting + usize::from(!is_enough(waiting, other)));
        is_enough(waiting, flight)
    }

    /// Whether a due taint still asks for it.
    pub(crate) fn is_wanted(&self, flight: &Flight) -> bool {
        let record = &flight.record;
        let watch = self.watches.get(&record.pod).filter(|watch| watch.uid == record.uid);
        watch.and_then(|watch| watch.due_at_for(&record.policy)).is_some_and(|after| after <= self.now)
    }

    /// The pod that takes the old one's place.
    pub(crate) fn bind(&self, flight: &Flight) -> Option<Arc<Pod>> {
        let record = &flight.record;
        let Some(owner) = record.plan.owner() else {
            let key = ObjectKey::new(record.pod.namespace.clone(), record.plan.copy()?.clone());
            let copy = self.tables.pods.get(&key).filter(|pod| !pod.deleting)?;
            let ours = matches!(&copy.mark, Some(Mark::Copy(mark)) if mark.uid == record.uid);
            return ours.then(|| copy.clone());
        };
        if !self.has_released_pod(flight, &owner.uid) {
            return None;
        }
        let usable = |pod: &Pod| !pod.deleting && (!pod.finished || pod.succeeded) && pod.uid != record.uid;
        if owner.kind == "StatefulSet" {
            // It gives the old name to the new pod.
            return self.tables.pods.get(&record.pod).filter(|pod| usable(pod)).cloned();
        }
        if let Some((key, uid)) = &flight.bound
            && let Some(pod) =
                self.tables.pod(key, uid).filter(|pod| usable(pod) && pod.is_owned_by(&owner.uid))
        {
            return Some(pod.clone());
        }
        let taken = |pod: &Pod| {
            let others = self.flights.values().filter(|other| other.record.uid != record.uid);
            self.successors.contains(&pod.uid)
                || others.filter_map(|other| other.bound.as_ref()).any(|(_, uid)| *uid == pod.uid)
        };
        let is_new = |pod: &Pod| match &flight.before {
            Some(before) => !before.contains(&pod.uid),
            // The API keeps whole seconds.
            None => pod.created >= record.started.truncated_to_secs(),
        };
        let pods = self.tables.pods_of(&owner.uid);
        let new = pods.filter(|pod| usable(pod) && is_new(pod) && !taken(pod));
        new.min_by_key(|pod| (!pod.serves(), pod.created, pod.key.clone())).cloned()
    }

    /// Whether the owner has reason to start another.
    fn has_released_pod(&self, flight: &Flight, owner: &Uid) -> bool {
        let record = &flight.record;
        self.tables.pod(&record.pod, &record.uid).is_none_or(|old| old.deleting || !old.is_owned_by(owner))
    }

    /// Whether no object mentions it: its policy is gone, and so is the pod that was replaced. Nothing is left to be done, and the next leader
    /// would not know of it.
    pub(crate) fn is_unmentioned(&self, flight: &Flight, bound: Option<&Pod>) -> bool {
        let record = &flight.record;
        let old = self.tables.pod(&record.pod, &record.uid);
        !self.tables.policies.contains_key(&flight.policy())
            && old.is_none_or(|old| old.deleting || old.finished)
            && bound.is_none_or(|bound| !bound.gated)
    }

    /// Only of replica sets is it known.
    pub(crate) fn owner_is_gone(&self, flight: &Flight) -> bool {
        flight.record.plan.owner().is_some_and(|owner| {
            owner.kind == "ReplicaSet"
                && owner.group == "apps"
                && !self.barred.contains_key(&Source::ReplicaSets)
                && !self.tables.replica_sets.contains_key(&owner.uid)
        })
    }

    /// When a replacement should be Ready; after that, when a pod is given up that is not started again.
    pub(crate) fn deadline_of(&self, flight: &Flight) -> Option<Timestamp> {
        let since = if flight.overdue { flight.alone_since? } else { flight.record.started };
        Some(since.plus_secs(self.ready_secs(flight)?))
    }

    pub(crate) fn has_timed_out(&self, flight: &Flight) -> bool {
        let patience = self.ready_secs(flight).unwrap_or(READY_SECS);
        flight.alone_since.is_some_and(|since| since.plus_secs(patience) <= self.now)
    }

    fn ready_secs(&self, flight: &Flight) -> Option<i64> {
        Some(self.tables.policies.get(&flight.policy())?.policy.spec.as_ref().ok()?.ready_secs)
    }
}
