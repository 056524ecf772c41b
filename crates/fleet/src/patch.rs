//! Patches: what administrators override.
//!
//! Which devices a patch means is decided on what the **driver** published. So patches cannot feed each other, and
//! the order in which they arrive does not matter. Rules see the result, attributes of patches included.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::cmp::{Ordering, Reverse};

use lazaret_model::{AttrId, AttrValue, CapacityValue, DevicePatch, ResourceSlicePatch, Text};

use crate::{
    bits::DeviceBits,
    selector::{Compiled, Hits},
    taints::Source,
    vocabulary::Vocabulary,
};

/// A patch with the slices it hits.
#[derive(Clone, Debug)]
pub(crate) struct PatchState {
    pub(crate) patch: Arc<ResourceSlicePatch>,
    pub(crate) compiled: Compiled,
    /// `None` where the patch has no taints.
    pub(crate) source: Option<Arc<Source>>,
    pub(crate) hits: BTreeMap<u32, Hits>,
}

impl PatchState {
    pub(crate) fn source_of(patch: &ResourceSlicePatch) -> Option<Arc<Source>> {
        let taints = &patch.patch.taints;
        (!taints.is_empty()).then(|| {
            Arc::new(Source::Patch {
                name: patch.name.clone(),
                uid: patch.uid.clone(),
                priority: patch.patch.priority,
                taints: taints.as_slice().into(),
            })
        })
    }

    /// Whether it changes what CEL sees.
    pub(crate) fn overrides_values(&self) -> bool {
        overrides_values(&self.patch)
    }

    /// From the weakest to the strongest: by priority, and of two with the same the name that sorts first is
    /// stronger.
    pub(crate) fn strength(&self, other: &Self) -> Ordering {
        let key = |patch: &Self| (patch.patch.patch.priority, Reverse(patch.patch.name.clone()));
        key(self).cmp(&key(other))
    }
}

pub(crate) fn overrides_values(patch: &ResourceSlicePatch) -> bool {
    !patch.patch.attributes.is_empty() || !patch.patch.capacity.is_empty()
}

/// A patch about to be applied to a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Override<'a>(&'a DevicePatch);

impl Override<'_> {
    pub(crate) fn attributes(
        self,
        driver: &str,
        row: &mut Vec<(Text, AttrId, AttrValue)>,
        vocabulary: &mut Vocabulary,
    ) {
        merge(&self.0.attributes, driver, row, vocabulary);
    }

    pub(crate) fn capacity(
        self,
        driver: &str,
        row: &mut Vec<(Text, AttrId, CapacityValue)>,
        vocabulary: &mut Vocabulary,
    ) {
        merge(&self.0.capacity, driver, row, vocabulary);
    }
}

/// Keys are the same where their names with domain are: `driver/x` overrides `x`.
fn merge<T: Clone>(
    patch: &[(Text, Option<T>)],
    driver: &str,
    row: &mut Vec<(Text, AttrId, T)>,
    vocabulary: &mut Vocabulary,
) {
    for (key, value) in patch {
        let id = vocabulary.id(key, driver);
        let published = row.iter().find(|(_, other, _)| *other == id).map(|(key, _, _)| key.clone());
        row.retain(|(_, other, _)| *other != id);
        if let Some(value) = value {
            row.push((published.unwrap_or_else(|| key.clone()), id, value.clone()));
        }
    }
}

/// The patches of each device of a slice, weakest first, given all that hit the slice, weakest first.
pub(crate) fn by_device<'a>(
    patches: &[(DeviceBits, &'a PatchState)],
    devices: usize,
) -> Vec<Vec<Override<'a>>> {
    let of = |device| {
        let hit = patches.iter().filter(move |(bits, _)| bits.has(device));
        hit.map(|(_, state)| Override(&state.patch.patch)).collect()
    };
    (0..devices).map(of).collect()
}
