//! What the claim controller hears, and what it wants done.

use alloc::sync::Arc;

use lazaret_model::{EffectId, ObjectKey, Outcome, Text, Uid};

use crate::{
    change::ChangeClaim,
    model::{Reference, Template},
    news::News,
};

/// The reason of the event about a pod whose claim's name belongs to another claim.
pub const FOREIGN_CLAIM_REASON: &str = "FailedResourceClaimCreation";

/// What the controller can hear.
#[derive(Clone, Debug)]
pub enum ClaimInput {
    /// News of objects: pods and claims matter.
    News(News),
    /// What became of an effect. Unknown or repeated ids are ignored.
    Acknowledged {
        /// Which effect.
        effect: EffectId,
        /// What became of it.
        outcome: Outcome,
    },
    /// Time has passed. May come early, late, or for nothing.
    Tick,
    /// From now on effects are wanted.
    BecameLeader,
    /// From now on none are.
    LostLeadership,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimEffect {
    /// To acknowledge it by.
    pub id: EffectId,
    /// What.
    pub kind: ClaimEffectKind,
}

/// What is to be done. All but events are to be acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimEffectKind {
    /// Make a claim.
    Create(CreateClaim),
    /// Remove reservations.
    Change(ChangeClaim),
    /// Ask the API server itself, not a cache, whether this pod exists. [`Outcome::Done`]: it does. [`Outcome::Gone`]: there is none of this
    /// name, or it is another incarnation.
    ConfirmPod(ObjectKey, Uid),
    /// Tell people. Best effort.
    Event(PodEvent),
}

/// Make a claim, on the precondition that there is none of this name.
///
/// [`Outcome::Done`]: it was made, or one of this name is there already that `owner` owns. [`Outcome::Conflict`]: the name belongs
/// to another claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateClaim {
    /// Its namespace and name.
    pub claim: ObjectKey,
    /// Its owner: `controller: true`.
    pub owner: Reference,
    /// Labels, annotations and spec.
    pub template: Arc<Template>,
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

/// What has been done since the machine began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ClaimCounters {
    /// Claims made, or found made by an earlier attempt: `resource_controller_create_total`.
    pub created: u64,
    /// Attempts to make one that failed: `resource_controller_create_failures_total`.
    pub create_failed: u64,
    /// Reservations removed because their pod is gone.
    pub reservations_removed: u64,
    /// Pods that were asked for because nothing was known of them.
    pub confirmed: u64,
}
