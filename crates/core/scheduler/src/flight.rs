//! A pod that is being bound, and how far it is.

use alloc::{collections::BTreeSet, string::String, sync::Arc, vec::Vec};

use lazaret_model::{Allocation, ClaimSpec, NodeAllocatableStatus, ObjectKey, Timestamp, Uid};

use crate::effect::{EffectId, Mapping};

/// A pod that is being bound.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// Its claims, but for one that is being made.
    pub(crate) claims: Vec<ObjectKey>,
    /// Those of them that are not known to be reserved for it.
    pub(crate) reserving: BTreeSet<ObjectKey>,
    /// The claim that is made for it.
    pub(crate) extended: Option<ExtendedClaim>,
    /// The amounts that its claims take of the node, if its status is to record them.
    pub(crate) taken: Option<Arc<[NodeAllocatableStatus]>>,
    /// Its status may record them already.
    pub(crate) stated: bool,
    pub(crate) phase: Phase,
    /// The effect whose acknowledgement it waits for.
    pub(crate) awaits: Option<EffectId>,
    pub(crate) tries: u32,
    /// Why its binding, which was given out, is not given out again: it has lost a claim since, or its node is gone.
    pub(crate) obsolete: Option<String>,
}

/// A claim that is made for a pod's extended resources.
#[derive(Clone, Debug)]
pub(crate) struct ExtendedClaim {
    /// Under which its devices are held as long as there is no claim.
    pub(crate) planned_claim_uid: Uid,
    pub(crate) spec: Arc<ClaimSpec>,
    pub(crate) mappings: Arc<[Mapping]>,
    pub(crate) allocation: Arc<Allocation>,
    /// Once it is made.
    pub(crate) made: Option<(ObjectKey, Uid)>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The claim for its extended resources is being made.
    Making,
    /// Its claims are being written.
    #[default]
    Reserving,
    /// Its devices are being made ready.
    Preparing { until: Timestamp },
    /// Its status is to name the claim that was made.
    Naming,
    /// Its status is to say what its claims take of the node.
    Stating,
    /// The binding was given out.
    Binding,
    /// The binding will be given out again.
    Pausing { until: Timestamp },
    /// It is bound, and not seen to be.
    Bound,
}
