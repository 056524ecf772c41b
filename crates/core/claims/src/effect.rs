//! The effects of the claims machine, and their acknowledgements.

use alloc::{sync::Arc, vec::Vec};

use lazaret_machine::Contents;
pub use lazaret_machine::{EffectId, Outcome};
use lazaret_model::{Awaited, Consumer, ObjectKey, Text, Uid};

use crate::{holder::Holder, input::Template};

/// On a claim made from a template: the name of the pod's or group's entry.
pub const CLAIM_NAME_ANNOTATION: &str = "resource.kubernetes.io/pod-claim-name";
/// Keeps a claim from being removed while it is allocated. One made from a template has it from the beginning.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The reason of every event.
pub const EVENT_REASON: &str = "FailedResourceClaimCreation";
/// The reason of the event about a claim whose devices may still be prepared.
pub const AWAITING_REASON: &str = "AwaitingUnprepare";
/// The reason of the event about a claim that was released without the word of its node.
pub const RELEASED_REASON: &str = "ReleasedByForce";

/// Something to be done by the shell.
pub type Effect = lazaret_machine::Effect<EffectKind>;

/// The action of an effect. All but events are acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub enum EffectKind {
    /// Make a claim for a pod, or for a group of pods.
    CreateClaim(CreateClaim),
    /// Write the names of claims into the status of whom they were made for.
    SetClaimNames(SetClaimNames),
    /// Change who uses a claim, take back what it was given, let it go.
    ChangeClaim(ChangeClaim),
    /// Ask the API server itself, not a cache, whether it exists. Reads, writes nothing. [`Outcome::Done`]: it does.
    /// [`Outcome::Gone`]: there is none of this name, or it is another incarnation.
    Confirm(Holder),
    /// Ask the API server itself, not a cache, whether a node is in service and says what is prepared on it. Reads,
    /// writes nothing. [`Outcome::Done`]: it is and does. [`Outcome::Gone`]: there is no such node, or it is not, or does not.
    ConfirmNode(Text),
    /// Write which claims a node is asked about.
    AskNode(AskNode),
    /// Tell people. Best effort.
    Event(HolderEvent),
    /// Tell people about a claim. Best effort.
    ClaimEvent(ClaimEvent),
}

/// Make a claim with [`FINALIZER`], on the precondition that there is none of this name.
///
/// [`Outcome::Done`]: it was made, or one of this name is there already whose controller has the UID of `holder`. Then
/// nothing is made and nothing changed: an earlier attempt, or another leader, was quicker. [`Outcome::Conflict`]: the
/// name belongs to something else.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateClaim {
    /// Its namespace and name.
    pub claim: ObjectKey,
    /// The prefix of the name; goes into `metadata.generateName`.
    pub generate_name: Text,
    /// Its controlling owner: `controller: true`, and no `blockOwnerDeletion`.
    pub holder: Holder,
    /// The holder's entry: the value of [`CLAIM_NAME_ANNOTATION`], which comes on top of the template's annotations.
    pub entry: Text,
    /// Labels, annotations and spec of the claim.
    pub template: Contents<Arc<Template>>,
}

/// Merge `names` into `status.resourceClaimStatuses` by the names of the entries, on the precondition
/// that the UID is the holder's. Entries that others wrote stay as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct SetClaimNames {
    /// Of whom; the UID is a precondition.
    pub holder: Holder,
    /// Entry and claim, by entry; all that have a claim made from a template.
    pub names: Vec<(Text, Text)>,
}

/// Write the annotation [`AWAITING_UNPREPARE`](lazaret_model::AWAITING_UNPREPARE) of a Node, on the precondition of its UID and version;
/// without entries, remove it.
#[derive(Clone, Debug, PartialEq)]
pub struct AskNode {
    /// Which node.
    pub node: Text,
    /// Which incarnation of it: a precondition.
    pub uid: Uid,
    /// Its version: a precondition.
    pub version: Text,
    /// All that is waited for.
    pub awaiting: Vec<Awaited>,
}

/// Do `steps` in order, each on the precondition that the claim has this UID and the version that the step before left
/// it with. The first one that fails ends it. [`Outcome::Done`] if all were done.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeClaim {
    /// Which claim.
    pub claim: ObjectKey,
    /// Which incarnation of it: a precondition.
    pub uid: Uid,
    /// Its resource version: a precondition of the first step.
    pub version: Text,
    /// At least one.
    pub steps: Vec<ClaimStep>,
}

/// One write to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimStep {
    /// Write its status.
    SetStatus {
        /// All of `reservedFor`.
        reserved_for: Vec<Consumer>,
        /// Whether `allocation` goes.
        deallocate: bool,
    },
    /// Write `metadata.finalizers`: these are all that stay.
    SetFinalizers(Vec<Text>),
    /// Write which nodes it waits for into [`AWAITING_UNPREPARE`](lazaret_model::AWAITING_UNPREPARE), or remove that.
    SetAwaiting(Option<Text>),
    /// Delete it; with a finalizer, this marks it.
    Delete,
}

/// An event about a holder, of type Warning and reason [`EVENT_REASON`].
#[derive(Clone, Debug, PartialEq)]
pub struct HolderEvent {
    /// About whom.
    pub holder: Holder,
    /// For machines.
    pub reason: &'static str,
    /// For people.
    pub message: Text,
}

/// An event about a claim, of type Warning.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimEvent {
    /// Which claim.
    pub claim: ObjectKey,
    /// Which incarnation of it.
    pub uid: Uid,
    /// For machines: [`AWAITING_REASON`] or [`RELEASED_REASON`].
    pub reason: &'static str,
    /// For people.
    pub message: Text,
}

/// When the machine wants to be called again, if nothing happens before.
pub type Wake = lazaret_machine::Wake<WakeReason>;

/// The reason of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeReason {
    /// Something that failed is tried again.
    Retry,
    /// A write, or an answer, should have been seen in the meantime.
    Recheck,
}

impl From<WakeReason> for &'static str {
    fn from(why: WakeReason) -> Self {
        match why {
            WakeReason::Retry => "a failed write is tried again",
            WakeReason::Recheck => "a write that was not seen yet is looked after",
        }
    }
}
