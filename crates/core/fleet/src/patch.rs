//! Patches: what administrators override.
//!
//! Which devices a patch means is decided on what the **driver** published. So patches cannot feed each other, and
//! the order in which they arrive does not matter. Rules see the result, attributes of patches included.

use alloc::{collections::BTreeMap, sync::Arc};
use core::cmp::{Ordering, Reverse};

use lazaret_model::ResourceSlicePatch;

use crate::{
    selector::{Compiled, Hits},
    source::Source,
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
