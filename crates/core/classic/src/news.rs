//! News of objects, for all machines.

use alloc::sync::Arc;

use lazaret_model::{Node, NodeReport, ObjectKey, Text, Uid};

use crate::model::{Pod, ResourceClaim, ResourceClass};

/// News of objects. Any may be late or repeated. Those of one kind come in the order of the API.
#[derive(Clone, Debug)]
pub enum News {
    /// A pod as it is now.
    Pod(Arc<Pod>),
    /// This incarnation of a pod is gone.
    PodGone(ObjectKey, Uid),
    /// A claim as it is now.
    Claim(Arc<ResourceClaim>),
    /// This incarnation of a claim is gone.
    ClaimGone(ObjectKey, Uid),
    /// A class as it is now.
    Class(Arc<ResourceClass>),
    /// No such class.
    ClassGone(Text),
    /// A node as it is now.
    Node(Arc<Node>),
    /// No such node.
    NodeGone(Text),
    /// A node's word about claims that are prepared on it. For the claim controller; `awaiting` has classic claims.
    Report(Arc<NodeReport>),
    /// No such node.
    ReportGone(Text),
}
