//! The effects of the scheduler, and the replies to them.

use alloc::{sync::Arc, vec::Vec};

pub use lazaret_machine::{EffectId, Outcome};
use lazaret_model::{
    Allocation, ClaimSpec, Consumer, NodeAllocatableStatus, ObjectKey, Owner, Text, Timestamp, Uid,
};

/// The finalizer of claims that are allocated.
pub const CLAIM_FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The annotation, with the value `true`, of claims for extended resources.
pub const EXTENDED_CLAIM_ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";

/// An effect, carried out by the shell. Effects are independent of each other: an effect that must wait for
/// another is not given out before that is acknowledged.
pub type Effect = lazaret_machine::Effect<EffectKind>;

/// The kinds of effects. All but [`EffectKind::Event`] are to be acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectKind {
    /// Give a claim to pods.
    ReserveClaim(ReserveClaim),
    /// Take a claim, or its devices, back.
    ReleaseClaim(ReleaseClaim),
    /// Make a claim for a pod's extended resources. The reply names what was made.
    CreateExtendedClaim(CreateExtendedClaim),
    /// Delete a claim for extended resources that is not used: remove [`CLAIM_FINALIZER`], then delete.
    DeleteExtendedClaim(DeleteExtendedClaim),
    /// Say in a pod's status which claim was made for its extended resources.
    SetExtendedClaim(SetExtendedClaim),
    /// Say in a pod's status what its claims take of its node.
    SetNodeAllocatable(SetNodeAllocatable),
    /// Bind a pod to a node.
    Bind(Bind),
    /// Say in a pod's status why it is not placed.
    SetPodCondition(SetPodCondition),
    /// Evict a pod for another.
    Evict(Evict),
    /// Write to a classic claim.
    ChangeClassicClaim(lazaret_classic::ChangeClaim),
    /// Tell people. Best effort, needs no acknowledgement.
    Event(Event),
}

/// One write of a claim's status. If `add_finalizer`, one of its metadata before that, which changes the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveClaim {
    /// Which claim.
    pub claim: ObjectKey,
    /// Which incarnation: a precondition.
    pub uid: Uid,
    /// Which version: a precondition.
    pub version: u64,
    /// Add [`CLAIM_FINALIZER`] first.
    pub add_finalizer: bool,
    /// Set `status.allocation` to this; it has none now.
    pub allocation: Option<Arc<Allocation>>,
    /// Add these to `status.reservedFor`.
    pub reserve_for: Vec<Consumer>,
}

/// One write of a claim's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseClaim {
    /// Which claim.
    pub claim: ObjectKey,
    /// Which incarnation: a precondition.
    pub uid: Uid,
    /// Which version: a precondition.
    pub version: u64,
    /// Remove this consumer from `status.reservedFor`.
    pub consumer: Option<Uid>,
    /// Remove `status.allocation`, `status.devices` and all of `status.reservedFor`.
    pub deallocate: bool,
}

/// A claim to be made: `metadata.generateName` is the pod's name and `-extended-resources-`, it is controlled by the
/// pod, and it has [`EXTENDED_CLAIM_ANNOTATION`] and [`CLAIM_FINALIZER`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateExtendedClaim {
    /// For which pod.
    pub pod: ObjectKey,
    /// The pod as the claim's controller.
    pub owner: Owner,
    /// `metadata.generateName`.
    pub generate_name: Text,
    /// The spec of the claim.
    pub spec: Arc<ClaimSpec>,
}

/// A claim to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteExtendedClaim {
    /// Which claim.
    pub claim: ObjectKey,
    /// Which incarnation: a precondition.
    pub uid: Uid,
}

/// `status.extendedResourceClaimStatus` of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetExtendedClaim {
    /// Which pod.
    pub pod: ObjectKey,
    /// Which incarnation: a precondition.
    pub uid: Uid,
    /// The claim's name.
    pub claim: Text,
    /// Which request serves which resource of which container.
    pub mappings: Arc<[Mapping]>,
}

/// `status.nodeAllocatableResourceClaimStatuses` of a pod, as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetNodeAllocatable {
    /// Which pod.
    pub pod: ObjectKey,
    /// Which incarnation: a precondition.
    pub uid: Uid,
    /// By claim, in order.
    pub statuses: Arc<[NodeAllocatableStatus]>,
}

/// Which request serves a container's extended resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    /// The container.
    pub container: Text,
    /// The resource.
    pub resource: Text,
    /// The request of the claim.
    pub request: Text,
}

/// A binding to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Which pod.
    pub pod: ObjectKey,
    /// Which incarnation: a precondition.
    pub uid: Uid,
    /// To which node.
    pub node: Text,
}

/// The condition `PodScheduled`, with the status `False`, of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPodCondition {
    /// Which pod.
    pub pod: ObjectKey,
    /// Which incarnation: a precondition.
    pub uid: Uid,
    /// `Unschedulable` or `SchedulerError`.
    pub reason: &'static str,
    /// For people.
    pub message: Text,
    /// When it was found out.
    pub at: Timestamp,
    /// `status.nominatedNodeName` as it is to be; `None`: as it is. An empty name clears it.
    pub nominated: Option<Text>,
}

/// Set the condition `DisruptionTarget` with the reason `PreemptionByScheduler` on a pod, then delete it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evict {
    /// Which pod.
    pub victim: ObjectKey,
    /// Which incarnation: a precondition.
    pub uid: Uid,
    /// For which pod.
    pub preemptor: ObjectKey,
    /// For people.
    pub message: Text,
    /// When it was decided.
    pub at: Timestamp,
}

/// An event about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which pod.
    pub pod: ObjectKey,
    /// Which incarnation of it.
    pub uid: Uid,
    /// The kind of event.
    pub kind: EventKind,
    /// For people.
    pub message: Text,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// It was bound.
    Scheduled,
    /// It could not be placed.
    FailedScheduling,
    /// It was preempted by another.
    Preempted,
    /// Its devices are being made ready.
    BindingConditionsPending,
    /// A device of its claim was given to another claim as well.
    DeviceAllocatedTwice,
}

impl EventKind {
    /// `reason` of the event.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Scheduled => "Scheduled",
            Self::FailedScheduling => "FailedScheduling",
            Self::Preempted => "Preempted",
            Self::BindingConditionsPending => "BindingConditionsPending",
            Self::DeviceAllocatedTwice => "DeviceAllocatedTwice",
        }
    }

    /// `action` of the event.
    #[must_use]
    pub const fn action(self) -> &'static str {
        match self {
            Self::Scheduled => "Binding",
            Self::FailedScheduling | Self::BindingConditionsPending | Self::DeviceAllocatedTwice => {
                "Scheduling"
            }
            Self::Preempted => "Preempting",
        }
    }

    /// Whether its type is `Warning`, not `Normal`.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        matches!(self, Self::FailedScheduling | Self::DeviceAllocatedTwice)
    }
}

/// The reply to an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whether it was done.
    pub outcome: Outcome,
    /// The object as it was written, for writes of claims.
    pub written: Option<Written>,
}

impl Reply {
    /// A reply without an object.
    #[must_use]
    pub const fn of(outcome: Outcome) -> Self {
        Self { outcome, written: None }
    }
}

/// An object that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its name.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
    /// Its `resourceVersion`.
    pub version: u64,
}

/// When the scheduler wants to be called again, if nothing happens before.
pub type Wake = lazaret_machine::Wake<WakeReason>;

/// The reason of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeReason {
    /// More pods can be decided on.
    Queue,
    /// A pod may be tried again.
    Backoff,
    /// A pod has waited for an event for `flush_ms` and is tried without.
    Flush,
    /// A write that failed is tried again.
    Retry,
    /// A pod's devices were not ready in time.
    BindingTimeout,
    /// Something new is to be said of a pod.
    Report,
    /// The negotiation about classic claims goes on.
    Negotiation,
}

impl From<WakeReason> for &'static str {
    fn from(why: WakeReason) -> Self {
        match why {
            WakeReason::Queue => "more pods can be decided on",
            WakeReason::Backoff => "a pod may be tried again",
            WakeReason::Flush => "a pod has waited for an event long enough",
            WakeReason::Retry => "a failed write is tried again",
            WakeReason::BindingTimeout => "the devices of a pod were not ready in time",
            WakeReason::Report => "something new is to be said of a pod",
            WakeReason::Negotiation => "the negotiation about classic claims goes on",
        }
    }
}
