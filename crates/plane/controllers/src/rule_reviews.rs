//! Whether a DeviceTaintRule may be written where Kubernetes evicts for it: asks [`lazaret_eviction::refusal_of`], of a fleet that follows the
//! cluster.

use std::sync::Arc;

use lazaret_eviction::refusal_of;
use lazaret_fleet::Fleet;
use lazaret_model::DeviceTaintRule;
use lazaret_runtime::{DISRUPTION_GUARDS, Hub, Inbox, Model, News, Object, RULES};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tracing::info;

use crate::{Sources, guard::GuardBook};

/// The task's name in metrics.
pub(crate) const NAME: &str = "rule-reviews";
/// Questions that may wait; each is answered in milliseconds.
const QUESTIONS_MAX: usize = 64;

/// Answers questions about rules. Clones ask the same.
#[derive(Clone, Debug)]
pub struct RuleReviews {
    questions: mpsc::Sender<Question>,
}

/// The verdict of the guards on a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleReview {
    /// No guard objects.
    Permitted,
    /// A guard does not permit it, in words for people.
    Refused(String),
    /// Not everything has been listed yet, or the task does not answer.
    NotReady,
}

#[derive(Debug)]
pub(crate) struct Question {
    rule: Arc<DeviceTaintRule>,
    answer: oneshot::Sender<RuleReview>,
}

pub(crate) type Questions = Arc<Mutex<mpsc::Receiver<Question>>>;

impl RuleReviews {
    pub(crate) fn new() -> (Self, Questions) {
        let (questions, receiver) = mpsc::channel(QUESTIONS_MAX);
        (Self { questions }, Arc::new(Mutex::new(receiver)))
    }

    /// Whether this rule may be written, and in the place of which one. A rule that does not change what it taints, or cannot be understood, is
    /// permitted: the API server has its own rules for it.
    pub async fn review(&self, rule: &str, old: Option<&str>) -> RuleReview {
        if old.is_some_and(|old| spec(old).is_some() && spec(old) == spec(rule)) {
            return RuleReview::Permitted;
        }
        let read = Object::new(&RULES, rule);
        let Some(rule) = read.ok().as_ref().and_then(model) else { return RuleReview::Permitted };
        let (answer, answered) = oneshot::channel();
        if self.questions.send(Question { rule, answer }).await.is_err() {
            return RuleReview::NotReady;
        }
        answered.await.unwrap_or(RuleReview::NotReady)
    }
}

fn model(object: &Object) -> Option<Arc<DeviceTaintRule>> {
    match object.model() {
        Ok(Model::Rule(rule)) if object.unreadable().is_none() => Some(Arc::clone(rule)),
        Ok(_) | Err(_) => None,
    }
}

/// The spec of an object, to the byte.
fn spec(object: &str) -> Option<&str> {
    #[derive(Deserialize)]
    struct Spec<'a> {
        #[serde(borrow)]
        spec: &'a RawValue,
    }
    serde_json::from_str::<Spec<'_>>(object).ok().map(|object| object.spec.get())
}

/// Answers until it is stopped.
pub(crate) async fn serve(
    hub: Arc<Hub>,
    sources: Sources,
    questions: Questions,
    mut stop: watch::Receiver<bool>,
) {
    let mut questions = questions.lock().await;
    let mut inbox = hub.listen_if_possible(&sources.resources(), &[DISRUPTION_GUARDS]);
    let clock = inbox.clock().clone();
    drop(hub);
    let mut known =
        Known { fleet: Fleet::with_gates(sources.gates()), guards: GuardBook::default(), sources };
    loop {
        let question = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            news = inbox.next() => {
                known.hear(&news);
                continue;
            }
            question = questions.recv() => question,
        };
        let Some(Question { rule, answer }) = question else { return };
        known.catch_up(&mut inbox);
        let said = if inbox.is_synced() { known.review(clock.now(), &rule) } else { RuleReview::NotReady };
        // The asker may be gone.
        let _ = answer.send(said);
    }
}

struct Known {
    fleet: Fleet,
    guards: GuardBook,
    sources: Sources,
}

impl Known {
    fn hear(&mut self, news: &News) {
        if !self.guards.hear(news) {
            self.sources.feed(&mut self.fleet, news);
            self.forget_changes();
        }
    }

    fn catch_up(&mut self, inbox: &mut Inbox) {
        while let Some(news) = inbox.try_next() {
            self.hear(&news);
        }
    }

    /// The changes have no other reader.
    fn forget_changes(&mut self) {
        let _ = self.fleet.take_changes();
    }

    fn review(&mut self, now: lazaret_model::Timestamp, rule: &Arc<DeviceTaintRule>) -> RuleReview {
        let refusal = refusal_of(&mut self.fleet, now, &self.guards.all(), rule);
        self.forget_changes();
        match refusal {
            None => RuleReview::Permitted,
            Some(refusal) => {
                info!(rule = %rule.name, guard = %refusal.guard, pods = refusal.pods, "a rule is refused");
                RuleReview::Refused(refusal.to_string())
            }
        }
    }
}
