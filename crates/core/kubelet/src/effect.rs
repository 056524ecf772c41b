//! The effects: requests of a node to the API server.

use alloc::{collections::BTreeSet, string::String, sync::Arc, vec::Vec};

use lazaret_machine::Contents;
use lazaret_model::{PodPhase, Text, Timestamp, Uid};

use crate::{checkpoint::Checkpoint, pod::SeenPod};

/// A request. Nodes are named by their numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum EffectKind {
    /// Create the Node. One that exists is no failure.
    Register {
        /// The node.
        node: usize,
        /// The time that its conditions state.
        at: Timestamp,
    },
    /// Write the status of a Node: it is ready.
    SetNodeReady {
        /// The node.
        node: usize,
        /// The UID of the Node.
        uid: Uid,
        /// The time that its conditions state.
        at: Timestamp,
    },
    /// Write in the Node that it reports, and of which claims that it is asked about nothing is prepared.
    Report {
        /// The node.
        node: usize,
        /// The UID of the Node.
        uid: Uid,
        /// UIDs of the claims.
        unprepared: BTreeSet<Uid>,
    },
    /// Write in the Node what is prepared, if it has this version.
    Save {
        /// The node.
        node: usize,
        /// The UID of the Node.
        uid: Uid,
        /// The version of the Node.
        version: Text,
        /// The claims that are prepared.
        checkpoint: Contents<Checkpoint>,
    },
    /// Remove the taint that says that a node is not ready.
    RemoveNotReadyTaint {
        /// The node.
        node: usize,
        /// The UID of the Node.
        uid: Uid,
        /// The version of the Node.
        version: Text,
        /// Its other taints, in the wire form that [`SeenNode::taints_when_ready`](crate::SeenNode) had.
        others: Contents<String>,
    },
    /// Renew the lease of a node, or create it.
    RenewLease {
        /// The node.
        node: usize,
        /// The time of the renewal.
        at: Timestamp,
    },
    /// Create an event about a pod.
    Warn(Warning),
    /// Write the status of a pod: its containers run.
    Start(StartPod),
    /// Write the condition of a pod: it is ready.
    SetPodReady {
        /// The node.
        node: usize,
        /// The pod.
        pod: Arc<SeenPod>,
        /// The time that the condition states.
        at: Timestamp,
    },
    /// Write the status of a pod: its containers have exited.
    End(EndPod),
    /// Delete a pod that has stopped.
    Remove(RemovePod),
}

/// A warning about a pod, and about those that have what it waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Warning {
    /// The node.
    pub node: usize,
    /// The pod.
    pub pod: Arc<SeenPod>,
    /// The reason, a word.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// The time of the event.
    pub at: Timestamp,
    /// Pods that have what it waits for, each with the message of its event.
    pub holders: Vec<(Arc<SeenPod>, String)>,
}

/// All containers of a pod run.
#[derive(Clone, Debug, PartialEq)]
pub struct StartPod {
    /// The node.
    pub node: usize,
    /// The pod.
    pub pod: Arc<SeenPod>,
    /// The number of its address among those of the node; `None`: it has the node's address.
    pub address: Option<u8>,
    /// When it was first started.
    pub started: Timestamp,
    /// Since when they run.
    pub since: Timestamp,
    /// How often they were started again.
    pub restarts: u32,
}

/// All containers of a pod have exited.
#[derive(Clone, Debug, PartialEq)]
pub struct EndPod {
    /// The node.
    pub node: usize,
    /// The pod.
    pub pod: Arc<SeenPod>,
    /// Its last phase.
    pub phase: PodPhase,
    /// The exit code of its containers.
    pub exit_code: i32,
    /// When it was first started, where that is known.
    pub started: Option<Timestamp>,
    /// When they exited.
    pub at: Timestamp,
    /// How often they were started again.
    pub restarts: u32,
}

/// A pod that has stopped is deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct RemovePod {
    /// The node.
    pub node: usize,
    /// The pod.
    pub pod: Arc<SeenPod>,
    /// Written before, by a request of its own.
    pub end: Option<EndPod>,
}

impl EffectKind {
    /// The number of the node that it is a request of.
    #[must_use]
    pub const fn node(&self) -> usize {
        match self {
            Self::Register { node, .. }
            | Self::SetNodeReady { node, .. }
            | Self::Report { node, .. }
            | Self::Save { node, .. }
            | Self::RemoveNotReadyTaint { node, .. }
            | Self::RenewLease { node, .. }
            | Self::Warn(Warning { node, .. })
            | Self::Start(StartPod { node, .. })
            | Self::SetPodReady { node, .. }
            | Self::End(EndPod { node, .. })
            | Self::Remove(RemovePod { node, .. }) => *node,
        }
    }
}
