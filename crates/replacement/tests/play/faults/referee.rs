//! The invariants, checked against the true state and not against the machine's inputs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_model::{ObjectKey, Text};
use lazaret_replacement::{EffectKind, Mark, Plan, Pod, Spec, TaintOption};

use super::world::{Disturbed, LATE_MS_MAX, Place, Stay, World};
use crate::{
    api::{holds, key},
    perform::disturbs,
};

/// How old the news may be that a decision rests on: late, and then time leaps.
const OLD_NEWS_MS: i64 = LATE_MS_MAX + 31_000;

impl World {
    /// The pod that is about to be disturbed or deleted, if it was not before.
    pub(super) fn before(&self, effect: &EffectKind) -> Option<Pod> {
        if let EffectKind::Delete { pod, uid } = effect {
            let live = self.api.pods.get(pod).filter(|live| live.pod.uid == *uid && !live.pod.deleting)?;
            return Some(live.pod.clone());
        }
        let (key, uid) = disturbs(effect)?;
        let live = self.api.pods.get(&key).filter(|live| live.pod.uid == uid && !live.pod.deleting)?;
        (!self.disturbed.contains_key(&uid)).then(|| live.pod.clone())
    }

    /// A pod was disturbed: was it time, was there a reason, was there a slot?
    pub(super) fn check(&mut self, effect: &EffectKind, pod: Option<Pod>) {
        let Some(pod) = pod else { return };
        if let EffectKind::Delete { .. } = effect {
            return self.check_delete(&pod);
        }
        let specs = self.specs();
        let ripe = self.is_ripe_for_any(&pod);
        assert!(ripe, "{:?}: {} replaced early or for a taint that went", self.now, pod.key);
        self.replaced += 1;
        let policies: BTreeSet<ObjectKey> = specs.iter().map(|(key, _)| key.clone()).collect();
        self.disturbed.insert(pod.uid.clone(), Disturbed { pod, policies });
        self.settle();
        for (policy, spec) in &specs {
            let mut counts: BTreeMap<Text, u32> = BTreeMap::new();
            for disturbed in self.disturbed.values().filter(|disturbed| disturbed.policies.contains(policy)) {
                let node = disturbed.pod.node.as_ref().unwrap();
                let zone = spec.fault_domain_key.as_ref().map(|key| self.api.nodes[node].labels[key].clone());
                *counts.entry(zone.unwrap_or_default()).or_default() += 1;
            }
            for (zone, count) in counts {
                let limit = spec.max_concurrent;
                assert!(
                    count <= limit,
                    "{:?}: {count} under way in {zone:?}, {policy} permits {limit}",
                    self.now
                );
            }
        }
    }

    /// Whether some taint has been around a pod for long enough, for some policy, and not gone for longer than news may take.
    fn is_ripe_for_any(&self, pod: &Pod) -> bool {
        self.specs().iter().any(|(_, spec)| self.stays.iter().any(|stay| self.is_ripe(spec, stay, pod)))
    }

    fn is_ripe(&self, spec: &Spec, stay: &Stay, pod: &Pod) -> bool {
        let Some(option) = minded(spec, stay, pod) else { return false };
        // An undated taint that went and came back between two lists looks as if it had stayed.
        let mut from = stay.from;
        for earlier in self
            .stays
            .iter()
            .rev()
            .filter(|s| !s.dated && !stay.dated && s.place == stay.place && s.key == stay.key)
        {
            if earlier.to.is_some_and(|to| to <= from && from.millis_since(to) <= LATE_MS_MAX) {
                from = earlier.from;
            }
        }
        let since = from.max(pod.created);
        let fresh = stay.to.is_none_or(|to| self.now.millis_since(to) <= OLD_NEWS_MS);
        fresh && since.plus_secs(option.secs + spec.replacement_secs) <= self.now
    }

    fn specs(&self) -> Vec<(ObjectKey, Arc<Spec>)> {
        let policies = self.api.policies.values();
        policies.map(|policy| (policy.key.clone(), policy.spec.as_ref().unwrap().clone())).collect()
    }

    /// A replacement is decided when its record is first to be written: was it time, and did every breaker let it?
    pub(super) fn check_records(&mut self, effect: &EffectKind) {
        let EffectKind::SetStatus { status, .. } = effect else { return };
        for record in status.replacements.iter().map(|entry| &entry.record) {
            if !self.recorded.insert(record.uid.clone()) {
                continue;
            }
            if let Some(live) = self.api.pods.get(&record.pod).filter(|live| live.pod.uid == record.uid) {
                let ripe = self.is_ripe_for_any(&live.pod);
                assert!(ripe, "{:?}: {} decided early or for a taint that went", self.now, record.pod);
            }
            for policy in &record.counted_by {
                let since = self.passable[&key(policy)];
                assert!(
                    self.now.millis_since(since) <= OLD_NEWS_MS,
                    "{:?}: {} decided, the breaker of {policy} has held since {since:?}",
                    self.now,
                    record.pod
                );
            }
        }
    }

    /// Takes note of whose breaker lets new ones through.
    pub(super) fn watch_breakers(&mut self) {
        for (policy, spec) in self.specs() {
            let (mut all, mut tainted) = (BTreeSet::new(), BTreeSet::new());
            for pod in self.api.pods.values().map(|live| &live.pod).filter(|pod| !pod.deleting) {
                let Some(node) = &pod.node else { continue };
                let zone = spec.fault_domain_key.as_ref().map(|key| &self.api.nodes[node].labels[key]);
                let domain = zone.unwrap_or(node);
                all.insert(domain.clone());
                let open = self.stays.iter().filter(|stay| stay.to.is_none());
                if open.filter_map(|stay| minded(&spec, stay, pod)).next().is_some() {
                    tainted.insert(domain.clone());
                }
            }
            let holds = spec.max_domains_tainted.is_some_and(|share| tainted.len() > share.of(all.len()));
            let passable = self.passable.entry(policy).or_insert(self.now);
            if !holds {
                *passable = self.now;
            }
        }
    }

    /// A pod whose place is taken goes: is its place taken?
    fn check_delete(&self, old: &Pod) {
        let Some(Mark::Released(record)) = &old.mark else { return };
        let Plan::Release { owner, .. } = &record.plan else { return };
        let serving = self.api.owned(&owner.uid).filter(|pod| pod.ready && !pod.deleting).count();
        let missing = self
            .disturbed
            .values()
            .filter(|other| {
                other.pod.uid != old.uid && other.pod.owner.as_ref().is_some_and(|o| o.uid == owner.uid)
            })
            .count();
        let wanted = self.api.sets.iter().find(|set| set.uid == owner.uid).unwrap().replicas as usize;
        assert!(
            serving + missing >= wanted,
            "{:?}: {} deleted, {serving} of {wanted} serve",
            self.now,
            old.key
        );
    }

    /// Forgets who was made up for.
    pub(super) fn settle(&mut self) {
        let api = &self.api;
        self.disturbed.retain(|uid, disturbed| {
            let pod = &disturbed.pod;
            let old = api.pods.get(&pod.key).filter(|live| live.pod.uid == *uid);
            let leaving = old.is_none_or(|live| live.pod.deleting);
            let done = match &pod.owner {
                // The machine deletes it only when its place is taken; a restart may evict instead.
                Some(owner) if owner.kind == "ReplicaSet" => {
                    let set = api.sets.iter().find(|set| set.uid == owner.uid).unwrap();
                    api.owned(&owner.uid).filter(|pod| pod.ready && !pod.deleting).count()
                        >= set.replicas as usize
                        || old.is_some_and(|live| live.pod.mark.is_some())
                        || old.is_none()
                }
                Some(_) => api.pods.get(&pod.key).is_some_and(|live| live.pod.uid != *uid && live.pod.ready),
                None => api.pods.values().any(|live| {
                    live.pod.ready && matches!(&live.pod.mark, Some(Mark::Copy(record)) if record.uid == *uid)
                }),
            };
            !(leaving && done)
        });
    }

    /// Whether there is nothing left to do.
    pub(super) fn check_rest(&self) {
        for live in self.api.pods.values() {
            let pod = &live.pod;
            assert!(
                !matches!(pod.mark, Some(Mark::Released(_))),
                "{} was released and never deleted",
                pod.key
            );
            assert!(!pod.gated, "{} was never let start", pod.key);
            let node = pod.node.as_ref().unwrap_or_else(|| panic!("{} was never scheduled", pod.key));
            assert!(self.api.nodes[node].taints.is_empty(), "{} sits on tainted {node}", pod.key);
            let sound = !holds(pod) || self.api.devices[node].is_empty();
            assert!(sound, "{} holds a tainted device of {node}", pod.key);
        }
        for policy in self.api.policies.values() {
            assert!(policy.status.replacements.is_empty(), "{} says that something is under way", policy.key);
            assert!(policy.status.pods.is_empty(), "{} says that pods are tainted", policy.key);
        }
        assert_eq!(self.disturbed.len(), 0);
    }
}

/// The option of a policy for a taint that is, or was, around a pod.
fn minded<'a>(spec: &'a Spec, stay: &Stay, pod: &Pod) -> Option<&'a TaintOption> {
    let options = match &stay.place {
        Place::Node(_) => &spec.node_options,
        Place::Device(_) if holds(pod) => &spec.device_options,
        Place::Device(_) => return None,
    };
    let with = |key: &str| options.iter().find(|option| option.key == *key);
    with(&stay.key).or_else(|| with("*")).filter(|_| pod.node.as_ref() == Some(stay.place.node()))
}
