//! The machine: its state, and the order in which it thinks.

use alloc::collections::{BTreeMap, BTreeSet};

use lazaret_fleet::{Fleet, Guards};
use lazaret_machine::{Backoff, Flights, Machine, Recent, Turn, Wake};
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use crate::{
    effect::{Effect, EffectId, EffectKind, Note, Reply},
    figures::Figures,
    flight::{Flight, ReplacementTracker, Watch},
    input::Source,
    options::Options,
    tables::Tables,
};

/// Pods whose replacement came to its end, and as many of those that took their places, are remembered against late news of them.
const ENDED_MAX: usize = 4_096;

/// The replacement of one cluster's pods. Reads a fleet, owns none; it must always be given the same one.
#[derive(Debug)]
pub struct Replacement {
    pub(crate) options: Options,
    pub(crate) tables: Tables,
    /// The kinds that cannot be read, with the missing permission.
    pub(crate) barred: BTreeMap<Source, Text>,
    pub(crate) leading: bool,
    pub(crate) now: Timestamp,
    pub(crate) watches: BTreeMap<ObjectKey, Watch>,
    pub(crate) trackers: BTreeMap<ObjectKey, ReplacementTracker>,
    /// By the UID of the pod that is replaced.
    pub(crate) flights: BTreeMap<Uid, Flight>,
    /// Pods with findings, by when they may be replaced.
    pub(crate) due_at: BTreeSet<(Timestamp, ObjectKey)>,
    /// When to look at a pod again.
    pub(crate) timers: BTreeSet<(Timestamp, ObjectKey)>,
    /// Pods that a budget held back, until when.
    pub(crate) held: BTreeMap<ObjectKey, Timestamp>,
    /// They permit a replacement because of a device, or do not.
    pub(crate) guards: Guards,
    /// Pods that guards keep, and why.
    pub(crate) guarded: BTreeMap<ObjectKey, Text>,
    /// When guards are asked again about them.
    pub(crate) guards_asked_again: Timestamp,
    /// Pods to be looked at.
    pub(crate) concerned: BTreeSet<ObjectKey>,
    /// Something may be begun that could not be before.
    pub(crate) may_start: bool,
    /// Pods whose replacement came to its end by this leader: a mark of it is old news.
    pub(crate) ended: Recent<Uid>,
    /// Pods that took the place of another by this leader: they take no second place.
    pub(crate) successors: Recent<Uid>,
    pub(crate) effects: Flights<EffectKind, InFlight>,
    pub(crate) figures: Figures,
}

/// An effect that was not acknowledged yet.
#[derive(Debug)]
pub(crate) enum InFlight {
    Step { uid: Uid, kind: Step },
    Status { policy: ObjectKey },
}

/// The kinds of steps, to know what an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Release,
    Copy,
    Ungate,
    Evict,
    Delete,
}

impl Machine for Replacement {
    type View = Fleet;
    type Input<'a> = Turn;
    type Kind = EffectKind;
    type Why = &'static str;

    fn handle(&mut self, now: Timestamp, fleet: &Fleet, turn: Turn) {
        match turn {
            Turn::Tick => self.think(now, fleet),
            Turn::BecameLeader => self.lead(now, fleet, true),
            Turn::LostLeadership => self.lead(now, fleet, false),
            Turn::Acknowledged(effect, reply) => self.acknowledge(now, effect, reply),
        }
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.take()
    }

    fn next_wake(&self) -> Option<Wake> {
        if !self.leading {
            return None;
        }
        let later = |at: &Timestamp| *at > self.now;
        let timer = self.timers.first().map(|(at, _)| *at);
        let held = self.held.values().copied().filter(later).min();
        let guard = (!self.guarded.is_empty()).then_some(self.guards_asked_again);
        let flights = self.flights.values().filter(|flight| flight.step.is_none());
        let flights = flights.flat_map(|flight| {
            [Some(flight.not_before), Some(flight.unsure_until), self.deadline_of(flight)]
        });
        let flight = flights.flatten().filter(later).min();
        let statuses = self.trackers.values().filter(|tracker| tracker.dirty && tracker.writing.is_none());
        let status = statuses.map(|tracker| tracker.not_before).min();
        let wake = |at: Option<Timestamp>, why| at.map(|at| Wake::new(at, why));
        Wake::first([
            wake(timer, "a taint of a pod has lasted long enough"),
            wake(held, "a disruption budget may permit an eviction"),
            wake(guard, "a guard may permit a replacement"),
            wake(flight, "a replacement goes on, or is overdue"),
            wake(status, "the status of a policy may be written again"),
        ])
    }
}

impl Replacement {
    /// A machine that knows nothing yet and does not lead.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let guards = Guards::new(options.trusts_user_names);
        Self {
            options,
            tables: Tables::default(),
            barred: BTreeMap::new(),
            leading: false,
            now: Timestamp::from_millis(i64::MIN),
            watches: BTreeMap::new(),
            trackers: BTreeMap::new(),
            flights: BTreeMap::new(),
            due_at: BTreeSet::new(),
            timers: BTreeSet::new(),
            held: BTreeMap::new(),
            guards,
            guarded: BTreeMap::new(),
            guards_asked_again: Timestamp::from_millis(i64::MIN),
            concerned: BTreeSet::new(),
            may_start: false,
            ended: Recent::new(ENDED_MAX),
            successors: Recent::new(ENDED_MAX),
            effects: Flights::default(),
            figures: Figures::default(),
        }
    }

    /// From now on effects are wanted, or none are. To be said only once every object has been heard of.
    pub fn lead(&mut self, now: Timestamp, fleet: &Fleet, leading: bool) {
        self.now = now;
        if leading == self.leading {
            return;
        }
        self.leading = leading;
        self.watches.clear();
        self.trackers.clear();
        self.flights.clear();
        self.due_at.clear();
        self.timers.clear();
        self.held.clear();
        self.guarded.clear();
        self.effects.abandon();
        self.ended.clear();
        self.successors.clear();
        self.concerned.clear();
        if leading {
            self.resume(now, fleet);
        }
    }

    /// Decides what is to be done at `now`. May be called early, late, or for nothing.
    pub fn think(&mut self, now: Timestamp, fleet: &Fleet) {
        self.now = now;
        if !self.leading {
            self.concerned.clear();
            return;
        }
        for key in core::mem::take(&mut self.concerned) {
            self.evaluate(now, fleet, &key, false);
        }
        self.fire_timers(now);
        self.advance_all(now);
        self.review_breakers(now);
        self.start(now, fleet);
        self.write_statuses(now);
    }

    /// Takes in the answer to an effect. Unknown or repeated ids are ignored.
    pub fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply) {
        self.now = now;
        match self.effects.land(effect) {
            Some(InFlight::Step { uid, kind }) => self.acknowledge_step(now, &uid, kind, reply),
            Some(InFlight::Status { policy }) => self.acknowledge_status(now, &policy, effect, reply),
            None => {}
        }
    }

    /// Counts of the machine.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures {
            tainted: self.due_at.len() as u64,
            in_flight: self.flights.len() as u64,
            tripped: self.trackers.values().filter(|tracker| tracker.tripped).count() as u64,
            ..self.figures
        }
    }

    /// The pods that are being replaced, by UID.
    pub fn in_flight(&self) -> impl Iterator<Item = &Uid> {
        self.flights.keys()
    }

    pub(crate) fn post_event(&mut self, note: Note) {
        self.effects.announce(EffectKind::Event(note), self.options.events_max);
    }

    /// The pause after this many failures in a row.
    pub(crate) fn pause(&self, failures: u32) -> i64 {
        Backoff::new(self.options.retry_ms_min, self.options.retry_ms_max).after(failures)
    }
}
