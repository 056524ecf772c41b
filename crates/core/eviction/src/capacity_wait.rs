//! Pods that leave only once there is room for their replacements, where a rule says `capacity: Wait`.
//!
//! The machine does not know what room there is: it asks, one question at a time, and goes by the answer. A pod is asked about when it could
//! leave otherwise; when there was no room, again when the fleet has changed, and now and then. An answer is not kept for long.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use lazaret_fleet::{Fleet, PodIx};
use lazaret_invariant::invariant;
use lazaret_model::{Text, Timestamp, Uid};

use crate::{
    Eviction,
    block::{Block, Blocked},
    causes::CauseState,
    effect::{CapacityQuestion, EffectId, EffectKind, LeavingPod},
    flights::Flight,
    lines::Place,
    pods::Phase,
    reason::{Reason, due_of},
};

/// Between two questions: a search over all nodes for each must not keep a processor busy.
const ASKED_EVERY_MS: i64 = 50;
/// A pod for which there was no room is asked about again after this, whatever was heard of in between.
const ASKED_AGAIN_MS: i64 = 30_000;
/// And when the fleet has changed, not sooner than after this.
const CHANGED_ASKED_AGAIN_MS: i64 = 1_000;
/// When nobody could answer.
const UNANSWERED_RETRY_MS: i64 = 1_000;
/// An answer counts for this long: a pod that could not leave meanwhile is asked about again.
const ANSWER_MS_MAX: i64 = 10_000;
/// While a question is in flight, this many places of a line are looked at for a pod that needs no answer.
const PLACES_LOOKED_AT_MAX: usize = 64;

/// The question in flight, and the answers.
#[derive(Debug, Default)]
pub(crate) struct CapacityWait {
    in_flight: Option<EffectId>,
    /// No question before this instant.
    not_before: Option<Timestamp>,
    /// Pods for whose replacements there was room.
    granted: BTreeMap<u32, (Uid, Arc<Grant>)>,
    /// The revision of the fleet for which pods without room were last looked at again, and when.
    looked: Option<(u64, Timestamp)>,
    /// The fleet has changed since, and pods are kept.
    stale: bool,
}

/// Room for the replacements of these pods, all of them.
#[derive(Debug)]
struct Grant {
    pods: Vec<u32>,
    until: Timestamp,
}

impl CapacityWait {
    fn may_ask(&self, now: Timestamp) -> bool {
        self.in_flight.is_none() && self.not_before.is_none_or(|at| at <= now)
    }
}

impl Eviction {
    /// Whether a pod that is due leaves only if there is room for its replacement: every taint that makes it leave now wants that.
    fn needs_room(&self, now: Timestamp, at: PodIx) -> bool {
        let Some(slot) = invariant!(self.pods.get(at), "a pod that is planned has a slot") else {
            return false;
        };
        let due = due_of(&slot.reasons, now);
        let needs_none = |reason: &Reason| {
            !reason.cause.wants_capacity() || slot.waits_for_room_until(reason).is_some_and(|end| end <= now)
        };
        !due.is_empty() && !due.iter().any(needs_none)
    }

    /// Whether these pods may leave now, as far as room is concerned. If that is not known they wait until it is.
    pub(crate) fn has_room(&mut self, now: Timestamp, pods: &[PodIx]) -> bool {
        let mut wanted: Vec<PodIx> = pods.iter().copied().filter(|at| self.needs_room(now, *at)).collect();
        wanted.sort_unstable();
        let Some(&first) = wanted.first() else { return true };
        if self.is_granted(now, first, &wanted) {
            for at in &wanted {
                self.capacity.granted.remove(&at.0);
            }
            return true;
        }
        if self.capacity.may_ask(now) {
            self.ask_for_room(now, pods, &wanted);
        } else {
            // The answer that it had is not about those that would leave now.
            for at in &wanted {
                self.capacity.granted.remove(&at.0);
            }
            self.wait_for_answer(now, pods, UNANSWERED_RETRY_MS);
        }
        false
    }

    fn wait_for_answer(&mut self, now: Timestamp, pods: &[PodIx], most_ms: i64) {
        for at in pods {
            self.unschedule(*at, now);
            if let Some(slot) = self.pods.get_mut(*at) {
                slot.not_before = Some(now.plus_millis(most_ms));
            }
            self.schedule(*at, now);
        }
    }

    /// Clears instants that were set by the old clock.
    pub(crate) fn restart_capacity(&mut self) {
        self.capacity.not_before = None;
        self.capacity.looked = None;
        self.capacity.granted.clear();
    }

    fn is_granted(&self, now: Timestamp, first: PodIx, wanted: &[PodIx]) -> bool {
        let Some((_, grant)) = self.capacity.granted.get(&first.0) else { return false };
        let same_pod = |at: &PodIx| {
            let known = self.capacity.granted.get(&at.0).map(|(uid, _)| uid);
            known.is_some() && known == self.pods.get(*at).map(|slot| &slot.pod.uid)
        };
        grant.until > now
            && grant.pods.len() == wanted.len()
            && wanted.iter().zip(&grant.pods).all(|(at, granted)| at.0 == *granted)
            && wanted.iter().all(same_pod)
    }

    /// Asks about those of these pods that need room. All of them wait for the answer.
    fn ask_for_room(&mut self, now: Timestamp, pods: &[PodIx], wanted: &[PodIx]) {
        let mut question = CapacityQuestion::default();
        for at in wanted {
            let Some(slot) = invariant!(self.pods.get(*at), "a pod that is planned has a slot") else {
                continue;
            };
            let mut devices: Vec<_> = slot.reasons.iter().map(|reason| reason.device().clone()).collect();
            devices.sort_unstable();
            devices.dedup();
            let (pod, uid) = (slot.pod.key.clone(), slot.pod.uid.clone());
            question.pods.push(LeavingPod { pod, uid, devices });
        }
        self.wait_for_answer(now, pods, ASKED_AGAIN_MS);
        self.capacity.granted.retain(|_, (_, grant)| grant.until > now);
        let asked = |at: &PodIx| Some((*at, self.pods.get(*at)?.pod.uid.clone()));
        let flight = Flight::Capacity {
            waiting: pods.iter().filter_map(asked).collect(),
            wanted: wanted.iter().map(|at| at.0).collect(),
        };
        let id = self.flights.launch(flight, EffectKind::AskCapacity(question));
        self.capacity.in_flight = Some(id);
    }

    /// There is room, or nobody could say.
    pub(crate) fn room_answered(
        &mut self,
        now: Timestamp,
        id: EffectId,
        waiting: &[(PodIx, Uid)],
        wanted: Vec<u32>,
        has_room: bool,
    ) {
        if !self.question_is_over(now, id) {
            return;
        }
        if !has_room {
            let why = "it is not known yet whether there is room for the replacement";
            return self.keep_for_room(now, waiting, &wanted, &why.into(), UNANSWERED_RETRY_MS);
        }
        let grant = Arc::new(Grant { pods: wanted, until: now.plus_millis(ANSWER_MS_MAX) });
        for (at, uid) in waiting {
            if !self.is_waiting(*at, uid) {
                continue;
            }
            if grant.pods.binary_search(&at.0).is_ok() {
                self.capacity.granted.insert(at.0, (uid.clone(), grant.clone()));
            }
            self.unblock(*at);
            self.look_again(now, *at);
        }
    }

    /// There is no room.
    pub(crate) fn room_refused(
        &mut self,
        now: Timestamp,
        id: EffectId,
        waiting: &[(PodIx, Uid)],
        wanted: &[u32],
        why: &Text,
    ) {
        if self.question_is_over(now, id) {
            self.keep_for_room(now, waiting, wanted, why, ASKED_AGAIN_MS);
        }
    }

    fn question_is_over(&mut self, now: Timestamp, id: EffectId) -> bool {
        let is_it = self.capacity.in_flight == Some(id);
        if is_it {
            self.capacity.in_flight = None;
            self.capacity.not_before = Some(now.plus_millis(ASKED_EVERY_MS));
        }
        is_it
    }

    fn is_waiting(&self, at: PodIx, uid: &Uid) -> bool {
        self.pods.get(at).is_some_and(|slot| slot.pod.uid == *uid && slot.phase == Phase::Waiting)
    }

    /// These pods are kept, or look for another reason to leave.
    fn keep_for_room(
        &mut self,
        now: Timestamp,
        waiting: &[(PodIx, Uid)],
        wanted: &[u32],
        why: &Text,
        again_ms: i64,
    ) {
        for (at, uid) in waiting {
            if !self.is_waiting(*at, uid) {
                continue;
            }
            if wanted.binary_search(&at.0).is_err() || !self.needs_room(now, *at) {
                self.look_again(now, *at);
                continue;
            }
            let until = self.room_matters_until(now, *at, now.plus_millis(again_ms));
            self.block(now, *at, Blocked { why: Block::Capacity, message: why.clone() }, until);
        }
    }

    /// When a pod without room is looked at again: at the latest when one of its taints wants no room any more.
    fn room_matters_until(&self, now: Timestamp, at: PodIx, again: Timestamp) -> Timestamp {
        // It left while the question was asked.
        let Some(slot) = self.pods.get(at) else { return again };
        let ends = slot.reasons.iter().flat_map(|reason: &Reason| {
            [Some(reason.deadline), slot.waits_for_room_until(reason)].into_iter().flatten()
        });
        ends.filter(|end| *end > now).fold(again, Timestamp::min)
    }

    fn look_again(&mut self, now: Timestamp, at: PodIx) {
        self.unschedule(at, now);
        if let Some(slot) = self.pods.get_mut(at) {
            slot.not_before = None;
        }
        self.schedule(at, now);
    }

    /// Pods without room are looked at again when the fleet has changed. They stay kept until there is an answer.
    pub(crate) fn mind_capacity(&mut self, now: Timestamp, fleet: &Fleet) {
        let kept = self.kept_by(Block::Capacity);
        let revision = fleet.revision();
        let (of, when) = *self.capacity.looked.get_or_insert((revision, now));
        self.capacity.stale = !kept.is_empty() && of != revision;
        if !self.capacity.stale || (when <= now && now < when.plus_millis(CHANGED_ASKED_AGAIN_MS)) {
            return;
        }
        self.capacity.looked = Some((revision, now));
        self.capacity.stale = false;
        for at in kept {
            if self.pods.get(at).is_some_and(|slot| slot.phase == Phase::Waiting && slot.active == 0) {
                self.look_again(now, at);
            }
        }
    }

    /// When pods without room are looked at again because the fleet has changed.
    pub(crate) fn capacity_wake(&self) -> Option<Timestamp> {
        let (_, when) = self.capacity.looked.filter(|_| self.capacity.stale)?;
        Some(when.plus_millis(CHANGED_ASKED_AGAIN_MS).max(self.latest.plus_millis(1)))
    }

    /// The first pod of a line that can be decided about now.
    pub(crate) fn first_decidable<'a>(
        &self,
        now: Timestamp,
        cause: u32,
        state: &CauseState,
        mut line: impl Iterator<Item = &'a Place>,
    ) -> Option<u32> {
        if !state.cause.wants_capacity() || self.capacity.may_ask(now) {
            return line.next().map(|(.., at)| *at);
        }
        let granted = self.capacity.granted.keys().copied();
        let mut granted = granted.filter(|at| self.lines.is_in(cause, PodIx(*at)));
        granted.next().or_else(|| {
            let free = |(.., at): &&Place| !self.needs_room(now, PodIx(*at));
            line.take(PLACES_LOOKED_AT_MAX).find(free).map(|(.., at)| *at)
        })
    }

    /// When the next question may be asked, if that is what a line waits for. While one is in flight an answer comes first.
    pub(crate) fn question_wake(&self, now: Timestamp, state: &CauseState) -> Option<Timestamp> {
        let waits = state.cause.wants_capacity() && self.capacity.in_flight.is_none();
        self.capacity.not_before.filter(|at| waits && *at > now)
    }
}
