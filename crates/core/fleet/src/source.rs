//! The sources of taints on the devices of a slice.
//!
//! A device has its own taints, then what others lay over its slice: *marks*, each a source and the set of devices
//! it hits. Marks are kept in the order in which taints are shown, so nothing is ever sorted or copied to read them.

use alloc::{boxed::Box, sync::Arc};
use core::cmp::Ordering;

use lazaret_model::{Taint, Text, Uid};

use crate::bits::DeviceBits;

/// A taint that counts for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveTaint<'a> {
    /// The taint.
    pub taint: &'a Taint,
    /// The object that carries it.
    pub origin: Origin<'a>,
}

/// The object that carries a taint of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// The driver, in the device itself.
    Device {
        /// The slice's name.
        slice: &'a Text,
        /// Position in the device's list.
        index: u32,
    },
    /// The driver, in a slice of taints.
    TaintSlice {
        /// The slice's name.
        slice: &'a Text,
        /// Position in the slice's list.
        index: u32,
    },
    /// An administrator, in a patch.
    Patch {
        /// The patch's name.
        name: &'a Text,
        /// Position in the patch's list.
        index: u32,
    },
    /// An administrator, in a rule.
    Rule {
        /// The rule's name.
        name: &'a Text,
        /// The rule's incarnation.
        uid: &'a Uid,
        /// The rule looks at attributes, and those are remembered: the device is not published any more.
        from_memory: bool,
    },
}

/// A taint that the driver put into a device of the slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnTaint {
    pub(crate) device: u8,
    pub(crate) index: u32,
    pub(crate) taint: Taint,
}

/// Something that taints some devices of a slice.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) bits: DeviceBits,
    pub(crate) source: Arc<Source>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    TaintSlice { slice: Text, index: u32, taint: Taint },
    Patch { name: Text, uid: Uid, priority: i64, taints: Box<[Taint]> },
    Rule { name: Text, uid: Uid, taint: Taint, by_attributes: bool },
}

impl Source {
    /// The order in which taints are shown: slices by name and position, patches by falling priority and name,
    /// rules by name. Equal: the same place, so the later replaces the earlier.
    /// DEVIATION(rule-order).
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::TaintSlice { slice: a, index: i, .. }, Self::TaintSlice { slice: b, index: j, .. }) => {
                (a, i).cmp(&(b, j))
            }
            (Self::Patch { name: a, priority: p, .. }, Self::Patch { name: b, priority: q, .. }) => {
                q.cmp(p).then_with(|| a.cmp(b))
            }
            (Self::Rule { name: a, .. }, Self::Rule { name: b, .. }) => a.cmp(b),
            (
                Self::TaintSlice { .. } | Self::Patch { .. } | Self::Rule { .. },
                Self::TaintSlice { .. } | Self::Patch { .. } | Self::Rule { .. },
            ) => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::TaintSlice { .. } => 0,
            Self::Patch { .. } => 1,
            Self::Rule { .. } => 2,
        }
    }

    pub(crate) fn taints(&self) -> &[Taint] {
        match self {
            Self::TaintSlice { taint, .. } | Self::Rule { taint, .. } => core::slice::from_ref(taint),
            Self::Patch { taints, .. } => taints,
        }
    }

    pub(crate) fn origin(&self, index: u32, remembered: bool) -> Origin<'_> {
        match self {
            Self::TaintSlice { slice, index, .. } => Origin::TaintSlice { slice, index: *index },
            Self::Patch { name, .. } => Origin::Patch { name, index },
            Self::Rule { name, uid, by_attributes, .. } => {
                Origin::Rule { name, uid, from_memory: remembered && *by_attributes }
            }
        }
    }

    pub(crate) fn overrides(&self, taint: &Taint) -> bool {
        match self {
            Self::Patch { taints, .. } => taints.iter().any(|t| same_slot(t, taint)),
            Self::TaintSlice { .. } | Self::Rule { .. } => false,
        }
    }
}

/// Patches override by key and effect.
pub(crate) fn same_slot(left: &Taint, right: &Taint) -> bool {
    left.key == right.key && left.effect == right.effect
}
