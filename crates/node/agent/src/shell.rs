//! The loop: news in, actions out.

use std::{collections::BTreeMap, fs, os::unix::fs::DirBuilderExt, sync::mpsc::SyncSender, time::Duration};

use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;
use lazaret_driver::Client as PluginClient;
use lazaret_node::{Action, Call, ClaimId, ClaimKind, ClaimState, ClassicCall, Files, Input, Node, Outcome};
use lazaret_runtime::Metrics as Registry;
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::Instant,
};
use tracing::{info, warn};

use crate::{
    Options, StartError, checkpoint, claims, classic,
    clock::Clock,
    connection::{self, Current, Endpoint},
    events::{self, EventObject, NewEvent},
    follow,
    metrics::Metrics,
    offers,
    pod_object::PodObject,
    pods, registration, registry,
    run::{self, RunOptions, Runner},
    steps, writes,
};

/// Inputs in the queue. A sender waits when it is full.
const NEWS_MAX: usize = 256;
/// To read the claims of a pod.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The DRA manager of a node, while it runs. Everything ends when it is dropped; what is prepared stays prepared.
#[derive(Debug)]
pub struct Agent {
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
    claims: watch::Receiver<Vec<ClaimState>>,
    orders: mpsc::Sender<()>,
    is_shut_down: watch::Receiver<bool>,
}

impl Agent {
    /// Starts to watch plugins and pods.
    ///
    /// # Errors
    /// When directories cannot be made, or the checkpoint cannot be trusted.
    pub fn start(client: kube::Client, options: Options, registry: &Registry) -> Result<Self, StartError> {
        Self::begin(client, options, None, registry)
    }

    /// Starts to watch plugins and pods, and runs the pods.
    ///
    /// # Errors
    /// When directories cannot be made, or the checkpoint cannot be trusted.
    pub fn start_with_pods(
        client: kube::Client,
        options: Options,
        run: RunOptions,
        registry: &Registry,
    ) -> Result<Self, StartError> {
        Self::begin(client, options, Some(run), registry)
    }

    fn begin(
        client: kube::Client,
        options: Options,
        run: Option<RunOptions>,
        registry: &Registry,
    ) -> Result<Self, StartError> {
        for folder in [options.registry(), options.plugins(), options.offers()] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o750).create(&folder);
            made.map_err(StartError::io(&folder))?;
        }
        let path = options.checkpoint();
        let (files, text) = checkpoint::open(&path)?;
        let clock = Clock::start();
        let node = Node::start(clock.now(), text.as_deref());
        let node = node.map_err(|source| StartError::Checkpoint { path, source })?;
        let pods = node.claims().into_iter().flat_map(|claim| claim.pods.into_keys()).collect();
        offers::keep_only(&options.offers(), &pods).map_err(StartError::io(&options.offers()))?;
        let ready = match run {
            Some(run) => {
                Some((run::prepare((client.clone(), clock.clone()), &options, run)?, registry.clone()))
            }
            None => None,
        };
        let (claims, seen) = watch::channel(node.claims());
        let mut tasks = JoinSet::new();
        let metrics = Metrics::new(registry);
        let (stop, stopping) = watch::channel(false);
        let (orders, ordered) = mpsc::channel(1);
        let (shut_down, is_shut_down) = watch::channel(false);
        let lines = Lines { claims, stopping, ordered, shut_down };
        tasks.spawn(work(client, options, (node, files), clock, metrics, ready, lines));
        Ok(Self { tasks, stop, claims: seen, orders, is_shut_down })
    }

    /// Ends all pods of this node, and waits until they have ended and their statuses say so.
    pub async fn stop_pods(&mut self) {
        // When the loop has ended, there is no receiver.
        if self.orders.send(()).await.is_ok() {
            let _ = self.is_shut_down.wait_for(|is_shut_down| *is_shut_down).await;
        }
    }

    /// The claims that are or may be prepared.
    #[must_use]
    pub fn claims(&self) -> watch::Receiver<Vec<ClaimState>> {
        self.claims.clone()
    }

    /// Waits until it ends, which it does only when it panicked.
    pub async fn ended(&mut self) {
        let _ = self.tasks.join_next().await;
    }

    /// Stops. Calls in flight are given up: the next agent makes them again. A checkpoint that is being written is
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
    checkpoints: SyncSender<checkpoint::Order>,
    /// By the claims that they are for, the driver and the endpoint.
    connections: BTreeMap<(ClaimKind, String, String), (Current, AbortHandle)>,
    notes: mpsc::Sender<NewEvent>,
    /// When operations that are in flight began.
    began: BTreeMap<(String, Call), Instant>,
    tasks: JoinSet<()>,
}

/// How the loop and its owner speak.
struct Lines {
    claims: watch::Sender<Vec<ClaimState>>,
    stopping: watch::Receiver<bool>,
    ordered: mpsc::Receiver<()>,
    shut_down: watch::Sender<bool>,
}

/// The runner of pods and its inputs; `None` where no pods are run.
type Running = Option<(Runner, mpsc::Receiver<run::PodInput>)>;

async fn work(
    client: kube::Client,
    options: Options,
    (mut node, files): (Node, Files<checkpoint::CheckpointDirectory>),
    clock: Clock,
    metrics: Metrics,
    ready: Option<(run::Ready, Registry)>,
    mut lines: Lines,
) {
    let (news, mut heard) = mpsc::channel(NEWS_MAX);
    let (checkpoints, writer) = checkpoint::writer(&options.checkpoint(), files, news.clone());
    let (mut tasks, mut writers) = (JoinSet::new(), JoinSet::new());
    writers.spawn(writer);
    tasks.spawn(registry::follow(options.registry(), news.clone()));
    let (notes, queue) = mpsc::channel(events::QUEUE_MAX);
    tasks.spawn(events::write_all(client.clone(), options.node.clone(), clock.clone(), queue));
    let of_node = format!("spec.nodeName={}", options.node);
    let mut running: Running = match ready {
        Some((ready, registry)) => Some(
            Box::pin(run::start(ready, registry, notes.clone(), lines.stopping.clone(), &mut tasks)).await,
        ),
        None => {
            tasks.spawn(follow::follow(Api::all(client.clone()), of_node, pod_reader(), news.clone()));
            None
        }
    };
    let itself = format!("metadata.name={}", options.node);
    tasks.spawn(follow::follow(Api::all(client.clone()), itself, node_reader(), news.clone()));
    let (connections, began) = (BTreeMap::new(), BTreeMap::new());
    let mut shell = Shell { client, options, metrics, news, checkpoints, connections, notes, began, tasks };
    loop {
        shell.settle(&mut node, &clock, &mut running, &lines.claims);
        // Tasks that have ended are dropped.
        while shell.tasks.try_join_next().is_some() {}
        let wake = running.as_ref().and_then(|(runner, _)| runner.wake(&clock));
        let wake = [wake, node.wake()].into_iter().flatten().min();
        tokio::select! {
            input = heard.recv() => if let Some(input) = input {
                steps::log_input(&input);
                node.handle(clock.now(), input);
            },
            news = next_pod_input(&mut running) => if let Some((runner, _)) = &mut running { runner.handle_input(&clock, news, &mut node) },
            () = clock.sleep_until(wake) => {
                node.tick(clock.now());
                running.iter_mut().for_each(|(runner, _)| runner.tick(&clock));
            }
            Some(()) = lines.ordered.recv() => match &mut running {
                Some((runner, _)) => runner.handle_input(&clock, run::PodInput::Shutdown, &mut node),
                None => drop(lines.shut_down.send_replace(true)),
            },
            () = stopped(&mut lines.stopping) => break,
        }
        if running.as_ref().is_some_and(|(runner, _)| runner.is_shut_down()) {
            lines.shut_down.send_replace(true);
        }
    }
    // No receiver of answers is left; the writer ends with its queue.
    drop((shell, heard, running));
    while writers.join_next().await.is_some() {}
}

/// News of pods; for ever none where none are run.
async fn next_pod_input(running: &mut Running) -> run::PodInput {
    let news = match running {
        Some((_, heard)) => heard.recv().await,
        None => None,
    };
    match news {
        Some(news) => news,
        None => std::future::pending().await,
    }
}

/// Waits until all is to stop; also when the sender is gone.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
}

fn pod_reader() -> follow::Reader<PodObject, Input> {
    follow::Reader {
        what: "pods",
        listed: |pods| Some(Input::Pods(pods.into_iter().map(pods::seen).collect())),
        set: |pod| Some(Input::Pod(pods::seen(pod))),
        gone: |object| Some(Input::PodGone(object.pod.metadata.uid.unwrap_or_default())),
    }
}

fn node_reader() -> follow::Reader<NodeObject, Input> {
    follow::Reader {
        what: "the Node",
        listed: |nodes| nodes.into_iter().next().map(|node| Input::Node(pods::seen_node(node))),
        set: |node| Some(Input::Node(pods::seen_node(node))),
        gone: |_| None,
    }
}

impl Shell {
    /// Starts all actions that are due. An action of one machine may be an input of the other.
    fn settle(
        &mut self,
        node: &mut Node,
        clock: &Clock,
        running: &mut Running,
        claims: &watch::Sender<Vec<ClaimState>>,
    ) {
        let mut is_changed = false;
        loop {
            while let Some((id, action)) = node.poll() {
                // Observers of claims hear of it during or after a plugin's call: a pod does not wait for them.
                is_changed |=
                    matches!(action, Action::Call { .. } | Action::CallClassic { .. } | Action::Ended { .. });
                steps::performs(&action);
                match running {
                    Some((runner, _)) => self.perform_with(id, action, clock, node, runner),
                    None => self.perform(id, action),
                }
            }
            let is_busy = running.as_mut().is_some_and(|(runner, _)| runner.work(clock, node));
            if !is_busy {
                break;
            }
        }
        if let Some((runner, _)) = running {
            self.metrics.kept(&runner.kept(node));
        }
        if is_changed {
            let now = node.claims();
            self.metrics.in_use(&now);
            claims.send_replace(now);
        }
    }

    /// As [`Shell::perform`], where pods are run here: some of it is theirs.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others are done as without pods")]
    fn perform_with(&mut self, id: u64, action: Action, clock: &Clock, node: &mut Node, runner: &mut Runner) {
        match action {
            Action::ShowStatus { pod, containers } => {
                runner.show(clock, &pod.uid, containers);
                node.handle(clock.now(), Input::Outcome(id, Outcome::Done));
            }
            Action::OfferDevices { pod, containers } => {
                runner.offered(clock, &pod.uid, containers.clone());
                self.perform(id, Action::OfferDevices { pod, containers });
            }
            Action::Freed { pod_uid } => runner.freed(clock, &pod_uid),
            action => self.perform(id, action),
        }
    }

    fn perform(&mut self, id: u64, action: Action) {
        let (client, node) = (self.client.clone(), self.options.node.clone());
        match action {
            Action::ReadClaims { namespace, names } => self.answer(id, async move {
                let read = claims::read(&client, &namespace, names);
                let late = || Outcome::Failed("read ResourceClaims: no answer from the API".into());
                tokio::time::timeout(READ_TIMEOUT, read).await.unwrap_or_else(|_| late())
            }),
            Action::Checkpoint { text, is_awaited } => {
                // The queue holds one for each pod that can be worked on at a time, and more.
                if let Err(error) = self.checkpoints.try_send(checkpoint::Order { id, text, is_awaited }) {
                    let why = error.to_string();
                    self.answer(id, std::future::ready(Outcome::Failed(why)));
                }
            }
            Action::Call { call, driver, endpoint, service, claims } => {
                let method = connection::method(service, call);
                let metrics = self.metrics.clone();
                let current = self.current(ClaimKind::Structured, &driver, endpoint);
                self.answer(id, async move {
                    let began = Instant::now();
                    let (answer, code) = connection::call(current, method, call, claims).await;
                    metrics.grpc(&driver, method, code, began.elapsed().as_secs_f64());
                    Outcome::Answered(answer)
                });
            }
            Action::CallClassic { call, driver, endpoint, claim } => {
                self.call_classic(id, call, driver, endpoint, claim);
            }
            Action::AskPlugin { socket } => self.answer(id, async move { registration::ask(&socket).await }),
            Action::NotifyPlugin { socket, error } => {
                self.answer(id, async move { registration::notify(&socket, error).await });
            }
            Action::Connect { kind, driver, endpoint, health } => {
                self.connect(Endpoint { kind, driver, path: endpoint, health });
            }
            Action::Disconnect { kind, driver, endpoint } => {
                info!(driver, endpoint, ?kind, "a plugin was deregistered");
                if let Some((_, task)) = self.connections.remove(&(kind, driver, endpoint)) {
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
            // Only a runner of pods waits for it.
            Action::Freed { .. } => {}
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
            // The receiver is gone when the agent ends.
            let _ = news.send(Input::Outcome(id, outcome)).await;
        });
    }

    fn connect(&mut self, endpoint: Endpoint) {
        let Endpoint { kind, driver, path, .. } = endpoint.clone();
        info!(driver, endpoint = path, ?kind, "a plugin was registered");
        let (sender, current) = watch::channel(None::<PluginClient>);
        let task = self.tasks.spawn(connection::keep(endpoint, sender, self.news.clone()));
        if let Some((_, before)) = self.connections.insert((kind, driver, path), (current, task)) {
            before.abort();
        }
    }

    fn call_classic(&mut self, id: u64, call: ClassicCall, driver: String, endpoint: String, claim: ClaimId) {
        let (method, metrics) = (classic::method(&call), self.metrics.clone());
        let current = self.current(ClaimKind::Classic, &driver, endpoint);
        self.answer(id, async move {
            let began = Instant::now();
            let (answer, code) = classic::call(current, call, claim).await;
            metrics.grpc(&driver, method, code, began.elapsed().as_secs_f64());
            Outcome::Answered(answer)
        });
    }

    fn current(&self, kind: ClaimKind, driver: &str, endpoint: String) -> Option<Current> {
        let current = self.connections.get(&(kind, driver.to_owned(), endpoint));
        current.map(|(current, _)| current.clone())
    }

    fn warn(&mut self, pod: Option<lazaret_node::PodRef>, reason: &'static str, message: String) {
        let name = pod.as_ref().map(|pod| format!("{}/{}", pod.namespace, pod.name));
        warn!(pod = name, reason, "{message}");
        let Some(lazaret_node::PodRef { namespace, name, uid }) = pod else { return };
        let about = EventObject::Pod { pod: lazaret_pods::PodRef { namespace, name, uid }, field: None };
        // One that does not fit is only in the log.
        let _ = self.notes.try_send(NewEvent { about, is_warning: true, reason, message });
    }
}
