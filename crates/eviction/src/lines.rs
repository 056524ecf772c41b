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
    outgoing: BTreeMap<u32, Vec<Uid>>,
    outgoing_of: HashMap<Uid, u32, FxBuildHasher>,
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

    /// Nobody waits any more, and nothing of one's own is in flight.
    pub(crate) fn dismiss(&mut self) {
        *self = Self::default();
    }

    /// The eviction of a pod begins for these reasons, all of them due.
    pub(crate) fn set_out(&mut self, at: PodIx, due: &[Reason]) {
        let limited = |reason: &&Reason| {
            reason.cause.taint.eviction.as_ref().is_some_and(|spec| spec.max_concurrent.is_some())
        };
        let mut rules: Vec<Uid> = Vec::new();
        for reason in due.iter().filter(limited) {
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
            *self.outgoing_of.entry(rule.clone()).or_insert(0) += 1;
        }
        self.outgoing.insert(at.0, rules);
    }

    /// The pod stays for now, or is seen to be terminating, or is gone.
    pub(crate) fn came_back(&mut self, at: PodIx) {
        for rule in self.outgoing.remove(&at.0).unwrap_or_default() {
            if let Some(count) = self.outgoing_of.get_mut(&rule) {
                *count -= 1;
                if *count == 0 {
                    self.outgoing_of.remove(&rule);
                }
            }
        }
    }

    /// How many others than this pod are outgoing because of a rule.
    fn outgoing_besides(&self, rule: &Uid, at: u32) -> usize {
        let all = self.outgoing_of.get(rule).map_or(0, |count| *count as usize);
        let own = self.outgoing.get(&at).is_some_and(|rules| rules.contains(rule));
        all - usize::from(own)
    }
}

impl Eviction {
    /// Who goes next of those that wait in lines. The first line that may move: its pace permits and not too many of its pods are terminating.
    pub(crate) fn next_in_line(&self, now: Timestamp) -> Option<Candidate> {
        self.lines.ready.iter().find_map(|(&cause, line)| {
            let state = self.causes.get(cause)?;
            let pace = state.pace.map(|(pace, _)| pace);
            let (.., at) = line.first()?;
            let size = self.party_size(cause, *at);
            let permitted = pace.is_none_or(|pace| self.paces.permits_together(pace, size, now))
                && (size == 1
                    || self.ceiling.as_ref().is_none_or(|ceiling| ceiling.permits_together(size, now)));
            (permitted && !is_expired(state, now) && self.has_room(state, *at, size)).then_some(Candidate {
                pod: PodIx(*at),
                pace,
                line: Some(cause),
            })
        })
    }

    /// When the next pod of a line may go, if nothing else happens before.
    pub(crate) fn line_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let next = |(&cause, line): (&u32, &BTreeSet<Place>)| {
            let state = self.causes.get(cause)?;
            let (.., at) = line.first()?;
            let size = self.party_size(cause, *at);
            let mut permit = state.pace.map_or(now, |(pace, _)| self.paces.next_permit(pace, size, now));
            if size > 1
                && let Some(ceiling) = &self.ceiling
            {
                permit = permit.max(ceiling.next_permit_together(size, now));
            }
            (permit != Timestamp::NEVER && !is_expired(state, now) && self.has_room(state, *at, size))
                .then_some(permit)
        };
        self.lines.ready.iter().filter_map(next).min()
    }

    /// Whether so many more pods may be terminating because of a rule.
    fn has_room(&self, state: &CauseState, at: u32, pods: usize) -> bool {
        let most = state.cause.taint.eviction.as_ref().and_then(|spec| spec.max_concurrent);
        let (Some(most), Source::Rule { uid, .. }) = (most, &state.cause.source) else { return true };
        let terminating =
            state.rule.and_then(|rule| self.rules.get(rule)).map_or(0, |rule| rule.terminating());
        terminating + self.lines.outgoing_besides(uid, at) + pods <= most as usize
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
                let overdue = |reason: &Reason| reason.must_be_gone_by().is_some_and(|end| end <= now);
                let slot = self.pods.get(candidate.pod);
                let is_overdue = slot.is_some_and(|slot| slot.reasons.iter().any(overdue));
                if is_overdue { Manner::DeleteOverdue } else { Manner::Evict }
            }
        }
    }
}

/// Nobody leaves any more because of a rule that has expired.
fn is_expired(state: &CauseState, now: Timestamp) -> bool {
    state.cause.taint.eviction.as_ref().is_some_and(|spec| spec.is_expired(now))
}
