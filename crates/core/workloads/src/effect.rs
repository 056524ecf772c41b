//! The writes that controllers request, and the answers to them.

use lazaret_machine::{Contents, Outcome, Reply};

use crate::prelude::*;

/// Something to do. Answer with the same id, never used twice in the life of a process; events need no answer.
pub type Effect = lazaret_machine::Effect<Write>;

/// A write. Every write but an event carries its precondition.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Make an object. Its name is in the body, so that doing it twice is noticed.
    Create {
        /// The kind.
        resource: &'static Resource,
        /// The namespace, or nothing.
        namespace: String,
        /// The object.
        body: Contents<Value>,
    },
    /// Change some fields. `metadata.uid` and, where others may write the same fields, `metadata.resourceVersion`
    /// stand in the body: the server refuses when they do not hold.
    Patch {
        /// The kind.
        resource: &'static Resource,
        /// Which one.
        key: Key,
        /// `status`, or nothing.
        subresource: &'static str,
        /// The language of the patch.
        kind: PatchKind,
        /// The patch.
        body: Contents<Value>,
    },
    /// Replace an object.
    Replace {
        /// The kind.
        resource: &'static Resource,
        /// Which one.
        key: Key,
        /// The whole object, with UID and resource version.
        body: Contents<Value>,
    },
    /// Let a namespace go that is empty as far as is known: delete what is left in it of any kind that is served, past every cache, and replace its
    /// subresource `finalize` once nothing is. Answers `RetryLater` while something is left.
    Finalize {
        /// Which namespace.
        key: Key,
        /// The whole namespace, with UID and resource version and without the finalizer.
        body: Contents<Value>,
    },
    /// Delete just this object.
    Delete {
        /// The kind.
        resource: &'static Resource,
        /// Which one.
        key: Key,
        /// It must be this one.
        uid: String,
        /// It must not have changed since, if said.
        resource_version: Option<String>,
        /// How its dependents are deleted.
        propagation: Propagation,
        /// Seconds to stop in; the object's own if not said.
        grace: Option<u32>,
    },
    /// Ask for a pod to go, as budgets permit: answers `RetryLater` when they do not.
    Evict {
        /// Which pod.
        key: Key,
        /// It must be this one.
        uid: String,
    },
    /// Read one object afresh, past every cache: answer `Done` with it, or `Gone`.
    Confirm {
        /// The kind.
        resource: &'static Resource,
        /// Which one.
        key: Key,
        /// The UID that is doubted, or nothing if any will do; the answer is whatever has the name now.
        uid: String,
    },
    /// Read how many pods an object wants, from its subresource `scale`: answer `Done` with that, or `Gone` if it has none.
    ReadScale {
        /// The kind.
        resource: &'static Resource,
        /// Which one.
        key: Key,
        /// The UID that is meant.
        uid: String,
    },
    /// Tell people.
    Event(Note),
}

impl Write {
    /// With classic claims as the API has them.
    pub(crate) fn shown(mut self) -> Self {
        match &mut self {
            Self::Create { body, .. }
            | Self::Patch { body, .. }
            | Self::Replace { body, .. }
            | Self::Finalize { body, .. } => crate::classic_claims::show(body),
            Self::Delete { .. }
            | Self::Evict { .. }
            | Self::Confirm { .. }
            | Self::ReadScale { .. }
            | Self::Event(_) => {}
        }
        self
    }
}

/// The language of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// Server-side apply.
    Apply,
    /// Kubernetes' own, with merge keys.
    Strategic,
}

/// How the dependents of a deleted object are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// It goes afterwards.
    Background,
    /// It goes first.
    Foreground,
    /// It stays.
    Orphan,
}

impl Propagation {
    /// As on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// An event for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The kind of the object that it is about.
    pub resource: &'static Resource,
    /// The object that it is about.
    pub key: Key,
    /// Its UID.
    pub uid: String,
    /// Whether someone should worry.
    pub kind: EventType,
    /// One word, in camel case.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// The component that reports it: `replicaset-controller`.
    pub component: &'static str,
}

/// Whether someone should worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// No.
    Normal,
    /// Perhaps.
    Warning,
}

impl EventType {
    /// As on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The answer to an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The outcome. The texts of [`Outcome::RetryLater`] and [`Outcome::Refused`] are shown to users.
    pub reply: Reply,
    /// The object as the server returned it, if it did: JSON, as it came.
    pub object: Option<Vec<u8>>,
}

impl Answer {
    /// It was done, and this is the object.
    #[must_use]
    pub fn done(object: Option<Vec<u8>>) -> Self {
        Self { reply: Outcome::Done.into(), object }
    }
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        Reply::from(outcome).into()
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self { reply, object: None }
    }
}
