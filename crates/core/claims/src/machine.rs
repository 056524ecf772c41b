//! The machine: its state, what it takes note of, and what can be asked of it.

use alloc::{collections::BTreeSet, vec::Vec};

use lazaret_machine::Machine;
use lazaret_model::{ObjectKey, Text, Timestamp};

use crate::{
    asking::Asking,
    claim_work::RESERVED_MAX,
    counters::{Census, Counters},
    effect::{Effect, EffectKind, Wake, WakeReason},
    flights::Flights,
    holder::HolderKind,
    input::Input,
    options::Options,
    queue::{Item, Queue},
    standing::Confirmations,
    tables::Tables,
};

/// The claims of one cluster.
#[derive(Debug)]
pub struct Claims {
    pub(crate) options: Options,
    pub(crate) leads: bool,
    pub(crate) synced: bool,
    pub(crate) tables: Tables,
    pub(crate) confirmations: Confirmations,
    pub(crate) asking: Asking,
    pub(crate) queue: Queue,
    pub(crate) flights: Flights,
    pub(crate) counters: Counters,
    /// The latest instant heard of.
    latest: Timestamp,
}

impl Machine for Claims {
    type View = ();
    type Input<'a> = Input;
    type Kind = EffectKind;
    type Why = WakeReason;

    fn handle(&mut self, now: Timestamp, (): &(), input: Input) {
        Self::handle(self, now, input);
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        Self::poll_effect(self)
    }

    fn next_wake(&self) -> Option<Wake> {
        Self::next_wake(self)
    }
}

lazaret_machine::turns!(Input, |effect, reply| Input::Acknowledged {
    effect,
    outcome: reply.outcome,
    why: reply.why
});

impl Claims {
    /// A machine that knows nothing yet and does not lead.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            // All pods that one claim names have to be remembered at once.
            confirmations: Confirmations::new(options.gone_max.max(2 * RESERVED_MAX)),
            asking: Asking::new(options.gone_max.max(2 * RESERVED_MAX)),
            options,
            leads: false,
            synced: false,
            tables: Tables::default(),
            queue: Queue::default(),
            flights: Flights::default(),
            counters: Counters::default(),
            latest: Timestamp::from_millis(i64::MIN),
        }
    }

    /// Takes note of `input` and decides what is to be done at `now`. Total: any input in any state.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        let was_active = self.is_active();
        if now < self.latest && was_active {
            // Whatever was set to happen a while after "now" by the old clock would happen too late by the new one.
            self.start_over();
        }
        self.latest = now;
        self.take_note(now, input);
        if was_active != self.is_active() {
            self.start_over();
        }
        if self.is_active() {
            self.queue.wake(now);
            self.work(now);
        }
    }

    /// The next effect to be done, the oldest first. None is given twice.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.flights.take()
    }

    /// When to call again if nothing happens before. `None`: there is nothing to wait for.
    #[must_use]
    pub fn next_wake(&self) -> Option<Wake> {
        if !self.is_active() {
            return None;
        }
        self.queue.next_wake()
    }

    /// Whether effects are wanted.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.leads
    }

    /// The counts of actions.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How many claims there are.
    #[must_use]
    pub fn census(&self) -> Census {
        self.tables.census
    }

    /// How many claims wait for a node to unprepare them, those included that were removed by hand.
    #[must_use]
    pub fn awaiting(&self) -> usize {
        self.asking.waits.len()
    }

    /// How many effects are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// How many things are kept: pods and groups, claims, templates, names that are mentioned, timers, pods asked for. For gauges
    /// and for tests of forgetting.
    #[must_use]
    pub fn sizes(&self) -> [usize; 6] {
        let tables = &self.tables;
        let links = [
            &tables.claims_of_pod,
            &tables.claims_of_group,
            &tables.pods_of_group,
            &tables.pods_of_claim,
            &tables.pods_of_template,
            &tables.groups_of_template,
        ];
        [
            tables.pods.len() + tables.groups.len(),
            tables.claims.len(),
            tables.templates.len(),
            links.iter().map(|links| links.len()).sum(),
            self.queue.timers(),
            self.confirmations.questions() + self.asking.silent.questions(),
        ]
    }

    fn is_active(&self) -> bool {
        self.leads && self.synced
    }

    /// Forgets all work in flight, and looks at everything if effects are wanted. An effect that was in flight may still happen;
    /// nothing that happens twice does harm.
    fn start_over(&mut self) {
        self.flights.abandon();
        self.queue.clear();
        self.confirmations.forget_questions();
        for slot in self.tables.pods.values_mut() {
            slot.work = None;
        }
        for slot in self.tables.groups.values_mut() {
            slot.work = None;
        }
        for slot in self.tables.claims.values_mut() {
            (slot.in_flight, slot.plan, slot.setback) = Default::default();
        }
        self.asking.forget_work();
        if self.is_active() {
            self.everything().into_iter().for_each(|item| self.queue.push(item));
        }
    }

    #[allow(clippy::disallowed_methods, reason = "sorted before anybody sees the order")]
    fn everything(&self) -> Vec<Item> {
        let claims = self.tables.claims.keys().cloned().map(Item::Claim);
        let pods = self.tables.pods.values().filter(|slot| !slot.pod.claims.is_empty());
        let pods = pods.map(|slot| Item::Holder(HolderKind::Pod, slot.pod.key.clone()));
        let groups = self.tables.groups.keys().cloned().map(|key| Item::Holder(HolderKind::Group, key));
        let awaited = self.asking.waits.values().flat_map(|wait| &wait.nodes);
        let nodes: BTreeSet<&Text> = self.asking.nodes.keys().chain(awaited).collect();
        let nodes = nodes.into_iter().cloned().map(Item::Node);
        let mut items: Vec<Item> = claims.chain(pods).chain(groups).chain(nodes).collect();
        items.sort_unstable();
        items
    }

    /// Looks at what has come up, as far as the limit on effects permits.
    fn work(&mut self, now: Timestamp) {
        while self.flights.len() < self.options.in_flight_max {
            match self.queue.pop() {
                Some(Item::Claim(key)) => self.look_at_claim(now, &key),
                Some(Item::Holder(kind, key)) => self.look_at_holder(now, kind, &key),
                Some(Item::Node(name)) => self.look_at_node(now, &name),
                None => return,
            }
        }
    }

    pub(crate) fn touch(&mut self, item: Item) {
        if self.is_active() {
            self.queue.push(item);
        }
    }

    pub(crate) fn later(&mut self, at: Timestamp, why: WakeReason, item: Item) {
        self.queue.later(at, why, item);
    }

    /// Looks at the claims that somebody owns or has reserved.
    pub(crate) fn touch_claims_of(&mut self, kind: HolderKind, key: &ObjectKey) {
        let claims: Vec<ObjectKey> = self.tables.claims_of(kind).of(key).collect();
        claims.into_iter().for_each(|claim| self.touch(Item::Claim(claim)));
    }
}
