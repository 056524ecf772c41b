//! Pods that run: what [`lazaret_pods::Pods`] decides, carried out with a runtime, images and volumes.

mod api;
mod eviction_hard;
mod facts;
mod found;
mod grpc_health;
mod hooks;
mod logs;
mod object;
mod options;
mod pressure;
mod probe;
mod pull;
mod serve;
mod shared;
mod status;
mod table;
mod tasks;
mod times;
mod unverified;
mod view;
mod work;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{PodSpec, Service};
use lazaret_node::{Input as NodeInput, Life, Node, PodView as ClaimsView, ResourceStatus, SeenPod};
use lazaret_pods::{Action, Input, Millis, Outcome, Pods};
use tokio::{sync::mpsc, task::JoinSet};
use tracing::{debug, info};

pub use self::{
    eviction_hard::{ThresholdError, parse_eviction_hard},
    options::RunOptions,
};
use self::{
    shared::Shared,
    table::{Entry, Table},
};
use crate::{
    clock::Clock,
    events::{EventObject, NewEvent},
    follow::Reader,
    pod_object::PodObject,
    pods,
};

pub(crate) use self::{
    options::{Ready, prepare},
    tasks::start,
};

/// Kinds of what is kept of pods.
pub(crate) const KEPT_KINDS: usize = 8;

/// Something that happened to pods.
#[derive(Debug)]
pub(crate) enum PodInput {
    Pods(Vec<PodObject>),
    Pod(Box<PodObject>),
    Gone(Box<PodObject>),
    Services(Vec<Service>),
    Service(Box<Service>),
    ServiceGone(Box<Service>),
    Changed,
    Shutdown,
    Outcome(u64, Outcome),
}

/// Carries out what the machine of pods decides. It decides nothing itself.
#[derive(Debug)]
pub(crate) struct Runner {
    machine: Pods,
    shared: Arc<Shared>,
    news: mpsc::Sender<PodInput>,
    notes: mpsc::Sender<NewEvent>,
    tasks: JoinSet<()>,
    is_shutting_down: bool,
}

impl Runner {
    /// News from the API, from the runtime, and of what became of actions.
    pub(crate) fn handle_input(&mut self, clock: &Clock, news: PodInput, node: &mut Node) {
        match news {
            PodInput::Pods(pods) => self.pods(clock, pods, node),
            PodInput::Pod(pod) => self.pod(clock, *pod, node),
            PodInput::Gone(object) => {
                self.gone(clock, &object.pod.metadata.uid.unwrap_or_default(), node);
            }
            PodInput::Services(all) => self.shared.change_services(|services| {
                *services =
                    all.into_iter().map(|service| (key(&service), without_unused_fields(service))).collect();
            }),
            PodInput::Service(service) => self.shared.change_services(|services| {
                services.insert(key(&service), without_unused_fields(*service));
            }),
            PodInput::ServiceGone(service) => {
                self.shared.change_services(|services| drop(services.remove(&key(&service))));
            }
            PodInput::Changed => self.machine.handle(clock.unix(), Input::Changed),
            PodInput::Shutdown => {
                self.is_shutting_down = true;
                self.machine.handle(clock.unix(), Input::Shutdown);
            }
            PodInput::Outcome(id, outcome) => self.machine.handle(clock.unix(), Input::Outcome(id, outcome)),
        }
        self.sweep(clock, node);
    }

    pub(crate) fn tick(&mut self, clock: &Clock) {
        self.machine.tick(clock.unix());
    }

    /// When to call [`Runner::tick`], by the monotonic clock.
    pub(crate) fn wake(&self, clock: &Clock) -> Option<Millis> {
        self.machine.wake().map(|at| clock.since_start(at))
    }

    /// Whether all pods were to stop, and have.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shutting_down && self.machine.is_stopped()
    }

    /// Begins what is to be done. Whether there was something.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others are done in the same way")]
    pub(crate) fn work(&mut self, clock: &Clock, node: &mut Node) -> bool {
        let mut is_busy = false;
        while let Some((id, action)) = self.machine.poll() {
            is_busy = true;
            match action {
                Action::Event { pod, container, is_warning, reason, message } => {
                    debug!(pod = pod.name, container, reason, "{message}");
                    let field = container.map(|name| self.field(&pod.uid, &name));
                    let about = EventObject::Pod { pod, field };
                    // One that does not fit is only in the log.
                    let _ = self.notes.try_send(NewEvent { about, is_warning, reason, message });
                }
                Action::NodeEvent { reason, message } => {
                    info!(reason, "{message}");
                    let _ = self.notes.try_send(NewEvent {
                        about: EventObject::Node,
                        is_warning: true,
                        reason,
                        message,
                    });
                }
                Action::KeepOnly { pods } => {
                    self.tasks.spawn(work::keep_only(Arc::clone(&self.shared), pods));
                }
                Action::ReleaseClaims { pod } => self.release(clock, &pod.uid, node),
                action => {
                    let (shared, news) = (Arc::clone(&self.shared), self.news.clone());
                    self.tasks.spawn(async move {
                        let outcome = Box::pin(work::perform(shared, action)).await;
                        // The receiver is gone when the agent ends.
                        let _ = news.send(PodInput::Outcome(id, outcome)).await;
                    });
                }
            }
        }
        while self.tasks.try_join_next().is_some() {}
        let pressure: BTreeMap<_, _> = self.machine.pressure().collect();
        self.shared.pressure.send_if_modified(|known| {
            let is_news = !known.keys().eq(pressure.keys());
            *known = pressure;
            is_news
        });
        is_busy
    }

    /// How much is kept of pods, by kind. Nothing of it outlives its pods but objects of the API, for a while.
    pub(crate) fn kept(&self, node: &Node) -> [(&'static str, usize); KEPT_KINDS] {
        let (claims_pods, claims_waits) = node.in_flight();
        let provision = self.shared.provision.kept();
        [
            ("pods", self.machine.len()),
            ("actions", self.machine.in_flight()),
            ("entries", self.shared.table().entries.len()),
            ("claim_pods", claims_pods),
            ("claim_operations", claims_waits),
            ("objects", provision.objects),
            ("tokens", provision.tokens),
            ("volume_locks", provision.locks),
        ]
    }

    /// The claims of a pod are prepared: what its containers get.
    pub(crate) fn offered(&mut self, clock: &Clock, uid: &str, devices: BTreeMap<String, Vec<String>>) {
        self.change(uid, |entry| entry.devices = devices);
        self.machine.handle(clock.unix(), Input::ClaimsPrepared(uid.to_owned()));
    }

    /// The claims of a pod that ended are unprepared.
    pub(crate) fn freed(&mut self, clock: &Clock, uid: &str) {
        self.machine.handle(clock.unix(), Input::ClaimsReleased(uid.to_owned()));
    }

    /// How the devices of a pod's containers are: a part of its status.
    pub(crate) fn show(&mut self, clock: &Clock, uid: &str, health: BTreeMap<String, Vec<ResourceStatus>>) {
        self.change(uid, |entry| entry.health = health);
        self.machine.handle(clock.unix(), Input::Rewrite(uid.to_owned()));
    }

    fn pods(&mut self, clock: &Clock, objects: Vec<PodObject>, node: &mut Node) {
        let (mut views, mut listed) = (Vec::new(), std::collections::BTreeSet::new());
        let seen = {
            let mut table = self.shared.table();
            for object in objects {
                listed.insert(object.pod.metadata.uid.clone().unwrap_or_default());
                views.push(note(&self.shared, &mut table, object));
            }
            for (uid, entry) in &mut table.entries {
                entry.is_gone = !listed.contains(uid);
            }
            let held = table.entries.iter().filter(|(_, entry)| !entry.is_gone || is_held(entry));
            held.map(|(uid, entry)| seen(uid, entry)).collect()
        };
        node.handle(clock.now(), NodeInput::Pods(seen));
        self.machine.handle(clock.unix(), Input::Pods(views));
    }

    fn pod(&mut self, clock: &Clock, object: PodObject, node: &mut Node) {
        let uid = object.pod.metadata.uid.clone().unwrap_or_default();
        let (view, seen) = {
            let mut table = self.shared.table();
            let view = note(&self.shared, &mut table, object);
            let entry = table.entry(&uid);
            entry.is_gone = false;
            (view, seen(&uid, entry))
        };
        node.handle(clock.now(), NodeInput::Pod(seen));
        self.machine.handle(clock.unix(), Input::Pod(view));
    }

    fn gone(&mut self, clock: &Clock, uid: &str, node: &mut Node) {
        let mut is_held = false;
        self.change(uid, |entry| {
            entry.is_gone = true;
            is_held = self::is_held(entry);
        });
        // Claims of a pod are unprepared after its containers have stopped, also when the API does not know the pod any more.
        if !is_held {
            node.handle(clock.now(), NodeInput::PodGone(uid.to_owned()));
        }
        self.machine.handle(clock.unix(), Input::PodGone(uid.to_owned()));
    }

    /// The containers of a pod have stopped.
    fn release(&mut self, clock: &Clock, uid: &str, node: &mut Node) {
        let mut input = NodeInput::PodGone(uid.to_owned());
        self.change(uid, |entry| {
            entry.is_released = true;
            if !entry.is_gone && entry.pod.is_some() {
                input = NodeInput::Pod(seen(uid, entry));
            }
        });
        node.handle(clock.now(), input);
        if node.is_free(uid) {
            self.machine.handle(clock.unix(), Input::ClaimsReleased(uid.to_owned()));
        }
    }

    /// Changes the entry of a pod. A pod without an entry gets none: it would never be removed again.
    fn change(&self, uid: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.shared.table().entries.get_mut(uid) {
            change(entry);
        }
    }

    /// Lets go of pods of which nothing is left.
    fn sweep(&mut self, clock: &Clock, node: &mut Node) {
        if !self.machine.is_complete() {
            return;
        }
        let gone: Vec<String> = {
            let table = self.shared.table();
            let gone =
                table.entries.iter().filter(|(uid, entry)| entry.is_gone && !self.machine.contains(uid));
            gone.map(|(uid, _)| uid.clone()).collect()
        };
        for uid in gone {
            info!(uid, "a pod is gone");
            self.shared.table().entries.remove(&uid);
            node.handle(clock.now(), NodeInput::PodGone(uid));
        }
    }

    /// As kubelet names a container in events.
    fn field(&self, uid: &str, container: &str) -> String {
        let pod = self.shared.table().pod(uid);
        let spec = pod.as_ref().and_then(|pod| pod.spec.as_ref());
        let is_init =
            |spec: &PodSpec| spec.init_containers.iter().flatten().any(|init| init.name == container);
        let list = match spec {
            Some(spec) if is_init(spec) => "initContainers",
            Some(spec) if view::ephemeral(spec).any(|one| one.name == container) => "ephemeralContainers",
            Some(_) | None => "containers",
        };
        format!("spec.{list}{{{container}}}")
    }
}

/// Keeps a pod as the API has it, and reduces it.
fn note(shared: &Shared, table: &mut Table, mut object: PodObject) -> lazaret_pods::PodView {
    // A third of the object, and not used here.
    object.pod.metadata.managed_fields = None;
    let pod = object.pod.clone();
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let seen = pods::seen(object);
    let mut view = view::view(&pod, !seen.view.claims.is_empty(), &shared.labels);
    view.before = times::on_timeline(&shared.clock, view.before);
    if let Err(error) = shared.provision.sandbox(&pod)
        && error.is_final()
    {
        view.refusal = view.refusal.or(Some((error.reason.to_owned(), error.message)));
    }
    let entry = table.entry(&uid);
    (entry.pod, entry.seen) = (Some(Arc::new(pod)), Some(seen));
    view
}

/// Whether its claims may be in use.
fn is_held(entry: &Entry) -> bool {
    let has_claims = entry.seen.as_ref().is_none_or(|seen| !seen.view.claims.is_empty());
    has_claims && !entry.is_released
}

/// A pod as input of the claims' machine: it is to run until its containers have stopped, whatever the API says. Claims of one
/// that is not to start are not prepared any more.
fn seen(uid: &str, entry: &Entry) -> SeenPod {
    let Some(mut seen) = entry.seen.clone() else {
        let (uid, namespace, name) = (uid.to_owned(), String::new(), String::new());
        let view = ClaimsView { uid, namespace, name, claims: Vec::new() };
        return SeenPod { view, life: Life::Wanted, containers: Vec::new(), shown: BTreeMap::new() };
    };
    if seen.life != Life::Wanted || entry.is_gone {
        seen.view.claims.clear();
    }
    seen.life = if entry.is_released { Life::Ended } else { Life::Wanted };
    seen
}

fn key(service: &Service) -> (String, String) {
    let metadata = &service.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn without_unused_fields(mut service: Service) -> Service {
    service.metadata.managed_fields = None;
    service
}

pub(crate) fn pod_reader() -> Reader<PodObject, PodInput> {
    Reader {
        what: "pods",
        listed: |pods| Some(PodInput::Pods(pods)),
        set: |pod| Some(PodInput::Pod(Box::new(pod))),
        gone: |pod| Some(PodInput::Gone(Box::new(pod))),
    }
}

pub(crate) fn service_reader() -> Reader<Service, PodInput> {
    Reader {
        what: "services",
        listed: |services| Some(PodInput::Services(services)),
        set: |service| Some(PodInput::Service(Box::new(service))),
        gone: |service| Some(PodInput::ServiceGone(Box::new(service))),
    }
}
