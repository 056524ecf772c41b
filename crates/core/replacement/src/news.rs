//! News of the objects: they are stored, and the pods that they concern are evaluated when the machine next decides.

use alloc::sync::Arc;

use lazaret_fleet::{Changes, Fleet};
use lazaret_model::{ObjectKey, Text};

use crate::{
    flight::ReplacementTracker,
    input::{Input, ReadAccess, Source},
    machine::Replacement,
    objects::Pod,
    policy::Policy,
    tables::KnownPolicy,
};

impl Replacement {
    /// Takes note of an object. Decides nothing yet: more may follow at once.
    pub fn tell(&mut self, input: Input) {
        match input {
            Input::Policy(policy) => self.set_policy(policy),
            Input::PolicyGone(key) => {
                self.concern_namespace(&key.namespace);
                self.tables.policies.remove(&key);
                self.forget_tracker(&key);
            }
            Input::Pod(pod) => self.update_pod(pod),
            Input::PodGone(key) => {
                if let Some(pod) = self.tables.pods.get(&key).cloned() {
                    self.resume_flights_of(&pod);
                }
                self.tables.remove_pod(&key);
                self.concerned.insert(key);
            }
            Input::Node(node) => {
                if self.tables.nodes.get(&node.name) != Some(&node) {
                    self.concerned.extend(self.tables.pods_on(&node.name).cloned());
                    let labels = node.labels.clone();
                    let before = self.tables.nodes.insert(node.name.clone(), node);
                    // They may tell in which fault domain a replacement is.
                    self.may_start |= before.is_none_or(|before| before.labels != labels);
                }
            }
            Input::NodeGone(name) => {
                self.concerned.extend(self.tables.pods_on(&name).cloned());
                self.tables.nodes.remove(&name);
            }
            Input::ReplicaSet(set) => self.tables.set_replica_set(set),
            Input::ReplicaSetGone(key) => self.tables.remove_replica_set(&key),
            Input::Access(source, access) => self.set_access(source, access),
            Input::Guards(guards) => {
                self.guards.set(&guards);
                self.guarded.clear();
                self.may_start = true;
                self.trackers.values_mut().for_each(|tracker| tracker.dirty = true);
            }
        }
    }

    /// Takes note of what changed in the fleet.
    pub fn tell_devices(&mut self, fleet: &Fleet, changes: &Changes) {
        let of_claims = changes.claims.iter().flat_map(|claim| fleet.pods_of_claim(*claim));
        let pods = changes.pods.iter().copied().chain(of_claims);
        self.concerned.extend(pods.filter_map(|pod| Some(fleet.pod(pod)?.key.clone())));
    }

    fn set_policy(&mut self, policy: Arc<Policy>) {
        let key = policy.key.clone();
        let known = self.tables.policies.get(&key);
        if let Some(known) = known
            && known.policy.uid == policy.uid
            && is_older(&policy.version, &known.policy.version)
        {
            return;
        }
        let same = known.is_some_and(|known| {
            known.policy.uid == policy.uid
                && known.policy.spec == policy.spec
                && known.policy.deleting == policy.deleting
        });
        if known.is_none_or(|known| known.policy.uid != policy.uid) {
            self.forget_tracker(&key);
        }
        if !same {
            self.concern_namespace(&key.namespace);
        }
        if self.leading {
            let tracker = self
                .trackers
                .entry(key.clone())
                .or_insert_with(|| ReplacementTracker::resume(&policy.status));
            tracker.dirty = true;
        }
        for flight in self.flights.values_mut() {
            if flight.record.policy == key.name && flight.record.pod.namespace == key.namespace {
                flight.recorded &= policy.status.has_record(&flight.record);
            }
        }
        self.tables.policies.insert(key, KnownPolicy::new(policy));
    }

    /// A policy is gone: it counts no pod, and a status of it that waits to be taken is not written. Another of its name counts from nothing.
    fn forget_tracker(&mut self, policy: &ObjectKey) {
        let from = ObjectKey::new(policy.namespace.clone(), "");
        let watches = self.watches.range_mut(from..);
        for (_, watch) in watches.take_while(|(pod, _)| pod.namespace == policy.namespace) {
            watch.selected.retain(|one| one.policy != *policy);
        }
        let writing = self.trackers.remove(policy).and_then(|tracker| tracker.writing);
        if let Some((id, _)) = writing.filter(|(id, _)| self.effects.is_waiting(*id)) {
            self.effects.withdraw(id);
        }
    }

    fn update_pod(&mut self, pod: Arc<Pod>) {
        self.resume_flights_of(&pod);
        let key = pod.key.clone();
        self.tables.set_pod(pod);
        self.concerned.insert(key);
    }

    /// The watch shows the result of a step: its replacement need not wait any longer.
    fn resume_flights_of(&mut self, pod: &Pod) {
        let replaced = pod.mark.as_ref().map(|mark| &mark.record().uid);
        for uid in [Some(&pod.uid), replaced].into_iter().flatten() {
            if let Some(flight) = self.flights.get_mut(uid)
                && flight.failures == 0
            {
                flight.not_before = self.now;
            }
        }
    }

    fn set_access(&mut self, source: Source, access: ReadAccess) {
        let is_changed = match access {
            ReadAccess::Clear => self.barred.remove(&source).is_some(),
            ReadAccess::Barred(why) => self.barred.insert(source, why.clone()) != Some(why),
        };
        if !is_changed {
            return;
        }
        // A kind that can no longer be read may have changed: nothing is begun on old news.
        self.concerned.extend(self.tables.pods.keys().cloned());
        for tracker in self.trackers.values_mut() {
            tracker.dirty = true;
        }
    }

    fn concern_namespace(&mut self, namespace: &Text) {
        let Self { tables, concerned, .. } = self;
        concerned.extend(tables.pods_in(namespace).cloned());
    }
}

/// Versions are numbers since 1.35; what is none is never older.
pub(crate) fn is_older(version: &Text, than: &Text) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
    }
}
