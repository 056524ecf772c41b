//! Runs one core: news in, effects out, answers back.

use std::{collections::BTreeMap, future::pending, pin::Pin, sync::Arc};

use lazaret_model::Timestamp;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tracing::{debug, warn};

use crate::{
    Agent, AgentOptions, CallError, Inbox, Leadership, Metrics, News, Outcome, Perform, Precedence, Reply,
    Resource, clock,
    fence::{Fence, FenceStep},
    hub::Hurry,
    precedence::PATIENCE,
};

/// News taken in before the agent thinks.
const BATCH_MAX: usize = 128;
/// Effects taken before it hears the next news: deciding takes time too.
const POLL_MAX: usize = 64;
/// Effects under way at once when the first ones are sent. Each that ends makes room for one more, up to the agent's own limit: a few are
/// done while most are still being thought of, instead of all at about the same time.
const IN_FLIGHT_FIRST: usize = 2;
/// After so long without an effect the next ones are first ones again.
const REST_MS: i64 = 1_000;
/// Who ends has no longer than this for its last words.
const LAST_WORDS_MS_MAX: i64 = 3_000;

/// Runs `agent` until `stop`. Nothing is done before all resources were read once, nor without leadership, nor on a view
/// that is older than the term.
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
        leadership: leadership.clone(),
        metrics,
        options,
        term: None,
        fence: None,
        asking: None,
        leading: false,
        flying: JoinSet::new(),
        room: IN_FLIGHT_FIRST,
        landed_at: clock::now(),
        deaf_until: None,
    };
    let mut leadership = leadership;
    let (mut sent, mut look_again) = (Sent::All, None);
    while !*stop.borrow() {
        let deaf_until = turn.deaf_until;
        // Who cannot send has no use for the time: the next effect that ends wakes it.
        let wake = turn.agent.wake().filter(|_| turn.leading && sent != Sent::Full);
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            Some(landed) = turn.flying.join_next() => turn.landed(landed.ok()),
            () = leadership.changed() => {}
            answer = answered(&mut turn.asking) => turn.answered(answer),
            news = turn.inbox.next(), if deaf_until.is_none() => turn.hear(news),
            () = gathered(deaf_until), if deaf_until.is_some() => turn.deaf_until = None,
            () = clock::sleep_until(wake) => {}
            () = clock::sleep_until(look_again), if look_again.is_some() => {}
            () = std::future::ready(()), if sent == Sent::Some => {}
        }
        look_again = turn.stand();
        turn.agent.think(clock::now());
        sent = turn.send();
    }
    turn.say_last_words().await;
    turn.lead(false);
    // What is under way is let end, so that nothing is half done.
    while turn.flying.join_next().await.is_some() {}
}

/// Waits until news have gathered.
async fn gathered(until: Option<Instant>) {
    match until {
        Some(end) => tokio::time::sleep_until(end).await,
        None => pending().await,
    }
}

/// How far the server is with each resource.
type Answer = Result<BTreeMap<Resource, u64>, CallError>;
type Asking = Pin<Box<dyn Future<Output = Answer> + Send>>;

async fn answered(asking: &mut Option<Asking>) -> Answer {
    match asking {
        Some(question) => {
            let answer = question.await;
            *asking = None;
            answer
        }
        None => pending().await,
    }
}

/// How much of what there is to send was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    All,
    /// There may be more at once.
    Some,
    /// No more may fly. The next one that lands makes room.
    Full,
}

struct Turn<A: Agent, P> {
    agent: A,
    performer: Arc<P>,
    inbox: Inbox,
    leadership: Leadership,
    metrics: Metrics,
    options: AgentOptions,
    /// The term it is in, acting or not yet.
    term: Option<u64>,
    /// It does not act in this term before it has passed.
    fence: Option<Fence>,
    asking: Option<Asking>,
    leading: bool,
    flying: JoinSet<(u64, Reply, f64)>,
    /// How many may fly now.
    room: usize,
    landed_at: Timestamp,
    /// It lets news gather until then.
    deaf_until: Option<Instant>,
}

impl<A: Agent, P: Perform<A::Effect>> Turn<A, P> {
    fn hear(&mut self, first: News) {
        self.agent.hear(clock::now(), first);
        let precedence = self.options.precedence;
        let patient = precedence == Precedence::Patient && self.inbox.way.others_go_before(precedence);
        if self.hear_what_waits() && patient && self.leading {
            self.deaf_until = Some(Instant::now() + PATIENCE);
        }
    }

    fn landed(&mut self, landed: Option<(u64, Reply, f64)>) {
        let now = clock::now();
        self.landed_at = now;
        // A task that panicked has no number; its effect stays under way and is not repeated blindly.
        let mut next = landed;
        while let Some((effect, reply, seconds)) = next {
            self.metrics.effect(self.options.name, reply.outcome, seconds);
            self.room += 1;
            self.agent.acknowledge(now, effect, reply);
            next = self.flying.try_join_next().and_then(Result::ok);
        }
    }

    /// Leads if it may: it has the lease, has read everything once, and is past the fence. When to look again, if it
    /// waits for something that is no news.
    fn stand(&mut self) -> Option<Timestamp> {
        let term = self.leadership.term();
        if term != self.term {
            self.lead(false);
            self.term = term;
            self.asking = None;
            self.fence = (term.is_some() && self.leadership.is_rivalled()).then(Fence::default);
        }
        if term.is_none() || self.leading || !self.inbox.is_synced() {
            return None;
        }
        while let Some(fence) = &mut self.fence {
            match fence.next(clock::now(), |resource| self.inbox.reached(resource)) {
                FenceStep::Ask => self.asking = Some(Box::pin(self.inbox.ask_how_far())),
                FenceStep::Watch(lagging) => self.inbox.hurry(&lagging, Hurry::Watch),
                FenceStep::List(lagging) => self.inbox.hurry(&lagging, Hurry::List),
                FenceStep::Wait(until) => return until,
                // Whatever came meanwhile is newer still; it is heard in the next turn.
                FenceStep::Reached if !self.hear_what_waits() => return Some(clock::now()),
                FenceStep::Reached => self.fence = None,
            }
        }
        self.lead(true);
        None
    }

    fn answered(&mut self, answer: Answer) {
        let Some(fence) = &mut self.fence else { return };
        match answer {
            Ok(goal) => fence.answered(goal),
            Err(error) => {
                warn!(controller = self.options.name, %error, "cannot ask how far the server is; trying again");
                fence.unanswered(clock::now());
            }
        }
    }

    /// Hears the news that wait; whether that was all.
    fn hear_what_waits(&mut self) -> bool {
        let now = clock::now();
        for _ in 0..BATCH_MAX {
            let Some(news) = self.inbox.try_next() else { return true };
            self.agent.hear(now, news);
        }
        false
    }

    /// Lets what is under way end, and the agent write what should not be lost.
    async fn say_last_words(&mut self) {
        let end = clock::now().plus_millis(LAST_WORDS_MS_MAX);
        while self.leading && self.leadership.term() == self.term && clock::now() < end {
            if !self.agent.last_words(clock::now()) {
                return;
            }
            while self.send() == Sent::Some {}
            let wake = self.agent.wake().map_or(end, |wake| wake.min(end));
            tokio::select! {
                Some(landed) = self.flying.join_next() => self.landed(landed.ok()),
                () = clock::sleep_until(Some(wake)) => {}
            }
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

    /// Sends what may be sent now.
    fn send(&mut self) -> Sent {
        if self.flying.is_empty() && self.landed_at.plus_millis(REST_MS) < clock::now() {
            self.room = IN_FLIGHT_FIRST;
        }
        self.room = self.room.min(self.options.in_flight_max);
        let (way, precedence) = (&self.inbox.way, self.options.precedence);
        for _ in 0..POLL_MAX {
            if self.flying.len() >= way.room(precedence, self.room) {
                return Sent::Full;
            }
            let Some((id, effect)) = self.agent.poll() else { return Sent::All };
            if !self.leading || self.leadership.term() != self.term {
                self.agent.acknowledge(clock::now(), id, Outcome::RetryLater.into());
                continue;
            }
            let (performer, passage) = (Arc::clone(&self.performer), way.enter(precedence));
            self.flying.spawn(async move {
                let start = Instant::now();
                let reply = performer.perform(effect).await;
                drop(passage);
                (id, reply, start.elapsed().as_secs_f64())
            });
        }
        Sent::Some
    }
}
