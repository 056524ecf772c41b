//! The state, and the one way in.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use hashbrown::{HashMap, HashTable};
use lazaret_model::{ObjectKey, PoolId, Slab, Text};
use rustc_hash::FxBuildHasher;

use crate::{
    Input, Kind, Snapshot,
    changes::Noted,
    claims::{ClaimEntry, Holder},
    device_index::DeviceIndex,
    hashes::Hashes,
    index::SelectorIndex,
    patch::PatchState,
    pods::PodEntry,
    pool::PoolFacts,
    pools::PoolEntry,
    rules::RuleState,
    slices::SliceEntry,
    vocabulary::Vocabulary,
};

pub(crate) type Lookup<K> = HashMap<K, u32, FxBuildHasher>;

/// The devices of a cluster and everything said about them. Owned by one task; others read [`Snapshot`]s. A clone goes
/// its own way: to try out what would follow from something.
#[derive(Clone, Debug)]
pub struct Fleet {
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

    pub(crate) rules: Slab<RuleState>,
    pub(crate) rule_names: BTreeMap<Text, u32>,
    pub(crate) rule_index: SelectorIndex,
    pub(crate) patches: Slab<PatchState>,
    pub(crate) patch_names: BTreeMap<Text, u32>,
    pub(crate) patch_index: SelectorIndex,

    pub(crate) claims: Slab<ClaimEntry>,
    pub(crate) claim_keys: Lookup<ObjectKey>,
    pub(crate) holders: Slab<Holder>,
    /// By pool and device.
    pub(crate) holder_lookup: HashTable<(u64, u32)>,
    pub(crate) pods: Slab<PodEntry>,
    pub(crate) pod_keys: Lookup<ObjectKey>,
    /// Which pods name a claim, whether it exists or not.
    pub(crate) claim_users: HashMap<ObjectKey, Vec<u32>, FxBuildHasher>,

    pub(crate) noted: Noted,
    /// What was last found out about a pool; others share it.
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
    /// An empty fleet.
    #[must_use]
    pub fn new() -> Self {
        Self {
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
            rules: Slab::default(),
            rule_names: BTreeMap::new(),
            rule_index: SelectorIndex::default(),
            patches: Slab::default(),
            patch_names: BTreeMap::new(),
            patch_index: SelectorIndex::default(),
            claims: Slab::default(),
            claim_keys: Lookup::default(),
            holders: Slab::default(),
            holder_lookup: HashTable::new(),
            pods: Slab::default(),
            pod_keys: Lookup::default(),
            claim_users: HashMap::default(),
            noted: Noted::default(),
            last_facts: Arc::default(),
            stale_pools: Vec::new(),
            stale_gone_pools: Vec::new(),
            next: Snapshot::empty(),
            published: Arc::new(Snapshot::empty()),
        }
    }

    /// Takes in one object as it is now, or that it is gone. Saying it twice changes nothing.
    pub fn apply(&mut self, input: Input) {
        match input {
            Input::Slice(slice) => self.apply_slice(&slice),
            Input::SliceGone(name) => self.slice_gone(&name),
            Input::Rule(rule) => self.apply_rule(rule),
            Input::RuleGone(name) => self.rule_gone(&name),
            Input::Patch(patch) => self.apply_patch(patch),
            Input::PatchGone(name) => self.patch_gone(&name),
            Input::Class(class) => self.apply_class(class),
            Input::ClassGone(name) => self.class_gone(&name),
            Input::Claim(claim) => self.apply_claim(claim),
            Input::ClaimGone(key) => self.claim_gone(&key),
            Input::Pod(pod) => self.apply_pod(pod),
            Input::PodGone(key) => self.pod_gone(&key),
            Input::Node(node) => {
                if self.next.nodes.get(&node.name).is_none_or(|known| *known != node) {
                    self.note_node(&node.name);
                    self.next.nodes.insert(node.name.clone(), node);
                }
            }
            Input::NodeGone(name) => {
                if self.next.nodes.remove(&name).is_some() {
                    self.note_node(&name);
                }
            }
        }
        if core::mem::take(&mut self.noted.moved) {
            self.revision += 1;
        }
    }

    /// Takes in all objects of one kind: what is not listed is gone. Objects of other kinds among them are applied
    /// as usual.
    pub fn relist(&mut self, kind: Kind, objects: Vec<Input>) {
        let mut gone = self.known(kind);
        if !gone.is_empty() {
            let listed: BTreeSet<ObjectKey> =
                objects.iter().filter(|object| object.kind() == kind).map(Input::key).collect();
            gone.retain(|known| !listed.contains(&known.key()));
        }
        objects.into_iter().chain(gone).for_each(|object| self.apply(object));
    }

    /// For each object of a kind, the news that it is gone.
    fn known(&self, kind: Kind) -> Vec<Input> {
        match kind {
            Kind::Slice => {
                let published = self.pools.iter().flat_map(|(_, pool)| &pool.slices);
                published
                    .filter_map(|&slice| Some(Input::SliceGone(self.slices.get(slice)?.state.name().clone())))
                    .collect()
            }
            Kind::Rule => self.rule_names.keys().cloned().map(Input::RuleGone).collect(),
            Kind::Patch => self.patch_names.keys().cloned().map(Input::PatchGone).collect(),
            Kind::Class => self.next.classes.iter().map(|(name, _)| Input::ClassGone(name.clone())).collect(),
            Kind::Claim => {
                self.claims.iter().map(|(_, entry)| Input::ClaimGone(entry.claim.key.clone())).collect()
            }
            Kind::Pod => self.pods.iter().map(|(_, entry)| Input::PodGone(entry.pod.key.clone())).collect(),
            Kind::Node => self.next.nodes.iter().map(|(name, _)| Input::NodeGone(name.clone())).collect(),
        }
    }

    fn note_node(&mut self, name: &Text) {
        self.noted.moved = true;
        self.noted.nodes.insert(name.clone());
    }
}
