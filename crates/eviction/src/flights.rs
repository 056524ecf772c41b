//! Effects on their way: waiting to be taken, or taken and not acknowledged.

use alloc::{collections::VecDeque, sync::Arc, vec::Vec};

use hashbrown::HashMap;
use lazaret_fleet::PodIx;
use lazaret_model::{Pod, Timestamp, Uid};
use rustc_hash::FxBuildHasher;

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
        /// Somebody has taken the effect.
        taken: bool,
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

/// What has to be known when an eviction is acknowledged.
#[derive(Debug)]
pub(crate) struct EvictFlight {
    pub(crate) at: PodIx,
    pub(crate) pod: Arc<Pod>,
    pub(crate) reasons: Arc<[Reason]>,
    pub(crate) decided: Timestamp,
    /// The pace that granted it.
    pub(crate) pace: Option<u32>,
    pub(crate) manner: Manner,
    /// Somebody has taken the effect: it may be happening.
    pub(crate) taken: bool,
    /// Attempts before this one, of which nobody knows the outcome, when the pod went before this one landed. They
    /// count only if this one does not turn out to have been why.
    pub(crate) before: Option<Blame>,
    /// It leaves although there is no room for its replacement.
    pub(crate) without_room: bool,
}

/// All effects on their way. Bounded by the limits on evictions, statuses and events in the options.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    next: u64,
    flights: HashMap<EffectId, Flight, FxBuildHasher>,
    /// Effects that nobody has taken yet, by id: they come in that order.
    waiting: VecDeque<(EffectId, EffectKind)>,
    pub(crate) evictions: usize,
    pub(crate) statuses: usize,
    events: usize,
}

impl Flights {
    pub(crate) fn new_id(&mut self) -> EffectId {
        self.next += 1;
        EffectId(self.next)
    }

    /// An effect to be acknowledged. Its id is the last one given.
    pub(crate) fn launch(&mut self, id: EffectId, flight: Flight, kind: EffectKind) {
        match flight {
            Flight::Evict(_) => self.evictions += 1,
            Flight::Status { .. } => self.statuses += 1,
            Flight::Memory { .. } | Flight::Guard | Flight::Capacity { .. } | Flight::Stale { .. } => {}
        }
        self.flights.insert(id, flight);
        self.waiting.push_back((id, kind));
    }

    /// An event; dropped if too many wait already.
    pub(crate) fn announce(&mut self, event: EffectKind, events_max: usize) {
        if self.events < events_max {
            self.events += 1;
            let id = self.new_id();
            self.waiting.push_back((id, event));
        }
    }

    /// The next effect to be done.
    pub(crate) fn take(&mut self) -> Option<Effect> {
        let (id, kind) = self.waiting.pop_front()?;
        match kind {
            EffectKind::Event(_) | EffectKind::RuleEvent(_) => self.events = self.events.saturating_sub(1),
            EffectKind::SetLastPublished(_) | EffectKind::SetGuardStatus(_) | EffectKind::AskCapacity(_) => {}
            EffectKind::Evict(_) | EffectKind::SetRuleStatus(_) => {
                if let Some(Flight::Evict(EvictFlight { taken, .. }) | Flight::Status { taken, .. }) =
                    self.flights.get_mut(&id)
                {
                    *taken = true;
                }
            }
        }
        Some(Effect { id, kind })
    }

    /// The pod is gone while its eviction is under way; an earlier attempt may have been why.
    pub(crate) fn keep_before(&mut self, id: EffectId, uncertain: Blame) {
        if let Some(Flight::Evict(flight)) = self.flights.get_mut(&id) {
            flight.before = Some(uncertain);
        }
    }

    /// Whether anything waits to be taken or acknowledged.
    pub(crate) fn are_under_way(&self) -> bool {
        !self.waiting.is_empty() || self.evictions > 0 || self.statuses > 0
    }

    /// The effect is done, has failed, or is not wanted any more.
    pub(crate) fn land(&mut self, id: EffectId) -> Option<Flight> {
        let flight = self.flights.remove(&id)?;
        if let Ok(place) = self.waiting.binary_search_by_key(&id, |(id, _)| *id) {
            self.waiting.remove(place);
        }
        match flight {
            Flight::Evict(_) => self.evictions = self.evictions.saturating_sub(1),
            Flight::Status { .. } => self.statuses = self.statuses.saturating_sub(1),
            Flight::Memory { .. } | Flight::Guard | Flight::Capacity { .. } | Flight::Stale { .. } => {}
        }
        Some(flight)
    }

    /// Effects that nobody has taken yet, the oldest first.
    pub(crate) fn waiting(&self) -> impl DoubleEndedIterator<Item = (EffectId, &EffectKind)> {
        self.waiting.iter().map(|(id, kind)| (*id, kind))
    }

    /// The pods whose evictions nobody has taken yet.
    pub(crate) fn untaken_evictions(&self) -> Vec<PodIx> {
        let pod = |(id, _): &(EffectId, EffectKind)| match self.flights.get(id)? {
            Flight::Evict(flight) => Some(flight.at),
            Flight::Status { .. }
            | Flight::Memory { .. }
            | Flight::Guard
            | Flight::Capacity { .. }
            | Flight::Stale { .. } => None,
        };
        self.waiting.iter().filter_map(pod).collect()
    }

    /// Whether nobody has taken this effect yet, so that it can be withdrawn.
    pub(crate) fn is_retractable(&self, id: EffectId) -> bool {
        match self.flights.get(&id) {
            Some(Flight::Evict(EvictFlight { taken, .. }) | Flight::Status { taken, .. }) => !taken,
            Some(Flight::Memory { .. } | Flight::Guard | Flight::Capacity { .. } | Flight::Stale { .. })
            | None => false,
        }
    }

    /// The leadership is over: what was not taken is not wanted; what was taken is no longer waited for, but a late
    /// answer still says that a pod is leaving. Returns the paces that had granted something.
    pub(crate) fn abandon(&mut self) -> Vec<u32> {
        self.waiting.clear();
        (self.evictions, self.statuses, self.events) = (0, 0, 0);
        let mut flights: Vec<(EffectId, Flight)> = self.flights.drain().collect();
        flights.sort_unstable_by_key(|(id, _)| *id);
        let mut paces = Vec::new();
        for (id, flight) in flights {
            if let Flight::Evict(flight) = flight {
                paces.extend(flight.pace);
                if flight.taken {
                    self.flights.insert(id, Flight::Stale { pod: flight.at, uid: flight.pod.uid.clone() });
                }
            }
        }
        paces
    }
}
