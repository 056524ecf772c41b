//! Requests wait here for their turn; whose it is, [`Seats`] decides.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lazaret_flow::{Decision, Effect, Level, Refusal, RequestId, Seats, Ticket};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};

use crate::{
    front_limits,
    log_pace::LogPace,
    metrics::{FlowMetrics, Metrics},
};

/// Seats, and who waits for them.
pub(crate) struct FlowControl {
    state: Mutex<State>,
    started: Instant,
    metrics: FlowMetrics,
    log: LogPace,
}

struct State {
    seats: Seats<Arc<str>>,
    waiting: BTreeMap<RequestId, oneshot::Sender<Result<Seat, Refusal>>>,
}

impl std::fmt::Debug for FlowControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlowControl")
    }
}

/// The right to run, released when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    control: Arc<FlowControl>,
    ticket: Option<Ticket<Arc<str>>>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.control.change(|seats, now_ms| seats.finish(now_ms, ticket));
        }
    }
}

/// A request that waits: it is removed from the queue when its client is gone.
struct WaitingRequest<'a> {
    control: &'a Arc<FlowControl>,
    id: RequestId,
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        let waited = self.control.lock().waiting.remove(&self.id);
        if waited.is_some() {
            self.control.change(|seats, now_ms| {
                seats.cancel(now_ms, self.id);
            });
        }
    }
}

impl FlowControl {
    pub(crate) fn new(metrics: &Metrics) -> Arc<Self> {
        let metrics = metrics.flow().clone();
        for level in Level::ALL {
            metrics.nominal(level, front_limits::seats(level).nominal_seats);
        }
        Arc::new(Self {
            state: Mutex::new(State { seats: Seats::new(front_limits::seats), waiting: BTreeMap::new() }),
            started: Instant::now(),
            metrics,
            log: LogPace::default(),
        })
    }

    /// Waits until a request may run.
    pub(crate) async fn seat(
        self: &Arc<Self>,
        level: Level,
        user: &Arc<str>,
        seats: u32,
    ) -> Result<Seat, Refusal> {
        let (place, mut receiver, deadline) = {
            let mut state = self.lock();
            match state.seats.arrive(self.now_ms(), level, user, seats) {
                Decision::Start(ticket) => {
                    self.show(&state, level);
                    drop(state);
                    return Ok(self.started(ticket));
                }
                Decision::Refuse(refusal) => {
                    drop(state);
                    self.refused(level, refusal);
                    return Err(refusal);
                }
                Decision::Wait(id, deadline_ms) => {
                    let (sender, receiver) = oneshot::channel();
                    state.waiting.insert(id, sender);
                    self.show(&state, level);
                    let deadline = self.started + Duration::from_millis(deadline_ms);
                    (WaitingRequest { control: self, id }, receiver, deadline)
                }
            }
        };
        // Others may have had to make room, and this one may run already.
        self.change(|_, _| {});
        let answer = tokio::select! {
            biased;
            answer = &mut receiver => answer,
            () = sleep_until(deadline) => {
                self.change(|seats, now_ms| seats.expire(now_ms));
                receiver.await
            }
        };
        drop(place);
        // The other end is never dropped.
        answer.unwrap_or(Err(Refusal::TimeOut))
    }

    /// Tells of requests that were refused, now and then.
    pub(crate) fn refused(&self, level: Level, refusal: Refusal) {
        self.rejected(level, refusal.name());
    }

    /// A request was refused for another reason than seats.
    pub(crate) fn rejected(&self, level: Level, reason: &'static str) {
        self.metrics.rejected(level, reason);
        if let Some(since_last) = self.log.due(level.index()) {
            tracing::warn!(priority_level = level.name(), reason, since_last, "requests are refused");
        }
    }

    fn started(self: &Arc<Self>, ticket: Ticket<Arc<str>>) -> Seat {
        self.metrics.dispatched(ticket.level);
        Seat { control: Arc::clone(self), ticket: Some(ticket) }
    }

    /// Changes the seats, and answers the requests that this concerns.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut Seats<Arc<str>>, u64)) {
        let mut answers = Vec::new();
        {
            let mut state = self.lock();
            change(&mut state.seats, self.now_ms());
            while let Some(effect) = state.seats.poll_effect() {
                let (id, answer) = match effect {
                    Effect::Start(id, ticket) => (id, Ok(ticket)),
                    Effect::Refuse(id, level, refusal) => (id, Err((level, refusal))),
                };
                answers.push((state.waiting.remove(&id), answer));
            }
            for level in Level::ALL {
                self.show(&state, level);
            }
        }
        // Only now: a seat that is not taken comes back at once.
        for (sender, answer) in answers {
            let answer = match answer {
                Ok(ticket) => Ok(self.started(ticket)),
                Err((level, refusal)) => {
                    self.refused(level, refusal);
                    Err(refusal)
                }
            };
            if let Some(sender) = sender {
                let _ = sender.send(answer);
            }
        }
    }

    fn show(&self, state: &State, level: Level) {
        self.metrics.show(level, state.seats.executing(level), state.seats.waiting(level));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
