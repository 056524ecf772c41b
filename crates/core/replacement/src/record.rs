//! The record of a replacement. It is written before anything is done, so that the next leader can go on.

use alloc::vec::Vec;

use lazaret_model::{ObjectKey, Owner, Text, Timestamp, Uid};

use crate::finding::Cause;

/// A replacement in flight. Written into the policy's status before the first step; a released pod and a copy carry it
/// too, so that they are finished even if the policy goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The policy that began it, in the pod's namespace.
    pub policy: Text,
    /// Every policy that selected the pod then: it takes a slot of each.
    pub counted_by: Vec<Text>,
    /// The pod that is replaced.
    pub pod: ObjectKey,
    /// Its incarnation.
    pub uid: Uid,
    /// Where it runs.
    pub node: Text,
    /// Why.
    pub cause: Cause,
    /// Since when the taint was there.
    pub since: Timestamp,
    /// When it was begun.
    pub started: Timestamp,
    /// How many of the owner's other pods did not serve then, and had not for long: they are not waited for.
    pub lacking: u32,
    /// How.
    pub plan: Plan,
}

/// How a pod is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Its owner lets go of it and starts another; then it is deleted.
    Release {
        /// The owner.
        owner: Owner,
        /// The label that is taken off, so that the owner does not take it back.
        label: Text,
    },
    /// A copy of it is made; then it is deleted.
    Copy {
        /// The copy's name.
        name: Text,
    },
    /// It is evicted, and its owner starts another.
    Evict {
        /// The owner.
        owner: Owner,
    },
    /// A copy of it is made that may not start, it is evicted, the copy may start.
    Rebuild {
        /// The copy's name.
        name: Text,
    },
}

impl Plan {
    /// The name on the wire.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Release { .. } => "Release",
            Self::Copy { .. } => "Copy",
            Self::Evict { .. } => "Evict",
            Self::Rebuild { .. } => "Rebuild",
        }
    }

    /// The owner that starts the new pod; `None`: the machine creates it itself.
    pub(crate) fn owner(&self) -> Option<&Owner> {
        match self {
            Self::Release { owner, .. } | Self::Evict { owner } => Some(owner),
            Self::Copy { .. } | Self::Rebuild { .. } => None,
        }
    }

    /// The name of the pod that the machine makes.
    pub(crate) fn copy(&self) -> Option<&Text> {
        match self {
            Self::Copy { name } | Self::Rebuild { name } => Some(name),
            Self::Release { .. } | Self::Evict { .. } => None,
        }
    }
}

/// The mark that a replacement wrote on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// This pod was released by its owner.
    Released(Record),
    /// This pod is the copy.
    Copy(Record),
}

impl Mark {
    pub(crate) fn record(&self) -> &Record {
        match self {
            Self::Released(record) | Self::Copy(record) => record,
        }
    }
}
