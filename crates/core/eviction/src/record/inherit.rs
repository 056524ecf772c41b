//! Named pods that are gone, and those that a predecessor named.

use alloc::collections::BTreeMap;

use lazaret_fleet::{Fleet, PodIx};
use lazaret_model::Uid;

use crate::{Eviction, flights::EvictFlight, pods::Phase, reason::Source};

/// The fate of a pod that a predecessor named.
enum Found {
    /// It is there.
    Stays(u32),
    /// It is terminating: its mark says why.
    Terminates(u32),
    Gone,
}

impl Eviction {
    /// A pod is gone. While its eviction is in flight its rules go on naming it. Of one that a predecessor named nobody knows whether a late write of
    /// that one was why.
    pub(crate) fn forget_named(&mut self, at: PodIx) {
        if !self.options.records_evictions {
            return;
        }
        if let Some(slot) = self.pods.get(at).filter(|slot| matches!(slot.phase, Phase::InFlight(_))) {
            for reason in slot.reasons.iter() {
                let rule = self.causes.get(reason.cause_ix).and_then(|state| state.rule);
                if let Some(state) = rule.and_then(|rule| self.rules.get_mut(rule))
                    && state.record.names(at.0, &slot.pod.uid)
                {
                    state.record.orphans.insert(slot.pod.uid.clone());
                }
            }
        }
        if !self.inherited.remove(&at.0) {
            return;
        }
        for rule in self.rules.numbers() {
            if let Some(state) = self.rules.get_mut(rule)
                && state.record.settle_inherited(at.0)
            {
                state.may_have_missed();
                self.rules.touch(rule);
            }
        }
    }

    /// The eviction of a pod that went meanwhile has an outcome.
    pub(crate) fn forget_orphan(&mut self, flight: &EvictFlight) {
        if !self.options.records_evictions {
            return;
        }
        for reason in flight.reasons.iter() {
            if let Source::Rule { name, .. } = &reason.cause.source
                && let Some(rule) = self.rules.by_name(name)
                && let Some(state) = self.rules.get_mut(rule)
                && state.record.orphans.remove(&flight.pod.uid)
            {
                self.rules.touch(rule);
            }
        }
    }

    /// Counts the pods that a predecessor named in the statuses of these rules and that are gone, or terminating and marked; the others may leave.
    pub(crate) fn inherit_names(&mut self, fleet: &Fleet, rules: &[u32]) {
        if !self.options.records_evictions {
            return;
        }
        let mut wanted: BTreeMap<Uid, Found> = BTreeMap::new();
        for rule in rules {
            let evicting =
                self.rules.get(*rule).map(|state| state.rule.evicting.iter()).into_iter().flatten();
            wanted.extend(evicting.map(|uid| (uid.clone(), Found::Gone)));
        }
        if wanted.is_empty() {
            return;
        }
        for (at, pod) in fleet.pods() {
            if let Some(found) = wanted.get_mut(&pod.uid) {
                let terminates = pod.deleting_since.is_some();
                *found = if terminates { Found::Terminates(at.0) } else { Found::Stays(at.0) };
            }
        }
        for rule in rules {
            self.inherit_names_of(*rule, &wanted);
        }
    }

    fn inherit_names_of(&mut self, rule: u32, wanted: &BTreeMap<Uid, Found>) {
        let (counted, inherited) = (&self.counted, &mut self.inherited);
        let Some(state) = self.rules.get_mut(rule) else { return };
        state.record.named.clear();
        state.record.inherited.clear();
        let mut left = 0_u64;
        let evicting = state.rule.evicting.clone();
        for uid in evicting.iter().filter(|uid| !counted.contains(uid)) {
            match wanted.get(uid) {
                Some(Found::Stays(pod)) => {
                    state.record.named.insert(*pod, uid.clone());
                    state.record.inherited.insert(*pod);
                    inherited.insert(*pod);
                }
                Some(Found::Terminates(pod)) if state.is_marked(PodIx(*pod)) => left += 1,
                // Somebody else deletes it: a pod is marked before it is evicted.
                Some(Found::Terminates(_)) | None => {}
                Some(Found::Gone) => left += 1,
            }
        }
        state.count_begun(left);
    }
}
