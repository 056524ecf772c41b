//! State of one claim beyond the object.

use alloc::{collections::BTreeMap, sync::Arc};

use lazaret_machine::Retry;
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::effect::Allocation;
use crate::{model::ResourceClass, write::Writer};

/// Devices that are or may be held for a claim, as far as this process knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum DeviceHolding {
    #[default]
    Nothing,
    /// Nothing: the attempt for this node failed and has to be given up.
    Refused(Option<Text>),
    /// An allocation was called for, and its outcome is unknown.
    Attempt(Attempt),
    /// It is held, and the claim does not say so yet.
    Allocation(Attempt, Allocation),
    /// The claim says so.
    Published,
    /// Something may be held and has to be freed: a predecessor left it, the claim does not want it any more, or it cannot be used.
    Freeing {
        /// As the vendor's code said, if that is known.
        attributes: BTreeMap<Text, Text>,
        then: AfterFree,
    },
}

/// After devices were freed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum AfterFree {
    /// The claim may be allocated again at once.
    #[default]
    Again,
    /// The attempt for this node counts as refused.
    Refuse(Option<Text>),
}

/// The request: the node, and the class as it was when the allocation began.
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
    pub(super) held: DeviceHolding,
    /// When this process wrote the driver's name, acknowledged as done and not taken back since.
    pub(super) begun: Option<Timestamp>,
    pub(super) examined: Option<Examined>,
    /// Attributes of devices that are published.
    pub(super) attributes: BTreeMap<Text, Text>,
    /// After refusals of a claim that is allocated immediately, and after attempts that led to nothing.
    pub(super) pause: Retry,
}

/// A claim that is gone although devices were held for it: a client removed the finalizer.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) claim: ObjectKey,
    pub(super) attributes: BTreeMap<Text, Text>,
    pub(super) writer: Writer,
}

impl DeviceHolding {
    /// Left by a predecessor.
    pub(super) fn unknown() -> Self {
        Self::Freeing { attributes: BTreeMap::new(), then: AfterFree::Again }
    }

    /// Whether devices may be held.
    pub(super) fn may_hold(&self) -> bool {
        match self {
            Self::Nothing | Self::Refused(_) => false,
            Self::Attempt(_) | Self::Allocation(..) | Self::Published | Self::Freeing { .. } => true,
        }
    }

    /// As the vendor's code said, as far as the claim's status does not say it.
    pub(super) fn attributes(&self) -> BTreeMap<Text, Text> {
        match self {
            Self::Freeing { attributes, .. } => attributes.clone(),
            Self::Allocation(_, allocation) => allocation.attributes.clone(),
            Self::Nothing | Self::Refused(_) | Self::Attempt(_) | Self::Published => BTreeMap::new(),
        }
    }

    /// It is going to be deallocated.
    pub(super) fn free(&mut self) {
        if !matches!(self, Self::Freeing { .. }) {
            *self = Self::Freeing { attributes: self.attributes(), then: AfterFree::Again };
        }
    }
}
