//! Runs one core: news in, effects out, answers back.

use std::{collections::BTreeMap, future::pending, pin::Pin, sync::Arc, time::Duration};

use lazaret_machine::{Effect, EffectId, Wake};
use lazaret_model::Timestamp;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tracing::{debug, error, info, warn};

use crate::{
    Agent, AgentOptions, CallError, Clock, Inbox, Leadership, Metrics, News, Outcome, Perform, Precedence,
    Reply, Resource,
    catch_up::CatchUp,
    fence::{Fence, FenceStep},
    hub::Hurry,
    panics::caught,
    precedence::PATIENCE,
    tasks::Restarts,
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

/// What is under way when an agent is given up is waited for so long; what takes longer is cut off.
const GIVEN_UP_WAIT: Duration = Duration::from_secs(30);

/// Runs the agent that `make` makes until `stop`. Nothing is done before all resources were read once, nor without leadership, nor on a view
/// that is older than the term.
///
/// An agent that panics is given up, and so is one whose clock was set, for it measures durations by it. Another is made and told everything
/// there is; it does nothing before what its predecessor did is among that.
pub async fn run<A: Agent, P: Perform<A::Effect>>(
    make: impl Fn() -> A + Send + Sync + 'static,
    performer: P,
    inbox: Inbox,
    leadership: Leadership,
    metrics: Metrics,
    options: AgentOptions,
    mut stop: watch::Receiver<bool>,
) {
    let mut restarts = Restarts::new(options.name.to_owned(), metrics.clone());
    let mut shell = Shell {
        performer: Arc::new(performer),
        inbox,
        leadership,
        metrics,
        options,
        flying: JoinSet::new(),
        follows: false,
    };
    loop {
        match caught(live(&make, &mut shell, stop.clone())).await {
            Ok(Ended::Stopped) => break,
            Ok(Ended::EraOver) => {
                info!(
                    controller = options.name,
                    "the clock was set, or the process was stopped; starting again with a fresh view"
                );
            }
            Err(panic) => tokio::select! {
                () = restarts.pause(&panic) => {}
                _ = stop.wait_for(|stop| *stop) => break,
            },
        }
        shell.metrics.leading(options.name, false);
        if tokio::time::timeout(GIVEN_UP_WAIT, shell.let_end()).await.is_err() {
            shell.flying.shutdown().await;
        }
        shell.inbox.begin_anew();
        shell.follows = true;
    }
    // What is under way is let end, so that nothing is half done.
    shell.let_end().await;
}

/// Why an agent ended.
enum Ended {
    Stopped,
    /// The clock was set, or the process was stopped for long.
    EraOver,
}

/// One agent from its making to its end.
async fn live<A: Agent, P: Perform<A::Effect>>(
    make: impl Fn() -> A,
    shell: &mut Shell<P>,
    mut stop: watch::Receiver<bool>,
) -> Ended {
    let mut leadership = shell.leadership.clone();
    let clock = shell.inbox.clock().clone();
    let begin = clock.read();
    let mut turn = Turn {
        agent: make(),
        shell,
        clock,
        era: begin.era,
        now: begin.now,
        term: None,
        fence: None,
        asking: None,
        view: None,
        leading: false,
        room: IN_FLIGHT_FIRST,
        landed_at: begin.now,
        deaf_until: None,
    };
    if let Some(set_back) = begin.set_back {
        turn.agent.clock_set_back(set_back);
    }
    let progressed = turn.shell.inbox.progressed();
    let (mut sent, mut look_again) = (Sent::All, None);
    while !*stop.borrow() {
        let deaf_until = turn.deaf_until;
        // Who cannot send has no use for the time: the next effect that ends wakes it.
        let wake = turn.agent.wake().filter(|_| turn.leading && sent != Sent::Full);
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            Some(landed) = turn.shell.flying.join_next() => turn.landed(landed.ok()),
            () = leadership.changed() => {}
            answer = answered(&mut turn.asking) => turn.answered(answer),
            answer = CatchUp::answered(&mut turn.view) => turn.view_answered(answer),
            () = progressed.notified() => {}
            news = turn.shell.inbox.next(), if deaf_until.is_none() => turn.hear(news),
            () = gathered(deaf_until), if deaf_until.is_some() => turn.deaf_until = None,
            () = turn.clock.sleep_until(wake.map(|wake| wake.at)) => turn.woken(wake),
            () = turn.clock.sleep_until(look_again), if look_again.is_some() => {}
            () = std::future::ready(()), if sent == Sent::Some => {}
        }
        if turn.clock.read().era != turn.era {
            return Ended::EraOver;
        }
        if let Some(resources) = turn.agent.follow() {
            turn.shell.inbox.follow(&resources);
        }
        look_again = turn.stand();
        let now = turn.now();
        turn.agent.think(now);
        look_again = earlier(look_again, turn.catch_up());
        sent = turn.send();
    }
    turn.say_last_words().await;
    turn.lead(false);
    Ended::Stopped
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

/// Waits until news have gathered.
async fn gathered(until: Option<Instant>) {
    match until {
        Some(end) => tokio::time::sleep_until(end).await,
        None => pending().await,
    }
}

/// How far the server is with each resource.
pub(crate) type Answer = Result<BTreeMap<Resource, u64>, CallError>;
pub(crate) type Asking = Pin<Box<dyn Future<Output = Answer> + Send>>;

pub(crate) async fn answered(asking: &mut Option<Asking>) -> Answer {
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

/// What outlives an agent.
struct Shell<P> {
    performer: Arc<P>,
    inbox: Inbox,
    leadership: Leadership,
    metrics: Metrics,
    options: AgentOptions,
    flying: JoinSet<(EffectId, Reply, f64)>,
    /// There was an agent before: what it did must be seen before anything is done.
    follows: bool,
}

impl<P> Shell<P> {
    /// Waits for what is under way. Nobody is left to be told of it.
    async fn let_end(&mut self) {
        while let Some(ended) = self.flying.join_next().await {
            if let Ok((_, reply, seconds)) = ended {
                self.metrics.effect(self.options.name, reply.outcome, seconds);
            }
        }
    }
}

/// One agent at work.
struct Turn<'a, A: Agent, P> {
    agent: A,
    shell: &'a mut Shell<P>,
    clock: Clock,
    /// The era it lives in.
    era: u64,
    /// The newest time it was told.
    now: Timestamp,
    /// The term it is in, acting or not yet.
    term: Option<u64>,
    /// It does not act in this term before it has passed.
    fence: Option<Fence>,
    asking: Option<Asking>,
    /// A view that the agent wants, while it leads.
    view: Option<CatchUp>,
    leading: bool,
    /// How many may fly now.
    room: usize,
    landed_at: Timestamp,
    /// It lets news gather until then.
    deaf_until: Option<Instant>,
}

impl<A: Agent, P: Perform<A::Effect>> Turn<'_, A, P> {
    /// The time. It stands still when its era is over, and the agent is given up soon.
    fn now(&mut self) -> Timestamp {
        let reading = self.clock.read();
        if reading.era == self.era {
            self.now = reading.now;
        }
        self.now
    }

    fn hear(&mut self, first: News) {
        let now = self.now();
        self.agent.hear(now, first);
        let precedence = self.shell.options.precedence;
        let patient = precedence == Precedence::Patient && self.shell.inbox.way.others_go_before(precedence);
        if self.hear_what_waits() && patient && self.leading {
            self.deaf_until = Some(Instant::now() + PATIENCE);
        }
    }

    /// It wanted to think now.
    fn woken(&self, wake: Option<Wake>) {
        if let Some(Wake { why, .. }) = wake {
            debug!(controller = self.shell.options.name, why, "woken");
        }
    }

    fn landed(&mut self, landed: Option<(EffectId, Reply, f64)>) {
        let now = self.now();
        self.landed_at = now;
        let mut next = landed;
        while let Some((effect, reply, seconds)) = next {
            self.shell.metrics.effect(self.shell.options.name, reply.outcome, seconds);
            self.room += 1;
            self.agent.acknowledge(now, effect, reply);
            next = self.shell.flying.try_join_next().and_then(Result::ok);
        }
    }

    /// Leads if it may: it has the lease, has read everything once, and is past the fence. When to look again, if it
    /// waits for something that is no news.
    fn stand(&mut self) -> Option<Timestamp> {
        let term = self.shell.leadership.standing();
        if term != self.term {
            self.lead(false);
            self.term = term;
            self.asking = None;
            let another_acted = self.shell.leadership.is_rivalled() || self.shell.follows;
            self.fence = (term.is_some() && another_acted).then(Fence::default);
        }
        if term.is_none() || self.leading || !self.shell.inbox.is_synced() {
            return None;
        }
        while self.fence.is_some() {
            let now = self.now();
            let inbox = &self.shell.inbox;
            let Some(fence) = &mut self.fence else { break };
            match fence.next(now, |resource| inbox.reached(resource)) {
                FenceStep::Ask => self.asking = Some(Box::pin(inbox.ask_how_far(&inbox.resources()))),
                // Nothing is done meanwhile, after a leader that may have been killed.
                FenceStep::Watch(lagging) => inbox.hurry(&lagging, Hurry::Soonest),
                FenceStep::List(lagging) => inbox.hurry(&lagging, Hurry::List),
                FenceStep::Wait(until) => return until,
                // Whatever came meanwhile is newer still; it is heard in the next turn.
                FenceStep::Reached if !self.hear_what_waits() => return Some(now),
                FenceStep::Reached => self.fence = None,
            }
        }
        self.lead(true);
        None
    }

    fn answered(&mut self, answer: Answer) {
        let now = self.now();
        let Some(fence) = &mut self.fence else { return };
        match answer {
            Ok(goal) => fence.answered(now, goal),
            Err(error) => {
                let controller = self.shell.options.name;
                warn!(controller, %error, "cannot ask how far the server is; trying again");
                fence.unanswered(now);
            }
        }
    }

    /// Brings about the view that the agent wants, if it wants one. When to look again, if that is not for news to say.
    fn catch_up(&mut self) -> Option<Timestamp> {
        if !self.leading {
            self.view = None;
            return None;
        }
        loop {
            let now = self.now();
            if self.view.is_none() {
                self.view = self.agent.wants_view().map(CatchUp::new);
            }
            let view = self.view.as_mut()?;
            let (number, step) = (view.number(), view.step(now, &self.shell.inbox));
            match step {
                Some(FenceStep::Reached) if !self.hear_what_waits() => return Some(now),
                Some(FenceStep::Reached) => {
                    self.view = None;
                    self.agent.view_reached(now, number);
                }
                Some(FenceStep::Wait(until)) => return until,
                Some(_) | None => {}
            }
        }
    }

    fn view_answered(&mut self, answer: Answer) {
        let now = self.now();
        if let Some(view) = &mut self.view {
            view.take_answer(now, answer, self.shell.options.name);
        }
    }

    /// Hears the news that wait; whether that was all.
    fn hear_what_waits(&mut self) -> bool {
        let now = self.now();
        for _ in 0..BATCH_MAX {
            let Some(news) = self.shell.inbox.try_next() else { return true };
            self.agent.hear(now, news);
        }
        false
    }

    /// Lets what is under way end, and the agent write what should not be lost.
    async fn say_last_words(&mut self) {
        let end = self.now().plus_millis(LAST_WORDS_MS_MAX);
        while self.leading
            && self.shell.leadership.term() == self.term
            && self.clock.read().era == self.era
            && self.now() < end
        {
            let now = self.now();
            if !self.agent.last_words(now) {
                return;
            }
            while self.send() == Sent::Some {}
            let wake = self.agent.wake().map_or(end, |wake| wake.at.min(end));
            tokio::select! {
                Some(landed) = self.shell.flying.join_next() => self.landed(landed.ok()),
                () = self.clock.sleep_until(Some(wake)) => {}
            }
        }
    }

    fn lead(&mut self, leads: bool) {
        if leads == self.leading {
            return;
        }
        let name = self.shell.options.name;
        debug!(controller = name, leads, "leadership");
        self.leading = leads;
        self.shell.metrics.leading(name, leads);
        let now = self.now();
        self.agent.lead(now, leads);
    }

    /// Sends what may be sent now.
    fn send(&mut self) -> Sent {
        let now = self.now();
        if self.leading && self.shell.leadership.term() != self.term {
            // The lease was not renewed in time. Whether it is lost is said soon.
            return Sent::Full;
        }
        if self.shell.flying.is_empty() && self.landed_at.plus_millis(REST_MS) < now {
            self.room = IN_FLIGHT_FIRST;
        }
        let options = self.shell.options;
        self.room = self.room.min(options.in_flight_max);
        let (way, precedence) = (&self.shell.inbox.way, options.precedence);
        for _ in 0..POLL_MAX {
            if self.shell.flying.len() >= way.room(precedence, self.room) {
                return Sent::Full;
            }
            let Some(Effect { id, kind }) = self.agent.poll() else { return Sent::All };
            if !self.leading || self.shell.leadership.term() != self.term {
                self.agent.acknowledge(now, id, Outcome::RetryLater.into());
                continue;
            }
            let (performer, passage) = (Arc::clone(&self.shell.performer), way.enter(precedence));
            let metrics = self.shell.metrics.clone();
            self.shell.flying.spawn(async move {
                let start = Instant::now();
                let reply = caught(performer.perform(kind)).await.unwrap_or_else(|panic| {
                    error!(
                        controller = options.name,
                        effect = id.0,
                        panic,
                        "an effect panicked; its outcome is unknown"
                    );
                    metrics.effect_panicked(options.name);
                    let why = Some(format!("it panicked: {panic}"));
                    Reply { outcome: Outcome::Unknown, object: None, why }
                });
                drop(passage);
                (id, reply, start.elapsed().as_secs_f64())
            });
        }
        Sent::Some
    }
}
