//! The status of a pod that is being written.

use crate::effect::{EffectId, SetPodCondition};

/// One write of a pod's status at a time.
#[derive(Debug)]
pub(crate) struct ConditionWrite {
    /// In flight; `None` once it has failed and waits to be tried again.
    pub(crate) effect: Option<EffectId>,
    pub(crate) sent: SetPodCondition,
    pub(crate) next: Option<SetPodCondition>,
}
