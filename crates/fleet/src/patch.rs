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

/// A patch about to be applied to devices of a driver.
#[derive(Clone, Debug)]
pub(crate) struct Override<'a> {
    hits: DeviceBits,
    attributes: Values<'a, AttrValue>,
    capacity: Values<'a, CapacityValue>,
}

/// Keys as the patch has them, their numbers, and what they are set to. `None` takes away.
type Values<'a, T> = Vec<(&'a Text, AttrId, Option<&'a T>)>;

impl<'a> Override<'a> {
    pub(crate) fn new(
        patch: &'a DevicePatch,
        hits: DeviceBits,
        driver: &str,
        vocabulary: &mut Vocabulary,
    ) -> Self {
        Self {
            hits,
            attributes: numbered(&patch.attributes, driver, vocabulary),
            capacity: numbered(&patch.capacity, driver, vocabulary),
        }
    }

    pub(crate) fn hits(&self, device: usize) -> bool {
        self.hits.has(device)
    }

    pub(crate) fn attributes(&self) -> &[(&'a Text, AttrId, Option<&'a AttrValue>)] {
        &self.attributes
    }

    pub(crate) fn capacity(&self) -> &[(&'a Text, AttrId, Option<&'a CapacityValue>)] {
        &self.capacity
    }
}

fn numbered<'a, T>(
    patch: &'a [(Text, Option<T>)],
    driver: &str,
    vocabulary: &mut Vocabulary,
) -> Values<'a, T> {
    patch.iter().map(|(key, value)| (key, vocabulary.id(key, driver), value.as_ref())).collect()
}

/// Overrides what a device has. Keys are the same where their names with domain are: `driver/x` overrides `x`.
pub(crate) fn merge<T: Clone>(row: &mut Vec<(Text, AttrId, T)>, patch: &[(&Text, AttrId, Option<&T>)]) {
    for (key, id, value) in patch {
        let published = row.iter().find(|(_, other, _)| other == id).map(|(key, _, _)| key.clone());
        row.retain(|(_, other, _)| other != id);
        if let Some(value) = value {
            row.push((published.unwrap_or_else(|| (*key).clone()), *id, (*value).clone()));
        }
    }
}
