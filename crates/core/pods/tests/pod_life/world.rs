//! A runtime and an API for tests: what is done to them is checked as it is done.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_pods::{
    Action, Amounts, ConditionKind, ContainerView, Exit, FoundContainer, FoundPhase, FoundSandbox,
    InitialContainerStatus, InitialStatus, Input, Kind, Level, Levels, Millis, Options, Outcome, Phase,
    PodRef, PodUse, PodView, Pods, PressureOptions, PullPolicy, Resources, Restart, Signal, SoftThreshold,
    State, Status, Threshold, Thresholds,
};

pub(crate) const START: Millis = 1_000_000;

/// How a world answers an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActionResult {
    Works,
    /// It fails, and nothing was done.
    Fails,
    /// It was done, and is reported as failed.
    FailsAfterwards,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Millis,
    pub(crate) machine: Pods,
    pub(crate) api: BTreeMap<String, PodView>,
    /// Statuses that were written.
    pub(crate) written: usize,
    pub(crate) statuses: BTreeMap<String, Status>,
    pub(crate) sandboxes: BTreeMap<String, FoundSandbox>,
    pub(crate) volumes: BTreeSet<String>,
    /// Claims that are prepared, by pod.
    pub(crate) prepared: BTreeSet<String>,
    pub(crate) releasing: BTreeSet<String>,
    pub(crate) pending: Vec<(u64, Action)>,
    pub(crate) events: Vec<(&'static str, String)>,
    pub(crate) starts: Vec<String>,
    pub(crate) stops: Vec<String>,
    /// How much the node has left.
    pub(crate) levels: Levels,
    /// Usage of pods, by UID; 0 where it is absent.
    pub(crate) uses: BTreeMap<String, PodUse>,
    /// Bytes that images give back, once.
    pub(crate) unused_images: u64,
    pub(crate) reclaims: usize,
    pub(crate) resizes: Vec<String>,
    pub(crate) node_events: Vec<String>,
    next: u64,
    /// How often each container was started, over all agents.
    pub(crate) attempts: BTreeMap<(String, String), u32>,
}

pub(crate) fn options() -> Options {
    let capacity = Amounts { cpu_milli: 4_000, memory: 8 << 30, ephemeral_storage: 1 << 40 };
    let soft = SoftThreshold { threshold: Threshold::amount(SOFT_PIDS), grace_ms: SOFT_GRACE_MS };
    let pressure = PressureOptions {
        thresholds: Thresholds::default(),
        soft: BTreeMap::from([(Signal::PidAvailable, soft)]),
        soft_grace_ms_max: 20_000,
        transition_ms: TRANSITION_MS,
    };
    Options { capacity, pods_max: 110, pressure }
}

pub(crate) const TRANSITION_MS: Millis = 300_000;
pub(crate) const SOFT_PIDS: u64 = 4_000;
pub(crate) const SOFT_GRACE_MS: Millis = 90_000;

/// A node with room for everything.
pub(crate) fn plenty() -> Levels {
    let half = |capacity: u64| Level { available: capacity / 2, capacity };
    Levels::from([
        (Signal::MemoryAvailable, half(8 << 30)),
        (Signal::NodefsAvailable, half(20 << 30)),
        (Signal::NodefsInodesFree, half(1 << 20)),
        (Signal::PidAvailable, half(32_768)),
    ])
}

pub(crate) fn container(name: &str, kind: Kind) -> ContainerView {
    ContainerView {
        name: name.into(),
        image: "busybox".into(),
        kind,
        restart: None,
        rules: vec![],
        pull: PullPolicy::IfNotPresent,
        startup: None,
        readiness: None,
        liveness: None,
        has_post_start: false,
        has_pre_stop: false,
        resources: Resources::default(),
        restarts_on_cpu: false,
        restarts_on_memory: false,
    }
}

pub(crate) fn pod(uid: &str, containers: Vec<ContainerView>, restart: Restart) -> PodView {
    PodView {
        pod: PodRef { namespace: "default".into(), name: uid.into(), uid: uid.into() },
        containers,
        restart,
        grace_s: 30,
        deletion_grace_s: None,
        deadline_s: None,
        has_claims: false,
        priority: 0,
        is_best_effort: true,
        tolerates_memory_pressure: false,
        requests: Amounts::default(),
        refusal: None,
        gates: vec![],
        before: InitialStatus::default(),
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = Self {
            now: START,
            machine: Pods::new(options()),
            api: BTreeMap::new(),
            written: 0,
            statuses: BTreeMap::new(),
            sandboxes: BTreeMap::new(),
            volumes: BTreeSet::new(),
            prepared: BTreeSet::new(),
            releasing: BTreeSet::new(),
            pending: vec![],
            events: vec![],
            starts: vec![],
            stops: vec![],
            levels: plenty(),
            uses: BTreeMap::new(),
            unused_images: 0,
            reclaims: 0,
            resizes: vec![],
            node_events: vec![],
            next: 0,
            attempts: BTreeMap::new(),
        };
        world.give(Input::Pods(vec![]));
        world
    }

    pub(crate) fn give(&mut self, input: Input) {
        self.machine.handle(self.now, input);
        self.take();
    }

    fn take(&mut self) {
        while let Some((id, action)) = self.machine.poll() {
            self.check_issue(&action);
            match action {
                Action::Event { reason, message, .. } => self.events.push((reason, message)),
                Action::NodeEvent { reason, message } => {
                    self.node_events.push(format!("{reason}: {message}"))
                }
                Action::KeepOnly { pods } => self.volumes.retain(|uid| pods.contains(uid)),
                Action::ReleaseClaims { pod } => drop(self.releasing.insert(pod.uid)),
                action => self.pending.push((id, action)),
            }
        }
    }

    pub(crate) fn add(&mut self, view: PodView) {
        self.api.insert(view.pod.uid.clone(), view.clone());
        let (uid, has_claims) = (view.pod.uid.clone(), view.has_claims);
        self.give(Input::Pod(view));
        if has_claims {
            self.prepared.insert(uid.clone());
            self.give(Input::ClaimsPrepared(uid));
        }
    }

    pub(crate) fn delete(&mut self, uid: &str, grace_s: u64) {
        let Some(view) = self.api.get_mut(uid) else { return };
        view.deletion_grace_s = Some(view.deletion_grace_s.unwrap_or(grace_s).min(grace_s));
        let view = view.clone();
        self.give(Input::Pod(view));
    }

    pub(crate) fn force(&mut self, uid: &str) {
        if self.api.remove(uid).is_some() {
            self.give(Input::PodGone(uid.into()));
        }
    }

    /// A container ends by itself.
    pub(crate) fn exits(&mut self, uid: &str, name: &str, code: i32) {
        let now = self.now;
        for container in self.sandboxes.get_mut(uid).into_iter().flat_map(|sandbox| &mut sandbox.containers) {
            if container.name == name {
                end(container, now, code);
            }
        }
        self.give(Input::Changed);
    }

    pub(crate) fn is_running(&self, uid: &str, name: &str) -> bool {
        let containers = self.sandboxes.get(uid).into_iter().flat_map(|sandbox| &sandbox.containers);
        containers.filter(|container| container.name == name).any(is_running)
    }

    pub(crate) fn running(&self, uid: &str) -> Vec<String> {
        let containers = self.sandboxes.get(uid).into_iter().flat_map(|sandbox| &sandbox.containers);
        containers.filter(|container| is_running(container)).map(|container| container.name.clone()).collect()
    }

    /// Another agent takes over: it knows what the API says and what the runtime has.
    pub(crate) fn restart(&mut self) {
        self.machine = Pods::new(options());
        self.pending.clear();
        self.releasing.clear();
        let mut views: Vec<PodView> = self.api.values().cloned().collect();
        for view in &mut views {
            let Some(status) = self.statuses.get(&view.pod.uid) else { continue };
            view.before.phase = status.phase;
            view.before.started_at = Some(status.started_at);
            for container in status.init.iter().chain(&status.main).chain(&status.ephemeral) {
                let before = InitialContainerStatus {
                    restarts: container.restarts,
                    has_run: container.id.is_some() || matches!(container.state, State::Terminated { .. }),
                    is_started: container.is_started,
                    is_ready: container.is_ready,
                    resources: container.resources,
                };
                view.before.containers.insert(container.name.clone(), before);
            }
        }
        self.give(Input::Pods(views));
        // Claims of pods of which nothing is left are unprepared by the agent's other machine.
        let (api, sandboxes) = (&self.api, &self.sandboxes);
        self.prepared.retain(|uid| api.contains_key(uid) || sandboxes.contains_key(uid));
        // And those of pods that are to run are prepared, again if need be.
        let is_wanted = |view: &&PodView| {
            let is_over = self.statuses.get(&view.pod.uid).is_some_and(|status| status.phase.is_terminal());
            view.has_claims && view.deletion_grace_s.is_none() && !is_over
        };
        let wanted: Vec<String> =
            self.api.values().filter(is_wanted).map(|view| view.pod.uid.clone()).collect();
        for uid in wanted {
            self.prepared.insert(uid.clone());
            self.give(Input::ClaimsPrepared(uid));
        }
    }

    /// The claims of a pod are unprepared.
    pub(crate) fn release(&mut self, uid: &str) {
        if self.releasing.remove(uid) {
            assert!(self.running(uid).is_empty(), "unprepared while a container runs");
            self.prepared.remove(uid);
            self.give(Input::ClaimsReleased(uid.into()));
        }
    }

    /// Carries out everything that is asked for, until nothing is.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            if let Some(uid) = self.releasing.first().cloned() {
                self.release(&uid);
            } else if self.pending.is_empty() {
                return;
            } else {
                self.perform(0, ActionResult::Works);
            }
        }
        panic!("it never comes to rest: {:?}", self.pending);
    }

    /// Lets time pass, and carries out what comes up.
    pub(crate) fn pass(&mut self, ms: Millis) {
        let end = self.now + ms;
        self.settle();
        while let Some(at) = self.machine.wake().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.tick();
            self.settle();
        }
        self.now = end;
    }

    pub(crate) fn tick(&mut self) {
        self.machine.tick(self.now);
        self.take();
    }

    pub(crate) fn perform(&mut self, index: usize, luck: ActionResult) {
        let (id, action) = self.pending.remove(index);
        let failed = Outcome::Failed { reason: "", message: "bad luck".into() };
        let outcome = match luck {
            ActionResult::Fails => failed,
            ActionResult::Works => self.carry_out(action),
            ActionResult::FailsAfterwards => {
                self.carry_out(action);
                failed
            }
        };
        self.give(Input::Outcome(id, outcome));
    }

    fn carry_out(&mut self, action: Action) -> Outcome {
        match action {
            Action::List => return Outcome::Found(self.sandboxes.values().cloned().collect()),
            Action::Observe => return Outcome::Observed(self.levels.clone()),
            Action::Measure { .. } => {
                let running = self.sandboxes.keys().filter(|uid| !self.running(uid).is_empty());
                let uses = running.map(|uid| (uid.clone(), self.uses.get(uid).cloned().unwrap_or_default()));
                return Outcome::Measured(uses.collect());
            }
            Action::Reclaim => {
                self.reclaims += 1;
                let freed = std::mem::take(&mut self.unused_images);
                self.level(Signal::NodefsAvailable).available += freed;
            }
            Action::Pull { .. } => return Outcome::Image { id: "sha256:1".into(), pulled_in_ms: None },
            Action::MakeVolumes { pod } => drop(self.volumes.insert(pod.uid)),
            Action::RunSandbox { pod } => {
                assert!(self.volumes.contains(&pod.uid), "volumes first");
                self.next += 1;
                let made = FoundSandbox {
                    id: format!("s{}", self.next),
                    pod: pod.clone(),
                    is_ready: true,
                    ips: vec![format!("10.0.0.{}", self.next)],
                    containers: vec![],
                };
                let sandbox = self.sandboxes.entry(pod.uid).or_insert(made);
                return Outcome::Sandbox { id: sandbox.id.clone(), ips: sandbox.ips.clone() };
            }
            Action::Start { pod, sandbox, container, attempt } => {
                return self.start(&pod, &sandbox, &container, attempt);
            }
            Action::Stop { id, container, .. } => {
                self.stops.push(container);
                let now = self.now;
                let all = self.sandboxes.values_mut().flat_map(|sandbox| &mut sandbox.containers);
                all.filter(|container| container.id == id).for_each(|container| end(container, now, 143));
            }
            Action::RemoveContainer { id, .. } => {
                for sandbox in self.sandboxes.values_mut() {
                    sandbox.containers.retain(|container| container.id != id);
                }
            }
            Action::StopSandbox { id, .. } => self.kill_sandbox(&id),
            Action::RemoveSandbox { id, .. } => self.sandboxes.retain(|_, sandbox| sandbox.id != id),
            Action::RemoveVolumes { pod, .. } => {
                assert!(self.running(&pod.uid).is_empty(), "volumes of {} are in use", pod.uid);
                self.volumes.remove(&pod.uid);
            }
            Action::WriteStatus { pod, status } => self.write(&pod, status),
            Action::DeletePod { pod } => {
                assert!(
                    !self.sandboxes.contains_key(&pod.uid) && !self.volumes.contains(&pod.uid),
                    "something is left"
                );
                assert!(!self.prepared.contains(&pod.uid), "deleted while its claims are prepared");
                self.api.remove(&pod.uid);
                self.give(Input::PodGone(pod.uid));
            }
            Action::PostStart { .. } | Action::PreStop { .. } => {}
            Action::Probe { .. } => return Outcome::Probed { is_success: true, message: String::new() },
            Action::Resize { container, .. } => self.resizes.push(container),
            Action::Event { .. }
            | Action::NodeEvent { .. }
            | Action::KeepOnly { .. }
            | Action::ReleaseClaims { .. } => {}
        }
        Outcome::Done
    }

    pub(crate) fn level(&mut self, signal: Signal) -> &mut Level {
        self.levels.get_mut(&signal).unwrap()
    }

    /// Adds an ephemeral container to a pod.
    pub(crate) fn debug(&mut self, uid: &str, name: &str) {
        let Some(view) = self.api.get_mut(uid) else { return };
        view.containers.push(container(name, Kind::Ephemeral));
        let view = view.clone();
        self.give(Input::Pod(view));
    }

    pub(crate) fn kill_sandbox(&mut self, id: &str) {
        let now = self.now;
        for sandbox in self.sandboxes.values_mut().filter(|sandbox| sandbox.id == id) {
            sandbox.is_ready = false;
            sandbox.containers.iter_mut().for_each(|container| end(container, now, 137));
        }
    }

    fn start(&mut self, pod: &PodRef, sandbox: &str, name: &str, attempt: u32) -> Outcome {
        let uid = &pod.uid;
        let cannot = Outcome::Failed { reason: "", message: "there is no such sandbox".into() };
        let Some(found) = self.sandboxes.get(uid).filter(|found| found.id == sandbox && found.is_ready)
        else {
            return cannot;
        };
        let same =
            found.containers.iter().find(|container| container.name == name && container.attempt == attempt);
        if let Some(same) = same {
            return Outcome::Started { id: same.id.clone(), not_applied: vec![] };
        }
        assert!(!self.is_running(uid, name), "{uid}/{name} is started while it runs");
        if let Some(view) = self.api.get(uid) {
            let place = view.containers.iter().position(|container| container.name == name).unwrap();
            let waits = view.containers[place].kind != Kind::Ephemeral;
            for before in view.containers[..place].iter().filter(|_| waits) {
                let newest = found.containers.iter().filter(|container| container.name == before.name);
                let newest = newest.max_by_key(|container| container.attempt);
                let is_done = match (before.kind, newest.map(|container| &container.phase)) {
                    (Kind::Main | Kind::Ephemeral, _) => true,
                    (Kind::Init, Some(FoundPhase::Exited(exit))) => exit.code == 0,
                    (Kind::Sidecar, Some(_)) => true,
                    (Kind::Init | Kind::Sidecar, _) => false,
                };
                assert!(is_done, "{uid}/{name} is started before {}", before.name);
            }
            assert!(
                !view.has_claims || self.prepared.contains(uid),
                "{uid}/{name} is started before its claims are prepared"
            );
        }
        let made = self.attempts.entry((uid.clone(), name.into())).or_insert(0);
        *made += 1;
        self.next += 1;
        self.starts.push(name.into());
        let id = format!("c{}", self.next);
        let made = FoundContainer {
            id: id.clone(),
            name: name.into(),
            attempt,
            image_id: "sha256:1".into(),
            phase: FoundPhase::Running { started_at: self.now },
        };
        self.sandboxes.get_mut(uid).unwrap().containers.push(made);
        Outcome::Started { id, not_applied: vec![] }
    }

    fn write(&mut self, pod: &PodRef, status: Status) {
        self.written += 1;
        if !self.api.contains_key(&pod.uid) {
            return;
        }
        if let Some(before) = self.statuses.get(&pod.uid) {
            assert!(!before.phase.is_terminal() || before.phase == status.phase, "a pod that ended goes on");
            let stays = |status: &Status| {
                let stays = |kind: &ConditionKind| !ConditionKind::TRANSIENT.contains(kind);
                status.conditions.iter().map(|one| one.kind).filter(stays).count()
            };
            assert!(stays(before) <= stays(&status), "a condition is gone");
        }
        if status.phase.is_terminal() {
            assert!(self.running(&pod.uid).is_empty(), "said to have ended while a container runs");
            assert!(!self.prepared.contains(&pod.uid), "said to have ended while its claims are prepared");
        }
        self.statuses.insert(pod.uid.clone(), status);
    }

    fn check_issue(&self, action: &Action) {
        if let Action::Start { pod, container, .. } = action {
            let view = self.api.get(&pod.uid).unwrap_or_else(|| panic!("{container} of a pod that is gone"));
            assert!(view.deletion_grace_s.is_none(), "{container} is started after the deletion of its pod");
        }
    }

    pub(crate) fn phase(&self, uid: &str) -> Phase {
        self.statuses[uid].phase
    }

    pub(crate) fn said(&self, reason: &str) -> usize {
        self.events.iter().filter(|(said, _)| *said == reason).count()
    }
}

pub(crate) fn is_running(container: &FoundContainer) -> bool {
    matches!(container.phase, FoundPhase::Running { .. })
}

fn end(container: &mut FoundContainer, now: Millis, code: i32) {
    let FoundPhase::Running { started_at } = container.phase else { return };
    let reason = if code == 0 { "Completed" } else { "Error" };
    container.phase = FoundPhase::Exited(Exit {
        started_at: Some(started_at),
        finished_at: now,
        code,
        signal: None,
        reason,
        message: None,
    });
}
