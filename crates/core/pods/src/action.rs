//! The actions that the machine requests on a node, and the inputs that it receives.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use crate::{Exit, Levels, Millis, PodUse, PodView, PullPolicy, Status};

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its incarnation.
    pub uid: String,
}

/// Which probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// `startupProbe`.
    Startup,
    /// `readinessProbe`.
    Readiness,
    /// `livenessProbe`.
    Liveness,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one is handled at a time, and none is kept")]
pub enum Input {
    /// All pods of this node.
    Pods(Vec<PodView>),
    /// A pod is new or changed.
    Pod(PodView),
    /// A pod is gone from the API, by UID.
    PodGone(String),
    /// Something of what the runtime has changed by itself.
    Changed,
    /// All claims of a pod are prepared, by UID.
    ClaimsPrepared(String),
    /// Claims of a pod are unprepared, as [`Action::ReleaseClaims`] asked for, by UID.
    ClaimsReleased(String),
    /// Its status is to be written again although it has not changed: the shell adds something else to it.
    Rewrite(String),
    /// All pods are to end: the node shuts down.
    Shutdown,
    /// The outcome of an action, by the action's id.
    Outcome(u64, Outcome),
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It failed; it may or may not have been done.
    Failed {
        /// One word, as the status of a container has it; empty where there is none.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
    /// An image is there.
    Image {
        /// Its id.
        id: String,
        /// How long it took to pull it, when it had to be.
        pulled_in_ms: Option<Millis>,
    },
    /// A sandbox is there.
    Sandbox {
        /// The runtime's id.
        id: String,
        /// The addresses of the pod.
        ips: Vec<String>,
    },
    /// A container was started.
    Started {
        /// The runtime's id.
        id: String,
        /// Settings that the runtime does not apply.
        not_applied: Vec<String>,
    },
    /// A container was made, and its program could not be started.
    CannotRun {
        /// The runtime's id.
        id: String,
        /// Why.
        message: String,
    },
    /// A container was asked how it is.
    Probed {
        /// Whether it is well.
        is_success: bool,
        /// The probe's output.
        message: String,
    },
    /// The sandboxes of the runtime.
    Found(Vec<FoundSandbox>),
    /// How much is left of what thresholds are about.
    Observed(Levels),
    /// Resource usage of pods, by UID. A pod whose usage is unknown is absent.
    Measured(BTreeMap<String, PodUse>),
}

/// A sandbox that the runtime has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSandbox {
    /// The runtime's id.
    pub id: String,
    /// Its pod.
    pub pod: PodRef,
    /// Whether containers can run in it.
    pub is_ready: bool,
    /// The addresses of the pod.
    pub ips: Vec<String>,
    /// Its containers.
    pub containers: Vec<FoundContainer>,
}

/// A container that the runtime has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundContainer {
    /// The runtime's id.
    pub id: String,
    /// Its name in the pod.
    pub name: String,
    /// How often it was started again before.
    pub attempt: u32,
    /// The id of its image.
    pub image_id: String,
    /// How far it is.
    pub phase: FoundPhase,
}

/// How far a container is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundPhase {
    /// It was made, and not started.
    Created,
    /// It runs.
    Running {
        /// Since when.
        started_at: Millis,
    },
    /// It has ended.
    Exited(Exit),
}

/// Something to do. Those that do not say otherwise are answered once, by [`Input::Outcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Say what the runtime has. Answered with `Found`.
    List,
    /// Say how much is left of memory, disk and process ids. Answered with `Observed`.
    Observe,
    /// Say what the pods that run use. Answered with `Measured`.
    Measure {
        /// Whether memory and processes are counted.
        usage: bool,
        /// Whether what they have on the disk is.
        storage: bool,
    },
    /// Make room on the disk without ending a pod: remove images that nothing uses.
    Reclaim,
    /// Have an image there. Answered with `Image`.
    Pull {
        /// The pod.
        pod: PodRef,
        /// Its container.
        container: String,
        /// The image.
        image: String,
        /// Whether it may be pulled, or must be.
        policy: PullPolicy,
    },
    /// Make the volumes of a pod, or find them.
    MakeVolumes {
        /// The pod.
        pod: PodRef,
    },
    /// Make the sandbox of a pod, or find it. Answered with `Sandbox`.
    RunSandbox {
        /// The pod.
        pod: PodRef,
    },
    /// Make and start a container, or find it. Answered with `Started` or `CannotRun`.
    Start {
        /// The pod.
        pod: PodRef,
        /// The sandbox.
        sandbox: String,
        /// The container.
        container: String,
        /// How often it was started before.
        attempt: u32,
    },
    /// Run what is to be run after a start.
    PostStart {
        /// The pod.
        pod: PodRef,
        /// The container.
        container: String,
        /// The runtime's id.
        id: String,
    },
    /// Run what is to be run before a stop.
    PreStop {
        /// The pod.
        pod: PodRef,
        /// The container.
        container: String,
        /// The runtime's id.
        id: String,
        /// It has failed when it takes longer.
        timeout_ms: Millis,
    },
    /// Give a container that runs the limits that its pod has for it now.
    Resize {
        /// The pod.
        pod: PodRef,
        /// The container.
        container: String,
        /// The runtime's id.
        id: String,
    },
    /// Ask a container to stop, and kill it when the time is over. Answered when it has ended.
    Stop {
        /// The pod.
        pod: PodRef,
        /// The container.
        container: String,
        /// The runtime's id.
        id: String,
        /// How long it may take.
        grace_ms: Millis,
    },
    /// Ask a container how it is. Answered with `Probed`.
    Probe {
        /// The pod.
        pod: PodRef,
        /// The container.
        container: String,
        /// The runtime's id.
        id: String,
        /// Which probe.
        kind: ProbeKind,
        /// It has failed when it takes longer.
        timeout_ms: Millis,
    },
    /// Remove a container that has ended, with its log.
    RemoveContainer {
        /// The pod.
        pod: PodRef,
        /// The runtime's id.
        id: String,
    },
    /// Kill what still runs in a sandbox, and let go of its namespaces and addresses.
    StopSandbox {
        /// The pod.
        pod: PodRef,
        /// The runtime's id.
        id: String,
    },
    /// Remove a sandbox with everything that it has. Logs stay when the pod goes on.
    RemoveSandbox {
        /// The pod.
        pod: PodRef,
        /// The runtime's id.
        id: String,
    },
    /// Remove the volumes of a pod, and when the pod goes, its logs and whatever else there is of it.
    RemoveVolumes {
        /// The pod.
        pod: PodRef,
        /// Whether it goes.
        with_logs: bool,
    },
    /// Remove volumes and logs of all pods but these, by UID: leftovers of pods that were deleted while no agent ran. Not answered.
    KeepOnly {
        /// Pods that are here.
        pods: Vec<String>,
    },
    /// Unprepare the claims of a pod: no container of it runs. Answered with [`Input::ClaimsReleased`] alone.
    ReleaseClaims {
        /// The pod.
        pod: PodRef,
    },
    /// Write the status of a pod.
    WriteStatus {
        /// The pod.
        pod: PodRef,
        /// The status.
        status: Status,
    },
    /// Remove a pod from the API: nothing is left of it here.
    DeletePod {
        /// The pod.
        pod: PodRef,
    },
    /// Say something about the Node to people, as a warning. Not answered.
    NodeEvent {
        /// One word.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
    /// Say something to people. Not answered.
    Event {
        /// The pod.
        pod: PodRef,
        /// The container that it is about.
        container: Option<String>,
        /// Whether somebody should look at it.
        is_warning: bool,
        /// One word.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
}
