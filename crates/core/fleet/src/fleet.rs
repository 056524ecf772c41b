//! The state.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use hashbrown::HashTable;
use lazaret_model::{PoolId, Slab, Text};

use crate::{
    Gates, Snapshot,
    claim_entry::{ClaimEntry, Holder},
    claim_names::ClaimNames,
    device_index::DeviceIndex,
    hashes::Hashes,
    index::SelectorIndex,
    noted::Noted,
    patch::PatchState,
    pod_entry::PodEntry,
    pool::PoolFacts,
    pool_entry::PoolEntry,
    rule::RuleState,
    slice_entry::SliceEntry,
    vocabulary::Vocabulary,
};

/// The devices of a cluster and everything said about them. Owned by one task; others read [`Snapshot`]s. A clone goes
/// its own way: to try out what would follow from something.
#[derive(Clone, Debug)]
pub struct Fleet {
    pub(crate) gates: Gates,
    pub(crate) revision: u64,
    pub(crate) vocabulary: Vocabulary,
    /// How many names there were when expressions were last bound.
    pub(crate) names_bound: usize,

    /// Published slices, and stand-ins for held devices that are not published.
    pub(crate) slices: Slab<SliceEntry>,
    /// Slices by the hash of their names.
    pub(crate) slice_names: HashTable<u32>,
    /// Pools that have slices or held devices.
    pub(crate) pools: Slab<PoolEntry>,
    /// Pools by the hash of driver and name.
    pub(crate) pool_ids: HashTable<u32>,
    pub(crate) pool_names: Hashes,
    pub(crate) pool_drivers: Hashes,
    pub(crate) devices: DeviceIndex,
    /// Stand-ins by pool and device.
    pub(crate) ghosts: BTreeMap<(u32, Text), u32>,

    pub(crate) rules: Slab<RuleState>,
    pub(crate) rule_names: BTreeMap<Text, u32>,
    pub(crate) rule_index: SelectorIndex,
    pub(crate) patches: Slab<PatchState>,
    pub(crate) patch_names: BTreeMap<Text, u32>,
    pub(crate) patch_index: SelectorIndex,

    pub(crate) claims: Slab<ClaimEntry>,
    /// Which claim has a name, and which pods use the name, whether there is such a claim or not.
    pub(crate) claim_names: ClaimNames,
    pub(crate) holders: Slab<Holder>,
    /// By pool and device.
    pub(crate) holder_lookup: HashTable<(u64, u32)>,
    pub(crate) pods: Slab<PodEntry>,
    /// By the hash of their keys.
    pub(crate) pod_keys: HashTable<(u64, u32)>,

    pub(crate) noted: Noted,
    /// The facts about the last pool that was computed; equal pools share them.
    pub(crate) last_facts: Arc<PoolFacts>,
    pub(crate) stale_pools: Vec<u32>,
    pub(crate) stale_gone_pools: Vec<PoolId>,
    /// The next snapshot, up to date except for the stale pools. Nodes and classes live here alone.
    pub(crate) next: Snapshot,
    pub(crate) published: Arc<Snapshot>,
}

impl Default for Fleet {
    fn default() -> Self {
        Self::new()
    }
}

impl Fleet {
    /// An empty fleet in which everything counts.
    #[must_use]
    pub fn new() -> Self {
        Self::with_gates(Gates::default())
    }

    /// An empty fleet in which only what these gates leave on counts.
    #[must_use]
    pub fn with_gates(gates: Gates) -> Self {
        Self {
            gates,
            revision: 0,
            vocabulary: Vocabulary::default(),
            names_bound: 0,
            slices: Slab::default(),
            slice_names: HashTable::new(),
            pools: Slab::default(),
            pool_ids: HashTable::new(),
            pool_names: Hashes::default(),
            pool_drivers: Hashes::default(),
            devices: DeviceIndex::default(),
            ghosts: BTreeMap::new(),
            rules: Slab::default(),
            rule_names: BTreeMap::new(),
            rule_index: SelectorIndex::default(),
            patches: Slab::default(),
            patch_names: BTreeMap::new(),
            patch_index: SelectorIndex::default(),
            claims: Slab::default(),
            claim_names: ClaimNames::default(),
            holders: Slab::default(),
            holder_lookup: HashTable::new(),
            pods: Slab::default(),
            pod_keys: HashTable::new(),
            noted: Noted::default(),
            last_facts: Arc::default(),
            stale_pools: Vec::new(),
            stale_gone_pools: Vec::new(),
            next: Snapshot::empty(),
            published: Arc::new(Snapshot::empty()),
        }
    }
}
