//! The status of a pod, before its translation to the API's type.

use alloc::{string::String, vec::Vec};

use crate::{Exit, Millis, Resources};

/// How far a pod is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers have been started.
    #[default]
    Pending,
    /// At least one runs, or is to run again.
    Running,
    /// All have ended well.
    Succeeded,
    /// All have ended, not all of them well.
    Failed,
}

/// The status of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// How far it is.
    pub phase: Phase,
    /// One word for why it ended, where its containers do not say it.
    pub reason: Option<String>,
    /// A sentence for it.
    pub message: Option<String>,
    /// Since when this node has it.
    pub started_at: Millis,
    /// Its addresses.
    pub ips: Vec<String>,
    /// Conditions, true or false.
    pub conditions: Vec<Condition>,
    /// Init containers, in their order.
    pub init: Vec<ContainerStatus>,
    /// The main ones.
    pub main: Vec<ContainerStatus>,
    /// Ephemeral containers.
    pub ephemeral: Vec<ContainerStatus>,
}

/// Types of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionKind {
    /// Its sandbox is there.
    PodReadyToStartContainers,
    /// Its init containers are done.
    Initialized,
    /// It is ready.
    Ready,
    /// Its containers are.
    ContainersReady,
    /// It has a node.
    PodScheduled,
    /// The node ends it for lack of something. Only pods that go by it have it.
    DisruptionTarget,
    /// Its containers are to have more than there is now. Only pods that wait have it.
    PodResizePending,
    /// Limits of its containers are being changed. Only such pods have it.
    PodResizeInProgress,
}

impl ConditionKind {
    /// Conditions of every pod, in kubelet's order.
    pub const ALL: [Self; 5] = [
        Self::PodReadyToStartContainers,
        Self::Initialized,
        Self::Ready,
        Self::ContainersReady,
        Self::PodScheduled,
    ];
    /// Conditions that are removed when they are not true any more.
    pub const TRANSIENT: [Self; 2] = [Self::PodResizePending, Self::PodResizeInProgress];

    /// As the API has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PodReadyToStartContainers => "PodReadyToStartContainers",
            Self::Initialized => "Initialized",
            Self::Ready => "Ready",
            Self::ContainersReady => "ContainersReady",
            Self::PodScheduled => "PodScheduled",
            Self::DisruptionTarget => "DisruptionTarget",
            Self::PodResizePending => "PodResizePending",
            Self::PodResizeInProgress => "PodResizeInProgress",
        }
    }
}

/// Whether something is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: ConditionKind,
    /// Whether its status is `True`.
    pub is_true: bool,
    /// One word.
    pub reason: Option<&'static str>,
    /// A sentence.
    pub message: Option<String>,
    /// Since when it is so.
    pub changed_at: Millis,
}

/// The status of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerStatus {
    /// Its name in the pod.
    pub name: String,
    /// Its image, as a person wrote it.
    pub image: String,
    /// The id of the image that it has.
    pub image_id: String,
    /// The runtime's id.
    pub id: Option<String>,
    /// How it is.
    pub state: State,
    /// How it was before it was started again.
    pub last: Option<State>,
    /// How often it was.
    pub restarts: u32,
    /// Whether it is ready; for an init container, whether it has ended well.
    pub is_ready: bool,
    /// Whether it runs and its startup probe has succeeded.
    pub is_started: bool,
    /// Its current resources while it runs.
    pub resources: Option<Resources>,
    /// The resources allocated to it.
    pub allocated: Resources,
}

/// How a container is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is not there yet, or not again.
    Waiting {
        /// One word.
        reason: &'static str,
        /// A sentence.
        message: Option<String>,
    },
    /// It runs.
    Running {
        /// Since when.
        started_at: Millis,
    },
    /// It has ended.
    Terminated {
        /// The runtime's id.
        id: String,
        /// How.
        exit: Exit,
    },
}

impl Status {
    /// Whether a pod in the API has a condition of these with another status.
    pub(crate) fn differs(&self, seen: &[(ConditionKind, bool, Millis)]) -> bool {
        let is_other = |(kind, is_true, _): &(ConditionKind, bool, Millis)| {
            self.conditions.iter().any(|own| own.kind == *kind && own.is_true != *is_true)
        };
        seen.iter().any(is_other)
    }

    /// Whether a change that other components wait for happened since `before`: phase, addresses, conditions, readiness.
    pub(crate) fn is_news_to(&self, before: &Self) -> bool {
        let facts = |status: &Self| {
            let conditions = status.conditions.iter().map(|condition| (condition.kind, condition.is_true));
            let ready = status.init.iter().chain(&status.main).map(|container| container.is_ready);
            (conditions.collect::<Vec<_>>(), ready.collect::<Vec<_>>())
        };
        self.phase != before.phase || self.ips != before.ips || facts(self) != facts(before)
    }
}
