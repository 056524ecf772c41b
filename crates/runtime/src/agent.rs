//! Runs one core: news in, effects out, answers back.

use std::sync::Arc;

use bytes::Bytes;
use lazaret_model::Timestamp;
use tokio::{sync::watch, task::JoinSet};
use tracing::debug;

use crate::{CallError, Inbox, Leadership, Metrics, News, clock};

/// A core with the objects it looks at. Everything here is quick and pure: no call waits for anything.
pub trait Agent: Send + 'static {
    /// What it wants done.
    type Effect: Send + 'static;

    /// Takes note of news. Decides nothing yet: more may follow at once.
    fn hear(&mut self, now: Timestamp, news: News);

    /// Decides, after some news or because time has passed. Also called for nothing.
    fn think(&mut self, now: Timestamp);

    /// From now on effects are wanted, or none are.
    fn lead(&mut self, now: Timestamp, leading: bool);

    /// What became of an effect.
    fn acknowledge(&mut self, now: Timestamp, effect: u64, reply: Reply);

    /// The next thing to be done, and the number to acknowledge it by.
    fn poll(&mut self) -> Option<(u64, Self::Effect)>;

    /// When it wants to think again if nothing happens before.
    fn wake(&self) -> Option<Timestamp>;
}

/// Carries effects out.
pub trait Perform<E>: Send + Sync + 'static {
    /// Does it, and says what became of it.
    fn perform(&self, effect: E) -> impl Future<Output = Reply> + Send;
}

/// What became of an effect, and what is worth knowing of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whether it was done.
    pub outcome: Outcome,
    /// The object as it was written, where there is one.
    pub object: Option<Bytes>,
    /// Why not, in the words of whoever refused.
    pub why: Option<String>,
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, object: None, why: None }
    }
}

impl From<Result<Bytes, CallError>> for Reply {
    fn from(result: Result<Bytes, CallError>) -> Self {
        match result {
            Ok(object) => Self { outcome: Outcome::Done, object: Some(object), why: None },
            Err(error) => Self::from(&error),
        }
    }
}

impl From<&CallError> for Reply {
    fn from(error: &CallError) -> Self {
        Self { outcome: error.into(), object: None, why: Some(error.to_string()) }
    }
}

/// Whether an effect was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Done, by this effect.
    Done,
    /// Nothing left to do: no such object, or another incarnation.
    Gone,
    /// The object is not as it was thought to be. Nothing was done.
    Conflict,
    /// Refused for good. Nothing was done.
    Refused,
    /// It failed, certainly. Nothing was done.
    RetryLater,
    /// It may or may not have been done.
    Unknown,
}

impl Outcome {
    /// As a label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Gone => "gone",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::RetryLater => "retry",
            Self::Unknown => "unknown",
        }
    }
}

impl From<&CallError> for Outcome {
    fn from(error: &CallError) -> Self {
        match error {
            CallError::NotFound(_) => Self::Gone,
            CallError::AlreadyExists(_) | CallError::Conflict(_) => Self::Conflict,
            CallError::Invalid(_) => Self::Refused,
            CallError::Forbidden(_)
            | CallError::TooMany(_)
            | CallError::Expired(_)
            | CallError::Unavailable(_) => Self::RetryLater,
            CallError::Unknown(_) => Self::Unknown,
        }
    }
}

/// How an agent is run.
#[derive(Clone, Copy, Debug)]
pub struct AgentOptions {
    /// For metrics and logs.
    pub name: &'static str,
    /// Effects under way at once.
    pub in_flight_max: usize,
}

/// News taken in before the agent thinks.
const BATCH_MAX: usize = 1_024;
/// Effects taken before it hears the next news: deciding takes time too.
const POLL_MAX: usize = 64;

/// Runs `agent` until `stop`. Nothing is done before all resources were read once, nor without leadership.
pub async fn run<A: Agent, P: Perform<A::Effect>>(
    agent: A,
    performer: P,
    inbox: Inbox,
    leadership: Leadership,
    metrics: Metrics,
    options: AgentOptions,
    mut stop: watch::Receiver<bool>,
) {
    let mut turn = Turn {
        agent,
        performer: Arc::new(performer),
        inbox,
        metrics,
        options,
        leading: false,
        flying: JoinSet::new(),
    };
    let mut leadership = leadership.subscribe();
    let mut more = false;
    while !*stop.borrow() {
        let wake = turn.agent.wake().filter(|_| turn.leading);
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            Some(landed) = turn.flying.join_next() => turn.landed(landed.ok()),
            news = turn.inbox.next() => turn.hear(news),
            // A leadership without a holder never changes again.
            Ok(()) = leadership.changed() => {}
            () = clock::sleep_until(wake) => {}
            () = std::future::ready(()), if more => {}
        }
        let leads = *leadership.borrow_and_update() && turn.inbox.is_synced();
        turn.lead(leads);
        turn.agent.think(clock::now());
        more = turn.send();
    }
    turn.lead(false);
    // What is under way is let end, so that nothing is half done.
    while turn.flying.join_next().await.is_some() {}
}

struct Turn<A: Agent, P> {
    agent: A,
    performer: Arc<P>,
    inbox: Inbox,
    metrics: Metrics,
    options: AgentOptions,
    leading: bool,
    flying: JoinSet<(u64, Reply, f64)>,
}

impl<A: Agent, P: Perform<A::Effect>> Turn<A, P> {
    fn hear(&mut self, first: News) {
        let now = clock::now();
        self.agent.hear(now, first);
        for _ in 1..BATCH_MAX {
            let Some(news) = self.inbox.try_next() else { break };
            self.agent.hear(now, news);
        }
    }

    fn landed(&mut self, landed: Option<(u64, Reply, f64)>) {
        let now = clock::now();
        // A task that panicked has no number; its effect stays under way and is not repeated blindly.
        let mut next = landed;
        while let Some((effect, reply, seconds)) = next {
            self.metrics.effect(self.options.name, reply.outcome, seconds);
            self.agent.acknowledge(now, effect, reply);
            next = self.flying.try_join_next().and_then(Result::ok);
        }
    }

    fn lead(&mut self, leads: bool) {
        if leads == self.leading {
            return;
        }
        debug!(controller = self.options.name, leads, "leadership");
        self.leading = leads;
        self.metrics.leading(self.options.name, leads);
        self.agent.lead(clock::now(), leads);
    }

    /// Sends what may be sent now; whether there may be more at once.
    fn send(&mut self) -> bool {
        for _ in 0..POLL_MAX {
            if self.flying.len() >= self.options.in_flight_max {
                // The next one that lands makes room, and brings us back here.
                return false;
            }
            let Some((id, effect)) = self.agent.poll() else { return false };
            if !self.leading {
                self.agent.acknowledge(clock::now(), id, Outcome::RetryLater.into());
                continue;
            }
            let performer = Arc::clone(&self.performer);
            self.flying.spawn(async move {
                let start = tokio::time::Instant::now();
                let reply = performer.perform(effect).await;
                (id, reply, start.elapsed().as_secs_f64())
            });
        }
        true
    }
}
