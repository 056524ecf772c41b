//! Replacement when faults have ended and nothing is left to do: all that is due is replaced, all that is under way waits for a reason, and a
//! controller that starts now agrees.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_machine::{Machine as _, Outcome, Reply, Turn, Written};
use lazaret_model::{ObjectKey, Text};
use lazaret_replacement::{EffectKind, Mark as PodMark, Pod, Record, Status};

use super::replacement_reference::{Minded, is_subject};
use crate::{coverage::Mark, world::World};

/// Later than any timer of a world.
const LONG_SECS: i64 = 7_200;
/// A controller that starts thinks as often at most.
const TURNS_MAX: usize = 200;

impl World {
    pub(crate) fn check_replacement_at_rest(&mut self) {
        if self.config.replaced == 0 {
            return;
        }
        let leader = self.replacers.agents.iter().position(|agent| agent.leads());
        let Some(leader) = leader else {
            return self.violate("a replacement controller leads", String::new());
        };
        self.check_waiting_at_rest(leader);
        self.check_due_at_rest(leader);
        self.check_fresh_replacer(leader);
    }

    /// All that is under way is recorded and waits for a pod that does not serve; nothing else is left of a replacement.
    fn check_waiting_at_rest(&mut self, leader: usize) {
        let under_way: Vec<_> = self.replacer(leader).core.in_flight().cloned().collect();
        let records: Vec<Record> =
            under_way.iter().filter_map(|uid| self.replacements.records.get(uid)).cloned().collect();
        for record in &records {
            self.coverage.hit(Mark::ReplacementWaits);
            let key = ObjectKey::new(record.pod.namespace.clone(), record.policy.clone());
            let stored = self.replacements.policies.get(&key);
            let is_said = stored.is_none_or(|stored| {
                stored.status.replacements.iter().any(|entry| entry.record.uid == record.uid)
            });
            if !is_said {
                let detail = format!("{} is under way, {key} does not say so", record.pod);
                self.violate("a status says what is under way", detail);
            }
            let is_evicted = !self.stays(&record.pod, &record.uid);
            if self.is_unserved(leader, record).is_none() && is_evicted {
                let detail = format!("{}, {:?}, has been replaced", record.pod, record.plan);
                self.violate("a replacement comes to its end", detail);
            }
        }
        for pod in self.replaceable_pods(leader) {
            let is_known = |record: &Record| under_way.contains(&record.uid);
            let left = match &pod.mark {
                Some(PodMark::Released(record)) => !pod.deleting && !pod.finished && !is_known(record),
                Some(PodMark::Copy(record)) => {
                    pod.gated && !pod.deleting && !self.stays(&record.pod, &record.uid)
                }
                None => false,
            };
            if left {
                let detail = format!("{} is left of a replacement", pod.key);
                self.violate("a replacement comes to its end", detail);
            }
        }
    }

    /// A pod that is due is replaced, unless a policy that selects it has no slot or holds.
    fn check_due_at_rest(&mut self, leader: usize) {
        let now = self.controllers[leader].clock(self.now);
        let under_way: Vec<_> = self.replacer(leader).core.in_flight().cloned().collect();
        let pods = self.replaceable_pods(leader).into_iter().filter(is_subject);
        let is_free =
            |pod: &Pod| !under_way.contains(&pod.uid) && !matches!(pod.mark, Some(PodMark::Released(_)));
        let left = pods.filter(is_free).find_map(|pod| {
            let policies = self.active_policies(leader, &pod.key.namespace);
            let selecting: Vec<_> =
                policies.iter().filter(|(_, spec)| spec.selector.matches(&pod.labels)).collect();
            let node = pod.node.clone()?;
            let is_held = selecting.iter().any(|(policy, spec)| {
                let is_full =
                    self.under_way(leader, &policy.key, spec, &node).len() >= spec.max_concurrent as usize;
                let domains = self.domains(leader, spec, &pod.key.namespace);
                is_full
                    || domains.is_none_or(|(tainted, all)| {
                        spec.max_domains_tainted.is_some_and(|share| tainted > share.of(all))
                    })
            });
            let due = selecting.iter().find_map(|(policy, spec)| {
                let is_due = |one: &Minded| one.after.map_or(one.secs < LONG_SECS, |after| after <= now);
                let due = self.minded(leader, spec, &pod).into_iter().find(is_due)?;
                Some(format!("{} by {} from {:?} on", due.around.cause, policy.key, due.after))
            });
            due.filter(|_| !is_held).map(|due| format!("{} is due: {due}", pod.key))
        });
        if let Some(detail) = left {
            self.violate("a pod that is due is replaced", detail);
        }
    }

    /// A controller that starts now does nothing to any pod, however long it runs, and says what is said.
    fn check_fresh_replacer(&mut self, leader: usize) {
        let mut now = self.controllers[leader].clock(self.now);
        let end = now.plus_secs(LONG_SECS);
        let mut fresh = self.fresh_replacer();
        let mut written: BTreeMap<ObjectKey, Arc<Status>> = BTreeMap::new();
        fresh.handle(now, &(), Turn::BecameLeader);
        for _ in 0..TURNS_MAX {
            fresh.handle(now, &(), Turn::Tick);
            while let Some(effect) = fresh.poll_effect() {
                match effect.kind {
                    EffectKind::SetStatus { policy, version, status, .. } => {
                        written.insert(policy, status);
                        let written = Written { version, ..Written::default() };
                        let reply = Reply { written: Some(written), ..Outcome::Done.into() };
                        fresh.handle(now, &(), Turn::Acknowledged(effect.id, reply));
                    }
                    EffectKind::Event(_) => {}
                    kind @ (EffectKind::Release { .. }
                    | EffectKind::Copy { .. }
                    | EffectKind::Ungate { .. }
                    | EffectKind::Evict { .. }
                    | EffectKind::Delete { .. }) => {
                        let detail = format!("{kind:?}");
                        return self.violate("a fresh replacement controller agrees", detail);
                    }
                }
            }
            match fresh.next_wake().filter(|wake| wake.at <= end) {
                Some(wake) => now = now.max(wake.at),
                None => break,
            }
        }
        for (key, status) in written {
            let Some(stored) = self.replacements.policies.get(&key) else { continue };
            let (stored, status) = (comparable(&stored.status), comparable(&status));
            if stored != status {
                let detail = format!("{key}: it says {status:?}, stored is {stored:?}");
                return self.violate("a fresh replacement controller agrees", detail);
            }
        }
    }
}

/// A status without that which another controller cannot know: when a condition changed, and which of an owner's pods took whose place.
fn comparable(status: &Status) -> Status {
    let mut status = status.clone();
    status.conditions.iter_mut().for_each(|condition| condition.last_transition = None);
    status.replacements.iter_mut().for_each(|entry| entry.replacement = None);
    for pod in &mut status.pods {
        (pod.replacement, pod.message) = (None, Text::default());
    }
    status
}
