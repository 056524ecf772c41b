//! Inputs and effects of the claim controller.

use alloc::sync::Arc;

use lazaret_machine::{Contents, Turn};
use lazaret_model::{ObjectKey, Text, Uid};

use super::nodes::AskNode;
use crate::{
    change::ChangeClaim,
    model::{Reference, Template},
    news::News,
    queue::QueueCounts,
};

/// The reason of the event about a pod whose claim's name belongs to another claim.
pub const FOREIGN_CLAIM_REASON: &str = "FailedResourceClaimCreation";

/// Inputs of the controller.
#[derive(Clone, Debug)]
pub enum ClaimInput {
    /// News of objects: pods and claims matter.
    News(News),
    /// From the shell.
    Turn(Turn),
}

impl From<Turn> for ClaimInput {
    fn from(turn: Turn) -> Self {
        Self::Turn(turn)
    }
}

/// Effects of the controller. All but events are to be acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimEffectKind {
    /// Make a claim.
    Create(CreateClaim),
    /// Remove reservations.
    Change(ChangeClaim),
    /// Delete a claim that was made for a pod which has ended, on the precondition of its UID.
    Delete(DeleteClaim),
    /// Ask the API server itself, not a cache, whether this pod exists. [`lazaret_machine::Outcome::Done`]: it does. [`lazaret_machine::Outcome::Gone`]: there is none of this
    /// name, or it is another incarnation.
    ConfirmPod(ObjectKey, Uid),
    /// Write which claims a node is asked about into [`AWAITING_CLASSIC_UNPREPARE`](lazaret_model::AWAITING_CLASSIC_UNPREPARE), on the precondition of its UID and version.
    AskNode(AskNode),
    /// Tell people. Best effort.
    Event(PodEvent),
}

/// Make a claim, on the precondition that there is none of this name.
///
/// [`lazaret_machine::Outcome::Done`]: it was made, or one of this name is there already that `owner` owns. [`lazaret_machine::Outcome::Conflict`]: the name belongs
/// to another claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateClaim {
    /// Its namespace and name.
    pub claim: ObjectKey,
    /// Its owner: `controller: true`.
    pub owner: Reference,
    /// Labels, annotations and spec.
    pub template: Contents<Arc<Template>>,
}

/// Delete a claim, on the precondition that its UID is `uid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteClaim {
    /// Its namespace and name.
    pub claim: ObjectKey,
    /// Its incarnation.
    pub uid: Uid,
}

/// An event about a pod, of type Warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// Which pod.
    pub pod: ObjectKey,
    /// Which incarnation of it.
    pub uid: Uid,
    /// For machines.
    pub reason: &'static str,
    /// For people.
    pub message: Text,
}

/// Counters since the machine began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ClaimCounters {
    /// Claims made, or found made by an earlier attempt: `resource_controller_create_total`.
    pub created: u64,
    /// Attempts to make one that failed: `resource_controller_create_failures_total`.
    pub create_failed: u64,
    /// Reservations removed because their pod is gone or has ended.
    pub reservations_removed: u64,
    /// Pods that were asked for because nothing was known of them.
    pub confirmed: u64,
    /// Its queue: `workqueue` with the name `resource_claim`.
    pub queue: QueueCounts,
}
