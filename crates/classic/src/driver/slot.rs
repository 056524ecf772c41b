//! What the controller knows of one claim beyond the object.

use alloc::{collections::BTreeMap, sync::Arc};

use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::effect::Allocation;
use crate::{model::ResourceClass, retry::Setback, write::Writer};

/// What this process knows to be held for a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Held {
    /// The process before this one may have left something.
    Unknown,
    #[default]
    Nothing,
    /// Nothing: the attempt for this node failed and has to be given up.
    Refused(Option<Text>),
    /// The vendor's answer cannot be written into a status, so it is freed again.
    Unusable(Attempt, BTreeMap<Text, Text>),
    /// An allocation was called for, and nobody knows what became of it.
    Attempt(Attempt),
    /// It is held, and the claim does not say so yet.
    Allocation(Attempt, Allocation),
    /// The claim says so.
    Published,
}

/// What was asked for: the class as it was when the allocation began.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attempt {
    pub(super) node: Option<Text>,
    pub(super) class: Arc<ResourceClass>,
}

/// The last answer about nodes.
#[derive(Clone, Debug)]
pub(super) struct Examined {
    pub(super) nodes: Arc<[Text]>,
    pub(super) at: Timestamp,
    /// Which change of the driver's allocations it takes account of.
    pub(super) epoch: u64,
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) uid: Uid,
    pub(super) writer: Writer,
    pub(super) held: Held,
    pub(super) examined: Option<Examined>,
    /// What the claim says of devices that are published.
    pub(super) attributes: BTreeMap<Text, Text>,
    /// After refusals of a claim that is allocated immediately.
    pub(super) pause: Setback,
}

/// A claim that went although devices were held for it: somebody removed the finalizer.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) claim: ObjectKey,
    pub(super) attributes: BTreeMap<Text, Text>,
    pub(super) writer: Writer,
}

impl Held {
    /// Whether devices may be held.
    pub(super) fn may_hold(&self) -> bool {
        match self {
            Self::Nothing | Self::Refused(_) => false,
            Self::Unknown
            | Self::Unusable(..)
            | Self::Attempt(_)
            | Self::Allocation(..)
            | Self::Published => true,
        }
    }

    /// What the vendor said of them, as far as the claim's status does not say it.
    pub(super) fn attributes(&self) -> BTreeMap<Text, Text> {
        match self {
            Self::Unusable(_, attributes) => attributes.clone(),
            Self::Allocation(_, allocation) => allocation.attributes.clone(),
            Self::Unknown | Self::Nothing | Self::Refused(_) | Self::Attempt(_) | Self::Published => {
                BTreeMap::new()
            }
        }
    }
}
