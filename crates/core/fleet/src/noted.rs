//! Changes that are being collected.

use alloc::{collections::BTreeSet, vec::Vec};

use lazaret_model::{PoolId, Text};

use crate::{claim_entry::ClaimIx, pod_entry::PodIx};

/// Claims, pods and pools carry a flag of their own, so that each is noted once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    pub(crate) claims: Vec<ClaimIx>,
    pub(crate) pods: Vec<PodIx>,
    pub(crate) pools: Vec<u32>,
    pub(crate) gone_pools: Vec<PoolId>,
    pub(crate) rules: BTreeSet<Text>,
    pub(crate) nodes: BTreeSet<Text>,
    pub(crate) classes: BTreeSet<Text>,
    /// Something was noted since the revision was last raised.
    pub(crate) moved: bool,
}
