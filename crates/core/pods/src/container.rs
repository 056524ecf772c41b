//! The state of a container.

use alloc::{format, string::String};

use crate::{
    ContainerView, InitialContainerStatus, Millis, Resources, State, backoff::CrashBackoff, probe::Probes,
    resize::Resizing,
};

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// When it began.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub finished_at: Millis,
    /// Its exit code.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// One word: `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`, `ContainerStatusUnknown`.
    pub reason: &'static str,
    /// Its termination message, or why it could not be started.
    pub message: Option<String>,
}

/// The exit code of a container that was killed, or whose end is unknown.
pub(crate) const KILLED: i32 = 137;
/// The exit code of a container whose program could not be started.
pub(crate) const CANNOT_RUN: i32 = 128;

impl Exit {
    /// The exit of a container whose end was not observed.
    pub(crate) fn unknown(now: Millis, started_at: Option<Millis>) -> Self {
        let message = "The container could not be located when the pod was terminated";
        Self {
            started_at,
            finished_at: now,
            code: KILLED,
            signal: None,
            reason: "ContainerStatusUnknown",
            message: Some(message.into()),
        }
    }
}

/// A container of a pod.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    /// How often it was started before the instance that is or will be.
    pub(crate) restarts: u32,
    pub(crate) instance: Option<Instance>,
    /// The one before: its id and how it ended. The runtime keeps it, for its log.
    pub(crate) last: Option<(String, Exit)>,
    pub(crate) work: Work,
    /// Why it has not been started.
    pub(crate) waiting: Option<Waiting>,
    /// The resources of the start that is in flight.
    pub(crate) starting: Resources,
    /// The image is there, for the next start.
    pub(crate) image_id: Option<String>,
    pub(crate) retry_at: Millis,
    /// Pulls that failed in a row, and starts: an image that is there again and again says nothing about the start.
    pub(crate) pull_failures: u32,
    pub(crate) start_failures: u32,
    pub(crate) crash: CrashBackoff,
    /// Its state from the status that an earlier process wrote.
    pub(crate) before: InitialContainerStatus,
}

/// The action in flight for a container that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Idle,
    Pulling,
    Starting,
    /// A start failed, and may have happened, until a list that was requested after this number says.
    Unsure {
        since: u64,
    },
}

/// Why a container has not been started.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// When the pull is given up for now, and the status says so.
    pub(crate) backs_off_at: Option<Millis>,
}

/// A container that the runtime has.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) id: String,
    pub(crate) image_id: String,
    /// A list that was asked for after this number has it.
    pub(crate) known_since: u64,
    pub(crate) phase: InstancePhase,
    pub(crate) hook: Hook,
    pub(crate) probes: Probes,
    /// It is to be stopped although its pod goes on: by when.
    pub(crate) doomed: Option<Millis>,
    /// Why, for people.
    pub(crate) doomed_why: String,
    pub(crate) stopping: Stopping,
    /// The resources that it was started with or resized to.
    pub(crate) resources: Resources,
    pub(crate) resizing: Resizing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstancePhase {
    Running { started_at: Millis },
    Exited(Exit),
}

/// How far the hook after the start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    Wanted,
    InFlight,
    Over,
}

/// How far stopping is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopping {
    No,
    /// The hook before the stop runs.
    Hook {
        deadline: Millis,
    },
    /// It was asked to stop by then.
    Asked {
        deadline: Millis,
    },
    /// That failed, and is tried again.
    Again {
        at: Millis,
    },
}

impl Instance {
    pub(crate) fn running(
        id: String,
        image_id: String,
        known_since: u64,
        started_at: Millis,
        view: &ContainerView,
    ) -> Self {
        let hook = if view.has_post_start { Hook::Wanted } else { Hook::Over };
        Self {
            id,
            image_id,
            known_since,
            phase: InstancePhase::Running { started_at },
            hook,
            probes: Probes::new(started_at, view),
            doomed: None,
            doomed_why: String::new(),
            stopping: Stopping::No,
            resources: view.resources,
            resizing: Resizing::No,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.phase, InstancePhase::Running { .. })
    }

    pub(crate) fn exit(&self) -> Option<&Exit> {
        match &self.phase {
            InstancePhase::Running { .. } => None,
            InstancePhase::Exited(exit) => Some(exit),
        }
    }

    /// Runs, its hook is over and its startup probe has succeeded.
    pub(crate) fn is_started(&self) -> bool {
        self.is_running() && self.hook == Hook::Over && self.probes.is_started()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_started() && self.probes.is_ready()
    }
}

impl Container {
    pub(crate) fn new(before: InitialContainerStatus) -> Self {
        Self {
            restarts: before.restarts + u32::from(before.has_run),
            instance: None,
            last: None,
            work: Work::Idle,
            waiting: None,
            starting: Resources::default(),
            image_id: None,
            retry_at: 0,
            pull_failures: 0,
            start_failures: 0,
            crash: CrashBackoff::default(),
            before,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.instance.as_ref().is_some_and(Instance::is_running)
    }

    pub(crate) fn is_started(&self) -> bool {
        self.instance.as_ref().is_some_and(Instance::is_started)
    }

    pub(crate) fn exit(&self) -> Option<&Exit> {
        self.instance.as_ref().and_then(Instance::exit)
    }

    /// Whether something of it runs, or may soon.
    pub(crate) fn is_alive(&self) -> bool {
        self.is_running() || matches!(self.work, Work::Starting | Work::Unsure { .. })
    }

    pub(crate) fn waits(&mut self, reason: &'static str, message: String) {
        self.waiting = Some(Waiting { reason, message, backs_off_at: None });
    }

    /// The state that its status has.
    pub(crate) fn state(&self, default_reason: &'static str) -> State {
        if let Some(waiting) = &self.waiting {
            let message = Some(waiting.message.clone()).filter(|message| !message.is_empty());
            return State::Waiting { reason: waiting.reason, message };
        }
        match &self.instance {
            None => match &self.last {
                // It ended, and is on its way back.
                Some((id, exit)) => State::Terminated { id: id.clone(), exit: exit.clone() },
                None => State::Waiting { reason: default_reason, message: None },
            },
            Some(instance) => match &instance.phase {
                InstancePhase::Running { started_at } => State::Running { started_at: *started_at },
                InstancePhase::Exited(exit) => {
                    State::Terminated { id: instance.id.clone(), exit: exit.clone() }
                }
            },
        }
    }

    /// The state before that one.
    pub(crate) fn last_state(&self) -> Option<State> {
        let of = |(id, exit): (&String, &Exit)| State::Terminated { id: id.clone(), exit: exit.clone() };
        let last = self.last.as_ref().map(|(id, exit)| (id, exit));
        match (&self.waiting, &self.instance) {
            (Some(_), Some(instance)) => instance.exit().map(|exit| (&instance.id, exit)).or(last).map(of),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => last.map(of),
        }
    }
}

/// As kubelet names a pod in its messages.
pub(crate) fn pod_text(pod: &crate::PodRef) -> String {
    format!("{}_{}({})", pod.name, pod.namespace, pod.uid)
}
