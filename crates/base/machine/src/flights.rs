//! Effects in flight: waiting to be taken, or taken and not acknowledged.

use alloc::{
    collections::{BTreeSet, VecDeque},
    vec::Vec,
};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::{Effect, EffectId};

/// Room that is kept when nothing is in flight any more: more was needed by a burst.
const ROOM_KEPT: usize = 224;

/// Effects of kind `K` in flight, each with what has to be known when it is acknowledged. Bounded by what the machine lets be in flight, and by
/// the limit on events.
#[derive(Debug)]
pub struct Flights<K, F> {
    last: u64,
    in_flight: HashMap<EffectId, F, FxBuildHasher>,
    waiting: VecDeque<Waiting<K>>,
    events: usize,
}

#[derive(Debug)]
struct Waiting<K> {
    effect: Effect<K>,
    is_event: bool,
}

impl<K, F> Default for Flights<K, F> {
    fn default() -> Self {
        Self { last: 0, in_flight: HashMap::default(), waiting: VecDeque::new(), events: 0 }
    }
}

impl<K, F> Flights<K, F> {
    /// An effect that is to be acknowledged: it waits to be taken.
    pub fn launch(&mut self, flight: F, kind: K) -> EffectId {
        let id = self.new_id();
        self.in_flight.insert(id, flight);
        self.waiting.push_back(Waiting { effect: Effect { id, kind }, is_event: false });
        id
    }

    /// An effect that is to be acknowledged and is taken at once, before all that wait.
    pub fn send(&mut self, flight: F, kind: K) -> Effect<K> {
        let id = self.new_id();
        self.in_flight.insert(id, flight);
        Effect { id, kind }
    }

    /// An event, which needs no acknowledgement; dropped if `events_max` wait already.
    pub fn announce(&mut self, event: K, events_max: usize) {
        if self.events < events_max {
            self.events += 1;
            let effect = Effect { id: self.new_id(), kind: event };
            self.waiting.push_back(Waiting { effect, is_event: true });
        }
    }

    /// The next effect to be done, the oldest first.
    pub fn take(&mut self) -> Option<Effect<K>> {
        let Waiting { effect, is_event } = self.waiting.pop_front()?;
        self.events -= usize::from(is_event);
        if self.waiting.is_empty() && self.waiting.capacity() > ROOM_KEPT {
            self.waiting.shrink_to(ROOM_KEPT);
        }
        Some(effect)
    }

    /// The effect was acknowledged. `None`: it is no event of this machine that waits for an answer, or was acknowledged before.
    pub fn land(&mut self, id: EffectId) -> Option<F> {
        let flight = self.in_flight.remove(&id);
        if self.in_flight.is_empty() && self.in_flight.capacity() > ROOM_KEPT {
            self.in_flight.shrink_to(ROOM_KEPT);
        }
        flight
    }

    /// The effect is not wanted any more: no answer is waited for, and it is not given out if it was not taken yet.
    pub fn withdraw(&mut self, id: EffectId) -> Option<F> {
        let flight = self.in_flight.remove(&id)?;
        if let Some(place) = self.place(id) {
            self.waiting.remove(place);
        }
        Some(flight)
    }

    /// Takes back all that was not taken yet, events included; what was taken will be acknowledged all the same.
    pub fn withdraw_waiting(&mut self) -> BTreeSet<EffectId> {
        self.events = 0;
        let withdrawn: BTreeSet<EffectId> = self.waiting.drain(..).map(|waiting| waiting.effect.id).collect();
        for id in &withdrawn {
            self.in_flight.remove(id);
        }
        withdrawn
    }

    /// Drops all effects; no answer is expected any more. Returns the data of those that await acknowledgement, the oldest first.
    pub fn abandon(&mut self) -> Vec<F> {
        let mut flights = Vec::with_capacity(self.in_flight.len());
        self.abandon_except(|_, flight| {
            flights.push(flight);
            None
        });
        flights
    }

    /// Nothing is wanted any more, and an answer only where `keep` returns what has to be known then. It gets each, the oldest first, and whether it was
    /// taken: only then it may have been done.
    pub fn abandon_except(&mut self, mut keep: impl FnMut(bool, F) -> Option<F>) {
        let mut flights: Vec<(EffectId, F)> = self.in_flight.drain().collect();
        flights.sort_unstable_by_key(|(id, _)| *id);
        for (id, flight) in flights {
            let was_taken = !self.is_waiting(id);
            if let Some(kept) = keep(was_taken, flight) {
                self.in_flight.insert(id, kept);
            }
        }
        self.waiting.clear();
        self.events = 0;
    }

    /// Whether the effect waits to be taken: it was certainly not done, and can be withdrawn.
    #[must_use]
    pub fn is_waiting(&self, id: EffectId) -> bool {
        self.place(id).is_some()
    }

    /// The effect, if it waits to be taken: it is brought up to date there and keeps its turn.
    pub fn waiting_mut(&mut self, id: EffectId) -> Option<&mut K> {
        let place = self.place(id)?;
        self.waiting.get_mut(place).map(|waiting| &mut waiting.effect.kind)
    }

    /// Effects that wait to be taken, the oldest first.
    pub fn waiting(&self) -> impl DoubleEndedIterator<Item = (EffectId, &K)> {
        self.waiting.iter().map(|waiting| (waiting.effect.id, &waiting.effect.kind))
    }

    /// The data kept until the effect is acknowledged.
    #[must_use]
    pub fn get(&self, id: EffectId) -> Option<&F> {
        self.in_flight.get(&id)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, id: EffectId) -> Option<&mut F> {
        self.in_flight.get_mut(&id)
    }

    /// The data of all effects that await acknowledgement, the oldest first.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "sorted before anybody sees the order")]
    pub fn all(&self) -> Vec<&F> {
        let mut flights: Vec<(&EffectId, &F)> = self.in_flight.iter().collect();
        flights.sort_unstable_by_key(|(id, _)| *id);
        flights.into_iter().map(|(_, flight)| flight).collect()
    }

    /// How many are to be acknowledged.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether none is to be acknowledged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Where the effect waits: ids grow from the oldest to the newest.
    fn place(&self, id: EffectId) -> Option<usize> {
        self.waiting.binary_search_by_key(&id, |waiting| waiting.effect.id).ok()
    }

    fn new_id(&mut self) -> EffectId {
        self.last += 1;
        EffectId(self.last)
    }
}
