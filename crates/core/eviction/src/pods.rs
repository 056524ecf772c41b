//! The state of each pod that has to leave, has left, or would leave.

use alloc::{boxed::Box, collections::BTreeSet, sync::Arc, vec::Vec};

use lazaret_fleet::PodIx;
use lazaret_invariant::invariant;
use lazaret_model::{Pod, Timestamp};

use crate::{blame::Blame, block::Blocked, effect::EffectId, reason::Reason};

/// Where a pod's eviction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits for its deadline, for a permit, or for the next attempt. Also a pod that has no reason to leave.
    Waiting,
    /// An eviction is in flight.
    InFlight(EffectId),
    /// Evicted, or found to be leaving anyway; it is not seen so yet.
    Leaving,
}

/// Whether guards and windows let a pod leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// This leader has seen nothing that kept it.
    Always,
    /// Something keeps it, after they had let it leave for this many milliseconds.
    Kept(i64),
    /// Something kept it until this instant, after they had let it leave for this many milliseconds.
    Since(Timestamp, i64),
}

/// For how long the eviction API is asked at least before a pod is deleted past its refusals, unless the deadline leaves less.
const ASKED_SECS_MIN: i64 = 60;

/// One pod.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) pod: Arc<Pod>,
    /// The earliest deadline first. Empty: nothing makes it leave.
    pub(crate) reasons: Arc<[Reason]>,
    /// Rules of effect None that would make it leave, ascending.
    pub(crate) would: Box<[u32]>,
    pub(crate) phase: Phase,
    /// The number of reasons, from the first, that are due and wait for a permit.
    pub(crate) active: u32,
    /// Its entry among the timers.
    pub(crate) timer: Option<Timestamp>,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// No attempt before this instant, after a failure.
    pub(crate) not_before: Option<Timestamp>,
    /// No eviction before this instant, by the brake.
    pub(crate) held_until: Option<Timestamp>,
    /// The reason that keeps its eviction from beginning.
    pub(crate) blocked: Option<Box<Blocked>>,
    /// Whether guards and windows let it leave: deadlines count from then on.
    pub(crate) permit: Permit,
    /// Since when this leader asks the eviction API for it and is refused.
    pub(crate) asked_since: Option<Timestamp>,
    /// The rules of all attempts with an unknown outcome.
    pub(crate) uncertain: Option<Box<Blame>>,
    /// The terminating pod was looked at: whose eviction it is has been settled.
    pub(crate) settled: Option<Settled>,
}

/// A terminating pod that carries the mark of an eviction.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// A rule that it is known to be marked by: mostly the only one.
    rule: Option<u32>,
    /// The others.
    more: Vec<u32>,
    /// Its place among the settled.
    place: usize,
}

impl Settled {
    /// It is marked by one more rule.
    pub(crate) fn add(&mut self, rule: u32) {
        if self.rule.is_none() {
            self.rule = Some(rule);
        } else {
            self.more.push(rule);
        }
    }

    /// The rules that it is known to be marked by.
    pub(crate) fn rules(&self) -> impl Iterator<Item = u32> {
        self.rule.iter().chain(&self.more).copied()
    }
}

impl Slot {
    fn new(pod: Arc<Pod>) -> Self {
        Self {
            pod,
            reasons: Arc::default(),
            would: Box::default(),
            phase: Phase::Waiting,
            active: 0,
            timer: None,
            failures: 0,
            not_before: None,
            held_until: None,
            blocked: None,
            permit: Permit::Always,
            asked_since: None,
            uncertain: None,
            settled: None,
        }
    }

    /// When this reason lets the pod go: its deadline, or the next attempt if one has failed, or when the brake lets go.
    pub(crate) fn ripe_at(&self, reason: &Reason) -> Timestamp {
        [self.not_before, self.held_until].into_iter().flatten().fold(reason.deadline, Timestamp::max)
    }

    /// When the pod's deadline by this reason is over, if the reason sets one. The deadline counts from the first moment at which
    /// guards and windows let the pod leave.
    pub(crate) fn must_be_gone_by(&self, reason: &Reason) -> Option<Timestamp> {
        let by = reason.must_be_gone_by()?;
        match self.permit {
            Permit::Always => Some(by),
            Permit::Kept(_) => None,
            Permit::Since(since, before) => {
                Some(by.max(since.plus_millis(-before).plus_secs(reason.deadline_secs()?)))
            }
        }
    }

    /// Guards or windows keep the pod from now on.
    pub(crate) fn keep(&mut self, now: Timestamp) {
        let passed = |since: Timestamp| (now.as_millis() - since.as_millis()).max(0);
        self.permit = match self.permit {
            Permit::Always => Permit::Kept(self.asked_since.map_or(0, passed)),
            Permit::Kept(before) => Permit::Kept(before),
            Permit::Since(since, before) => Permit::Kept(before + passed(since)),
        };
    }

    /// When the pod waits no longer for room because of this reason; `None`: it waits for as long as there is none.
    pub(crate) fn waits_for_room_until(&self, reason: &Reason) -> Option<Timestamp> {
        reason.waits_for_room_until().into_iter().chain(self.must_be_gone_by(reason)).min()
    }

    /// When the pod is deleted because of this reason, whatever disruption budgets say: the deadline is over, and the eviction API was asked for a
    /// while.
    pub(crate) fn is_deleted_at(&self, reason: &Reason) -> Option<Timestamp> {
        let asked = reason.deadline_secs()?.min(ASKED_SECS_MIN);
        Some(self.must_be_gone_by(reason)?.max(self.asked_since?.plus_secs(asked)))
    }

    /// Nothing to remember of it.
    pub(crate) fn is_blank(&self) -> bool {
        self.reasons.is_empty()
            && self.would.is_empty()
            && self.phase == Phase::Waiting
            && self.uncertain.is_none()
            && self.settled.is_none()
    }
}

/// All pods of interest, by the fleet's number for them.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    slots: Vec<Option<Box<Slot>>>,
    timers: BTreeSet<(Timestamp, u32)>,
    planned: usize,
    /// In which round each pod was last looked at.
    looked: Vec<u64>,
    /// Terminating pods that carry the mark of an eviction, in no order.
    settled: Vec<PodIx>,
}

impl Pods {
    pub(crate) fn get(&self, at: PodIx) -> Option<&Slot> {
        self.slots.get(at.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, at: PodIx) -> Option<&mut Slot> {
        self.slots.get_mut(at.0 as usize)?.as_deref_mut()
    }

    /// The slot of this pod as it is now, made if it has none.
    pub(crate) fn entry(&mut self, at: PodIx, pod: &Arc<Pod>) -> &mut Slot {
        let place = at.0 as usize;
        if place >= self.slots.len() {
            self.slots.resize_with(place + 1, || None);
        }
        match &mut self.slots[place] {
            Some(slot) => {
                if !Arc::ptr_eq(&slot.pod, pod) {
                    slot.pod = pod.clone();
                }
                slot
            }
            none => none.insert(Box::new(Slot::new(pod.clone()))),
        }
    }

    /// Whether this pod is looked at for the first time in this round. The fleet gives numbers without gaps.
    #[inline]
    pub(crate) fn is_first_in(&mut self, round: u64, at: PodIx) -> bool {
        let place = at.0 as usize;
        match self.looked.get_mut(place) {
            Some(last) => core::mem::replace(last, round) != round,
            None => {
                self.looked.resize((place + 1).max(2 * self.looked.len()), 0);
                self.looked[place] = round;
                true
            }
        }
    }

    pub(crate) fn remove(&mut self, at: PodIx) -> Option<Box<Slot>> {
        let slot = self.slots.get_mut(at.0 as usize)?.take()?;
        if let Some(Settled { place, .. }) = slot.settled {
            self.settled.swap_remove(place);
            if let Some(&moved) = self.settled.get(place)
                && let Some(settled) = self.get_mut(moved).and_then(|slot| slot.settled.as_mut())
            {
                settled.place = place;
            }
        }
        Some(slot)
    }

    pub(crate) fn numbers(&self) -> Vec<PodIx> {
        (0..).zip(&self.slots).filter_map(|(at, slot)| slot.is_some().then_some(PodIx(at))).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PodIx, &Slot)> {
        (0..).zip(&self.slots).filter_map(|(at, slot)| Some((PodIx(at), slot.as_deref()?)))
    }

    /// Puts new reasons in the place of the old, which are returned.
    pub(crate) fn replace_reasons(&mut self, at: PodIx, reasons: Arc<[Reason]>) -> Arc<[Reason]> {
        let Some(slot) = invariant!(
            self.slots.get_mut(at.0 as usize).and_then(Option::as_deref_mut),
            "a pod that is planned has a slot"
        ) else {
            return Arc::default();
        };
        match (slot.reasons.is_empty(), reasons.is_empty()) {
            (true, false) => self.planned += 1,
            (false, true) => self.planned -= 1,
            (true, true) | (false, false) => {}
        }
        core::mem::replace(&mut slot.reasons, reasons)
    }

    /// How many pods have a reason to leave.
    pub(crate) fn planned(&self) -> usize {
        self.planned
    }

    /// How many terminating pods carry the mark of an eviction.
    pub(crate) fn settled_len(&self) -> usize {
        self.settled.len()
    }

    /// One of them.
    pub(crate) fn settled_mut(&mut self, place: usize) -> Option<(PodIx, &Pod, &mut Settled)> {
        let at = *self.settled.get(place)?;
        let slot = self.get_mut(at)?;
        Some((at, &slot.pod, slot.settled.as_mut()?))
    }

    /// The pod carries the mark of an eviction.
    pub(crate) fn settle(&mut self, at: PodIx, settled: Settled) {
        let place = self.settled.len();
        if let Some(slot) = self.slots.get_mut(at.0 as usize).and_then(Option::as_deref_mut) {
            slot.settled = Some(Settled { place, ..settled });
            self.settled.push(at);
        }
    }

    pub(crate) fn set_timer(&mut self, at: PodIx, when: Option<Timestamp>) {
        let Some(slot) = invariant!(
            self.slots.get_mut(at.0 as usize).and_then(Option::as_deref_mut),
            "a pod that is planned has a slot"
        ) else {
            return;
        };
        if slot.timer == when {
            return;
        }
        if let Some(old) = slot.timer.take() {
            self.timers.remove(&(old, at.0));
        }
        if let Some(when) = when {
            slot.timer = Some(when);
            self.timers.insert((when, at.0));
        }
    }

    /// No pod waits for a deadline any more. Visits all slots.
    pub(crate) fn clear_timers(&mut self, mut visit: impl FnMut(&mut Slot)) {
        self.timers.clear();
        for slot in self.slots.iter_mut().flatten() {
            slot.timer = None;
            visit(slot);
        }
    }

    /// The pod whose timer comes first.
    pub(crate) fn next_timer(&self) -> Option<(Timestamp, PodIx)> {
        self.timers.first().map(|(when, at)| (*when, PodIx(*at)))
    }
}
