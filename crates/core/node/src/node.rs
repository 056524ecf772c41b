//! The DRA side of a node, whole: sockets, plugins, pods, claims, health and reports. Takes the time and what happened, and says
//! what to do.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::String,
    vec::Vec,
};

use crate::{
    Action, Answer, Call, ClaimKind, ContainerClaim, Effect, Input, Manager, Millis, Operation, Outcome,
    PluginInfo, ResourceStatus, SeenNode,
    checkpoint::{CheckpointError, ClaimState},
    health::Health,
    mapping,
    pods::{Pod, Stage, Writing},
    registry::{Registered, Registrations, SocketId},
    wipes::Wipes,
};

/// How often claims are looked for whose pods are gone, as kubelet has it.
const RECONCILE_EVERY_MS: Millis = 60_000;
/// After a write to the API that failed.
const WRITE_AGAIN_MS: Millis = 5_000;
/// The kind of plugin that is a DRA driver, and the kind that prepares classic claims.
const PLUGIN_KIND: &str = "DRAPlugin";
const CLASSIC_PLUGIN_KIND: &str = "ResourcePlugin";
/// Bytes of a driver's name, of an endpoint (what the kernel takes as the path of a socket), and of a service's name.
const DRIVER_BYTES_MAX: usize = 63;
const ENDPOINT_BYTES_MAX: usize = 107;
const SERVICE_BYTES_MAX: usize = 128;
/// Services of one plugin.
const SERVICES_MAX: usize = 32;

/// The subject of an action in flight.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    Claims(String),
    Manager(u64),
    Plugin(String, SocketId),
    Notify(String, SocketId),
    Wipe(Option<String>),
    Report(BTreeSet<String>),
    Status(String, BTreeMap<String, Vec<ResourceStatus>>),
    Delete(String),
}

/// The DRA side of a node.
#[derive(Debug)]
pub struct Node {
    pub(crate) manager: Manager,
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) operations: BTreeMap<Operation, (String, Call)>,
    pub(crate) is_listed: bool,
    sockets: Registrations,
    wipes: Wipes,
    health: Health,
    object: Option<SeenNode>,
    report: Writing,
    /// UIDs of claims that the Node may say to be unprepared, now or when a write that was sent arrives.
    said: BTreeSet<String>,
    reconcile_at: Millis,
    /// A checkpoint could not be written: when it is tried again.
    write_again_at: Option<Millis>,
    /// Pods whose status may have to say something else of their devices.
    pub(crate) to_show: BTreeSet<String>,
    /// Plugins are asked who they are only after slices of the time before were wiped, or that failed.
    is_first_wipe_over: bool,
    pending: BTreeMap<u64, Pending>,
    actions: VecDeque<(u64, Action)>,
    next_id: u64,
}

impl Node {
    /// A node that starts, with the checkpoint that the one before left, if there was one.
    ///
    /// # Errors
    /// When the checkpoint cannot be trusted.
    pub fn start(now: Millis, checkpoint: Option<&[u8]>) -> Result<Self, CheckpointError> {
        let manager = checkpoint.map_or_else(|| Ok(Manager::default()), Manager::restore)?;
        let mut node = Self {
            manager,
            pods: BTreeMap::new(),
            operations: BTreeMap::new(),
            is_listed: false,
            sockets: Registrations::default(),
            wipes: Wipes::at_start(now),
            health: Health::default(),
            object: None,
            report: Writing::Idle,
            said: BTreeSet::new(),
            reconcile_at: now + RECONCILE_EVERY_MS,
            write_again_at: None,
            to_show: BTreeSet::new(),
            is_first_wipe_over: false,
            pending: BTreeMap::new(),
            actions: VecDeque::new(),
            next_id: 0,
        };
        node.settle(now);
        Ok(node)
    }

    /// Something happened.
    pub fn handle(&mut self, now: Millis, input: Input) {
        match input {
            Input::Pods(pods) => self.pods_listed(now, pods),
            Input::Pod(pod) => self.pod_seen(now, pod),
            Input::PodGone(uid) => self.pod_gone(now, &uid),
            Input::Node(object) => {
                self.said.extend(object.unprepared.iter().cloned());
                self.object = Some(object);
                self.keep_unprepared();
            }
            Input::Sockets(found) => {
                for plugin in self.sockets.scan(now, &found) {
                    self.deregister(now, plugin);
                }
            }
            Input::Connected { kind, driver, endpoint, is_connected } => {
                self.manager.plugins.connected(kind, &driver, &endpoint, is_connected);
                self.check_usable(now, kind, &driver);
                if is_connected {
                    self.wake_pods(now);
                }
            }
            Input::Health { driver, endpoint, reports } => {
                // A late report of a plugin that is no longer registered is not kept.
                if self.manager.plugins.at(ClaimKind::Structured, &driver, &endpoint).is_some() {
                    let (left_out, is_changed) = self.health.report(now, &driver, &endpoint, reports);
                    self.show_all_if(is_changed);
                    if left_out > 0 {
                        let message = format!(
                            "DRA driver {driver}: the health of {left_out} devices is left out, there are too many"
                        );
                        self.act(Action::Warn { pod: None, reason: "TooManyDevices", message });
                    }
                }
            }
            Input::HealthEnded { driver, endpoint } => {
                let is_changed = self.health.ended(&driver, &endpoint);
                self.show_all_if(is_changed);
            }
            Input::Outcome(id, outcome) => self.outcome(now, id, outcome),
        }
        self.settle(now);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Millis) {
        self.settle(now);
    }

    /// When to call [`Node::tick`].
    #[must_use]
    pub fn wake(&self) -> Option<Millis> {
        let is_full = self.is_full();
        let pods = self.pods.values().flat_map(|pod| {
            let due = if let Stage::Due(at) = pod.stage { Some(at).filter(|_| !is_full) } else { None };
            let again = if let Writing::NotBefore(at) = pod.status { Some(at) } else { None };
            [due, again.filter(|_| pod.can_be_shown())]
        });
        let report = if let Writing::NotBefore(at) = self.report { Some(at) } else { None };
        let sockets = self.sockets.wake().filter(|_| self.is_first_wipe_over);
        let others = [
            report,
            sockets,
            self.wipes.wake(),
            self.health.wake(),
            self.write_again_at,
            Some(self.reconcile_at),
        ];
        pods.chain(others).flatten().min()
    }

    /// The next thing to do, and the number to answer it by.
    pub fn poll(&mut self) -> Option<(u64, Action)> {
        if self.actions.is_empty()
            && let Some((id, text)) = self.manager.poll_unawaited()
        {
            self.ask(Pending::Manager(id), Action::Checkpoint { text, is_awaited: false });
        }
        self.actions.pop_front()
    }

    /// The claims that are or may be prepared.
    #[must_use]
    pub fn claims(&self) -> Vec<ClaimState> {
        self.manager.states()
    }

    /// How many pods are known, and how many operations, calls and writes are in flight for them.
    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        let waits =
            self.operations.len() + self.manager.in_flight() + self.pending.len() + self.to_show.len();
        (self.pods.len(), waits)
    }

    /// Whether a plugin of a driver can be called.
    #[must_use]
    pub fn is_usable(&self, driver: &str) -> bool {
        self.manager.plugins.is_usable(driver)
    }

    /// Whether a pod holds no claims and will not: it ended, or is not known.
    #[must_use]
    pub fn is_free(&self, uid: &str) -> bool {
        self.pods.get(uid).is_none_or(|pod| pod.stage == Stage::Free)
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.next_id += 1;
        self.actions.push_back((self.next_id, action));
    }

    pub(crate) fn ask(&mut self, pending: Pending, action: Action) {
        self.act(action);
        self.pending.insert(self.next_id, pending);
    }

    fn settle(&mut self, now: Millis) {
        for driver in self.wipes.due(now) {
            self.ask(Pending::Wipe(driver.clone()), Action::Wipe { driver });
        }
        if self.is_first_wipe_over {
            for (socket, id) in self.sockets.due(now) {
                self.ask(Pending::Plugin(socket.clone(), id), Action::AskPlugin { socket });
            }
        }
        if self.reconcile_at <= now {
            self.reconcile_at = now + RECONCILE_EVERY_MS;
            self.find_orphans(now);
            self.show_all_if(true);
        }
        let is_changed = self.health.expire(now);
        self.show_all_if(is_changed);
        // An operation that has nothing to do ends at once, and its pod may go on.
        loop {
            self.advance_pods(now);
            if !self.take_over_work(now) {
                break;
            }
        }
        self.write_checkpoint_again(now);
        self.show_statuses(now);
        self.report_unprepared(now);
    }

    /// The file must not be older than the prepared claims for long, also when no pod waits for it.
    fn write_checkpoint_again(&mut self, now: Millis) {
        match self.write_again_at {
            _ if !self.manager.is_stale() => self.write_again_at = None,
            None => self.write_again_at = Some(now + WRITE_AGAIN_MS),
            Some(at) if at <= now => {
                self.write_again_at = Some(now + WRITE_AGAIN_MS);
                self.manager.write_again();
            }
            Some(_) => {}
        }
    }

    fn show_all_if(&mut self, is_changed: bool) {
        if is_changed {
            self.to_show.extend(self.pods.keys().cloned());
        }
    }

    /// Takes over what the manager wants to be done. Whether an operation ended.
    fn take_over_work(&mut self, now: Millis) -> bool {
        let mut ended = false;
        while let Some((id, effect)) = self.manager.poll_awaited() {
            match effect {
                Effect::Done(operation, result) => {
                    ended = true;
                    if let Some((uid, call)) = self.operations.remove(&operation) {
                        self.operation_ended(now, &uid, call, result);
                    }
                }
                Effect::Checkpoint(text) => {
                    self.ask(Pending::Manager(id), Action::Checkpoint { text, is_awaited: true });
                }
                Effect::Prepare { driver, endpoint, claims } => {
                    self.call(id, Call::Prepare, driver, endpoint, claims);
                }
                Effect::Unprepare { driver, endpoint, claims } => {
                    self.call(id, Call::Unprepare, driver, endpoint, claims);
                }
                Effect::CallClassic { driver, endpoint, claim, call } => {
                    self.ask(Pending::Manager(id), Action::CallClassic { call, driver, endpoint, claim });
                }
                Effect::FindClaim(claim) => {
                    let names = Vec::from([(claim.kind, claim.name)]);
                    let read = Action::ReadClaims { namespace: claim.namespace, names };
                    self.ask(Pending::Manager(id), read);
                }
            }
        }
        ended
    }

    fn call(&mut self, id: u64, call: Call, driver: String, endpoint: String, claims: Vec<crate::ClaimId>) {
        let plugin = self.manager.plugins.at(ClaimKind::Structured, &driver, &endpoint);
        let service = plugin.map(|plugin| plugin.service);
        match service {
            Some(service) => {
                self.ask(Pending::Manager(id), Action::Call { call, driver, endpoint, service, claims });
            }
            None => self.manager.acknowledge(id, Answer::Failed("it was deregistered".into())),
        }
    }

    fn outcome(&mut self, now: Millis, id: u64, outcome: Outcome) {
        // Answered before.
        let Some(pending) = self.pending.remove(&id) else { return };
        let is_done = !matches!(outcome, Outcome::Failed(_));
        match (pending, outcome) {
            (Pending::Claims(uid), Outcome::Claims(found)) => self.claims_read(now, &uid, &found),
            (Pending::Claims(uid), Outcome::Failed(why)) => self.failed(now, &uid, Call::Prepare, &why),
            (Pending::Manager(id), Outcome::Done) => self.manager.acknowledge(id, Answer::Written),
            (Pending::Manager(id), Outcome::Answered(answer)) => self.manager.acknowledge(id, answer),
            (Pending::Manager(id), Outcome::Claims(found)) => {
                let uid = found.into_values().next().map(|claim| claim.id.uid);
                self.manager.acknowledge(id, Answer::Found(uid));
            }
            (Pending::Manager(id), Outcome::Failed(why)) => {
                if self.manager.is_unawaited(id) {
                    let message = format!("write the checkpoint: {why}");
                    self.act(Action::Warn { pod: None, reason: "FailedCheckpoint", message });
                }
                self.manager.acknowledge(id, Answer::Failed(why));
            }
            (Pending::Plugin(socket, id), Outcome::Plugin(info)) if self.sockets.is_current(&socket, id) => {
                self.register(now, socket, id, info);
            }
            (Pending::Plugin(socket, id), Outcome::Failed(why)) if self.sockets.is_current(&socket, id) => {
                self.sockets.failed(now, &socket);
                let message = format!("plugin at {socket}: {why}");
                self.act(Action::Warn { pod: None, reason: "FailedRegistration", message });
            }
            (Pending::Notify(socket, id), _) if self.sockets.is_current(&socket, id) => {
                if let Some(plugin) = self.sockets.notified(now, &socket, is_done) {
                    self.deregister(now, plugin);
                }
            }
            (Pending::Wipe(driver), _) => {
                self.is_first_wipe_over = true;
                self.wipes.ended(now, &driver, is_done);
            }
            (Pending::Report(written), _) => {
                self.report = if is_done { Writing::Idle } else { Writing::NotBefore(now + WRITE_AGAIN_MS) };
                if let Some(object) = self.object.as_mut().filter(|_| is_done) {
                    (object.reports, object.unprepared) = (true, written.clone());
                }
                if is_done {
                    self.said = written;
                    self.keep_unprepared();
                }
            }
            (Pending::Status(uid, written), _) => {
                if let Some(pod) = self.pods.get_mut(&uid) {
                    pod.status =
                        if is_done { Writing::Idle } else { Writing::NotBefore(now + WRITE_AGAIN_MS) };
                    if is_done {
                        pod.seen.shown.clone_from(&written);
                        pod.written = Some((written, now));
                    }
                    // It may have changed while it was written.
                    self.to_show.insert(uid);
                }
            }
            (Pending::Delete(uid), outcome) => self.removed(now, &uid, &outcome),
            // An answer about a socket that is not there any more, or to another question.
            (Pending::Plugin(..) | Pending::Notify(..) | Pending::Claims(_) | Pending::Manager(_), _) => {}
        }
    }

    fn register(&mut self, now: Millis, socket: String, id: SocketId, info: PluginInfo) {
        let endpoint = if info.endpoint.is_empty() { socket.clone() } else { info.endpoint.clone() };
        let result = check_plugin(&info).and_then(|kind| {
            let registered = self.manager.plugins.register(kind, &info.driver, &endpoint, &info.services);
            registered.map_err(|error| format!("DRA driver {}: {error}", info.driver))?;
            Ok(kind)
        });
        match result {
            Ok(kind) => {
                let driver = info.driver;
                let plugin = Registered { kind, driver: driver.clone(), endpoint: endpoint.clone() };
                self.sockets.registered(&socket, plugin);
                let plugin = self.manager.plugins.at(kind, &driver, &endpoint);
                let health = plugin.and_then(|plugin| plugin.health);
                self.act(Action::Connect { kind, driver: driver.clone(), endpoint, health });
                self.check_usable(now, kind, &driver);
                self.wake_pods(now);
                let notify = Action::NotifyPlugin { socket: socket.clone(), error: None };
                self.ask(Pending::Notify(socket, id), notify);
            }
            Err(why) => {
                self.sockets.refused(&socket);
                let message = format!("plugin at {socket}: {why}");
                self.act(Action::Warn { pod: None, reason: "FailedRegistration", message });
                let notify = Action::NotifyPlugin { socket: socket.clone(), error: Some(why) };
                self.ask(Pending::Notify(socket, id), notify);
            }
        }
    }

    fn deregister(&mut self, now: Millis, plugin: Registered) {
        let Registered { kind, driver, endpoint } = plugin;
        self.manager.plugins.deregister(kind, &driver, &endpoint);
        if kind == ClaimKind::Structured {
            let is_changed = self.health.ended(&driver, &endpoint);
            self.show_all_if(is_changed);
        }
        self.act(Action::Disconnect { kind, driver: driver.clone(), endpoint });
        self.check_usable(now, kind, &driver);
    }

    /// A plugin of classic claims publishes no slices.
    fn check_usable(&mut self, now: Millis, kind: ClaimKind, driver: &str) {
        if kind == ClaimKind::Structured {
            self.wipes.usable(now, driver, self.manager.plugins.is_usable(driver));
        }
    }

    fn show_statuses(&mut self, now: Millis) {
        let is_due = |pod: &Pod| matches!(pod.status, Writing::NotBefore(at) if at <= now);
        let due = self.pods.iter().filter(|(_, pod)| is_due(pod)).map(|(uid, _)| uid.clone());
        self.to_show.extend(due);
        let has_claims = |pod: &Pod| pod.seen.containers.iter().any(|container| !container.claims.is_empty());
        let mut writes = Vec::new();
        for uid in core::mem::take(&mut self.to_show) {
            let pod = self.pods.get_mut(&uid).filter(|pod| pod.can_be_shown() && has_claims(pod));
            // It is gone, or has no claims, or cannot be shown yet.
            let Some(pod) = pod else { continue };
            let (manager, namespace) = (&self.manager, &pod.seen.view.namespace);
            let drivers = |used: &ContainerClaim| manager.drivers(used.kind, namespace, &used.claim);
            let wanted = mapping::statuses(now, &drivers, &self.health, &pod.seen.containers);
            if wanted == pod.seen.shown {
                pod.status = Writing::Idle;
                continue;
            }
            // A server that drops what was written is not asked again and again.
            let written = pod.written.as_ref().filter(|(written, _)| *written == wanted);
            let not_before = written.map_or(now, |(_, at)| at + RECONCILE_EVERY_MS);
            if !pod.status.may_begin(now) {
                continue;
            }
            if not_before > now {
                // All are looked at once a minute.
                pod.status = Writing::Idle;
                continue;
            }
            pod.status = Writing::InFlight;
            writes.push((uid, pod.reference(), wanted));
        }
        for (uid, pod, containers) in writes {
            let written = Pending::Status(uid, containers.clone());
            self.ask(written, Action::ShowStatus { pod, containers });
        }
    }

    /// Nothing is prepared of a claim that a controller waits for, nor of one that the Node reports as unprepared: that would be taken for the answer
    /// to the next question.
    fn keep_unprepared(&mut self) {
        let awaiting = self.object.iter().flat_map(|object| &object.awaiting);
        self.manager.awaited = awaiting.chain(&self.said).cloned().collect();
    }

    /// Reports which of the awaited claims are unprepared. They are not prepared again while they are awaited.
    fn report_unprepared(&mut self, now: Millis) {
        // The Node has not been seen yet, or a report is in flight.
        let Some(object) = self.object.as_ref().filter(|_| self.report.may_begin(now)) else { return };
        let unprepared: BTreeSet<String> =
            object.awaiting.iter().filter(|uid| !self.manager.has_claim(uid)).cloned().collect();
        if object.reports && unprepared == object.unprepared && unprepared == self.said {
            self.report = Writing::Idle;
            return;
        }
        self.report = Writing::InFlight;
        self.said.extend(unprepared.iter().cloned());
        self.keep_unprepared();
        self.ask(Pending::Report(unprepared.clone()), Action::Report(unprepared));
    }
}

fn check_plugin(info: &PluginInfo) -> Result<ClaimKind, String> {
    let kind = match info.kind.as_str() {
        PLUGIN_KIND => ClaimKind::Structured,
        CLASSIC_PLUGIN_KIND => ClaimKind::Classic,
        other => return Err(format!("no handler registered for plugin type: {other:.64}")),
    };
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    if info.driver.is_empty() || info.driver.len() > DRIVER_BYTES_MAX || !info.driver.bytes().all(allowed) {
        return Err(format!(
            "driver name {:?} is not allowed",
            info.driver.chars().take(64).collect::<String>()
        ));
    }
    let is_absolute = info.endpoint.is_empty() || info.endpoint.starts_with('/');
    if !is_absolute || info.endpoint.len() > ENDPOINT_BYTES_MAX {
        return Err(format!("the endpoint is not an absolute path of at most {ENDPOINT_BYTES_MAX} bytes"));
    }
    let too_long = info.services.iter().any(|service| service.len() > SERVICE_BYTES_MAX);
    if info.services.len() > SERVICES_MAX || too_long {
        return Err(format!(
            "more than {SERVICES_MAX} services, or one with more than {SERVICE_BYTES_MAX} bytes"
        ));
    }
    Ok(kind)
}
