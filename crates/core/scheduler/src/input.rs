//! The inputs of the scheduler.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{ObjectKey, PodGroup, ResourceClaim, Text};

use crate::{
    LabelSelector, Labels, Node, Pod,
    effect::{EffectId, Reply},
};

/// An object as it is now, the news that it is gone, or something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A node.
    Node(Arc<Node>),
    /// No node of this name.
    NodeGone(Text),
    /// A pod, of any scheduler.
    Pod(Arc<Pod>),
    /// No such pod.
    PodGone(ObjectKey),
    /// A claim.
    Claim(Arc<Claim>),
    /// No such claim.
    ClaimGone(ObjectKey),
    /// Slices, classes, rules and patches. Nodes, pods and claims among these are ignored: they have inputs of their
    /// own.
    Fleet(lazaret_fleet::Input),
    /// Classic claims and their classes. Pods and nodes among these are ignored: they have inputs of their own.
    Classic(lazaret_classic::News),
    /// The labels of a namespace.
    Namespace(Text, Arc<Labels>),
    /// No namespace of this name.
    NamespaceGone(Text),
    /// A group of pods.
    Group(Arc<PodGroup>),
    /// No such group.
    GroupGone(ObjectKey),
    /// A disruption budget.
    Budget(Arc<Budget>),
    /// No such budget.
    BudgetGone(ObjectKey),
    /// The reply to an effect. Unknown or repeated ids are ignored.
    Acknowledged(EffectId, Reply),
    /// Time has passed. May come early, late, or for nothing.
    Tick,
    /// From now on effects are wanted. The caller makes sure that every write from before the lease was acquired has been passed in:
    /// devices allocated by another leader and not seen here would be allocated twice.
    BecameLeader,
    /// From now on none are.
    LostLeadership,
}

/// A claim with what writing it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The claim.
    pub claim: Arc<ResourceClaim>,
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// Whether it has [`crate::CLAIM_FINALIZER`].
    pub has_finalizer: bool,
    /// The statuses of its devices, reported by drivers.
    pub devices: Vec<DeviceStatus>,
}

/// An entry of `status.devices`, as far as binding waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStatus {
    /// Which device.
    pub device: lazaret_model::DeviceId,
    /// The types of its conditions that are `True`.
    pub is_true: Vec<Text>,
}

/// A disruption budget: how many of some pods may leave now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Where it is.
    pub key: ObjectKey,
    /// Which pods of its namespace; `None`: none.
    pub selector: Option<LabelSelector>,
    /// `status.disruptionsAllowed`.
    pub allowed: i64,
    /// Names of pods that are leaving already and are counted in `allowed`.
    pub leaving: Vec<Text>,
}
