//! The machine: its state, and the order in which it thinks.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_fleet::Fleet;
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use crate::{
    effect::{Effect, EffectId, EffectKind, Note, Outcome},
    figures::Figures,
    flight::{Flight, Overseer, Watch},
    input::Source,
    options::Options,
    tables::Tables,
};

/// Pods whose replacement came to its end and those that took their places, remembered against late news of them.
const ENDED_MAX: usize = 4_096;

/// The replacement of one cluster's pods. Reads a fleet, owns none; it must always be given the same one.
#[derive(Debug)]
pub struct Replacement {
    pub(crate) options: Options,
    pub(crate) tables: Tables,
    /// What cannot be read, and which permission is missing.
    pub(crate) barred: BTreeMap<Source, Text>,
    pub(crate) leading: bool,
    pub(crate) now: Timestamp,
    pub(crate) watches: BTreeMap<ObjectKey, Watch>,
    pub(crate) overseers: BTreeMap<ObjectKey, Overseer>,
    /// By the UID of the pod that is replaced.
    pub(crate) flights: BTreeMap<Uid, Flight>,
    /// Pods with findings, by when they may be replaced.
    pub(crate) ripe: BTreeSet<(Timestamp, ObjectKey)>,
    /// When to look at a pod again.
    pub(crate) timers: BTreeSet<(Timestamp, ObjectKey)>,
    /// Pods that a budget held back, until when.
    pub(crate) held: BTreeMap<ObjectKey, Timestamp>,
    /// Pods to be looked at.
    pub(crate) concerned: BTreeSet<ObjectKey>,
    /// Something may be begun that could not be before.
    pub(crate) may_start: bool,
    ended: VecDeque<Uid>,
    effects: VecDeque<Effect>,
    events: usize,
    pub(crate) under_way: BTreeMap<EffectId, UnderWay>,
    next_effect: u64,
    pub(crate) figures: Figures,
}

/// An effect that was not acknowledged yet.
#[derive(Debug)]
pub(crate) enum UnderWay {
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

impl Replacement {
    /// A machine that knows nothing yet and does not lead.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            tables: Tables::default(),
            barred: BTreeMap::new(),
            leading: false,
            now: Timestamp::from_millis(i64::MIN),
            watches: BTreeMap::new(),
            overseers: BTreeMap::new(),
            flights: BTreeMap::new(),
            ripe: BTreeSet::new(),
            timers: BTreeSet::new(),
            held: BTreeMap::new(),
            concerned: BTreeSet::new(),
            may_start: false,
            ended: VecDeque::new(),
            effects: VecDeque::new(),
            events: 0,
            under_way: BTreeMap::new(),
            next_effect: 0,
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
        self.overseers.clear();
        self.flights.clear();
        self.ripe.clear();
        self.timers.clear();
        self.held.clear();
        self.effects.clear();
        self.events = 0;
        self.under_way.clear();
        self.ended.clear();
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
        self.ring_timers(now);
        self.advance_all(now);
        self.review_breakers(now);
        self.start(now);
        self.write_statuses(now);
    }

    /// What became of an effect. Unknown or repeated ids are ignored.
    pub fn acknowledge(&mut self, now: Timestamp, effect: EffectId, outcome: Outcome) {
        self.now = now;
        match self.under_way.remove(&effect) {
            Some(UnderWay::Step { uid, kind }) => self.acknowledge_step(now, &uid, kind, outcome),
            Some(UnderWay::Status { policy }) => self.acknowledge_status(now, &policy, effect, outcome),
            None => {}
        }
    }

    /// The next effect to be done, the oldest first. None is given twice.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front()?;
        if matches!(effect.kind, EffectKind::Event(_)) {
            self.events -= 1;
        }
        Some(effect)
    }

    /// When to think again if nothing happens before. `None`: there is nothing to wait for.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        if !self.leading {
            return None;
        }
        let later = |at: &Timestamp| *at > self.now;
        let timer = self.timers.first().map(|(at, _)| *at);
        let held = self.held.values().copied().filter(later).min();
        let flights = self.flights.values().filter(|flight| flight.step.is_none());
        let flights = flights.flat_map(|flight| {
            [Some(flight.not_before), Some(flight.unsure_until), self.deadline_of(flight)]
        });
        let flight = flights.flatten().filter(later).min();
        let statuses =
            self.overseers.values().filter(|overseer| overseer.dirty && overseer.writing.is_none());
        let status = statuses.map(|overseer| overseer.not_before).min();
        [timer, held, flight, status].into_iter().flatten().min()
    }

    /// How much of what there is.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures {
            tainted: self.ripe.len() as u64,
            in_flight: self.flights.len() as u64,
            tripped: self.overseers.values().filter(|overseer| overseer.tripped).count() as u64,
            ..self.figures
        }
    }

    /// The pods that are being replaced, by UID.
    pub fn in_flight(&self) -> impl Iterator<Item = &Uid> {
        self.flights.keys()
    }

    pub(crate) fn remember_ended(&mut self, uid: Uid) {
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(uid);
    }

    /// Whether a pod was replaced, or took a place, by this leader.
    pub(crate) fn has_ended(&self, uid: &Uid) -> bool {
        self.ended.contains(uid)
    }

    pub(crate) fn emit(&mut self, kind: EffectKind) -> EffectId {
        self.next_effect += 1;
        let id = EffectId(self.next_effect);
        self.effects.push_back(Effect { id, kind });
        id
    }

    pub(crate) fn say(&mut self, note: Note) {
        if self.events < self.options.events_max {
            self.events += 1;
            self.emit(EffectKind::Event(note));
        }
    }

    /// The pause after so many failures in a row.
    pub(crate) fn pause(&self, failures: u32) -> i64 {
        let doubled = self.options.retry_ms_min.saturating_mul(1 << failures.saturating_sub(1).min(20));
        doubled.min(self.options.retry_ms_max)
    }
}
