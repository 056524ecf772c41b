//! Whether there is room for the replacements of pods that are to leave: asks [`lazaret_eviction::Capacity`], of a fleet that follows the
//! cluster with all of its taints. Nothing is followed before the first question.

use std::{sync::Arc, time::Duration};

use lazaret_eviction::{Capacity, CapacityAnswer, CapacityQuestion};
use lazaret_fleet::Fleet;
use lazaret_runtime::{Hub, Inbox, Metrics, Outcome, Reply, Tasks};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tracing::info;

use crate::Sources;

/// The task's name in metrics.
const NAME: &str = "eviction-capacity";
/// Questions that may wait: each of two controllers asks one at a time.
const QUESTIONS_MAX: usize = 4;
/// How long the first question waits for everything to be listed.
const LISTED_WITHIN: Duration = Duration::from_secs(10);

/// Sends questions to the capacity task. Clones ask the same task, so that no device is promised twice.
#[derive(Clone, Debug)]
pub(crate) struct CapacityClient {
    questions: mpsc::Sender<Question>,
}

#[derive(Debug)]
struct Question {
    asked: CapacityQuestion,
    answer: oneshot::Sender<Option<CapacityAnswer>>,
}

impl CapacityClient {
    /// Spawns the task, which answers until it is stopped.
    pub(crate) fn start(
        hub: &Arc<Hub>,
        sources: Sources,
        capacity: impl Fn() -> Capacity + Send + Sync + 'static,
        tasks: &mut Tasks,
        stop: &watch::Receiver<bool>,
    ) -> Self {
        let (questions, receiver) = mpsc::channel(QUESTIONS_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let (hub, stop) = (Arc::clone(hub), stop.clone());
        let metrics: Metrics = hub.metrics().clone();
        let capacity = Arc::new(capacity);
        tasks.supervise(NAME.to_owned(), metrics, move || {
            serve(Arc::clone(&hub), sources, capacity(), Arc::clone(&receiver), stop.clone())
        });
        Self { questions }
    }

    /// Asks, and says what came of it in the words of an effect.
    pub(crate) async fn ask(&self, asked: &CapacityQuestion) -> Reply {
        let (answer, answered) = oneshot::channel();
        if self.questions.send(Question { asked: asked.clone(), answer }).await.is_err() {
            return Reply::from(Outcome::RetryLater);
        }
        match answered.await.ok().flatten() {
            Some(CapacityAnswer::Room(_)) => Reply::from(Outcome::Done),
            Some(CapacityAnswer::NoRoom(why)) => {
                Reply { why: Some(why.to_string()), ..Reply::from(Outcome::Held) }
            }
            Some(CapacityAnswer::Gone) | None => Reply::from(Outcome::RetryLater),
        }
    }
}

async fn serve(
    hub: Arc<Hub>,
    sources: Sources,
    capacity: Capacity,
    questions: Arc<Mutex<mpsc::Receiver<Question>>>,
    mut stop: watch::Receiver<bool>,
) {
    let mut questions = questions.lock().await;
    let first = tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => return,
        question = questions.recv() => question,
    };
    let Some(first) = first else { return };
    info!("a rule wants room before pods leave: following what there is");
    let mut inbox = hub.listen(&sources.resources());
    let clock = inbox.clock().clone();
    drop(hub);
    let mut known = Known { fleet: Fleet::with_gates(sources.gates()), capacity, sources };
    let listed = async {
        while !inbox.is_synced() {
            known.apply(&inbox.next().await);
        }
    };
    // A view that is not synced in time answers no question: the controller asks again.
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => return,
        _ = tokio::time::timeout(LISTED_WITHIN, listed) => {}
    }
    let mut open = Some(first);
    loop {
        // Only a synced view is asked: on a partial one, room could be promised that is taken.
        if let Some(Question { asked, answer }) = open.take() {
            known.catch_up(&mut inbox);
            let said = inbox.is_synced().then(|| known.ask(clock.now(), &asked));
            // The asker may be gone.
            let _ = answer.send(said);
        }
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            news = inbox.next() => known.apply(&news),
            question = questions.recv() => {
                let Some(question) = question else { return };
                open = Some(question);
            }
        }
    }
}

struct Known {
    fleet: Fleet,
    capacity: Capacity,
    sources: Sources,
}

impl Known {
    fn apply(&mut self, news: &lazaret_runtime::News) {
        self.sources.feed(&mut self.fleet, news);
        self.forget_changes();
    }

    fn catch_up(&mut self, inbox: &mut Inbox) {
        while let Some(news) = inbox.try_next() {
            self.apply(&news);
        }
    }

    fn ask(&mut self, now: lazaret_model::Timestamp, asked: &CapacityQuestion) -> CapacityAnswer {
        let answer = self.capacity.ask(now, &mut self.fleet, asked);
        self.forget_changes();
        answer
    }

    /// The changes have no other reader.
    fn forget_changes(&mut self) {
        let _ = self.fleet.take_changes();
    }
}
