//! Which replacements begin now: the longest due first, as long as every policy that selects the pod has a slot.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use crate::{
    flight::{Flight, Watch},
    machine::Replacement,
    objects::Pod,
    plan::plan_for,
    policy::Spec,
    record::Record,
};

/// A pod that does not serve after so long is not about to.
const BROKEN_SECS: i64 = 300;

/// Slots in use: by policy, and by fault domain if the policy counts so.
type Slots = BTreeMap<(ObjectKey, Text), u32>;

impl Replacement {
    pub(crate) fn start(&mut self, now: Timestamp) {
        let held = self.held.len();
        self.held.retain(|_, until| *until > now);
        self.may_start |= self.held.len() < held;
        if !core::mem::take(&mut self.may_start) {
            return;
        }
        let mut slots = self.slots();
        let mut begun: Vec<Flight> = Vec::new();
        for (after, key) in &self.ripe {
            if *after > now || self.flights.len() + begun.len() >= self.options.flights_max {
                break;
            }
            let (Some(watch), Some(pod)) = (self.watches.get(key), self.tables.pods.get(key)) else {
                continue;
            };
            if self.flights.contains_key(&pod.uid) || self.held.contains_key(key) || pod.mark_is_released() {
                continue;
            }
            if self.permitted(watch, &slots) {
                for (policy, domain) in &watch.selected {
                    *slots.entry(self.slot(policy, domain)).or_default() += 1;
                }
                begun.extend(self.flight_for(now, pod, watch));
            }
        }
        for flight in begun {
            if let Some(overseer) = self.overseers.get_mut(&flight.policy()) {
                (overseer.dirty, overseer.urgent) = (true, true);
            }
            self.figures.started += 1;
            self.flights.insert(flight.record.uid.clone(), flight);
        }
    }

    /// Whether every policy that selects the pod lets it go now.
    fn permitted(&self, watch: &Watch, slots: &Slots) -> bool {
        watch.selected.iter().all(|(policy, domain)| {
            let open = self.overseers.get(policy).is_some_and(|overseer| !overseer.tripped);
            let limit = self.tables.active(policy).map_or(0, |spec| spec.max_concurrent);
            open && slots.get(&self.slot(policy, domain)).copied().unwrap_or(0) < limit
        })
    }

    fn slots(&self) -> Slots {
        let mut slots = Slots::new();
        for flight in self.flights.values() {
            for name in &flight.record.counted_by {
                let policy = ObjectKey::new(flight.record.pod.namespace.clone(), name.clone());
                let Some(spec) = self.tables.active(&policy) else { continue };
                let domain = self.tables.domain(spec, &flight.record.node);
                *slots.entry(self.slot(&policy, &domain)).or_default() += 1;
            }
        }
        slots
    }

    fn slot(&self, policy: &ObjectKey, domain: &Text) -> (ObjectKey, Text) {
        let by_domain = self.tables.active(policy).is_some_and(|spec| spec.fault_domain_key.is_some());
        (policy.clone(), if by_domain { domain.clone() } else { Text::default() })
    }

    /// Pods of the same owner that have not served for long: broken for reasons of their own.
    fn lacking(&self, now: Timestamp, pod: &Pod, owner: &Uid) -> u32 {
        let old = now.plus_secs(-BROKEN_SECS);
        let broken = self.tables.pods_of(owner).filter(|other| {
            other.uid != pod.uid && !other.serves() && !other.deleting && other.created < old
        });
        u32::try_from(broken.count()).unwrap_or(u32::MAX)
    }

    fn flight_for(&self, now: Timestamp, pod: &Arc<Pod>, watch: &Watch) -> Option<Flight> {
        let first = watch.findings.first()?;
        let policy = ObjectKey::new(pod.key.namespace.clone(), first.policy.clone());
        let spec: &Spec = self.tables.active(&policy)?;
        let plan = plan_for(&self.tables, spec, pod);
        let before =
            plan.owner().map(|owner| self.tables.pods_of(&owner.uid).map(|pod| pod.uid.clone()).collect());
        let record = Record {
            policy: first.policy.clone(),
            counted_by: watch.selected.iter().map(|(policy, _)| policy.name.clone()).collect(),
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            node: pod.node.clone()?,
            cause: first.cause.clone(),
            since: first.since,
            // Whole seconds, as the API keeps them.
            started: now.truncated_to_secs(),
            lacking: plan.owner().map_or(0, |owner| self.lacking(now, pod, &owner.uid)),
            plan,
        };
        Some(Flight { before, ..Flight::new(Arc::new(record)) })
    }
}
