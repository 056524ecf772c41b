//! The machine: its inputs, its state, and what can be asked of it.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use lazaret_fleet::{Changes, Fleet, PodIx};
use lazaret_machine::{Machine, Recent};
use lazaret_model::{DisruptionGuard, EvictionCount, EvictionPreference, ObjectKey, Text, Timestamp, Uid};

use crate::{
    block::{Block, BlockedPods},
    brake::Brake,
    capacity_wait::CapacityWait,
    causes::Causes,
    effect::{Effect, EffectId, EffectKind, Outcome, Wake, WakeReason},
    flights::Flights,
    groups::Groups,
    guards::Guards,
    holds::Holds,
    limiter::Limiter,
    lines::Lines,
    memories::Memories,
    options::Options,
    paces::Paces,
    pods::{Phase, Pods, Slot},
    reason::Reason,
    rules::Rules,
    status::cut,
    verified::ViewRequests,
};

/// Evicted pods that are remembered after they are gone, against late news about them: an hour at ten a second.
pub(crate) const REMEMBERED_MAX: usize = 36_000;

/// An input of the machine.
#[derive(Debug)]
pub enum Input<'a> {
    /// The fleet has changed. Many changes may come in [parts](Changes::partial), so that the first pods leave before the last ones are evaluated;
    /// statuses wait for the last part.
    Changed(&'a Changes),
    /// The outcome of an effect. Unknown or repeated ids are ignored.
    Acknowledged {
        /// Which effect.
        effect: EffectId,
        /// Its outcome.
        outcome: Outcome,
    },
    /// An eviction was refused, by a disruption budget, or there is no room for replacements: nothing was done. Unknown or repeated ids are
    /// ignored.
    Held {
        /// Which effect.
        effect: EffectId,
        /// The message of the refusal.
        why: Text,
    },
    /// An effect was refused by the server, for a policy, a webhook or rights that are missing: nothing was done. Unknown or repeated ids are ignored.
    Refused {
        /// Which effect.
        effect: EffectId,
        /// The message of the refusal.
        why: Text,
    },
    /// These are all guards.
    Guards(&'a [Arc<DisruptionGuard>]),
    /// The eviction settings of namespaces; those that are missing have none.
    Preferences(&'a BTreeMap<Text, EvictionPreference>),
    /// Time has passed. May come early, late, or for nothing.
    Tick,
    /// From now on effects are wanted. To be said only once the fleet has seen every pod and rule as they were when the
    /// lease was taken (or later): what a predecessor did and counted is among it. A leader that starts from an older
    /// state may try to evict a pod that is leaving already, and count it a second time.
    BecameLeader,
    /// All that the server had when this [view](crate::ViewRequest) was asked for has been seen, and the machine was told of all of it.
    ViewReached(u64),
    /// From now on none are.
    LostLeadership,
    /// The leadership ends soon and in good order: nobody else is let go, and every status is written that is not up to
    /// date, however recent the last one is. Until [`Eviction::has_final_writes`] says that all is said.
    Closing,
}

lazaret_machine::turns!(Input<'_>, |effect, reply| {
    match (reply.outcome, reply.why) {
        (Outcome::Held, why) => Input::Held { effect, why: why.unwrap_or_default() },
        (Outcome::Refused, Some(why)) => Input::Refused { effect, why },
        (outcome, _) => Input::Acknowledged { effect, outcome },
    }
});

/// The eviction of one cluster. Reads a fleet, owns none; it must always be given the same one.
#[derive(Debug)]
pub struct Eviction {
    pub(crate) options: Options,
    /// Set while it leads.
    pub(crate) leader_since: Option<Timestamp>,
    /// The leadership ends in good order.
    pub(crate) closing: bool,
    pub(crate) pods: Pods,
    pub(crate) causes: Causes,
    pub(crate) paces: Paces,
    pub(crate) lines: Lines,
    pub(crate) blocked: BlockedPods,
    pub(crate) guards: Guards,
    pub(crate) holds: Holds,
    pub(crate) groups: Groups,
    pub(crate) capacity: CapacityWait,
    /// The eviction settings of namespaces.
    pub(crate) preferences: BTreeMap<Text, EvictionPreference>,
    pub(crate) rules: Rules,
    pub(crate) views: ViewRequests,
    pub(crate) memories: Memories,
    /// The ceiling over all taints.
    pub(crate) ceiling: Option<Limiter>,
    pub(crate) flights: Flights,
    pub(crate) brake: Brake,
    /// Pods that are known to have left, so that old news does not get them evicted again.
    pub(crate) left: Recent<Uid>,
    /// Pods whose eviction has been counted in this leadership.
    pub(crate) counted: Recent<Uid>,
    /// Pods that a predecessor named in a status and that were there when this leadership began.
    pub(crate) inherited: BTreeSet<u32>,
    /// The fleet has more changes than were passed on yet.
    pub(crate) partial: bool,
    /// The latest instant heard of.
    pub(crate) latest: Timestamp,
    /// The words of the event about a pod that is spared.
    pub(crate) cancelling: Text,
    /// The round of changes that is being processed.
    pub(crate) round: Round,
    /// Pods to be looked at; here, like the next two, to be used again.
    pub(crate) concerned: Vec<PodIx>,
    /// Reasons of the pod being looked at.
    pub(crate) found: Vec<Reason>,
    /// Rules that would make it leave.
    pub(crate) found_would: Vec<u32>,
}

/// Changes that come one after the other and lead to the same state of the fleet.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) number: u64,
    /// The revision of the fleet that they lead to, if it had that revision when they came.
    pub(crate) of: Option<u64>,
}

/// A pod that has to leave.
#[derive(Clone, Debug)]
pub struct PlannedEviction {
    /// Which pod.
    pub pod: ObjectKey,
    /// Which incarnation.
    pub uid: Uid,
    /// Where it runs.
    pub node: Option<Text>,
    /// The earliest deadline.
    pub due: Timestamp,
    /// Why; the earliest deadline first.
    pub reasons: Arc<[Reason]>,
    /// Where it stands.
    pub phase: Phase,
}

/// The counts of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleTally {
    /// Pods that it makes leave, or would if its effect was NoExecute.
    pub pods: u64,
    /// The number of their namespaces.
    pub namespaces: u64,
    /// Pods that have left because of it.
    pub evicted: u64,
    /// There may have been more.
    pub at_least: bool,
}

impl Machine for Eviction {
    type View = Fleet;
    type Input<'a> = Input<'a>;
    type Kind = EffectKind;
    type Why = WakeReason;

    fn handle(&mut self, now: Timestamp, fleet: &Fleet, input: Input<'_>) {
        Self::handle(self, now, fleet, input);
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        Self::poll_effect(self)
    }

    fn next_wake(&self) -> Option<Wake> {
        Self::next_wake(self)
    }
}

impl Eviction {
    /// A machine that knows nothing yet and does not lead. Its first input should be all that the fleet holds.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            inherited: BTreeSet::new(),
            leader_since: None,
            closing: false,
            pods: Pods::default(),
            causes: Causes::default(),
            paces: Paces::default(),
            lines: Lines::default(),
            blocked: BlockedPods::default(),
            guards: Guards::default(),
            holds: Holds::default(),
            groups: Groups::default(),
            capacity: CapacityWait::default(),
            preferences: BTreeMap::new(),
            rules: Rules::new(options.records_evictions),
            views: ViewRequests::default(),
            memories: Memories::default(),
            ceiling: None,
            flights: Flights::default(),
            brake: Brake::default(),
            left: Recent::new(REMEMBERED_MAX),
            counted: Recent::new(REMEMBERED_MAX),
            partial: false,
            latest: Timestamp::from_millis(i64::MIN),
            cancelling: "Cancelling deletion".into(),
            round: Round::default(),
            concerned: Vec::new(),
            found: Vec::new(),
            found_would: Vec::new(),
            options,
        }
    }

    /// Takes note of `input` and decides what is to be done at `now`. Total: any input in any state.
    pub fn handle(&mut self, now: Timestamp, fleet: &Fleet, input: Input<'_>) {
        if now < self.latest {
            self.clock_went_back(now);
        }
        self.latest = now;
        self.causes.begin_pass();
        match input {
            Input::Changed(changes) => self.follow(now, fleet, changes),
            Input::Acknowledged { effect, outcome } => self.acknowledge(now, effect, outcome),
            Input::Held { effect, why } => self.acknowledge_held(now, effect, Block::Budget, why),
            Input::Refused { effect, why } => self.acknowledge_held(now, effect, Block::Refused, cut(&why)),
            Input::Preferences(preferences) => self.follow_preferences(now, fleet, preferences),
            Input::Guards(guards) => self.set_guards(now, guards),
            Input::Tick => {}
            Input::BecameLeader => self.start_leading(now, fleet),
            Input::ViewReached(number) => self.view_reached(number),
            Input::LostLeadership => self.stop_leading(now),
            Input::Closing => self.close(now),
        }
        if self.leader_since.is_some() {
            self.wake_pods(now);
            if !self.guards.is_empty() || self.holds.are_any() {
                self.mind_guards(now, fleet);
            }
            if !self.closing {
                self.mind_capacity(now, fleet);
                self.dispatch(now, fleet);
                self.write_memories(now, fleet);
            }
            // With half of the pods, neither their number nor whether there are any is known.
            if !self.partial {
                self.write_statuses(now, fleet);
            }
        }
        if self.paces.are_idle() {
            self.paces.sweep(now);
        }
    }

    /// The next effect to be done, the oldest first. None is given twice.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.flights.take()
    }

    /// Effects that were decided and not taken yet, the oldest first. One that is not wanted any more is withdrawn.
    pub fn waiting(&self) -> impl DoubleEndedIterator<Item = (EffectId, &EffectKind)> {
        self.flights.waiting()
    }

    /// When to call again if nothing happens before. `None`: there is nothing to wait for.
    #[must_use]
    pub fn next_wake(&self) -> Option<Wake> {
        self.leader_since?;
        let status = self.rules.next_wake().map(|at| Wake { at, why: WakeReason::Status });
        if self.closing {
            return status;
        }
        let timer = self.pods.next_timer().map(|(at, pod)| {
            let slot = self.pods.get(pod);
            let why = if slot.is_some_and(|slot| slot.blocked.is_some()) {
                WakeReason::Blocked
            } else if slot.is_some_and(|slot| slot.failures > 0) {
                WakeReason::Retry
            } else if slot.is_some_and(|slot| slot.held_until == Some(at)) {
                WakeReason::Brake
            } else {
                WakeReason::Deadline
            };
            Wake { at, why }
        });
        let memory = self.memories.next_wake().map(|at| Wake { at, why: WakeReason::Memory });
        let guard = self.guard_wake().map(|at| Wake { at, why: WakeReason::Guard });
        let capacity = self.capacity_wake().map(|at| Wake { at, why: WakeReason::Capacity });
        sooner(sooner(sooner(timer, self.permit_wake()), sooner(guard, capacity)), sooner(status, memory))
    }

    /// Whether something is still to be written or heard of, once it is [closing](Input::Closing).
    #[must_use]
    pub fn has_final_writes(&self) -> bool {
        self.is_leader() && (self.flights.are_open() || self.rules.next_wake().is_some())
    }

    /// All pods that have to leave, in the fleet's order.
    pub fn pending(&self) -> impl Iterator<Item = PlannedEviction> {
        self.pods.iter().filter_map(|(_, slot)| planned(slot))
    }

    /// How many pods have to leave.
    #[must_use]
    pub fn pending_len(&self) -> usize {
        self.pods.planned()
    }

    /// Whether, when and why this pod has to leave.
    #[must_use]
    pub fn plan(&self, pod: PodIx) -> Option<PlannedEviction> {
        planned(self.pods.get(pod)?)
    }

    /// The counts of a rule.
    #[must_use]
    pub fn tally(&self, rule: &str) -> Option<RuleTally> {
        let state = self.rules.get(self.rules.by_name(rule)?)?;
        let EvictionCount { pods: evicted, at_least, .. } = state.count(self.latest);
        Some(RuleTally { pods: state.pods, namespaces: state.namespaces(), evicted, at_least })
    }

    /// Whether effects are wanted.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.leader_since.is_some()
    }

    /// How many owners, devices and taints the brake remembers.
    #[must_use]
    pub fn brake_len(&self) -> usize {
        self.brake.len()
    }

    /// How many things are kept: pods planned, causes, paces, rules. For gauges and for tests of forgetting.
    #[must_use]
    pub fn sizes(&self) -> [usize; 4] {
        [self.pods.planned(), self.causes.len(), self.paces.len(), self.rules.len()]
    }
}

fn sooner(one: Option<Wake>, other: Option<Wake>) -> Option<Wake> {
    match (one, other) {
        (Some(one), Some(other)) => {
            Some(if (one.at, one.why) <= (other.at, other.why) { one } else { other })
        }
        (only, None) | (None, only) => only,
    }
}

fn planned(slot: &Slot) -> Option<PlannedEviction> {
    let due = slot.reasons.first()?.deadline;
    Some(PlannedEviction {
        pod: slot.pod.key.clone(),
        uid: slot.pod.uid.clone(),
        node: slot.pod.node.clone(),
        due,
        reasons: slot.reasons.clone(),
        phase: slot.phase,
    })
}
