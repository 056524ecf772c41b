//! Runs one core: news in, effects out, answers back.

use std::{collections::BTreeMap, future::pending, pin::Pin, sync::Arc, time::Duration};

use lazaret_leader::{
    Action, BATCH_MAX, EffectEnd, FINAL_WRITES_MS_MAX, GIVEN_UP_MS, PATIENCE_MS, POLL_MAX, Turn, TurnOptions,
};
use lazaret_machine::{Effect, EffectId, Wake};
use lazaret_model::Timestamp;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tracing::{debug, error, info, warn};

use crate::{
    Agent, AgentOptions, CallError, Clock, Inbox, Leadership, Metrics, News, Perform, Precedence, Reply,
    Resource, ViewWish, panics::caught, tasks::Restarts, topic::Hurry,
};

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
    let AgentOptions { in_flight_max, precedence, .. } = options;
    let turn = Turn::new(inbox.clock().now(), TurnOptions { in_flight_max, precedence });
    let mut shell = Shell {
        performer: Arc::new(performer),
        inbox,
        leadership,
        metrics,
        options,
        flying: JoinSet::new(),
        turn,
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
        shell.turn.give_up();
        let wait = Duration::from_millis(GIVEN_UP_MS.unsigned_abs());
        if tokio::time::timeout(wait, shell.let_end()).await.is_err() {
            shell.flying.shutdown().await;
        }
        shell.inbox.begin_anew();
        shell.turn.begin_anew(shell.inbox.clock().now());
    }
    // Effects in flight may end, so that none is cut off half done.
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
    let mut life = Life {
        agent: make(),
        shell,
        clock,
        era: begin.era,
        now: begin.now,
        asking: None,
        asking_for_view: None,
        batch_until: None,
    };
    if let Some(set_back) = begin.set_back {
        life.agent.clock_set_back(set_back);
    }
    let progressed = life.shell.inbox.progressed();
    let (mut is_more, mut look_again) = (false, None);
    while !*stop.borrow() {
        let batch_until = life.batch_until;
        let wake = life.shell.turn.wake(life.agent.wake());
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            Some(landed) = life.shell.flying.join_next() => life.landed(landed.ok()),
            () = leadership.changed() => {}
            (question, answer) = answered(&mut life.asking) => life.answered(question, answer),
            (question, answer) = answered(&mut life.asking_for_view) => life.answered(question, answer),
            () = progressed.notified() => {}
            news = life.shell.inbox.next(), if batch_until.is_none() => life.hear(news),
            () = gathered(batch_until), if batch_until.is_some() => life.batch_until = None,
            () = life.clock.sleep_until(wake.map(|wake| wake.at)) => life.woken(wake),
            () = life.clock.sleep_until(look_again), if look_again.is_some() => {}
            () = std::future::ready(()), if is_more => {}
        }
        if life.clock.read().era != life.era {
            return Ended::EraOver;
        }
        if let Some(resources) = life.agent.follow() {
            life.shell.inbox.follow(&resources);
        }
        look_again = life.stand();
        let now = life.now();
        life.agent.think(now);
        look_again = earlier(look_again, life.catch_up());
        is_more = life.send().await;
        if is_more || life.agent.wake().is_some_and(|wake| wake.at <= life.now) {
            // It would go on for as long as there is something to decide, and keep what waits for this thread.
            tokio::task::yield_now().await;
        }
    }
    life.say_last_words().await;
    life.stop_leading();
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
type Answer = Result<BTreeMap<Resource, u64>, CallError>;
/// A question by its number.
type Asking = (u64, Pin<Box<dyn Future<Output = Answer> + Send>>);

async fn answered(asking: &mut Option<Asking>) -> (u64, Answer) {
    match asking {
        Some((question, future)) => {
            let answer = (*question, future.await);
            *asking = None;
            answer
        }
        None => pending().await,
    }
}

/// The state that outlives an agent.
struct Shell<P> {
    performer: Arc<P>,
    inbox: Inbox,
    leadership: Leadership,
    metrics: Metrics,
    options: AgentOptions,
    flying: JoinSet<(EffectId, Reply, f64)>,
    /// Decides when the agent leads, and what is sent.
    turn: Turn<Resource>,
}

impl<P> Shell<P> {
    /// Carries an effect out. One that panics is answered, too.
    fn perform<E: Send + 'static>(&mut self, id: EffectId, kind: E)
    where
        P: Perform<E>,
    {
        let name = self.options.name;
        let (performer, metrics) = (Arc::clone(&self.performer), self.metrics.clone());
        let flight = self.inbox.in_flight.enter(self.options.precedence);
        self.flying.spawn(async move {
            let start = Instant::now();
            let reply = caught(performer.perform(kind)).await.unwrap_or_else(|panic| {
                error!(controller = name, effect = id.0, panic, "an effect panicked; its outcome is unknown");
                metrics.effect_panicked(name);
                let why = Some(format!("it panicked: {panic}"));
                Reply { outcome: EffectEnd::Panicked.outcome(), object: None, why }
            });
            drop(flight);
            (id, reply, start.elapsed().as_secs_f64())
        });
    }

    /// Waits for the effects in flight. Their outcomes are counted, but no agent is left to receive them.
    async fn let_end(&mut self) {
        while let Some(ended) = self.flying.join_next().await {
            self.turn.landed(self.inbox.clock().now());
            if let Ok((_, reply, seconds)) = ended {
                self.metrics.effect(self.options.name, reply.outcome, seconds);
            }
        }
    }
}

/// One agent at work.
struct Life<'a, A: Agent, P> {
    agent: A,
    shell: &'a mut Shell<P>,
    clock: Clock,
    /// The era it lives in.
    era: u64,
    /// The newest time that the agent was given.
    now: Timestamp,
    /// How far the server is, for the fence of a term.
    asking: Option<Asking>,
    /// And for a view that the agent wants.
    asking_for_view: Option<Asking>,
    /// No news are taken from the inbox until then, so that they are handled in one batch.
    batch_until: Option<Instant>,
}

impl<A: Agent, P: Perform<A::Effect>> Life<'_, A, P> {
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
        let is_patient = precedence == Precedence::Patient
            && precedence.others_go_before(self.shell.inbox.in_flight.counts());
        if self.hear_what_waits() && is_patient && self.shell.turn.leads() {
            self.batch_until = Some(Instant::now() + Duration::from_millis(PATIENCE_MS.unsigned_abs()));
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
        let mut next = Some(landed);
        while let Some(landed) = next {
            self.shell.turn.landed(now);
            if let Some((effect, reply, seconds)) = landed {
                self.shell.metrics.effect(self.shell.options.name, reply.outcome, seconds);
                self.agent.acknowledge(now, effect, reply);
            }
            next = self.shell.flying.try_join_next().map(Result::ok);
        }
    }

    /// Leads if it may. When to look again, if it waits for something that is no news.
    fn stand(&mut self) -> Option<Timestamp> {
        loop {
            let now = self.now();
            let Shell { turn, inbox, leadership, .. } = &mut *self.shell;
            let reached = |resource: &Resource| inbox.reached(resource);
            let (is_rivalled, is_synced) = (leadership.is_rivalled(), inbox.is_synced());
            match turn.stand(now, leadership.standing(), is_rivalled, is_synced, reached) {
                Action::Lead(leads) => self.tell_that_it_leads(leads),
                Action::Ask(question, of) => {
                    let of = of.unwrap_or_else(|| inbox.resources());
                    self.asking = Some((question, Box::pin(inbox.ask_how_far(&of))));
                }
                Action::Watch(lagging) => inbox.hurry(&lagging, Hurry::Soonest),
                Action::List(lagging) => inbox.hurry(&lagging, Hurry::List),
                // More news are in the inbox; they are handled in the next turn.
                Action::Hear if !self.hear_what_waits() => return Some(now),
                Action::Hear => self.shell.turn.heard(),
                Action::Wait(until) => return until,
                Action::Granted(_) => {}
            }
        }
    }

    fn answered(&mut self, question: u64, answer: Answer) {
        let now = self.now();
        match answer {
            Ok(goal) => self.shell.turn.answered(now, question, goal),
            Err(error) => {
                let controller = self.shell.options.name;
                warn!(controller, %error, "cannot ask how far the server is; trying again");
                self.shell.turn.unanswered(now, question);
            }
        }
    }

    /// Brings about the view that the agent wants, if it wants one. When to look again, if that is not for news to say.
    fn catch_up(&mut self) -> Option<Timestamp> {
        loop {
            let now = self.now();
            let Shell { turn, inbox, .. } = &mut *self.shell;
            if turn.may_wish()
                && let Some(ViewWish { number, resources }) = self.agent.wants_view()
            {
                turn.wish(number, resources);
            }
            let mut demand = turn.catch_up(now, |resource| inbox.reached(resource));
            if demand == Action::Hear {
                if !self.hear_what_waits() {
                    return Some(now);
                }
                demand = self.shell.turn.grant();
            }
            let inbox = &self.shell.inbox;
            match demand {
                Action::Ask(question, of) => {
                    let asking = inbox.ask_how_far(&of.unwrap_or_default());
                    self.asking_for_view = Some((question, Box::pin(asking)));
                }
                Action::Watch(lagging) => inbox.hurry(&lagging, Hurry::Watch),
                Action::List(lagging) => inbox.hurry(&lagging, Hurry::List),
                Action::Granted(number) => self.agent.view_reached(now, number),
                Action::Wait(until) => return until,
                Action::Hear | Action::Lead(_) => {}
            }
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

    /// Lets what is in flight end, and the agent write what should not be lost.
    async fn say_last_words(&mut self) {
        let end = self.now().plus_millis(FINAL_WRITES_MS_MAX);
        loop {
            let now = self.now();
            let lasting = self.shell.leadership.term();
            if !self.shell.turn.may_say_last_words(now, end, lasting)
                || self.clock.read().era != self.era
                || !self.agent.final_writes(now)
            {
                return;
            }
            while self.send().await {}
            let wake = self.agent.wake().map_or(end, |wake| wake.at.min(end));
            tokio::select! {
                Some(landed) = self.shell.flying.join_next() => self.landed(landed.ok()),
                () = self.clock.sleep_until(Some(wake)) => {}
            }
        }
    }

    /// Stops leading, if it leads.
    fn stop_leading(&mut self) {
        if self.shell.turn.leads() {
            self.shell.turn.give_up();
            self.tell_that_it_leads(false);
        }
    }

    fn tell_that_it_leads(&mut self, leads: bool) {
        let name = self.shell.options.name;
        debug!(controller = name, leads, "leadership");
        self.shell.metrics.leading(name, leads);
        let now = self.now();
        self.agent.lead(now, leads);
    }

    /// Sends what may be sent now. Whether there may be more at once.
    ///
    /// The agent may decide for long before it has the next effect: what was sent is begun before, for other threads do not take a task from
    /// the one that spawned it last.
    async fn send(&mut self) -> bool {
        let now = self.now();
        self.shell.turn.begin_to_send(now);
        for _ in 0..POLL_MAX {
            let (lasting, others) = (self.shell.leadership.term(), self.shell.inbox.in_flight.counts());
            if !self.shell.turn.may_take(lasting, others) {
                return false;
            }
            let Some(Effect { id, kind }) = self.agent.poll() else { return false };
            if self.shell.turn.may_send(self.shell.leadership.term()) {
                self.shell.perform(id, kind);
                tokio::task::yield_now().await;
            } else {
                self.agent.acknowledge(now, id, EffectEnd::Withheld.outcome().into());
            }
        }
        true
    }
}
