//! Feature gates that decide which taints count. Fields that a gate turns off are removed as objects come in, so that every reader of a fleet sees
//! devices as if they had never been set.

use alloc::{borrow::Cow, sync::Arc};

use lazaret_model::{ResourceSlice, ResourceSlicePatch};

use crate::Input;

/// The feature gates of device taints. By default all are on: objects in files have no server that could turn one off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `DRADeviceTaints`. Off: no taint counts, whatever its source.
    pub taints: bool,
    /// `DRADeviceTaintRules`. Off: there are no rules.
    pub rules: bool,
    /// `DRAAdminControlledDeviceAttributes`. Off: patches change neither attributes nor capacity.
    pub patched_values: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self { taints: true, rules: true, patched_values: true }
    }
}

impl Gates {
    /// Whether rules count: a rule is nothing but a taint.
    #[must_use]
    pub const fn has_rules(&self) -> bool {
        self.taints && self.rules
    }

    /// The input without what is off. `None`: nothing is left of it.
    pub(crate) fn admit(&self, input: Input) -> Option<Input> {
        match input {
            Input::Rule(_) | Input::RuleGone(_) if !self.has_rules() => None,
            Input::Slice(slice) if !self.taints && has_taints(&slice) => {
                Some(Input::Slice(Arc::new(without_taints(&slice))))
            }
            Input::Patch(patch) => Some(Input::Patch(match self.patch(&patch) {
                Cow::Borrowed(_) => patch,
                Cow::Owned(less) => Arc::new(less),
            })),
            other @ (Input::Slice(_)
            | Input::SliceGone(_)
            | Input::Rule(_)
            | Input::RuleGone(_)
            | Input::PatchGone(_)
            | Input::Class(_)
            | Input::ClassGone(_)
            | Input::Claim(_)
            | Input::ClaimGone(_)
            | Input::Pod(_)
            | Input::PodGone(_)
            | Input::Node(_)
            | Input::NodeGone(_)) => Some(other),
        }
    }

    fn patch<'a>(&self, patch: &'a ResourceSlicePatch) -> Cow<'a, ResourceSlicePatch> {
        let mut seen = Cow::Borrowed(patch);
        if !self.taints && !patch.patch.taints.is_empty() {
            seen.to_mut().patch.taints.clear();
        }
        if !self.patched_values && crate::patch::overrides_values(patch) {
            let values = &mut seen.to_mut().patch;
            values.attributes.clear();
            values.capacity.clear();
        }
        seen
    }
}

fn has_taints(slice: &ResourceSlice) -> bool {
    !slice.taints.is_empty() || slice.devices.iter().any(|device| !device.taints.is_empty())
}

fn without_taints(slice: &ResourceSlice) -> ResourceSlice {
    let mut bare = slice.clone();
    bare.taints.clear();
    bare.devices.iter_mut().for_each(|device| device.taints.clear());
    bare
}
