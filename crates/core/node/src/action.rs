//! The actions of a node, and its inputs.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use crate::{
    Answer, ClaimId, ClaimKind, ClaimName, ClaimView, ClassicCall, ContainerUse, HealthReport, PodView,
    ResourceStatus, registry::SocketId,
};

/// A pod, to write about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its incarnation.
    pub uid: String,
}

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It is to run.
    Wanted,
    /// Its phase is terminal.
    Ended,
    /// It is being deleted, and its containers have stopped.
    Deleted,
}

/// A pod of this node as the API has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPod {
    /// Which, and its claims.
    pub view: PodView,
    /// How far it is.
    pub life: Life,
    /// Its containers.
    pub containers: Vec<ContainerUse>,
    /// The health of devices in the statuses of its containers.
    pub shown: BTreeMap<String, Vec<ResourceStatus>>,
}

/// The Node object, as far as it concerns claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenNode {
    /// It is marked as reporting.
    pub reports: bool,
    /// UIDs of claims that a controller waits for.
    pub awaiting: BTreeSet<String>,
    /// UIDs of claims that it reports as unprepared.
    pub unprepared: BTreeSet<String>,
}

/// The identity that a plugin reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginInfo {
    /// `DRAPlugin` or `ResourcePlugin`.
    pub kind: String,
    /// The driver.
    pub driver: String,
    /// Where its services are; empty: at the registration socket.
    pub endpoint: String,
    /// The services.
    pub services: Vec<String>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// All pods of this node.
    Pods(Vec<SeenPod>),
    /// A pod is new or changed.
    Pod(SeenPod),
    /// A pod is gone, by UID.
    PodGone(String),
    /// The Node object.
    Node(SeenNode),
    /// All sockets in the registration directory.
    Sockets(BTreeMap<String, SocketId>),
    /// An endpoint of a driver is connected, or is not.
    Connected {
        /// Which claims it is for.
        kind: ClaimKind,
        /// The driver.
        driver: String,
        /// The endpoint.
        endpoint: String,
        /// Whether it is.
        is_connected: bool,
    },
    /// A plugin says how devices are.
    Health {
        /// The driver.
        driver: String,
        /// The endpoint.
        endpoint: String,
        /// The devices.
        reports: Vec<HealthReport>,
    },
    /// It says nothing any more.
    HealthEnded {
        /// The driver.
        driver: String,
        /// The endpoint.
        endpoint: String,
    },
    /// The outcome of an action, by the action's id.
    Outcome(u64, Outcome),
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It failed; it may or may not have been done.
    Failed(String),
    /// The claims that were found, by name.
    Claims(BTreeMap<ClaimName, ClaimView>),
    /// The identity of a plugin.
    Plugin(PluginInfo),
    /// A plugin's answer.
    Answered(Answer),
}

/// Calls to plugins, as metrics name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// `NodePrepareResources`, or `NodePrepareResource` for a classic claim.
    Prepare,
    /// `NodeUnprepareResources`, or `NodeUnprepareResource`.
    Unprepare,
}

/// Something to do. Those that say so are answered once, by [`Input::Outcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read claims. Answered with `Claims`: those that there are.
    ReadClaims {
        /// Their namespace.
        namespace: String,
        /// Their names.
        names: Vec<ClaimName>,
    },
    /// Write the checkpoint. Answered. A later one contains all that an earlier one does.
    Checkpoint {
        /// The content of the file.
        text: Vec<u8>,
        /// A pod waits for it.
        is_awaited: bool,
    },
    /// Call a plugin. Answered with `Answered`.
    Call {
        /// The method.
        call: Call,
        /// The driver.
        driver: String,
        /// Where it is.
        endpoint: String,
        /// The service.
        service: &'static str,
        /// The claims.
        claims: Vec<ClaimId>,
    },
    /// Call a plugin of classic claims. Answered with `Answered`.
    CallClassic {
        /// The call.
        call: ClassicCall,
        /// The driver.
        driver: String,
        /// Where it is.
        endpoint: String,
        /// The claim.
        claim: ClaimId,
    },
    /// Ask a plugin who it is. Answered with `Plugin`.
    AskPlugin {
        /// Its registration socket.
        socket: String,
    },
    /// Tell a plugin what became of its registration. Answered.
    NotifyPlugin {
        /// Its registration socket.
        socket: String,
        /// Why it was refused; none: it was not.
        error: Option<String>,
    },
    /// Keep a connection, and listen to the health service if there is one.
    Connect {
        /// Which claims it is for.
        kind: ClaimKind,
        /// The driver.
        driver: String,
        /// Where it is.
        endpoint: String,
        /// The health service.
        health: Option<&'static str>,
    },
    /// Give a connection up.
    Disconnect {
        /// Which claims it was for.
        kind: ClaimKind,
        /// The driver.
        driver: String,
        /// Where it was.
        endpoint: String,
    },
    /// Delete the node's ResourceSlices. Answered.
    Wipe {
        /// Of this driver; none: of all.
        driver: Option<String>,
    },
    /// Say in the Node object which claims are unprepared. Answered.
    Report(BTreeSet<String>),
    /// Write what containers' statuses say of devices. Answered.
    ShowStatus {
        /// The pod.
        pod: PodRef,
        /// By container.
        containers: BTreeMap<String, Vec<ResourceStatus>>,
    },
    /// Make CDI names available to a runtime.
    OfferDevices {
        /// The pod.
        pod: PodRef,
        /// CDI names by container.
        containers: BTreeMap<String, Vec<String>>,
    },
    /// Take them back, before anything is unprepared.
    WithdrawDevices {
        /// The pod.
        pod_uid: String,
    },
    /// A pod that ended holds no claims any more.
    Freed {
        /// The pod.
        pod_uid: String,
    },
    /// Remove a pod whose deletion was asked for and of which nothing is left. Answered.
    DeletePod(PodRef),
    /// A warning for people.
    Warn {
        /// The pod that it is about.
        pod: Option<PodRef>,
        /// One word.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
    /// All claims of a pod begin to be prepared or unprepared, for metrics.
    Began {
        /// Which.
        call: Call,
        /// Of which pod.
        pod_uid: String,
    },
    /// They were, or were not.
    Ended {
        /// Which.
        call: Call,
        /// Of which pod.
        pod_uid: String,
        /// How it ended.
        is_error: bool,
    },
}
