//! The loop: news in, actions out.

use std::{collections::BTreeMap, fs, os::unix::fs::DirBuilderExt, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::Api;
use lazaret_driver::Client as PluginClient;
use lazaret_node::{Action, Call, ClaimState, Input, Node, Outcome};
use lazaret_runtime::Metrics as Registry;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::Instant,
};
use tracing::{info, warn};

use crate::{
    Options, StartError, checkpoint, claims,
    clock::Clock,
    connection::{self, Current, Endpoint},
    events, follow,
    metrics::Metrics,
    offers, pods, registration, registry, steps, writes,
};

/// News that wait. Whoever brings more waits itself.
const NEWS_MAX: usize = 256;
/// Events that are written at a time. More are only in the log.
const EVENTS_MAX: usize = 16;
/// To read the claims of a pod.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The DRA manager of a node, while it runs. Everything ends when it is dropped; what is prepared stays prepared.
#[derive(Debug)]
pub struct Agent {
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
    claims: watch::Receiver<Vec<ClaimState>>,
}

impl Agent {
    /// Starts to watch plugins and pods.
    ///
    /// # Errors
    /// When directories cannot be made, or the checkpoint cannot be trusted.
    pub fn start(client: kube::Client, options: Options, registry: &Registry) -> Result<Self, StartError> {
        for folder in [options.registry(), options.plugins(), options.offers()] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o750).create(&folder);
            made.map_err(StartError::io(&folder))?;
        }
        let path = options.checkpoint();
        let text = checkpoint::read(&path).map_err(StartError::io(&path))?;
        let clock = Clock::start();
        let node = Node::start(clock.now(), text.as_deref());
        let node = node.map_err(|source| StartError::Checkpoint { path, source })?;
        let pods = node.claims().into_iter().flat_map(|claim| claim.pods.into_keys()).collect();
        offers::keep_only(&options.offers(), &pods).map_err(StartError::io(&options.offers()))?;
        let (claims, seen) = watch::channel(node.claims());
        let mut tasks = JoinSet::new();
        let metrics = Metrics::new(registry);
        let (stop, stopping) = watch::channel(false);
        tasks.spawn(run(client, options, node, clock, metrics, claims, stopping));
        Ok(Self { tasks, stop, claims: seen })
    }

    /// What is or may be prepared.
    #[must_use]
    pub fn claims(&self) -> watch::Receiver<Vec<ClaimState>> {
        self.claims.clone()
    }

    /// Waits until it ends, which it does only when it panicked.
    pub async fn ended(&mut self) {
        let _ = self.tasks.join_next().await;
    }

    /// Stops. Calls in flight are given up: whoever starts next makes them again. A checkpoint that is being written is
    /// waited for.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

struct Shell {
    client: kube::Client,
    options: Options,
    metrics: Metrics,
    news: mpsc::Sender<Input>,
    checkpoints: mpsc::Sender<(u64, Vec<u8>)>,
    connections: BTreeMap<(String, String), (Current, AbortHandle)>,
    events: Arc<Semaphore>,
    /// When operations that are in flight began.
    began: BTreeMap<(String, Call), Instant>,
    tasks: JoinSet<()>,
}

async fn run(
    client: kube::Client,
    options: Options,
    mut node: Node,
    clock: Clock,
    metrics: Metrics,
    claims: watch::Sender<Vec<ClaimState>>,
    mut stopping: watch::Receiver<bool>,
) {
    let (news, mut heard) = mpsc::channel(NEWS_MAX);
    let (checkpoints, writer) = checkpoint::writer(options.checkpoint(), news.clone());
    let (mut tasks, mut writers) = (JoinSet::new(), JoinSet::new());
    writers.spawn(writer);
    tasks.spawn(registry::follow(options.registry(), news.clone()));
    let of_node = format!("spec.nodeName={}", options.node);
    tasks.spawn(follow::follow(Api::all(client.clone()), of_node, pod_reader(), news.clone()));
    let itself = format!("metadata.name={}", options.node);
    tasks.spawn(follow::follow(Api::all(client.clone()), itself, node_reader(), news.clone()));
    let (connections, began) = (BTreeMap::new(), BTreeMap::new());
    let events = Arc::new(Semaphore::new(EVENTS_MAX));
    let mut shell = Shell { client, options, metrics, news, checkpoints, connections, events, began, tasks };
    loop {
        let mut is_changed = false;
        while let Some((id, action)) = node.poll() {
            // Whoever wants to know is told while a plugin works, or after: a pod does not wait for it.
            is_changed |= matches!(action, Action::Call { .. } | Action::Ended { .. });
            steps::performs(&action);
            shell.perform(id, action);
        }
        if is_changed {
            let now = node.claims();
            shell.metrics.in_use(&now);
            claims.send_replace(now);
        }
        // Those that have ended are let go of.
        while shell.tasks.try_join_next().is_some() {}
        tokio::select! {
            input = heard.recv() => if let Some(input) = input {
                steps::heard(&input);
                node.handle(clock.now(), input);
            },
            () = clock.sleep_until(node.wake()) => node.tick(clock.now()),
            () = stopped(&mut stopping) => break,
        }
    }
    node.finish();
    while let Some((id, action)) = node.poll() {
        if matches!(action, Action::Checkpoint(_)) {
            shell.perform(id, action);
        }
    }
    // Nobody waits for answers any more; the writer ends with its queue.
    drop((shell, heard));
    while writers.join_next().await.is_some() {}
}

/// Waits until all is to stop; also when nobody could say so any more.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
}

fn pod_reader() -> follow::Reader<Pod> {
    follow::Reader {
        what: "pods",
        listed: |pods| Some(Input::Pods(pods.into_iter().map(pods::seen).collect())),
        set: |pod| Some(Input::Pod(pods::seen(pod))),
        gone: |pod| Some(Input::PodGone(pod.metadata.uid.unwrap_or_default())),
    }
}

fn node_reader() -> follow::Reader<NodeObject> {
    follow::Reader {
        what: "the Node",
        listed: |nodes| nodes.into_iter().next().map(|node| Input::Node(pods::seen_node(node))),
        set: |node| Some(Input::Node(pods::seen_node(node))),
        gone: |_| None,
    }
}

impl Shell {
    fn perform(&mut self, id: u64, action: Action) {
        let (client, node) = (self.client.clone(), self.options.node.clone());
        match action {
            Action::ReadClaims { namespace, names } => self.answer(id, async move {
                let read = claims::read(&client, &namespace, names);
                let late = || Outcome::Failed("read ResourceClaims: no answer from the API".into());
                tokio::time::timeout(READ_TIMEOUT, read).await.unwrap_or_else(|_| late())
            }),
            Action::Checkpoint(text) => {
                // The queue holds one for each pod that can be worked on at a time, and more.
                if let Err(error) = self.checkpoints.try_send((id, text)) {
                    let why = error.to_string();
                    self.answer(id, std::future::ready(Outcome::Failed(why)));
                }
            }
            Action::Call { call, driver, endpoint, service, claims } => {
                let method = connection::method(service, call);
                let metrics = self.metrics.clone();
                let current = self.connections.get(&(driver.clone(), endpoint));
                let current = current.map(|(current, _)| current.clone());
                self.answer(id, async move {
                    let began = Instant::now();
                    let (answer, code) = connection::call(current, method, call, claims).await;
                    metrics.grpc(&driver, method, code, began.elapsed().as_secs_f64());
                    Outcome::Answered(answer)
                });
            }
            Action::AskPlugin { socket } => self.answer(id, async move { registration::ask(&socket).await }),
            Action::NotifyPlugin { socket, error } => {
                self.answer(id, async move { registration::notify(&socket, error).await });
            }
            Action::Connect { driver, endpoint, health } => self.connect(driver, endpoint, health),
            Action::Disconnect { driver, endpoint } => {
                info!(driver, endpoint, "a plugin was deregistered");
                if let Some((_, task)) = self.connections.remove(&(driver, endpoint)) {
                    task.abort();
                }
            }
            Action::Wipe { driver } => {
                info!(driver, "delete ResourceSlices");
                self.answer(id, async move { writes::limited(writes::wipe(client, &node, driver)).await });
            }
            Action::Report(claims) => {
                self.answer(id, async move { writes::limited(writes::report(client, &node, claims)).await });
            }
            Action::ShowStatus { pod, containers } => {
                self.answer(
                    id,
                    async move { writes::limited(writes::show_status(client, pod, containers)).await },
                )
            }
            Action::DeletePod(pod) => {
                self.answer(id, async move { writes::limited(writes::delete_pod(client, pod)).await });
            }
            Action::OfferDevices { pod, containers } => {
                info!(pod = pod.name, namespace = pod.namespace, "prepared");
                if let Err(error) = offers::write(&self.options.offers(), &pod, &containers) {
                    warn!(%error, pod = pod.name, "write CDI names");
                }
            }
            Action::WithdrawDevices { pod_uid } => {
                if let Err(error) = offers::remove(&self.options.offers(), &pod_uid) {
                    warn!(%error, pod_uid, "remove CDI names");
                }
            }
            Action::Warn { pod, reason, message } => self.warn(pod, reason, message),
            Action::Began { call, pod_uid } => drop(self.began.insert((pod_uid, call), Instant::now())),
            Action::Ended { call, pod_uid, is_error } => {
                if let Some(began) = self.began.remove(&(pod_uid, call)) {
                    self.metrics.operation(call, is_error, began.elapsed().as_secs_f64());
                }
            }
        }
    }

    /// Does something beside the loop, and brings the outcome to it.
    fn answer(&mut self, id: u64, action: impl Future<Output = Outcome> + Send + 'static) {
        let news = self.news.clone();
        self.tasks.spawn(async move {
            let outcome = action.await;
            // Nobody hears it when the agent ends.
            let _ = news.send(Input::Outcome(id, outcome)).await;
        });
    }

    fn connect(&mut self, driver: String, endpoint: String, health: Option<&'static str>) {
        info!(driver, endpoint, "a plugin was registered");
        let (sender, current) = watch::channel(None::<PluginClient>);
        let kept = Endpoint { driver: driver.clone(), path: endpoint.clone(), health };
        let task = self.tasks.spawn(connection::keep(kept, sender, self.news.clone()));
        if let Some((_, before)) = self.connections.insert((driver, endpoint), (current, task)) {
            before.abort();
        }
    }

    fn warn(&mut self, pod: Option<lazaret_node::PodRef>, reason: &'static str, message: String) {
        let name = pod.as_ref().map(|pod| format!("{}/{}", pod.namespace, pod.name));
        warn!(pod = name, reason, "{message}");
        let (Some(pod), Ok(place)) = (pod, Arc::clone(&self.events).try_acquire_owned()) else { return };
        let (client, node) = (self.client.clone(), self.options.node.clone());
        self.tasks.spawn(async move {
            events::write(client, node, pod, reason, message).await;
            drop(place);
        });
    }
}
