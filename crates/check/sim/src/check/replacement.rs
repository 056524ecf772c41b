//! The decisions of a replacement controller, judged by what its process had been told: it is time, there is a slot of every policy, no breaker holds, a
//! status says so before anything is done, and a pod goes when its place is taken.

use std::sync::Arc;

use lazaret_model::{DisruptionGuard, ObjectKey, Text, Timestamp, Uid};
use lazaret_replacement::{EffectKind, Mark as PodMark, Origin, Plan, Pod, Record, Status};

use super::{holds::holder_of, replacement_reference::is_subject};
use crate::{
    api::wall,
    coverage::Mark,
    reference::{self, Found},
    scenario::{Op, SKEW_MS_MAX},
    world::World,
};

impl World {
    /// A replacement controller is about to do something. It was decided on all that its process has been told: one that waited is decided again.
    pub(crate) fn check_replacement(&mut self, number: usize, kind: &EffectKind) {
        match kind {
            EffectKind::SetStatus { policy, version, status, .. } => {
                self.check_records_left(number, policy, version, status);
                for entry in &status.replacements {
                    let known = self.replacements.records.get(&entry.record.uid);
                    if known != Some(&entry.record) {
                        self.replacements.records.insert(entry.record.uid.clone(), entry.record.clone());
                        // The record of one that began while a status was being written comes later.
                        if self.replacer(number).begun.contains(&entry.record.uid) {
                            self.check_begun(number, &entry.record);
                        }
                    }
                }
            }
            EffectKind::Release { record, .. } | EffectKind::Copy { record, .. } => {
                self.check_first_step(number, record);
            }
            EffectKind::Evict { uid, .. } => {
                let record = self.replacements.records.get(uid).cloned();
                match record {
                    Some(record) if matches!(record.plan, Plan::Evict { .. }) => {
                        self.check_first_step(number, &record);
                    }
                    Some(record) => self.check_rebuilt(number, &record),
                    None => self.violate(UNRECORDED, format!("controller {number} evicts {uid}")),
                }
            }
            EffectKind::Delete { pod, uid } => self.check_relieved(number, pod, uid),
            EffectKind::Ungate { .. } | EffectKind::Event(_) => {}
        }
    }

    /// A replacement begins: is the pod one to be replaced, is it time, and does every policy that selects it permit it?
    fn check_begun(&mut self, number: usize, record: &Record) {
        self.coverage.hit(Mark::ReplacementBegun);
        let now = self.controllers[number].clock(self.now);
        let Some(pod) = self.replaceable_pod(number, &record.pod, &record.uid).filter(is_subject) else {
            let detail = format!("controller {number} begins with {}, which does not run", record.pod);
            return self.violate("only pods that run are replaced", detail);
        };
        let policies = self.active_policies(number, &record.pod.namespace);
        let selecting: Vec<_> =
            policies.into_iter().filter(|(_, spec)| spec.selector.matches(&pod.labels)).collect();
        let names: Vec<Text> = selecting.iter().map(|(policy, _)| policy.key.name.clone()).collect();
        if names != record.counted_by {
            let detail = format!("{}: selected by {names:?}, counted by {:?}", record.pod, record.counted_by);
            self.violate("every policy that selects a pod counts it", detail);
        }
        self.check_due(number, record, &pod, now);
        self.check_unguarded(number, record, now);
        for (policy, spec) in selecting {
            let under_way = self.under_way(number, &policy.key, &spec, &record.node);
            if under_way.len() > spec.max_concurrent as usize {
                let detail = format!(
                    "controller {number} begins with {}: {under_way:?} are under way, {} permits {}",
                    record.pod, policy.key, spec.max_concurrent
                );
                self.violate("never more at once than every policy permits", detail);
            }
            if let Some((tainted, all)) = self.domains(number, &spec, &pod.key.namespace)
                && spec.max_domains_tainted.is_some_and(|share| tainted > share.of(all))
            {
                let detail = format!(
                    "controller {number} begins with {}: {tainted} of {all} fault domains of {} are tainted",
                    record.pod, policy.key
                );
                self.violate("nothing is begun while too many fault domains are tainted", detail);
            }
        }
    }

    /// Nothing begins because of a device while a guard that the controller has seen is paused, has no open window or is not understood.
    fn check_unguarded(&mut self, number: usize, record: &Record, now: Timestamp) {
        if record.cause.origin != Origin::Device {
            return;
        }
        let seen = self.seen(number);
        let devices = 0..u32::try_from(self.api.catalog.devices()).unwrap_or(u32::MAX);
        let mut ids = devices.map(|device| self.api.catalog.id(device));
        let Some(id) = ids.find(|id| *id.to_string() == *record.cause.place) else { return };
        let named = seen.device(&id);
        let keeps = |guard: &&Arc<DisruptionGuard>| {
            let selector = guard.selector.as_ref();
            let is_paused = guard.paused.as_ref().is_some_and(|pause| pause.holds(now));
            let is_closed =
                !guard.windows.is_empty() && !guard.windows.iter().any(|window| window.is_open(now));
            reference::is_unclear(seen, selector, named)
                || (is_paused || is_closed) && reference::selects(seen, selector, named)
        };
        if let Some(guard) = self.replacer(number).guards.iter().find(keeps) {
            let detail =
                format!("controller {number} begins with {} though {guard:?} keeps {id}", record.pod);
            return self.violate("guards keep replacements because of devices from beginning", detail);
        }
        let cause = &record.cause;
        let is_cause = |found: &Found<'_>| {
            let taint = found.taint;
            (&taint.key, &taint.value, taint.effect.name()) == (&cause.key, &cause.value, &*cause.effect)
        };
        let guards = &self.replacer(number).guards;
        let found = reference::taints(seen, named).into_iter().filter(is_cause);
        let holders: Option<Vec<_>> =
            found.map(|found| holder_of(self, number, guards, named, &found)).collect();
        if let Some(holder) = holders.and_then(|all| all.first().map(|first| first.name.clone())) {
            let detail = format!(
                "controller {number} begins with {} because of {cause}, which {holder} holds",
                record.pod
            );
            self.violate("a held taint replaces no pod", detail);
        }
    }

    /// Each taint has a timer of its own: that of the record has run out, and it counts since it was set, or since the pod was made.
    fn check_due(&mut self, number: usize, record: &Record, pod: &Pod, now: Timestamp) {
        let key = ObjectKey::new(record.pod.namespace.clone(), record.policy.clone());
        let known = self.replacements.known(self.replacer(number).policies);
        let spec = known.get(&key).and_then(|policy| policy.spec.as_ref().ok()).map(Arc::clone);
        let Some(spec) = spec else { return };
        let minded = self.minded(number, &spec, pod);
        let Some(one) = minded.iter().find(|one| one.around.cause == record.cause) else {
            let detail =
                format!("controller {number} begins with {}: {} is not there", record.pod, record.cause);
            return self.violate(WENT, detail);
        };
        let (secs, is_dated) = (one.secs, one.around.added.is_some());
        let since = match one.around.added {
            Some(added) => added.max(pod.created).truncated_to_secs(),
            None => record.since,
        };
        if record.since != since || record.since.plus_secs(secs) > now {
            let detail = format!(
                "controller {number} begins with {} at {now:?}: {} counts since {:?}, set {:?}, {secs} s",
                record.pod, record.cause, record.since, one.around.added
            );
            self.violate("no pod is replaced early", detail);
        }
        self.check_first_seen(record, is_dated);
    }

    /// A taint that does not say when it was set counts from when it was seen, which is not before it was set.
    fn check_first_seen(&mut self, record: &Record, is_dated: bool) {
        let set_at = self.replacements.set_at(&record.cause.place, &record.cause.key);
        let Some(set_at) = set_at.filter(|_| !is_dated) else { return };
        let has_jumps = self.transitions.iter().any(|transition| transition.op == Op::ClockJump);
        let earliest = wall(set_at).plus_millis(-i64::from(SKEW_MS_MAX));
        if !has_jumps && record.since < earliest {
            let detail = format!("{}: {} counts since {:?}", record.pod, record.cause, record.since);
            self.violate("no pod is replaced early", detail);
        }
    }

    /// Something is done to a pod for the first time: a status says so, and there still is a reason.
    fn check_first_step(&mut self, number: usize, record: &Record) {
        let key = ObjectKey::new(record.pod.namespace.clone(), record.policy.clone());
        let heard = self.replacer(number).policies;
        let has_record = |status: &Status| status.replacements.iter().any(|entry| entry.record == *record);
        let known = self.replacements.known(heard);
        let later = self.replacements.log[heard..].iter().filter(|(of, _)| *of == key);
        let later = later.filter_map(|(_, policy)| policy.as_ref());
        let is_said =
            known.get(&key).copied().into_iter().chain(later).any(|policy| has_record(&policy.status));
        let spec = known.get(&key).and_then(|policy| policy.spec.as_ref().ok()).map(Arc::clone);
        if !is_said {
            let detail = format!("controller {number}: {} for {key}", record.pod);
            self.violate(UNRECORDED, detail);
        }
        let Some(spec) = spec else { return };
        let pod = self.replaceable_pod(number, &record.pod, &record.uid);
        let is_wanted = pod.is_some_and(|pod| !self.minded(number, &spec, &pod).is_empty());
        if !is_wanted {
            self.violate(WENT, format!("controller {number}: {} for {key}: {}", record.pod, record.cause));
        }
    }

    /// The copy of a pod is there before the pod is evicted.
    fn check_rebuilt(&mut self, number: usize, record: &Record) {
        let Plan::Rebuild { name } = &record.plan else { return };
        let key = ObjectKey::new(record.pod.namespace.clone(), name.clone());
        if self.seen(number).pod(&key).is_none() {
            let detail = format!("controller {number} evicts {}, whose copy is not there", record.pod);
            self.violate("a pod goes when its place is taken", detail);
        }
    }

    /// A pod whose place is taken goes: as many serve as its replica set wants, but for those that others under way wait for.
    fn check_relieved(&mut self, number: usize, key: &ObjectKey, uid: &Uid) {
        let Some(record) = self.replacements.records.get(uid).cloned() else {
            return self.violate(UNRECORDED, format!("controller {number} deletes {key}"));
        };
        if let Some(detail) = self.is_unserved(number, &record) {
            let detail = format!("controller {number} deletes {key}: {detail}");
            self.violate("a pod goes when its place is taken", detail);
        }
    }

    /// A replacement leaves a status when it has come to its end: nothing that was begun is left behind.
    fn check_records_left(&mut self, number: usize, policy: &ObjectKey, version: &Text, status: &Status) {
        let stored = self.replacements.policies.get(policy).filter(|stored| stored.version == *version);
        let Some(before) = stored.map(|stored| Arc::clone(&stored.status)) else { return };
        let is_kept = |uid: &Uid| status.replacements.iter().any(|entry| entry.record.uid == *uid);
        for entry in before.replacements.iter().filter(|entry| !is_kept(&entry.record.uid)) {
            let record = &entry.record;
            let seen = self.replaceable_pod(number, &record.pod, &record.uid);
            let has_mark = seen.is_some_and(|pod| matches!(pod.mark, Some(PodMark::Released(_))));
            if has_mark && self.stays(&record.pod, &record.uid) {
                let detail =
                    format!("controller {number} forgets {} of {policy}, which was released", record.pod);
                self.violate("a replacement that was begun is brought to its end", detail);
            }
        }
    }
}

const UNRECORDED: &str = "nothing is done to a pod before a status says so";
const WENT: &str = "no pod is replaced for a taint that went";
