//! The effects of the machine.

use lazaret_model::{Text, Uid};

use crate::Status;

/// Something to be done.
pub type Effect = lazaret_machine::Effect<EffectKind>;

/// The kinds of effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectKind {
    /// Answer a request.
    SetStatus(SetStatus),
    /// Delete a request that is old.
    Delete(Delete),
}

/// Write the status of a request, on the precondition of its UID and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetStatus {
    /// The request's name.
    pub request: Text,
    /// Which incarnation of it: a precondition.
    pub uid: Uid,
    /// Its version: a precondition.
    pub version: Text,
    /// The answer.
    pub status: Status,
}

/// Delete a request, on the precondition of its UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// The request's name.
    pub request: Text,
    /// Which incarnation of it: a precondition.
    pub uid: Uid,
}
