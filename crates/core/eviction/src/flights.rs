//! Effects in flight: waiting to be taken, or taken and not acknowledged.

use alloc::{sync::Arc, vec::Vec};

use lazaret_fleet::PodIx;
use lazaret_model::{Pod, Timestamp, Uid};

use crate::{
    blame::Blame,
    effect::{Effect, EffectId, EffectKind, Manner},
    reason::Reason,
};

/// An effect that will be acknowledged.
#[derive(Debug)]
pub(crate) enum Flight {
    /// An eviction.
    Evict(EvictFlight),
    /// The writing of a rule's status.
    Status {
        /// The rule's place among the rules.
        rule: u32,
        /// Its incarnation: the place may be another's by now.
        uid: Uid,
    },
    /// The writing of what a claim's devices were like.
    Memory {
        /// The claim's number.
        claim: u32,
        /// Its incarnation: the number may be another's by now.
        uid: Uid,
    },
    /// The writing of a guard's status.
    Guard,
    /// The question whether there is room for replacements.
    Capacity {
        /// Pods that wait for the answer, with their incarnations.
        waiting: Vec<(PodIx, Uid)>,
        /// The numbers of those that it is about, ascending.
        wanted: Vec<u32>,
    },
    /// An eviction of a leadership that is over.
    Stale {
        /// The pod.
        pod: PodIx,
        /// Its incarnation.
        uid: Uid,
    },
}

/// The data of an eviction that its acknowledgement needs.
#[derive(Debug)]
pub(crate) struct EvictFlight {
    pub(crate) at: PodIx,
    pub(crate) pod: Arc<Pod>,
    pub(crate) reasons: Arc<[Reason]>,
    pub(crate) decided: Timestamp,
    /// The pace that granted it.
    pub(crate) pace: Option<u32>,
    pub(crate) manner: Manner,
    /// Attempts before this one, of which nobody knows the outcome, when the pod went before this one landed. They
    /// count only if this one does not turn out to have been why.
    pub(crate) before: Option<Blame>,
    /// It leaves although there is no room for its replacement.
    pub(crate) without_room: bool,
}

/// All effects in flight. Bounded by the limits on evictions, statuses and events in the options.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    all: lazaret_machine::Flights<EffectKind, Flight>,
    pub(crate) evictions: usize,
    pub(crate) statuses: usize,
}

impl Flights {
    /// An effect to be acknowledged.
    pub(crate) fn launch(&mut self, flight: Flight, kind: EffectKind) -> EffectId {
        match flight {
            Flight::Evict(_) => self.evictions += 1,
            Flight::Status { .. } => self.statuses += 1,
            Flight::Memory { .. } | Flight::Guard | Flight::Capacity { .. } | Flight::Stale { .. } => {}
        }
        self.all.launch(flight, kind)
    }

    /// An event; dropped if too many wait already.
    pub(crate) fn announce(&mut self, event: EffectKind, events_max: usize) {
        self.all.announce(event, events_max);
    }

    /// The next effect to be done.
    pub(crate) fn take(&mut self) -> Option<Effect> {
        self.all.take()
    }

    /// The pod is gone while its eviction is in flight; an earlier attempt may have been why.
    pub(crate) fn keep_before(&mut self, id: EffectId, uncertain: Blame) {
        if let Some(Flight::Evict(flight)) = self.all.get_mut(id) {
            flight.before = Some(uncertain);
        }
    }

    /// Whether anything waits to be taken or acknowledged.
    pub(crate) fn are_open(&self) -> bool {
        self.waiting().next().is_some() || self.evictions > 0 || self.statuses > 0
    }

    /// The effect is done, has failed, or is not wanted any more.
    pub(crate) fn land(&mut self, id: EffectId) -> Option<Flight> {
        let flight = self.all.withdraw(id)?;
        match flight {
            Flight::Evict(_) => self.evictions = self.evictions.saturating_sub(1),
            Flight::Status { .. } => self.statuses = self.statuses.saturating_sub(1),
            Flight::Memory { .. } | Flight::Guard | Flight::Capacity { .. } | Flight::Stale { .. } => {}
        }
        Some(flight)
    }

    /// Effects that were not taken yet, the oldest first.
    pub(crate) fn waiting(&self) -> impl DoubleEndedIterator<Item = (EffectId, &EffectKind)> {
        self.all.waiting()
    }

    /// The pods whose evictions were not taken yet.
    pub(crate) fn untaken_evictions(&self) -> Vec<PodIx> {
        let pod = |(id, _): (EffectId, &EffectKind)| match self.all.get(id)? {
            Flight::Evict(flight) => Some(flight.at),
            Flight::Status { .. }
            | Flight::Memory { .. }
            | Flight::Guard
            | Flight::Capacity { .. }
            | Flight::Stale { .. } => None,
        };
        self.waiting().filter_map(pod).collect()
    }

    /// Whether the effect is an eviction.
    pub(crate) fn is_eviction(&self, id: EffectId) -> bool {
        matches!(self.all.get(id), Some(Flight::Evict(_)))
    }

    /// Whether the effect was not taken yet, so that it can be withdrawn.
    pub(crate) fn is_retractable(&self, id: EffectId) -> bool {
        self.all.is_waiting(id)
    }

    /// The leadership is over: what was not taken is not wanted; what was taken is no longer waited for, but a late
    /// answer still says that a pod is leaving. Returns the paces that had granted something.
    pub(crate) fn abandon(&mut self) -> Vec<u32> {
        (self.evictions, self.statuses) = (0, 0);
        let mut paces = Vec::new();
        self.all.abandon_except(|was_taken, flight| match flight {
            Flight::Evict(flight) => {
                paces.extend(flight.pace);
                was_taken.then(|| Flight::Stale { pod: flight.at, uid: flight.pod.uid.clone() })
            }
            Flight::Status { .. }
            | Flight::Memory { .. }
            | Flight::Guard
            | Flight::Capacity { .. }
            | Flight::Stale { .. } => None,
        });
        paces
    }
}
