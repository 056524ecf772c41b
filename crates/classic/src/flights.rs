//! Effects: waiting to be taken, or taken and not acknowledged.

use alloc::collections::{BTreeMap, VecDeque};

use lazaret_model::EffectId;

/// `F` is what has to be known when an effect is acknowledged, `K` what is to be done. Bounded by the limits in the options.
#[derive(Debug)]
pub(crate) struct Flights<F, K> {
    last: u64,
    flights: BTreeMap<EffectId, F>,
    waiting: VecDeque<(EffectId, K)>,
}

impl<F, K> Default for Flights<F, K> {
    fn default() -> Self {
        Self { last: 0, flights: BTreeMap::new(), waiting: VecDeque::new() }
    }
}

impl<F, K> Flights<F, K> {
    /// An effect to be acknowledged.
    pub(crate) fn send(&mut self, flight: F, kind: K) {
        let id = self.new_id();
        self.flights.insert(id, flight);
        self.waiting.push_back((id, kind));
    }

    /// An effect that nobody acknowledges; dropped if too many effects wait already.
    pub(crate) fn announce(&mut self, kind: K, waiting_max: usize) {
        if self.waiting.len() < waiting_max {
            let id = self.new_id();
            self.waiting.push_back((id, kind));
        }
    }

    pub(crate) fn take(&mut self) -> Option<(EffectId, K)> {
        self.waiting.pop_front()
    }

    pub(crate) fn land(&mut self, id: EffectId) -> Option<F> {
        self.flights.remove(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.flights.len()
    }

    /// Nothing of it is wanted any more, and no answer either.
    pub(crate) fn abandon(&mut self) {
        self.flights.clear();
        self.waiting.clear();
    }

    fn new_id(&mut self) -> EffectId {
        self.last += 1;
        EffectId(self.last)
    }
}
