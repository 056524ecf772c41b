//! The writes and questions of the machine, and the answers.

use alloc::{boxed::Box, string::String};

use k8s_openapi::api::resource::v1::ResourceSlice;
use lazaret_machine::{Outcome, Reply};

/// Something to be done.
pub type Effect = lazaret_machine::Effect<EffectKind>;

/// A write, or a question. Each is answered once, with [`Publisher::acknowledge`].
#[derive(Clone, Debug, PartialEq)]
pub enum EffectKind {
    /// Create this slice. The server completes its name.
    Create(Box<ResourceSlice>),
    /// Replace this slice, if it still has this version.
    Update(Box<ResourceSlice>),
    /// Delete this slice, if it still has this version.
    Delete {
        /// Its name.
        name: String,
        /// Its incarnation.
        uid: String,
        /// Its version.
        resource_version: String,
    },
    /// Read the UID of the Node that owns the slices.
    ReadOwner {
        /// The Node.
        name: String,
    },
}

/// The answer to an effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The slice is stored like this.
    Stored(Box<ResourceSlice>),
    /// There is no such object (any more).
    Gone,
    /// The Node has this UID.
    Owner(String),
    /// The slice is not as it was thought to be.
    Conflict(String),
    /// The server will not have it.
    Refused(String),
    /// It failed, or it is not known whether it did.
    Failed(String),
}

impl From<Reply> for Answer {
    /// Without the object: what the server has is not known, unless it has nothing.
    fn from(reply: Reply) -> Self {
        let why = reply.why.map_or_else(|| reply.outcome.name().into(), |why| why.as_str().into());
        match reply.outcome {
            Outcome::Gone => Self::Gone,
            Outcome::Conflict => Self::Conflict(why),
            Outcome::Refused | Outcome::Held => Self::Refused(why),
            Outcome::Done | Outcome::RetryLater | Outcome::Unknown => Self::Failed(why),
        }
    }
}
