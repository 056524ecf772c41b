//! Which requests are answered or deleted, and when.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::mem;

use lazaret_fleet::Fleet;
use lazaret_invariant::invariant;
use lazaret_machine::{Backoff, EffectId, Flights, Machine, Outcome, Wake};
use lazaret_model::{Text, Timestamp, Uid};

use crate::{Delete, Effect, EffectKind, Progress, Request, SetStatus, Slice, status::answer};

/// Effects that are not acknowledged yet. Statuses are large, and computing one looks at every claim: no more are made than can be written soon.
const EFFECTS_MAX: usize = 8;
/// Pauses after writes that failed.
const RETRY: Backoff = Backoff::new(250, 60_000);

/// The inputs of the machine.
#[derive(Clone, Debug)]
pub enum Input {
    /// A slice as it is now.
    Slice(Slice),
    /// A slice is gone.
    SliceGone(Text),
    /// A request as it is now.
    Request(Request),
    /// A request is gone.
    RequestGone(Text, Uid),
    /// Effects are wanted from now on.
    BecameLeader,
    /// No effects are wanted.
    LostLeadership,
    /// All objects that existed when this view was requested have been received.
    ViewReached(u64),
    /// The outcome of an effect.
    Acknowledged(EffectId, Outcome),
    /// Time has passed, or claims or taints have changed.
    Tick,
}

lazaret_machine::turns!(Input, |effect, reply| Input::Acknowledged(effect, reply.outcome));

/// Where a request is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It waits until all objects that existed when it was first seen have been received.
    Unseen,
    /// A pool that it asks for lacks slices.
    Incomplete,
    /// It can be answered.
    Ready,
    /// It is being answered or deleted.
    InFlight(EffectId),
    /// A write failed; the next attempt is due then.
    Retry(Timestamp),
    /// Nothing is left to do but to delete it when it is old.
    Answered,
}

#[derive(Debug)]
struct Entry {
    request: Request,
    phase: Phase,
    /// Writes that failed one after another.
    failures: u32,
    /// When it is looked at again.
    timer: Option<Timestamp>,
}

/// The machine.
#[derive(Debug, Default)]
pub struct Pools {
    slices: BTreeMap<Text, Slice>,
    requests: BTreeMap<Text, Entry>,
    ready: BTreeSet<Text>,
    /// Requests that wait for slices, by driver.
    incomplete: BTreeMap<Text, BTreeSet<Text>>,
    timers: BTreeSet<(Timestamp, Text)>,
    /// With the names of the requests.
    flights: Flights<EffectKind, Text>,
    leading: bool,
    /// Requests that wait for a view that is not yet requested.
    unseen: BTreeSet<Text>,
    /// The view that was asked for last, and the requests that wait for it.
    view: Option<(u64, BTreeSet<Text>)>,
    last_view: u64,
}

impl Machine for Pools {
    type View = Fleet;
    type Input<'a> = Input;
    type Kind = EffectKind;
    type Why = &'static str;

    fn handle(&mut self, now: Timestamp, fleet: &Fleet, input: Input) {
        match input {
            Input::Slice(slice) => {
                let (name, driver) = (slice.slice.name.clone(), slice.slice.driver.clone());
                let before = self.slices.insert(name, slice).map(|before| before.slice.driver.clone());
                self.slices_changed(&driver);
                if let Some(before) = before.filter(|before| *before != driver) {
                    self.slices_changed(&before);
                }
            }
            Input::SliceGone(name) => {
                if let Some(gone) = self.slices.remove(&name) {
                    self.slices_changed(&gone.slice.driver);
                }
            }
            Input::Request(request) => self.set(request),
            Input::RequestGone(name, uid) => {
                if self.requests.get(&name).is_some_and(|entry| entry.request.uid == uid) {
                    self.forget(&name);
                }
            }
            Input::BecameLeader => self.leading = true,
            Input::LostLeadership => self.follow(),
            Input::ViewReached(number) => self.view_reached(number),
            Input::Acknowledged(effect, outcome) => self.acknowledged(now, effect, outcome),
            Input::Tick => {}
        }
        if self.leading {
            self.act(now, fleet);
        }
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.flights.take()
    }

    fn next_wake(&self) -> Option<Wake> {
        if !self.leading || !self.has_room() {
            return None;
        }
        if !self.ready.is_empty() {
            return Some(Wake::now("a request can be answered"));
        }
        let (at, _) = self.timers.first()?;
        Some(Wake::new(*at, "a request is old, or a failed write is tried again"))
    }
}

impl Pools {
    /// The number of a view of slices, claims and taints that is wanted now.
    pub fn poll_view(&mut self) -> Option<u64> {
        if !self.leading || self.view.is_some() || self.unseen.is_empty() {
            return None;
        }
        self.last_view += 1;
        self.view = Some((self.last_view, mem::take(&mut self.unseen)));
        Some(self.last_view)
    }

    fn has_room(&self) -> bool {
        self.flights.len() < EFFECTS_MAX
    }

    fn set(&mut self, request: Request) {
        let name = request.name.clone();
        let is_same = |known: &Request| (&known.uid, &known.driver) == (&request.uid, &request.driver);
        if let Some(entry) = self.requests.get_mut(&name).filter(|entry| is_same(&entry.request)) {
            // Received again with the same answer, it stays where it is: a delete that a finalizer holds back waits for its turn.
            let answered = matches!(request.progress, Progress::Answered(_))
                && request.progress != entry.request.progress;
            entry.request = request;
            if answered && !matches!(entry.phase, Phase::InFlight(_)) {
                self.enter(&name, Phase::Answered);
            }
            return;
        }
        self.forget(&name);
        let phase = match request.progress {
            Progress::Pending => Phase::Unseen,
            Progress::Answered(_) => Phase::Answered,
        };
        self.requests.insert(name.clone(), Entry { request, phase, failures: 0, timer: None });
        self.enter(&name, phase);
    }

    /// Puts a request where it belongs in its new phase.
    fn enter(&mut self, name: &Text, phase: Phase) {
        let Some(entry) = invariant!(self.requests.get_mut(name), "a request that enters a phase is known")
        else {
            return;
        };
        entry.phase = phase;
        let timer = match phase {
            Phase::InFlight(_) => None,
            Phase::Retry(at) => Some(at),
            Phase::Unseen | Phase::Incomplete | Phase::Ready | Phase::Answered => entry.request.expires(),
        };
        if let Some(old) = mem::replace(&mut entry.timer, timer) {
            self.timers.remove(&(old, name.clone()));
        }
        self.timers.extend(timer.map(|at| (at, name.clone())));
        let driver = entry.request.driver.clone();
        self.leave_queues(name, &driver);
        match phase {
            Phase::Ready => {
                self.ready.insert(name.clone());
            }
            Phase::Unseen => {
                self.unseen.insert(name.clone());
            }
            Phase::Incomplete => {
                self.incomplete.entry(driver).or_default().insert(name.clone());
            }
            Phase::InFlight(_) | Phase::Retry(_) | Phase::Answered => {}
        }
    }

    fn leave_queues(&mut self, name: &Text, driver: &Text) {
        self.ready.remove(name);
        self.unseen.remove(name);
        if let Some(waiting) = self.incomplete.get_mut(driver) {
            waiting.remove(name);
            if waiting.is_empty() {
                self.incomplete.remove(driver);
            }
        }
    }

    fn forget(&mut self, name: &Text) {
        // It is the first of its name.
        let Some(entry) = self.requests.remove(name) else { return };
        self.leave_queues(name, &entry.request.driver);
        if let Some(at) = entry.timer {
            self.timers.remove(&(at, name.clone()));
        }
        if let Phase::InFlight(id) = entry.phase {
            self.flights.withdraw(id);
        }
    }

    fn slices_changed(&mut self, driver: &Text) {
        for name in self.incomplete.remove(driver).unwrap_or_default() {
            self.enter(&name, Phase::Ready);
        }
    }

    /// Forgets what it began: the next leader does it, or this one when it leads again.
    fn follow(&mut self) {
        self.leading = false;
        self.flights.abandon();
        self.view = None;
        self.unseen.clear();
        let begin = |(name, entry): (&Text, &mut Entry)| {
            entry.failures = 0;
            let phase = match entry.request.progress {
                Progress::Pending => Phase::Unseen,
                Progress::Answered(_) => Phase::Answered,
            };
            (name.clone(), phase)
        };
        let all: Vec<(Text, Phase)> = self.requests.iter_mut().map(begin).collect();
        for (name, phase) in all {
            self.enter(&name, phase);
        }
    }

    fn view_reached(&mut self, number: u64) {
        // It was asked for before leadership was lost, or reached before.
        let Some((_, names)) = self.view.take_if(|(open, _)| *open == number) else { return };
        for name in names {
            if self.requests.get(&name).is_some_and(|entry| entry.phase == Phase::Unseen) {
                self.enter(&name, Phase::Ready);
            }
        }
    }

    fn acknowledged(&mut self, now: Timestamp, effect: EffectId, outcome: Outcome) {
        // Acknowledged before, or given up with its request or with leadership.
        let Some(name) = self.flights.land(effect) else { return };
        let Some(entry) =
            invariant!(self.requests.get_mut(&name), "a request that is deleted takes its effect along")
        else {
            return;
        };
        let phase = match outcome {
            // A finalizer keeps a request that was deleted.
            Outcome::Done | Outcome::Gone if entry.request.expires().is_some_and(|at| at <= now) => {
                Phase::Retry(now.plus_millis(RETRY.longest_ms))
            }
            // The watch says the rest: that it has a status, or is gone.
            Outcome::Done | Outcome::Gone => {
                entry.failures = 0;
                Phase::Answered
            }
            Outcome::Conflict | Outcome::Refused | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                entry.failures = entry.failures.saturating_add(1);
                Phase::Retry(now.plus_millis(RETRY.after(entry.failures)))
            }
        };
        self.enter(&name, phase);
    }

    fn act(&mut self, now: Timestamp, fleet: &Fleet) {
        while self.has_room() {
            let Some((at, name)) = self.timers.first().cloned().filter(|(at, _)| *at <= now) else { break };
            self.timer_fired(now, at, &name);
        }
        while self.has_room() {
            let Some(name) = self.ready.pop_first() else { break };
            self.answer(now, fleet, &name);
        }
    }

    fn timer_fired(&mut self, now: Timestamp, at: Timestamp, name: &Text) {
        self.timers.remove(&(at, name.clone()));
        let Some(entry) = invariant!(self.requests.get_mut(name), "a request with a timer is known") else {
            return;
        };
        entry.timer = None;
        let expired = entry.request.expires().is_some_and(|expires| expires <= now);
        match (expired, entry.request.progress) {
            (true, _) => {
                let delete = Delete { request: name.clone(), uid: entry.request.uid.clone() };
                self.emit(name, EffectKind::Delete(delete));
            }
            (false, Progress::Pending) => self.enter(name, Phase::Ready),
            (false, Progress::Answered(_)) => self.enter(name, Phase::Answered),
        }
    }

    fn answer(&mut self, now: Timestamp, fleet: &Fleet, name: &Text) {
        let Some(entry) = invariant!(self.requests.get(name), "a request that is ready is known") else {
            return;
        };
        let Request { uid, version, .. } = &entry.request;
        match answer(&entry.request, self.slices.values(), fleet, now) {
            // DEVIATION(pool-status-waits): the next slice of the driver has it looked at again.
            None => self.enter(name, Phase::Incomplete),
            Some(status) => {
                let write =
                    SetStatus { request: name.clone(), uid: uid.clone(), version: version.clone(), status };
                self.emit(name, EffectKind::SetStatus(write));
            }
        }
    }

    fn emit(&mut self, name: &Text, kind: EffectKind) {
        let id = self.flights.launch(name.clone(), kind);
        self.enter(name, Phase::InFlight(id));
    }
}
