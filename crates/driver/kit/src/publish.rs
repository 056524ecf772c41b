//! Carries out what the publisher decides.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::{core::v1::Node, resource::v1::ResourceSlice};
use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
};
use lazaret_machine::{Effect, Machine, Turn, Wake};
use lazaret_publisher::{Answer, EffectKind, Pool, PoolError, Scope};
use tokio::sync::{mpsc, watch};
use tracing::{debug, info};

use crate::{
    clock::Clock,
    follow::{Selection, SliceEvent, follow},
    inventory::Inventory,
    running::{Problem, Problems},
    tasks::Tasks,
    term::Term,
};

/// For one write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Instead of a version: the server has something else, or it is not known what.
const UNSETTLED: u64 = 0;
/// News that wait for the publisher.
const NEWS_MAX: usize = 64;

/// Publishes the devices of a driver. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Publisher {
    inventory: Arc<Inventory>,
    scope: Option<Scope>,
    /// The version that the server has.
    settled: watch::Sender<u64>,
}

impl Publisher {
    pub(crate) fn new(inventory: Arc<Inventory>, scope: Option<Scope>) -> Self {
        Self { inventory, scope, settled: watch::Sender::new(UNSETTLED) }
    }

    pub(crate) fn settled_sender(&self) -> watch::Sender<u64> {
        self.settled.clone()
    }

    /// Publishes these pools, instead of all that were published before. Taints that health adds are added to them. Does
    /// not wait: what fails is tried again until it is there, or something else is wanted. Devices that were not there
    /// before are looked at before they are published.
    ///
    /// # Errors
    /// When no server would take them. The pools published before stay.
    pub fn publish(&self, pools: BTreeMap<String, Pool>) -> Result<(), PoolError> {
        lazaret_publisher::validate(self.scope.as_ref().unwrap_or(&Scope::Cluster), &pools)?;
        self.inventory.set_pools(pools);
        Ok(())
    }

    /// Writes nothing until [`resume`](Self::resume), whatever is wanted or becomes of the slices meanwhile: while
    /// something else works on them, or to test what a cluster does with a driver that has stopped publishing.
    pub fn pause(&self) {
        self.inventory.pause(true);
    }

    /// Goes on: what is wanted by then is published, and what others changed is repaired.
    pub fn resume(&self) {
        self.inventory.pause(false);
    }

    /// Waits until the server has what is wanted now, or something newer.
    pub async fn settled(&self) {
        let wanted = self.inventory.version();
        // The sender is here: it is not closed.
        let _ = self.settled.subscribe().wait_for(|settled| *settled >= wanted).await;
    }
}

/// Runs the publisher.
pub(crate) struct Shell {
    client: kube::Client,
    core: lazaret_publisher::Publisher,
    selection: Selection,
    inventory: Arc<Inventory>,
    clock: Clock,
    term: Term,
    problems: Problems,
}

impl Shell {
    pub(crate) fn new(
        client: kube::Client,
        driver: &str,
        scope: Scope,
        inventory: Arc<Inventory>,
        (clock, term): (Clock, Term),
        problems: Problems,
    ) -> Self {
        let selection = Selection::new(driver, &scope);
        let core = lazaret_publisher::Publisher::new(driver, scope);
        Self { client, core, selection, inventory, clock, term, problems }
    }

    pub(crate) async fn run(mut self, settled: watch::Sender<u64>) {
        let (news_sender, mut news) = mpsc::channel(NEWS_MAX);
        let (answer_sender, mut answers) = mpsc::channel(NEWS_MAX);
        let mut tasks = Tasks::default();
        let (slices, problems) = (Api::all(self.client.clone()), self.problems.clone());
        tasks.spawn(follow(slices, self.selection.clone(), news_sender, problems));
        let mut version = 0;
        loop {
            let now = self.clock.now();
            let is_paused = self.inventory.is_paused() || self.term.left().is_none();
            if let Some((newer, pools)) = self.inventory.composed(now, version) {
                version = newer;
                // A refusal is reported as a problem.
                let _ = self.core.want(pools);
            }
            self.core.handle(now, &(), Turn::leads(!is_paused));
            while let Some(Effect { id, kind }) = self.core.poll_effect() {
                let (client, answers) = (self.client.clone(), answer_sender.clone());
                let term = self.term.clone();
                tasks.spawn(async move {
                    let answer = perform_in(&term, &client, kind).await;
                    // The receiver is gone when the driver ends.
                    let _ = answers.send((id, answer)).await;
                });
            }
            while let Some(problem) = self.core.poll_problem() {
                self.problems.report(Problem::Publish(problem));
            }
            let is_settled = !is_paused && self.core.is_settled() && self.inventory.is_complete();
            let has = if is_settled { version } else { UNSETTLED };
            settled.send_if_modified(|before| std::mem::replace(before, has) != has);
            let health = self.inventory.wake().map(|at| Wake::new(at, "the health of a device changes"));
            let wake = Wake::first([self.core.next_wake(), health]);
            if let Some(Wake { at, why }) = wake {
                debug!(in_ms = at.millis_since(now), why, "next wake");
            }
            tokio::select! {
                () = self.inventory.changed.notified() => {}
                () = self.clock.sleep_until(wake.map(|wake| wake.at)) => {}
                Some((id, answer)) = answers.recv() => self.core.acknowledge(self.clock.now(), id, answer),
                Some(news) = news.recv() => self.handle_event(news),
            }
        }
    }

    fn handle_event(&mut self, news: SliceEvent) {
        let now = self.clock.now();
        match news {
            SliceEvent::Listed(slices, version) => self.core.list(now, slices, &version),
            SliceEvent::Set(slice) => self.core.see(now, *slice),
            SliceEvent::Gone(slice) => self.core.miss(now, &slice),
        }
    }
}

/// A request is sent only while the term lasts, and is given up when it ends: it would arrive beside those of another replica.
async fn perform_in(term: &Term, client: &kube::Client, effect: EffectKind) -> Answer {
    let Some(left) = term.left() else { return Answer::Failed("another replica may publish now".into()) };
    let answer = tokio::time::timeout(WRITE_TIMEOUT.min(left), perform(client, effect)).await;
    answer.unwrap_or_else(|_| Answer::Failed("no answer from the API".into()))
}

async fn perform(client: &kube::Client, effect: EffectKind) -> Answer {
    let api: Api<ResourceSlice> = Api::all(client.clone());
    let stored = |slice| Answer::Stored(Box::new(slice));
    match effect {
        EffectKind::Create(slice) => {
            info!(pool = slice.spec.pool.name, generation = slice.spec.pool.generation, "create a slice");
            api.create(&PostParams::default(), &slice).await.map_or_else(|error| failed(&error), stored)
        }
        EffectKind::Update(slice) => {
            let name = slice.metadata.name.clone().unwrap_or_default();
            info!(name, generation = slice.spec.pool.generation, "update a slice");
            api.replace(&name, &PostParams::default(), &slice)
                .await
                .map_or_else(|error| failed(&error), stored)
        }
        EffectKind::Delete { name, uid, resource_version } => {
            info!(name, "delete a slice");
            let only = Preconditions { uid: Some(uid), resource_version: Some(resource_version) };
            let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
            api.delete(&name, &params).await.map_or_else(|error| failed(&error), |_| Answer::Gone)
        }
        EffectKind::ReadOwner { name } => {
            let nodes: Api<Node> = Api::all(client.clone());
            match nodes.get(&name).await {
                Ok(node) => Answer::Owner(node.metadata.uid.unwrap_or_default()),
                Err(error) => failed(&error),
            }
        }
    }
}

fn failed(error: &kube::Error) -> Answer {
    let kube::Error::Api(status) = error else { return Answer::Failed(error.to_string()) };
    let why = status.message.clone();
    match status.code {
        404 => Answer::Gone,
        409 if status.reason == "AlreadyExists" => Answer::Failed(why),
        409 => Answer::Conflict(why),
        429 => Answer::Failed(why),
        400..=499 => Answer::Refused(why),
        _ => Answer::Failed(why),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        pin::Pin,
        sync::{Arc, Mutex},
        task::{Context, Poll},
    };

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// A server that answers after five milliseconds, and counts what was sent to it.
    #[derive(Clone, Default)]
    struct Slow(Arc<Mutex<usize>>);

    const ANSWER_MS: u64 = 5;

    impl tower_service::Service<Request<Body>> for Slow {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            *self.0.lock().unwrap() += 1;
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(ANSWER_MS)).await;
                let gone = r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#;
                Ok(Response::new(Body::from(gone.as_bytes().to_vec())))
            })
        }
    }

    fn delete() -> EffectKind {
        EffectKind::Delete { name: "slice".into(), uid: "u".into(), resource_version: "1".into() }
    }

    /// In the middle of a list of writes the term ends: the one that is on its way is given up, and none is sent after it.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_after_the_term() {
        let sent = Slow::default();
        let client = kube::Client::new(sent.clone(), "default");
        let clock = Clock::start();
        let term = Term::unlimited(clock);
        term.set(Some(clock.now().plus_millis(12)));
        let mut answers = Vec::new();
        for _ in 0..5 {
            answers.push(perform_in(&term, &client, delete()).await);
        }
        let done = answers.iter().filter(|answer| matches!(answer, Answer::Gone)).count();
        assert_eq!((done, *sent.0.lock().unwrap()), (2, 3), "{answers:?}");
        term.set(Some(clock.now().plus_millis(1_000)));
        assert!(matches!(perform_in(&term, &client, delete()).await, Answer::Gone), "it leads again");
    }
}
