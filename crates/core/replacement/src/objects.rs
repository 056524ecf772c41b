//! Pods, nodes and replica sets, as far as replacing is concerned.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use lazaret_machine::LabelSelector;
use lazaret_model::{ObjectKey, Owner, Text, Timestamp, Uid};

use crate::record::Mark;

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Where it is.
    pub key: ObjectKey,
    /// The incarnation.
    pub uid: Uid,
    /// Its version: a precondition.
    pub version: Text,
    /// Its labels.
    pub labels: Arc<BTreeMap<Text, Text>>,
    /// The node it is bound to.
    pub node: Option<Text>,
    /// Its controller.
    pub owner: Option<Owner>,
    /// When it was made.
    pub created: Timestamp,
    /// It serves.
    pub ready: bool,
    /// It has ended, well or badly.
    pub finished: bool,
    /// It has ended well.
    pub succeeded: bool,
    /// Deletion was asked for.
    pub deleting: bool,
    /// It uses a claim by name, so a second one of it would sit on the same devices.
    pub pinned: bool,
    /// It is held back from scheduling until the pod that it replaces is gone.
    pub gated: bool,
    /// The kubelet's own pod: only the kubelet can replace it.
    pub mirror: bool,
    /// The mark that a replacement wrote on it, if that is proved: who may write pods can write any mark.
    pub mark: Option<Mark>,
}

impl Pod {
    /// Whether a policy can look after it at all. A daemon set would only start it on the same node again.
    pub(crate) fn is_subject(&self) -> bool {
        let daemon = self.owner.as_ref().is_some_and(|owner| owner.kind == "DaemonSet");
        self.node.is_some() && !self.finished && !self.deleting && !self.mirror && !daemon
    }

    pub(crate) fn is_owned_by(&self, uid: &Uid) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.uid == *uid)
    }

    /// Whether its owner has let go of it.
    pub(crate) fn mark_is_released(&self) -> bool {
        matches!(self.mark, Some(Mark::Released(_)))
    }

    /// Whether it does what the one before it did.
    pub(crate) fn serves(&self) -> bool {
        (self.ready && !self.deleting) || self.succeeded
    }
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Text,
    /// Its labels.
    pub labels: Arc<BTreeMap<Text, Text>>,
    /// Its taints.
    pub taints: Vec<NodeTaint>,
    /// Since when it is not Ready, and the taint key that says so.
    pub failing: Option<FailingNode>,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTaint {
    /// Its key.
    pub key: Text,
    /// Its value.
    pub value: Text,
    /// Its effect.
    pub effect: Text,
    /// When it was set, if it says so.
    pub time_added: Option<Timestamp>,
}

/// A node that is not Ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailingNode {
    /// `node.kubernetes.io/not-ready`, or `…/unreachable` when its state is unknown.
    pub key: Text,
    /// Since when.
    pub since: Timestamp,
}

/// A replica set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaSet {
    /// Where it is.
    pub key: ObjectKey,
    /// The incarnation.
    pub uid: Uid,
    /// How many pods it wants.
    pub replicas: u32,
    /// Which pods it takes for its own.
    pub selector: LabelSelector,
}
