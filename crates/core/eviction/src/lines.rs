//! Pods that are due because of rules that say how pods leave: for each such taint they wait in a line of its own, lowest priority first, then
//! youngest, then by name.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::cmp::Reverse;

use hashbrown::HashMap;
use lazaret_fleet::PodIx;
use lazaret_model::{EvictionMode, ObjectKey, Pod, Timestamp, Uid};
use rustc_hash::FxBuildHasher;

use crate::{
    Eviction,
    causes::CauseState,
    dispatch::Candidate,
    effect::Manner,
    reason::{Reason, Source, due_of},
};

/// A place in a line.
pub(crate) type Place = (i32, Reverse<Timestamp>, ObjectKey, u32);

/// The place of a pod. One that does not say when it was made is the oldest.
fn place_of(pod: &Pod, at: PodIx) -> Place {
    (pod.priority, Reverse(pod.created.unwrap_or(Timestamp::EPOCH)), pod.key.clone(), at.0)
}

/// All lines, by the cause that the pods are due for, and who has left a line and not gone yet.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    ready: BTreeMap<u32, BTreeSet<Place>>,
    /// Where each pod waits, by cause and pod: what its place follows from may have changed since.
    places: BTreeMap<(u32, u32), Place>,
    /// Pods whose eviction is in flight or done and that are not seen to be terminating yet, with the rules that were due.
    outgoing: BTreeMap<u32, Outgoing>,
    outgoing_of: HashMap<Uid, BTreeSet<u32>, FxBuildHasher>,
    /// Until when pods are outgoing of which nobody knows whether their eviction happened.
    doubts: BTreeSet<(Timestamp, u32)>,
}

/// A pod that may be terminating.
#[derive(Debug)]
struct Outgoing {
    rules: Vec<Uid>,
    /// Its entry among the doubts.
    doubted_until: Option<Timestamp>,
}

impl Lines {
    pub(crate) fn enter(&mut self, cause: u32, pod: &Pod, at: PodIx) {
        self.leave(cause, at);
        let place = place_of(pod, at);
        self.places.insert((cause, at.0), place.clone());
        self.ready.entry(cause).or_default().insert(place);
    }

    pub(crate) fn leave(&mut self, cause: u32, at: PodIx) {
        if let Some(place) = self.places.remove(&(cause, at.0))
            && let Some(line) = self.ready.get_mut(&cause)
        {
            line.remove(&place);
            if line.is_empty() {
                self.ready.remove(&cause);
            }
        }
    }

    /// Empties all lines, and forgets the own evictions in flight.
    pub(crate) fn dismiss(&mut self) {
        *self = Self::default();
    }

    /// The eviction of a pod begins for these reasons, all of them due. A rule without a limit may get one before the pod is seen to be
    /// terminating.
    pub(crate) fn set_out(&mut self, at: PodIx, due: &[Reason]) {
        let mut rules: Vec<Uid> = Vec::new();
        for reason in due {
            if let Source::Rule { uid, .. } = &reason.cause.source
                && !rules.contains(uid)
            {
                rules.push(uid.clone());
            }
        }
        if rules.is_empty() {
            return;
        }
        self.came_back(at);
        for rule in &rules {
            self.outgoing_of.entry(rule.clone()).or_default().insert(at.0);
        }
        self.outgoing.insert(at.0, Outgoing { rules, doubted_until: None });
    }

    /// The pod stays for now, or is seen to be terminating, or is gone.
    pub(crate) fn came_back(&mut self, at: PodIx) {
        let Some(outgoing) = self.outgoing.remove(&at.0) else { return };
        for rule in outgoing.rules {
            if let Some(pods) = self.outgoing_of.get_mut(&rule) {
                pods.remove(&at.0);
                if pods.is_empty() {
                    self.outgoing_of.remove(&rule);
                }
            }
        }
        if let Some(until) = outgoing.doubted_until {
            self.doubts.remove(&(until, at.0));
        }
    }

    /// The outcome of the pod's eviction is unknown. If it happened, the pod is seen to be terminating before this instant.
    pub(crate) fn doubt(&mut self, at: PodIx, until: Timestamp) {
        let Some(outgoing) = self.outgoing.get_mut(&at.0) else { return };
        if let Some(before) = outgoing.doubted_until.replace(until) {
            self.doubts.remove(&(before, at.0));
        }
        self.doubts.insert((until, at.0));
    }

    /// Pods that would be seen to be terminating by now, if they were, stay.
    pub(crate) fn end_doubts(&mut self, now: Timestamp) {
        while let Some(&(until, at)) = self.doubts.first().filter(|(until, _)| *until <= now) {
            self.doubts.remove(&(until, at));
            self.came_back(PodIx(at));
        }
    }

    /// Whether a pod waits in the line of a cause.
    pub(crate) fn is_in(&self, cause: u32, at: PodIx) -> bool {
        self.places.contains_key(&(cause, at.0))
    }

    /// Pods that are outgoing because of a rule.
    fn outgoing_of(&self, rule: &Uid) -> impl ExactSizeIterator<Item = u32> {
        self.outgoing_of.get(rule).map(|pods| pods.iter().copied()).unwrap_or_default()
    }
}

impl Eviction {
    /// The next pod from the lines. The first line that may move: its pace permits and not too many of its pods are terminating.
    pub(crate) fn next_in_line(&self, now: Timestamp) -> Option<Candidate> {
        self.lines.ready.iter().find_map(|(&cause, line)| {
            let state = self.causes.get(cause)?;
            let pace = state.pace.map(|(pace, _)| pace);
            let (pod, size) = self.first_with_room(now, cause, state, line)?;
            let permitted = pace.is_none_or(|pace| self.paces.permits_together(pace, size, now))
                && (size == 1
                    || self.ceiling.as_ref().is_none_or(|ceiling| ceiling.permits_together(size, now)));
            (permitted && !is_expired(state, now)).then_some(Candidate { pod, pace, line: Some(cause) })
        })
    }

    /// When the next pod of a line may go, if nothing else happens before.
    pub(crate) fn line_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let next = |(&cause, line): (&u32, &BTreeSet<Place>)| {
            let state = self.causes.get(cause)?;
            let Some((_, size)) = self.first_with_room(now, cause, state, line) else {
                return self.question_wake(now, state);
            };
            let mut permit = state.pace.map_or(now, |(pace, _)| self.paces.next_permit(pace, size, now));
            if size > 1
                && let Some(ceiling) = &self.ceiling
            {
                permit = permit.max(ceiling.next_permit_together(size, now));
            }
            (permit != Timestamp::NEVER && !is_expired(state, now)).then_some(permit)
        };
        let doubt = self.lines.doubts.first().map(|(until, _)| *until);
        self.lines.ready.iter().filter_map(next).chain(doubt).min()
    }

    /// The next pod of a line, and how many leave with it: its first if there is room for as many more pods that are terminating because of the rule,
    /// or else one that may be terminating already.
    fn first_with_room(
        &self,
        now: Timestamp,
        cause: u32,
        state: &CauseState,
        line: &BTreeSet<Place>,
    ) -> Option<(PodIx, usize)> {
        // The members of a group are known only when all changes are known.
        if self.partial && state.cause.is_together() {
            return None;
        }
        let first = self.first_decidable(now, cause, state, line.iter())?;
        let sized = |at: u32| (PodIx(at), self.party_size(cause, at));
        let most = state.cause.taint.eviction.as_ref().and_then(|spec| spec.max_concurrent);
        let (Some(most), Source::Rule { uid, .. }) = (most, &state.cause.source) else {
            return Some(sized(first));
        };
        let terminating =
            state.rule.and_then(|rule| self.rules.get(rule)).map_or(0, |rule| rule.terminating());
        let outgoing = self.lines.outgoing_of(uid);
        let besides = |at: u32| {
            let own = self.lines.outgoing.get(&at).is_some_and(|outgoing| outgoing.rules.contains(uid));
            terminating + self.lines.outgoing_of(uid).len() - usize::from(own)
        };
        let has_room = |&(at, size): &(PodIx, usize)| besides(at.0) + size <= most as usize;
        let mut waiting = outgoing.filter(|at| self.lines.places.contains_key(&(cause, *at)));
        Some(sized(first))
            .filter(has_room)
            .or_else(|| waiting.find_map(|at| Some(sized(at)).filter(has_room)))
    }

    /// When a window opens for a pod all of whose rules have windows, none of them open.
    pub(crate) fn closed_until(&self, now: Timestamp, at: PodIx) -> Option<Timestamp> {
        let due = due_of(&self.pods.get(at)?.reasons, now);
        let mut first = None;
        for reason in due {
            let until = reason.cause.taint.eviction.as_ref()?.closed_until(now)?;
            first = Some(first.map_or(until, |first: Timestamp| first.min(until)));
        }
        first
    }

    /// How a pod that is let go is made to leave.
    pub(crate) fn manner(&self, now: Timestamp, candidate: Candidate) -> Manner {
        let state = candidate.line.and_then(|cause| self.causes.get(cause));
        let spec = state.and_then(|state| state.cause.taint.eviction.as_ref());
        match spec.map_or(EvictionMode::Delete, |spec| spec.mode) {
            EvictionMode::Delete => Manner::Delete,
            EvictionMode::Evict | EvictionMode::EvictThenDelete => {
                let is_overdue = self.pods.get(candidate.pod).is_some_and(|slot| {
                    let mut ends = slot.reasons.iter().filter_map(|reason| slot.is_deleted_at(reason));
                    ends.any(|end| end <= now)
                });
                if is_overdue { Manner::DeleteOverdue } else { Manner::Evict }
            }
        }
    }
}

/// No pod leaves because of a rule that has expired.
fn is_expired(state: &CauseState, now: Timestamp) -> bool {
    state.cause.taint.eviction.as_ref().is_some_and(|spec| spec.is_expired(now))
}
