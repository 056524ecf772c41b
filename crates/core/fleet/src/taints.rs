//! The taints that count for a device.

use core::{cmp::Ordering, hash::Hash};

use lazaret_model::Taint;
use siphasher::sip128::Hasher128;

use crate::{
    fingerprint::{self, combine},
    slice::SliceState,
    source::{EffectiveTaint, Mark, Origin, OwnTaint, Source, same_slot},
};

/// Equal only where the taints that keep claims away (key, value, effect, in order) are equal: what is tolerated on
/// one device is tolerated on the other. [`TaintSetId::NONE`] where nothing blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaintSetId(pub u128);

impl TaintSetId {
    /// No taint keeps claims away.
    pub const NONE: Self = Self(0);
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

impl SliceState {
    /// The effective taints of the device at `index`.
    #[must_use]
    pub fn taints(&self, index: usize) -> Taints<'_> {
        Taints::of(self, index)
    }
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
    let mut hasher = fingerprint::hasher();
    (&taint.key, &taint.value, &taint.effect).hash(&mut hasher);
    hasher.finish128().as_u128()
}
