//! The taints that count for a device, and where each comes from.
//!
//! A device has its own taints, then what others lay over its slice: *marks*, each a source and the set of devices
//! it hits. Marks are kept in the order in which taints are shown, so nothing is ever sorted or copied to read them.

use alloc::{boxed::Box, sync::Arc};
use core::{cmp::Ordering, hash::Hash};

use lazaret_model::{Taint, Text, Uid};

use crate::{
    SliceState,
    bits::DeviceBits,
    fingerprint::{Fingerprint, combine},
};

/// A taint that counts for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveTaint<'a> {
    /// The taint.
    pub taint: &'a Taint,
    /// Who says so.
    pub origin: Origin<'a>,
}

/// Who says that a device is tainted.
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

/// Equal only where the taints that keep claims away (key, value, effect, in order) are equal: what is tolerated on
/// one device is tolerated on the other. [`TaintSetId::NONE`] where nothing blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaintSetId(pub u128);

impl TaintSetId {
    /// No taint keeps claims away.
    pub const NONE: Self = Self(0);
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

    fn overrides(&self, taint: &Taint) -> bool {
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

/// The effective taints of one device. See [`crate::DeviceRef::taints`].
#[derive(Clone, Debug)]
pub struct Taints<'a> {
    slice: &'a SliceState,
    device: usize,
    own: core::slice::Iter<'a, OwnTaint>,
    marks: core::slice::Iter<'a, Mark>,
    source: Option<(&'a Source, usize)>,
}

impl<'a> Taints<'a> {
    pub(crate) fn of(slice: &'a SliceState, device: usize) -> Self {
        let own = &slice.own;
        let start = own.partition_point(|t| usize::from(t.device) < device);
        let end = start + own[start..].partition_point(|t| usize::from(t.device) == device);
        Self { slice, device, own: own[start..end].iter(), marks: slice.marks.iter(), source: None }
    }

    /// Whether a patch that hits the device and ranks above `below` says something else in this place.
    fn overridden(&self, taint: &Taint, below: Option<&Source>) -> bool {
        self.slice
            .marks
            .iter()
            .filter(|mark| mark.bits.has(self.device))
            .map(|mark| &*mark.source)
            .take_while(|source| below.is_none_or(|own| source.order(own) == Ordering::Less))
            .any(|source| source.overrides(taint))
    }

    fn counts(&self, source: &Source, index: usize) -> bool {
        let taint = &source.taints()[index];
        match source {
            Source::TaintSlice { .. } => !self.overridden(taint, None),
            Source::Patch { taints, .. } => {
                !self.overridden(taint, Some(source)) && !taints[..index].iter().any(|t| same_slot(t, taint))
            }
            Source::Rule { .. } => true,
        }
    }
}

impl<'a> Iterator for Taints<'a> {
    type Item = EffectiveTaint<'a>;

    fn next(&mut self) -> Option<EffectiveTaint<'a>> {
        while let Some(own) = self.own.next() {
            if !self.overridden(&own.taint, None) {
                let origin = Origin::Device { slice: self.slice.name(), index: own.index };
                return Some(EffectiveTaint { taint: &own.taint, origin });
            }
        }
        loop {
            if let Some((source, index)) = self.source {
                if let Some(taint) = source.taints().get(index) {
                    self.source = Some((source, index + 1));
                    if self.counts(source, index) {
                        let index = u32::try_from(index).unwrap_or(u32::MAX);
                        let origin = source.origin(index, self.slice.is_remembered());
                        return Some(EffectiveTaint { taint, origin });
                    }
                    continue;
                }
                self.source = None;
            }
            let Mark { source, .. } = self.marks.find(|mark| mark.bits.has(self.device))?;
            match &**source {
                // It has one taint, and nobody overrides it.
                Source::Rule { taint, .. } => {
                    let origin = source.origin(0, self.slice.is_remembered());
                    return Some(EffectiveTaint { taint, origin });
                }
                Source::TaintSlice { .. } | Source::Patch { .. } => self.source = Some((source, 0)),
            }
        }
    }
}

pub(crate) fn taint_set(taints: Taints<'_>) -> TaintSetId {
    let blocking = taints.filter(|t| t.taint.effect.blocks_allocation());
    TaintSetId(blocking.fold(0, |all, t| combine(all, fingerprint(t.taint))))
}

fn fingerprint(taint: &Taint) -> u128 {
    let mut hasher = Fingerprint::new();
    (&taint.key, &taint.value, &taint.effect).hash(&mut hasher);
    hasher.finish128()
}
