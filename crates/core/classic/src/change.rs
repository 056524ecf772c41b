//! Writes to a claim.

use alloc::{boxed::Box, vec::Vec};

use lazaret_model::{ObjectKey, Text, Uid};

use crate::model::{ClaimStatus, ResourceClaim};

/// Do `steps` in order, each on the precondition that the claim has this UID and the version that the step before left
/// it with. The first one that fails ends it: [`Outcome::Done`](lazaret_machine::Outcome::Done) if all were done,
/// [`Outcome::Unknown`](lazaret_machine::Outcome::Unknown) if only some were, or the outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeClaim {
    /// Which claim.
    pub claim: ObjectKey,
    /// Which incarnation of it: a precondition.
    pub uid: Uid,
    /// Its version: a precondition of the first step.
    pub version: Text,
    /// At least one.
    pub steps: Vec<Step>,
}

/// One write to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write `metadata.finalizers`: these are all.
    SetFinalizers(Vec<Text>),
    /// Write the status, through the subresource of that name.
    SetStatus(Box<ClaimStatus>),
}

impl ChangeClaim {
    pub(crate) fn new(claim: &ResourceClaim, steps: Vec<Step>) -> Self {
        Self { claim: claim.key.clone(), uid: claim.uid.clone(), version: claim.version.clone(), steps }
    }

    /// The status changed by `change`, in one step.
    pub(crate) fn status(claim: &ResourceClaim, change: impl FnOnce(&mut ClaimStatus)) -> Self {
        Self::new(claim, alloc::vec![Step::status(claim, change)])
    }
}

impl Step {
    pub(crate) fn status(claim: &ResourceClaim, change: impl FnOnce(&mut ClaimStatus)) -> Self {
        let mut status = claim.status.clone();
        change(&mut status);
        Self::SetStatus(Box::new(status))
    }
}
