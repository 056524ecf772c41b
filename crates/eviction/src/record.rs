//! The record of evictions that may have begun: a rule's status names a pod before the pod is evicted because of the rule.
//!
//! A count that is written after the evictions is lost with the process that counted. So a status names, besides the count, the pods whose
//! eviction may have begun and that the count does not have. The next leader counts those of them that are terminating and marked, or gone.
//! One status names many pods, as many as leave until the next status is due: naming costs no write for each pod.

use alloc::{collections::BTreeMap, collections::BTreeSet, vec::Vec};
use core::cmp::Reverse;

use lazaret_fleet::{Fleet, PodIx};
use lazaret_model::{ObjectKey, Timestamp, Uid};

use crate::{
    Eviction,
    block::Block,
    causes::Queue,
    effect::Outcome,
    flights::EvictFlight,
    pods::{Phase, Slot},
    reason::Source,
    rule_state::RuleState,
};

/// A status names at most this many pods.
pub(crate) const NAMED_MAX: usize = 256;
/// A status names at most this many pods of a rule whose pods leave in groups: a group leaves when all of its pods are named.
const NAMED_TOGETHER_MAX: usize = 1_024;
/// However slow the pace, a status names this many pods.
const NAMED_MIN: usize = 16;
/// After this many refusals in a row by the server, pods leave without being named: a status that nobody may write keeps no pod.
const REFUSALS_MAX: u32 = 4;

/// The order in which pods are named: as they leave.
type Turn = (Timestamp, i32, Reverse<Timestamp>, ObjectKey);

/// The pods that a status names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pods: BTreeMap<u32, Uid>,
    /// Pods that are gone while their eviction is in flight.
    orphans: BTreeSet<Uid>,
}

impl Names {
    /// As they stand in the status.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Uid> {
        self.pods.values().chain(&self.orphans)
    }
}

/// The pods that a rule's status names, and those that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Pods that are named in the status that is stored and in the one on its way: they may leave.
    named: BTreeMap<u32, Uid>,
    /// Pods that the status on its way names.
    on_its_way: Option<BTreeMap<u32, Uid>>,
    /// Due pods that no status names. An entry may be older than its pod.
    awaiting: BTreeSet<(Turn, u32)>,
    /// Named pods that are gone while their eviction is in flight.
    orphans: BTreeSet<Uid>,
    /// Those of the named that a predecessor named.
    inherited: BTreeSet<u32>,
    /// Pods leave that no status names.
    pub(crate) is_incomplete: bool,
    /// Writes that the server refused, in a row.
    refusals: u32,
}

impl Record {
    /// Whether an eviction of this pod would be found by the next leader.
    fn names(&self, pod: u32, uid: &Uid) -> bool {
        self.is_incomplete || self.named.get(&pod).is_some_and(|named| named == uid)
    }

    /// Whether a status has to name more pods now. `most`: how many it may name.
    pub(crate) fn is_wanted(&self, most: usize) -> bool {
        self.keeps_pods() && self.on_its_way.is_none() && self.named.len() <= most / 2
    }

    /// Whether pods wait for a status that names them.
    pub(crate) fn keeps_pods(&self) -> bool {
        !self.awaiting.is_empty() && !self.is_incomplete
    }

    /// Whether a predecessor named the pod and nobody found out since what became of it. From now on that is known.
    pub(crate) fn settle_inherited(&mut self, pod: u32) -> bool {
        let is_inherited = self.inherited.remove(&pod);
        if is_inherited {
            self.named.remove(&pod);
        }
        is_inherited
    }

    /// The pod is counted: no later status names it.
    pub(crate) fn settle(&mut self, pod: u32, uid: &Uid) {
        if self.named.get(&pod) == Some(uid) {
            self.named.remove(&pod);
            self.inherited.remove(&pod);
        }
        if let Some(written) = self.on_its_way.as_mut().filter(|written| written.get(&pod) == Some(uid)) {
            written.remove(&pod);
        }
    }

    /// The pod is counted, whatever its number was.
    pub(crate) fn settle_uid(&mut self, uid: &Uid) {
        let number = self.named.iter().find(|(_, named)| *named == uid).map(|(pod, _)| *pod);
        if let Some(pod) = number {
            self.settle(pod, uid);
        }
    }

    /// A write of a status begins that names these.
    pub(crate) fn write(&mut self, names: Names) {
        self.named.retain(|pod, uid| names.pods.get(pod) == Some(uid));
        self.on_its_way = Some(names.pods);
    }

    /// The write was withdrawn: pods that it names wait for the next one.
    pub(crate) fn withdraw(&mut self) {
        self.return_names();
    }

    /// The write has an outcome. Returns the pods that may be looked at again.
    fn written(&mut self, outcome: Outcome) -> Vec<u32> {
        match outcome {
            Outcome::Done => {
                self.refusals = 0;
                self.is_incomplete = false;
                let Some(names) = self.on_its_way.take() else { return Vec::new() };
                self.adopt(names)
            }
            Outcome::Refused => {
                self.refusals = self.refusals.saturating_add(1);
                self.is_incomplete |= self.refusals >= REFUSALS_MAX;
                self.return_names();
                if !self.is_incomplete {
                    return Vec::new();
                }
                core::mem::take(&mut self.awaiting).into_iter().map(|(_, pod)| pod).collect()
            }
            Outcome::Gone | Outcome::Conflict | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                self.refusals = 0;
                self.return_names();
                Vec::new()
            }
        }
    }

    /// The status that is stored names these. Returns those that it did not name before.
    fn adopt(&mut self, names: BTreeMap<u32, Uid>) -> Vec<u32> {
        let before = core::mem::replace(&mut self.named, names);
        self.named.keys().filter(|pod| !before.contains_key(pod)).copied().collect()
    }

    /// Pods that were named in no status that is stored wait again, first of all.
    fn return_names(&mut self) {
        for (pod, uid) in self.on_its_way.take().into_iter().flatten() {
            if self.named.get(&pod) != Some(&uid) {
                self.awaiting.insert((Turn::default(), pod));
            }
        }
    }
}

/// The fate of a pod that a predecessor named.
enum Found {
    /// It is there.
    Stays(u32),
    /// It is terminating: its mark says why.
    Terminates(u32),
    Gone,
}

impl Eviction {
    /// Whether all rules because of which this pod would leave now name it. One that does not will.
    pub(crate) fn is_named(&mut self, now: Timestamp, at: PodIx) -> bool {
        if !self.options.records_evictions {
            return true;
        }
        let Some(slot) = self.pods.get(at) else { return true };
        let mut is_named = true;
        for reason in slot.reasons.iter().take_while(|reason| slot.ripe_at(reason) <= now) {
            let rule = self.causes.get(reason.cause_ix).and_then(|state| state.rule);
            let Some(rule) = rule else { continue };
            let turn = match self.causes.queue_of(reason.cause_ix) {
                Queue::Line => turn_in_line(slot),
                Queue::Pace(_) => (reason.deadline, 0, Reverse(Timestamp::EPOCH), ObjectKey::default()),
            };
            if let Some(state) = self.rules.get_mut(rule)
                && !state.record.names(at.0, &slot.pod.uid)
            {
                is_named = false;
                state.record.awaiting.insert((turn, at.0));
                self.rules.touch(rule);
            }
        }
        is_named
    }

    /// How many pods a status of this rule names: those that leave until the one after the next is due, by its pace.
    pub(crate) fn named_max(&self, state: &RuleState) -> usize {
        let spec = state.rule.taint.eviction.as_ref();
        if spec.is_some_and(|spec| spec.is_together()) {
            return NAMED_TOGETHER_MAX;
        }
        let own =
            state.rule.taint.evictions_per_second.map(|rate| u32::try_from(rate.max(0)).unwrap_or(u32::MAX));
        let Some(rate) = own.or(self.options.default_evictions_per_second) else { return NAMED_MAX };
        let interval = usize::try_from(self.options.status_interval_ms / 1_000).unwrap_or(1).max(1);
        let leave = (rate as usize).saturating_mul(interval).saturating_add(self.options.burst as usize);
        leave.saturating_mul(2).clamp(NAMED_MIN, NAMED_MAX)
    }

    /// The pods that the next status of a rule names: those whose eviction is under way or in doubt, those that may leave, and then those that
    /// wait for it.
    pub(crate) fn names_of(&mut self, now: Timestamp, rule: u32) -> Names {
        let mut names = Names::default();
        let Some(state) = self.rules.get_mut(rule).filter(|_| self.options.records_evictions) else {
            return names;
        };
        let mut awaiting = core::mem::take(&mut state.record.awaiting);
        let Some(state) = self.rules.get(rule) else { return names };
        for (pod, uid) in &state.record.named {
            let slot = self.pods.get(PodIx(*pod)).filter(|slot| slot.pod.uid == *uid);
            let is_open = slot.is_some_and(|slot| self.may_have_begun(slot, rule));
            if is_open || state.record.inherited.contains(pod) {
                names.pods.insert(*pod, uid.clone());
            }
        }
        names.orphans.clone_from(&state.record.orphans);
        let most = if self.closing { 0 } else { self.named_max(state) };
        while names.pods.len() < most
            && let Some((_, pod)) = awaiting.pop_first()
        {
            if let Some(slot) = self.pods.get(PodIx(pod)).filter(|slot| self.awaits(slot, rule, now)) {
                names.pods.insert(pod, slot.pod.uid.clone());
            }
        }
        if let Some(state) = self.rules.get_mut(rule) {
            state.record.awaiting = awaiting;
        }
        names
    }

    /// Whether the eviction of a pod that a rule names may have begun, or may begin without another status.
    fn may_have_begun(&self, slot: &Slot, rule: u32) -> bool {
        match slot.phase {
            Phase::InFlight(_) | Phase::Leaving => slot.settled.is_none(),
            Phase::Waiting if slot.uncertain.is_some() => true,
            Phase::Waiting => {
                let is_asked_again = slot.blocked.as_ref().map_or(slot.failures > 0, |blocked| {
                    matches!(blocked.why, Block::Budget | Block::Refused)
                });
                !self.closing && self.leaves_because_of(slot, rule) && (slot.active > 0 || is_asked_again)
            }
        }
    }

    /// Whether a pod waits for a rule to name it.
    fn awaits(&self, slot: &Slot, rule: u32, now: Timestamp) -> bool {
        slot.phase == Phase::Waiting
            && slot
                .reasons
                .iter()
                .take_while(|reason| slot.ripe_at(reason) <= now)
                .any(|reason| self.causes.get(reason.cause_ix).is_some_and(|state| state.rule == Some(rule)))
    }

    fn leaves_because_of(&self, slot: &Slot, rule: u32) -> bool {
        let of_rule = |cause: u32| self.causes.get(cause).is_some_and(|state| state.rule == Some(rule));
        slot.reasons.iter().any(|reason| of_rule(reason.cause_ix))
    }

    /// A status was written, or was not: pods that it names may leave.
    pub(crate) fn record_written(&mut self, now: Timestamp, rule: u32, outcome: Outcome) {
        let Some(state) = self.rules.get_mut(rule) else { return };
        let pods = state.record.written(outcome);
        self.look_at_named(now, pods);
    }

    /// The status that is stored names these pods.
    pub(crate) fn names_are_stored(&mut self, now: Timestamp, rule: u32, names: Names) {
        let Some(state) = self.rules.get_mut(rule) else { return };
        let pods = state.record.adopt(names.pods);
        self.look_at_named(now, pods);
    }

    fn look_at_named(&mut self, now: Timestamp, pods: Vec<u32>) {
        for pod in pods {
            if self.pods.get(PodIx(pod)).is_some_and(|slot| slot.active == 0) {
                self.schedule(PodIx(pod), now);
            }
        }
    }

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

fn turn_in_line(slot: &Slot) -> Turn {
    let pod = &slot.pod;
    (Timestamp::EPOCH, pod.priority, Reverse(pod.created.unwrap_or(Timestamp::EPOCH)), pod.key.clone())
}
