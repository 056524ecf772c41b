//! Which request runs next.
//!
//! Each level has seats. Some of them are guaranteed: no other level ever takes them. The rest is lent to any level that needs it. When a seat
//! becomes free, it goes to the waiting level that uses the smallest part of its share.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use crate::{
    Level,
    flows::{Flows, RequestId, Waiting},
};

/// The limits of a level. The share of [`Level::Exempt`] is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelLimits {
    /// The share: the seats that it gets when all levels want everything.
    pub nominal_seats: u32,
    /// The part of the share that is never lent. A request that takes more seats takes this many.
    pub guaranteed_seats: u32,
    /// Bound on its seats, including those that others lend.
    pub seats_max: u32,
    /// Requests that may wait, of one flow.
    pub waiting_per_flow_max: usize,
    /// Requests that may wait, of all flows.
    pub waiting_max: usize,
    /// Flows that are known at once.
    pub flows_max: usize,
    /// How long a request waits at most.
    pub wait_ms_max: u64,
}

/// The right to run. It must come back with [`Seats::finish`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Ticket<K> {
    /// The level.
    pub level: Level,
    /// Seats that it takes.
    pub seats: u32,
    flow: K,
    started_ms: u64,
}

/// Why a request does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Too many wait already.
    QueueFull,
    /// There are too many users.
    TooManyFlows,
    /// It has waited as long as it may.
    TimeOut,
}

impl Refusal {
    /// As Kubernetes' metrics name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::TooManyFlows => "concurrency-limit",
            Self::TimeOut => "time-out",
        }
    }
}

/// The decision about a request that arrives.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision<K> {
    /// It runs at once.
    Start(Ticket<K>),
    /// It waits until an effect names it, at the latest when [`Seats::expire`] is called at this time.
    Wait(RequestId, u64),
    /// It does not run.
    Refuse(Refusal),
}

/// The outcome of a request that waits.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect<K> {
    /// It runs.
    Start(RequestId, Ticket<K>),
    /// It does not run.
    Refuse(RequestId, Level, Refusal),
}

struct State<K> {
    limits: LevelLimits,
    executing: u32,
    flows: Flows<K>,
}

/// All levels.
pub struct Seats<K> {
    levels: Vec<State<K>>,
    total: u32,
    /// Of all levels but the exempt one.
    executing: u32,
    waiting: BTreeMap<RequestId, (Level, K, u64)>,
    deadlines: BTreeSet<(u64, RequestId)>,
    effects: VecDeque<Effect<K>>,
    last_id: u64,
}

impl<K> core::fmt::Debug for Seats<K> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Seats").field("executing", &self.executing).finish_non_exhaustive()
    }
}

impl<K: Ord + Clone> Seats<K> {
    /// Levels in which nothing runs. Shares, and seats in total, are at least what is guaranteed.
    #[must_use]
    pub fn new(limits: impl Fn(Level) -> LevelLimits) -> Self {
        let levels: Vec<State<K>> = Level::ALL
            .into_iter()
            .map(|level| {
                let mut limits = limits(level);
                limits.guaranteed_seats = limits.guaranteed_seats.max(1);
                limits.nominal_seats = limits.nominal_seats.max(limits.guaranteed_seats);
                limits.seats_max = limits.seats_max.max(limits.guaranteed_seats);
                State { limits, executing: 0, flows: Flows::new() }
            })
            .collect();
        let total = levels.iter().skip(1).map(|level| level.limits.nominal_seats).sum();
        Self {
            levels,
            total,
            executing: 0,
            waiting: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            effects: VecDeque::new(),
            last_id: 0,
        }
    }

    /// Seats of all levels but the exempt one.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Seats that requests of a level take now.
    #[must_use]
    pub fn executing(&self, level: Level) -> u32 {
        self.levels[level.index()].executing
    }

    /// Requests of a level that wait.
    #[must_use]
    pub fn waiting(&self, level: Level) -> usize {
        self.levels[level.index()].flows.waiting()
    }

    /// A request arrives. Effects may follow, for itself and for others: one that waits may have to make room.
    pub fn arrive(&mut self, now_ms: u64, level: Level, flow: &K, seats: u32) -> Decision<K> {
        let limits = self.levels[level.index()].limits;
        let seats = seats.clamp(1, limits.guaranteed_seats);
        if level == Level::Exempt {
            self.levels[level.index()].executing += seats;
            return Decision::Start(Ticket { level, seats, flow: flow.clone(), started_ms: now_ms });
        }
        let state = &mut self.levels[level.index()];
        if !state.flows.has_room_for(flow, limits.flows_max) {
            return Decision::Refuse(Refusal::TooManyFlows);
        }
        if state.flows.waiting() == 0 && self.fits(level, seats) {
            self.levels[level.index()].flows.start(flow, seats);
            return Decision::Start(self.started(now_ms, level, flow, seats));
        }
        if let Err(refusal) = self.make_room(level, flow) {
            return Decision::Refuse(refusal);
        }
        self.last_id += 1;
        let id = RequestId(self.last_id);
        let deadline = now_ms.saturating_add(limits.wait_ms_max);
        self.levels[level.index()].flows.push(flow, Waiting { id, seats });
        self.waiting.insert(id, (level, flow.clone(), deadline));
        self.deadlines.insert((deadline, id));
        // It may go before one that waits for more seats than there are.
        self.dispatch(now_ms);
        Decision::Wait(id, deadline)
    }

    /// A request has ended; others begin.
    pub fn finish(&mut self, now_ms: u64, ticket: Ticket<K>) {
        let state = &mut self.levels[ticket.level.index()];
        state.executing = state.executing.saturating_sub(ticket.seats);
        if ticket.level == Level::Exempt {
            return;
        }
        self.executing = self.executing.saturating_sub(ticket.seats);
        state.flows.end(&ticket.flow, ticket.seats, now_ms.saturating_sub(ticket.started_ms));
        self.dispatch(now_ms);
    }

    /// The client of a waiting request is gone; `false` if the request no longer waits.
    pub fn cancel(&mut self, now_ms: u64, id: RequestId) -> bool {
        let waited = self.forget(id).is_some();
        // It may have been the one that did not fit.
        self.dispatch(now_ms);
        waited
    }

    /// Refuses the requests whose time is over.
    pub fn expire(&mut self, now_ms: u64) {
        while let Some((deadline, id)) = self.deadlines.first().copied() {
            if deadline > now_ms {
                break;
            }
            if let Some(level) = self.forget(id) {
                self.effects.push_back(Effect::Refuse(id, level, Refusal::TimeOut));
            }
        }
        self.dispatch(now_ms);
    }

    /// The next effect.
    pub fn poll_effect(&mut self) -> Option<Effect<K>> {
        self.effects.pop_front()
    }

    /// A request of a flow may wait; if all places are taken, the newest of the longest flow gives way to a shorter one.
    fn make_room(&mut self, level: Level, flow: &K) -> Result<(), Refusal> {
        let state = &self.levels[level.index()];
        let mine = state.flows.waiting_of(flow);
        if mine >= state.limits.waiting_per_flow_max {
            return Err(Refusal::QueueFull);
        }
        if state.flows.waiting() < state.limits.waiting_max {
            return Ok(());
        }
        let (_, id) = state.flows.newest_of_longest(mine + 1).ok_or(Refusal::QueueFull)?;
        self.forget(id);
        self.effects.push_back(Effect::Refuse(id, level, Refusal::QueueFull));
        Ok(())
    }

    fn forget(&mut self, id: RequestId) -> Option<Level> {
        let (level, flow, deadline) = self.waiting.remove(&id)?;
        self.deadlines.remove(&(deadline, id));
        self.levels[level.index()].flows.remove(&flow, id);
        Some(level)
    }

    /// Whether a level may take `seats` more: neither over its own limit nor out of the seats guaranteed to others.
    fn fits(&self, level: Level, seats: u32) -> bool {
        let own = &self.levels[level.index()];
        let reserved: u32 = self
            .levels
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(at, _)| *at != level.index())
            .map(|(_, other)| other.limits.guaranteed_seats.saturating_sub(other.executing))
            .sum();
        own.executing + seats <= own.limits.seats_max && self.executing + seats + reserved <= self.total
    }

    /// Starts what can start.
    fn dispatch(&mut self, now_ms: u64) {
        while let Some(level) = self.next_level() {
            let Some((flow, head)) = self.levels[level.index()].flows.pop() else { return };
            if let Some((_, _, deadline)) = self.waiting.remove(&head.id) {
                self.deadlines.remove(&(deadline, head.id));
            }
            let ticket = self.started(now_ms, level, &flow, head.seats);
            self.effects.push_back(Effect::Start(head.id, ticket));
        }
    }

    /// The level whose next request fits and that uses the smallest part of its share; of equals the more important one.
    fn next_level(&self) -> Option<Level> {
        let used = |level: &Level| {
            let state = &self.levels[level.index()];
            u64::from(state.executing) * 1_000_000 / u64::from(state.limits.nominal_seats)
        };
        let fits = |level: &Level| {
            let head = self.levels[level.index()].flows.head();
            head.is_some_and(|head| self.fits(*level, head.seats))
        };
        Level::ALL.into_iter().skip(1).filter(fits).min_by_key(used)
    }

    fn started(&mut self, now_ms: u64, level: Level, flow: &K, seats: u32) -> Ticket<K> {
        self.levels[level.index()].executing += seats;
        self.executing += seats;
        Ticket { level, seats, flow: flow.clone(), started_ms: now_ms }
    }
}

#[cfg(test)]
#[path = "seats_tests.rs"]
mod tests;
