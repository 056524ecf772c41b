//! Runs the core: news in, writes and calls of the vendor's code out, answers back.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use lazaret_classic::{
    Allocation, DriverController, DriverEffectKind, DriverInput, DriverOptions, Refusal, Suitability,
};
use lazaret_machine::{Machine as _, Turn};
use lazaret_model::Timestamp;
use lazaret_runtime::{
    Agent, Client, Effect, EffectId, News, Outcome, Perform, Reply, Wake, change_classic_claim,
};
use tracing::{debug, warn};

use super::{Controller, TaintedDevices, known_objects::KnownObjects};

/// An answer of the vendor's code, which is more than an outcome.
#[derive(Debug)]
enum VendorAnswer {
    Allocated(Result<Allocation, Refusal>),
    Examined(Option<Suitability>),
}

/// Answers on their way from calls to the core: at most one for each call in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers(Arc<Mutex<BTreeMap<EffectId, VendorAnswer>>>);

impl Answers {
    fn put(&self, effect: EffectId, answer: VendorAnswer) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(effect, answer);
    }

    fn take(&self, effect: EffectId) -> Option<VendorAnswer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&effect)
    }
}

/// The core with what it has been told.
#[derive(Debug)]
pub(super) struct ControllerAgent {
    core: DriverController,
    known_objects: KnownObjects,
    tainted: Option<TaintedDevices>,
    answers: Answers,
}

/// Something to be done, with the id by which its answer is found.
#[derive(Debug)]
pub(super) struct Job {
    id: EffectId,
    kind: DriverEffectKind,
}

impl ControllerAgent {
    pub(super) fn new(options: DriverOptions, answers: Answers, tainted: Option<TaintedDevices>) -> Self {
        Self {
            core: DriverController::new(options),
            known_objects: KnownObjects::default(),
            tainted,
            answers,
        }
    }
}

impl Agent for ControllerAgent {
    type Effect = Job;

    fn hear(&mut self, now: Timestamp, news: News) {
        let Self { core, known_objects, tainted, .. } = self;
        if tainted.as_ref().is_some_and(|tainted| tainted.apply(&news)) {
            return;
        }
        known_objects.apply(news, |news| core.handle(now, &(), DriverInput::News(news)));
    }

    fn think(&mut self, now: Timestamp) {
        self.core.handle(now, &(), Turn::Tick.into());
    }

    fn lead(&mut self, now: Timestamp, leading: bool) {
        self.core.handle(now, &(), Turn::leads(leading).into());
    }

    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply) {
        let input = match self.answers.take(effect) {
            Some(VendorAnswer::Allocated(result)) => DriverInput::Allocated { effect, result },
            Some(VendorAnswer::Examined(result)) => DriverInput::Examined { effect, result },
            None => Turn::Acknowledged(effect, reply.into()).into(),
        };
        self.core.handle(now, &(), input);
    }

    fn poll(&mut self) -> Option<Effect<Job>> {
        let Effect { id, kind } = self.core.poll_effect()?;
        Some(Effect { id, kind: Job { id, kind } })
    }

    fn wake(&self) -> Option<Wake> {
        self.core.next_wake().map(lazaret_machine::Wake::in_words)
    }
}

/// Writes to claims, calls the vendor's code.
#[derive(Debug)]
pub(super) struct Executor<C> {
    client: Client,
    controller: C,
    answers: Answers,
}

impl<C: Controller> Executor<C> {
    pub(super) fn new(client: Client, controller: C) -> Self {
        Self { client, controller, answers: Answers::default() }
    }

    pub(super) fn answers(&self) -> Answers {
        self.answers.clone()
    }
}

impl<C: Controller> Perform<Job> for Executor<C> {
    async fn perform(&self, job: Job) -> Reply {
        let Job { id, kind } = job;
        match &kind {
            DriverEffectKind::Change(change) => {
                let reply = change_classic_claim(&self.client, change).await;
                if let Some(why) = &reply.why {
                    debug!(claim = %change.claim, why, "a write to a claim was not done");
                }
                reply
            }
            DriverEffectKind::Allocate(claim) => {
                let result = self.controller.allocate(claim).await;
                self.answers.put(id, VendorAnswer::Allocated(result));
                Outcome::Done.into()
            }
            DriverEffectKind::Deallocate(claim) => match self.controller.deallocate(claim).await {
                Ok(()) => Outcome::Done.into(),
                Err(failure) => {
                    warn!(claim = %claim.claim, %failure, "a claim could not be deallocated; it is tried again");
                    Outcome::RetryLater.into()
                }
            },
            DriverEffectKind::Examine(claim) => {
                let result = self.controller.unsuitable_nodes(claim).await;
                let result = result.inspect_err(|failure| {
                    warn!(claim = %claim.claim, %failure, "nodes could not be examined; it is tried again");
                });
                self.answers.put(id, VendorAnswer::Examined(result.ok()));
                Outcome::Done.into()
            }
        }
    }
}
