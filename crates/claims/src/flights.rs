//! Effects on their way: waiting to be taken, or taken and not acknowledged.

use alloc::collections::VecDeque;

use hashbrown::HashMap;
use lazaret_model::{ObjectKey, Text, Uid};
use rustc_hash::FxBuildHasher;

use crate::{
    effect::{Effect, EffectId, EffectKind},
    holder::Holder,
    queue::Item,
};

/// What has to be known when an effect is acknowledged.
#[derive(Debug)]
pub(crate) enum Flight {
    /// A claim is being made.
    Create { holder: Holder, entry: Text, claim: Text, admin_access: bool },
    /// The names of claims are being written into a status.
    Names(Holder),
    /// A claim is being changed.
    Claim { claim: ObjectKey, uid: Uid, version: Text, deallocates: bool, reserves: bool, deletes: bool },
    /// Somebody is being asked for.
    Confirm(Holder),
    /// A node is being looked for because of a pod or claim that is gone; then this is looked at again.
    Silence { gone: Uid, item: Item },
    /// A node is being asked.
    Node { node: Text, uid: Uid },
}

/// Bounded by the limits in the options.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    last: u64,
    flights: HashMap<EffectId, Flight, FxBuildHasher>,
    waiting: VecDeque<Effect>,
    events: usize,
}

impl Flights {
    /// An effect to be acknowledged.
    pub(crate) fn launch(&mut self, flight: Flight, kind: EffectKind) -> EffectId {
        let id = self.new_id();
        self.flights.insert(id, flight);
        self.waiting.push_back(Effect { id, kind });
        id
    }

    /// An event; dropped if too many wait already.
    pub(crate) fn announce(&mut self, event: EffectKind, events_max: usize) {
        if self.events < events_max {
            self.events += 1;
            let id = self.new_id();
            self.waiting.push_back(Effect { id, kind: event });
        }
    }

    /// The next effect to be done.
    pub(crate) fn take(&mut self) -> Option<Effect> {
        let effect = self.waiting.pop_front()?;
        if matches!(effect.kind, EffectKind::Event(_) | EffectKind::ClaimEvent(_)) {
            self.events = self.events.saturating_sub(1);
        }
        Some(effect)
    }

    /// The effect is done, or has failed.
    pub(crate) fn land(&mut self, id: EffectId) -> Option<Flight> {
        self.flights.remove(&id)
    }

    /// How many are under way.
    pub(crate) fn len(&self) -> usize {
        self.flights.len()
    }

    /// Nothing of it is wanted any more, and no answer either.
    pub(crate) fn abandon(&mut self) {
        self.flights.clear();
        self.waiting.clear();
        self.events = 0;
    }

    fn new_id(&mut self) -> EffectId {
        self.last += 1;
        EffectId(self.last)
    }
}
