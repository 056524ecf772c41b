//! Carries out what the publisher decides.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::StreamExt;
use k8s_openapi::api::{core::v1::Node, resource::v1::ResourceSlice};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams, Preconditions, WatchEvent, WatchParams},
};
use lazaret_publisher::{Answer, Effect, Pool, PoolError, Scope};
use tokio::sync::{mpsc, watch};
use tracing::{debug, info};

use crate::{
    clock::Clock,
    inventory::Inventory,
    running::{Problem, Problems},
    tasks::Tasks,
};

/// For one write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Slices of one page of a list.
const PAGE: u32 = 500;
/// A watch is opened anew after this.
const WATCH_SECONDS: u32 = 290;
/// Without a word for longer than a watch lasts, it is lost.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 30);
/// After a failed list or watch: the first pause, doubled with each failure, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// News that wait for the publisher.
const NEWS_MAX: usize = 64;

/// Publishes the devices of a driver. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Publisher {
    inventory: Arc<Inventory>,
    /// The newest version that the server has.
    settled: watch::Sender<u64>,
}

impl Publisher {
    pub(crate) fn new(inventory: Arc<Inventory>) -> Self {
        Self { inventory, settled: watch::Sender::new(0) }
    }

    pub(crate) fn settled_sender(&self) -> watch::Sender<u64> {
        self.settled.clone()
    }

    /// Publishes these pools, instead of all that were published before. Taints that health adds are added to them. Does
    /// not wait: what fails is tried again until it is there, or something else is wanted.
    ///
    /// # Errors
    /// When no server would take them. What was published before stays.
    pub fn publish(&self, pools: BTreeMap<String, Pool>) -> Result<(), PoolError> {
        lazaret_publisher::validate(&pools)?;
        self.inventory.set_pools(pools);
        Ok(())
    }

    /// Waits until the server has what is wanted now, or something newer.
    pub async fn settled(&self) {
        let wanted = self.inventory.version();
        // The sender is here: it is not closed.
        let _ = self.settled.subscribe().wait_for(|settled| *settled >= wanted).await;
    }
}

/// News from the server.
enum News {
    Listed(Vec<ResourceSlice>, String),
    Set(Box<ResourceSlice>),
    Gone(Box<ResourceSlice>),
}

/// Runs the publisher.
pub(crate) struct Shell {
    client: kube::Client,
    core: lazaret_publisher::Publisher,
    fields: String,
    inventory: Arc<Inventory>,
    clock: Clock,
    problems: Problems,
}

impl Shell {
    pub(crate) fn new(
        client: kube::Client,
        driver: &str,
        scope: Scope,
        inventory: Arc<Inventory>,
        clock: Clock,
        problems: Problems,
    ) -> Self {
        let node = match &scope {
            Scope::Node { name } => name.as_str(),
            Scope::Cluster => "",
        };
        let fields = format!("spec.driver={driver},spec.nodeName={node}");
        let core = lazaret_publisher::Publisher::new(driver, scope);
        Self { client, core, fields, inventory, clock, problems }
    }

    pub(crate) async fn run(mut self, settled: watch::Sender<u64>) {
        let (news_sender, mut news) = mpsc::channel(NEWS_MAX);
        let (answer_sender, mut answers) = mpsc::channel(NEWS_MAX);
        let mut tasks = Tasks::default();
        tasks.spawn(follow(Api::all(self.client.clone()), self.fields.clone(), news_sender));
        let mut version = 0;
        loop {
            let now = self.clock.now();
            if let Some((newer, pools)) = self.inventory.composed(now, version) {
                version = newer;
                // A refusal is reported as a problem.
                let _ = self.core.want(pools);
            }
            self.core.think(now);
            while let Some((id, effect)) = self.core.poll() {
                let (client, answers) = (self.client.clone(), answer_sender.clone());
                tasks.spawn(async move {
                    let answer = tokio::time::timeout(WRITE_TIMEOUT, perform(&client, effect)).await;
                    let answer = answer.unwrap_or_else(|_| Answer::Failed("no answer from the API".into()));
                    // Nobody hears it when the driver ends.
                    let _ = answers.send((id, answer)).await;
                });
            }
            while let Some(problem) = self.core.poll_problem() {
                self.problems.report(Problem::Publish(problem));
            }
            if self.core.is_settled() {
                settled.send_if_modified(|before| std::mem::replace(before, version) != version);
            }
            let wake = [self.core.wake(), self.inventory.wake()].into_iter().flatten().min();
            tokio::select! {
                () = self.inventory.changed.notified() => {}
                () = self.clock.sleep_until(wake) => {}
                Some((id, answer)) = answers.recv() => self.core.acknowledge(self.clock.now(), id, answer),
                Some(news) = news.recv() => self.hear(news),
            }
        }
    }

    fn hear(&mut self, news: News) {
        let now = self.clock.now();
        match news {
            News::Listed(slices, version) => self.core.list(now, slices, &version),
            News::Set(slice) => self.core.see(now, *slice),
            News::Gone(slice) => self.core.miss(now, &slice),
        }
    }
}

async fn perform(client: &kube::Client, effect: Effect) -> Answer {
    let api: Api<ResourceSlice> = Api::all(client.clone());
    let stored = |slice| Answer::Stored(Box::new(slice));
    match effect {
        Effect::Create(slice) => {
            info!(pool = slice.spec.pool.name, generation = slice.spec.pool.generation, "create a slice");
            api.create(&PostParams::default(), &slice).await.map_or_else(|error| failed(&error), stored)
        }
        Effect::Update(slice) => {
            let name = slice.metadata.name.clone().unwrap_or_default();
            info!(name, generation = slice.spec.pool.generation, "update a slice");
            api.replace(&name, &PostParams::default(), &slice)
                .await
                .map_or_else(|error| failed(&error), stored)
        }
        Effect::Delete { name, uid, resource_version } => {
            info!(name, "delete a slice");
            let only = Preconditions { uid: Some(uid), resource_version: Some(resource_version) };
            let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
            api.delete(&name, &params).await.map_or_else(|error| failed(&error), |_| Answer::Gone)
        }
        Effect::ReadOwner { name } => {
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

/// Lists, watches, and lists again when the watch is lost.
async fn follow(api: Api<ResourceSlice>, fields: String, news: mpsc::Sender<News>) {
    let mut pause = PAUSE_MIN;
    loop {
        let Err(error) = once(&api, &fields, &news, &mut pause).await else { return };
        debug!(error, "the watch of slices ended");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// One list and the watches after it, until something fails. `Ok` when nobody listens any more.
async fn once(
    api: &Api<ResourceSlice>,
    fields: &str,
    news: &mpsc::Sender<News>,
    pause: &mut Duration,
) -> Result<(), String> {
    let (mut slices, mut params) = (Vec::new(), ListParams::default().fields(fields).limit(PAGE));
    let mut version = loop {
        let page = api.list(&params).await.map_err(|error| error.to_string())?;
        slices.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break page.metadata.resource_version.unwrap_or_default(),
        }
    };
    if news.send(News::Listed(slices, version.clone())).await.is_err() {
        return Ok(());
    }
    *pause = PAUSE_MIN;
    loop {
        let params = WatchParams::default().fields(fields).timeout(WATCH_SECONDS);
        let events = api.watch(&params, &version).await.map_err(|error| error.to_string())?;
        tokio::pin!(events);
        loop {
            let event = tokio::time::timeout(SILENCE_MAX, events.next()).await;
            let Some(event) = event.map_err(|_| "the watch is silent".to_owned())? else { break };
            let heard = match event.map_err(|error| error.to_string())? {
                WatchEvent::Added(slice) | WatchEvent::Modified(slice) => {
                    advance(&mut version, &slice);
                    News::Set(Box::new(slice))
                }
                WatchEvent::Deleted(slice) => {
                    advance(&mut version, &slice);
                    News::Gone(Box::new(slice))
                }
                WatchEvent::Bookmark(mark) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => return Err(status.message),
            };
            if news.send(heard).await.is_err() {
                return Ok(());
            }
        }
    }
}

fn advance(version: &mut String, slice: &ResourceSlice) {
    if let Some(newer) = &slice.metadata.resource_version {
        version.clone_from(newer);
    }
}
