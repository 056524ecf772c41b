//! The inputs of the machine.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{DisruptionGuard, ObjectKey, Text};

use crate::{
    objects::{Node, Pod, ReplicaSet},
    policy::Policy,
};

/// An input of the machine.
#[derive(Clone, Debug)]
pub enum Input {
    /// A policy as it is now.
    Policy(Arc<Policy>),
    /// A policy is gone.
    PolicyGone(ObjectKey),
    /// A pod as it is now.
    Pod(Arc<Pod>),
    /// A pod is gone.
    PodGone(ObjectKey),
    /// A node as it is now.
    Node(Arc<Node>),
    /// A node is gone.
    NodeGone(Text),
    /// A replica set as it is now.
    ReplicaSet(Arc<ReplicaSet>),
    /// A replica set is gone.
    ReplicaSetGone(ObjectKey),
    /// Whether something can be read.
    Access(Source, ReadAccess),
    /// These are all guards.
    Guards(Vec<Arc<DisruptionGuard>>),
}

/// A kind of object that the machine reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Nodes: their taints.
    Nodes,
    /// Claims, slices, rules: the taints of devices.
    Devices,
    /// Replica sets: how to release a pod.
    ReplicaSets,
    /// Pods.
    Pods,
}

/// Whether something can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadAccess {
    /// It can.
    Clear,
    /// It cannot; which permission is missing.
    Barred(Text),
}
