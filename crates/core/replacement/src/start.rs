//! Which replacements begin now: the longest due first, as long as every policy that selects the pod has a slot.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use lazaret_fleet::{Fleet, Guards};
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use crate::{
    finding::Finding,
    flight::{Flight, Selected, Watch},
    guarded::Permit,
    machine::Replacement,
    objects::Pod,
    plan::plan_for,
    policy::Spec,
    record::Record,
};

/// A pod that does not serve after this time is not about to.
const BROKEN_SECS: i64 = 300;

/// Slots in use: by policy, and by fault domain if the policy counts so. Without a name: those of which it is not known in which domain they are.
type Slots = BTreeMap<(ObjectKey, Text), u32>;

impl Replacement {
    pub(crate) fn start(&mut self, now: Timestamp, fleet: &Fleet) {
        self.end_holds(now);
        self.may_start |= !self.guarded.is_empty() && self.guards_asked_again <= now;
        if !core::mem::take(&mut self.may_start) {
            return;
        }
        let mut guards = core::mem::take(&mut self.guards);
        guards.look(now, fleet);
        self.start_permitted(now, fleet, &mut guards);
        self.guards = guards;
    }

    fn start_permitted(&mut self, now: Timestamp, fleet: &Fleet, guards: &mut Guards) {
        let mut asked: Vec<(ObjectKey, Option<Text>)> = Vec::new();
        let mut slots = self.slots();
        let mut open = self.open(now, &slots);
        let (mut begun, mut looks): (Vec<Flight>, u64) = (Vec::new(), 0);
        for (after, key) in &self.due_at {
            let full = self.flights.len() + begun.len() >= self.options.flights_max;
            if *after > now || full || open.is_empty() {
                break;
            }
            looks += 1;
            let (Some(watch), Some(pod)) = (self.watches.get(key), self.tables.pods.get(key)) else {
                continue;
            };
            if self.flights.contains_key(&pod.uid) || self.held.contains_key(key) || pod.mark_is_released() {
                continue;
            }
            let finding = match self.permit(now, fleet, (key, watch), guards) {
                Permit::For(finding) => finding,
                Permit::Kept(why) => {
                    asked.push((key.clone(), Some(why)));
                    continue;
                }
                Permit::None => continue,
            };
            asked.extend(self.guarded.contains_key(key).then(|| (key.clone(), None)));
            if self.permitted(pod, watch, &slots) {
                for Selected { policy, domain, .. } in &watch.selected {
                    *slots.entry(self.slot(policy, domain)).or_default() += 1;
                }
                begun.extend(self.flight_for(now, pod, watch, finding));
                open.retain(|policy| self.is_open(now, policy, &slots));
            }
        }
        self.figures.looks += looks;
        for (pod, why) in asked {
            self.note_guarded(now, &pod, why);
        }
        for flight in begun {
            if let Some(tracker) = self.trackers.get_mut(&flight.policy()) {
                (tracker.dirty, tracker.urgent) = (true, true);
            }
            self.figures.started += 1;
            self.ended.remove(&flight.record.uid);
            self.flights.insert(flight.record.uid.clone(), flight);
        }
    }

    /// Pods that a budget held back long enough may come again.
    fn end_holds(&mut self, now: Timestamp) {
        let over: Vec<ObjectKey> =
            self.held.iter().filter(|(_, until)| **until <= now).map(|(pod, _)| pod.clone()).collect();
        for pod in over {
            self.held.remove(&pod);
            self.may_start = true;
            self.touch_selecting(&pod);
        }
    }

    /// Every policy that selects a pod says whether a budget holds it back.
    pub(crate) fn touch_selecting(&mut self, pod: &ObjectKey) {
        for one in self.watches.get(pod).into_iter().flat_map(|watch| &watch.selected) {
            if let Some(tracker) = self.trackers.get_mut(&one.policy) {
                tracker.dirty = true;
            }
        }
    }

    /// The policies that could let a pod go now: while there are none, no pod is evaluated.
    fn open(&self, now: Timestamp, slots: &Slots) -> Vec<ObjectKey> {
        self.trackers.keys().filter(|policy| self.is_open(now, policy, slots)).cloned().collect()
    }

    fn is_open(&self, now: Timestamp, policy: &ObjectKey, slots: &Slots) -> bool {
        let (Some(tracker), Some(spec)) = (self.trackers.get(policy), self.tables.active(policy)) else {
            return false;
        };
        let due = tracker.due_at.first().is_some_and(|(after, _)| *after <= now);
        let free = |domain: &Text| self.taken(policy, domain, slots) < spec.max_concurrent;
        let mut tainted = tracker.domains.iter().filter(|(_, (_, tainted))| *tainted > 0);
        due && !tracker.tripped && tainted.any(|(domain, _)| free(domain))
    }

    /// Whether every policy that selects the pod lets it go now.
    fn permitted(&self, pod: &Pod, watch: &Watch, slots: &Slots) -> bool {
        watch.selected.iter().all(|Selected { policy, domain, .. }| {
            let open = self.trackers.get(policy).is_some_and(|tracker| !tracker.tripped);
            let spec = self.tables.active(policy);
            let is_known =
                |spec: &Spec| pod.node.as_ref().is_some_and(|on| self.tables.knows_domain(spec, on));
            let limit = spec.filter(|spec| is_known(spec)).map_or(0, |spec| spec.max_concurrent);
            open && self.taken(policy, domain, slots) < limit
        })
    }

    /// The slots of a policy that are in use in a fault domain, or may be.
    fn taken(&self, policy: &ObjectKey, domain: &Text, slots: &Slots) -> u32 {
        let slot = self.slot(policy, domain);
        let anywhere = (policy.clone(), Text::default());
        let somewhere = if slot == anywhere { 0 } else { slots.get(&anywhere).copied().unwrap_or(0) };
        slots.get(&slot).copied().unwrap_or(0) + somewhere
    }

    /// A replacement in flight takes a slot of every policy that selected the pod then, or selects it now.
    fn slots(&self) -> Slots {
        let mut slots = Slots::new();
        for flight in self.flights.values() {
            let record = &flight.record;
            let then = record.counted_by.iter();
            let watch = self.watches.get(&record.pod).filter(|watch| watch.uid == record.uid);
            let now = watch.into_iter().flat_map(|watch| &watch.selected).map(|one| &one.policy.name);
            let names: BTreeSet<&Text> = then.chain(now).collect();
            for name in names {
                let policy = ObjectKey::new(record.pod.namespace.clone(), name.clone());
                let Some(spec) = self.tables.active(&policy) else { continue };
                let is_known = self.tables.knows_domain(spec, &record.node);
                let domain = if is_known { self.tables.domain(spec, &record.node) } else { Text::default() };
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

    fn flight_for(&self, now: Timestamp, pod: &Arc<Pod>, watch: &Watch, first: &Finding) -> Option<Flight> {
        let policy = ObjectKey::new(pod.key.namespace.clone(), first.policy.clone());
        let spec: &Spec = self.tables.active(&policy)?;
        let plan = plan_for(&self.tables, spec, pod);
        let before =
            plan.owner().map(|owner| self.tables.pods_of(&owner.uid).map(|pod| pod.uid.clone()).collect());
        let record = Record {
            policy: first.policy.clone(),
            counted_by: watch.selected.iter().map(|one| one.policy.name.clone()).collect(),
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            node: pod.node.clone()?,
            cause: first.cause.clone(),
            // Whole seconds, as the API keeps them: a record that comes back from there is the same.
            since: first.since.truncated_to_secs(),
            started: now.truncated_to_secs(),
            lacking: plan.owner().map_or(0, |owner| self.lacking(now, pod, &owner.uid)),
            plan,
        };
        Some(Flight { before, ..Flight::new(Arc::new(record)) })
    }
}
