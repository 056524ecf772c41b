//! The state, and the one way in.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use hashbrown::HashTable;
use lazaret_model::{PoolId, Slab, Text};

use crate::{
    DEVICES_PER_SLICE_MAX, Gates, Input, Kind, Snapshot,
    changes::Noted,
    claim_names::ClaimNames,
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

/// The devices of a cluster and everything said about them. Owned by one task; others read [`Snapshot`]s. A clone goes
/// its own way: to try out what would follow from something.
#[derive(Clone, Debug)]
pub struct Fleet {
    gates: Gates,
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

    /// Takes in one object as it is now, or that it is gone. Saying it twice changes nothing.
    pub fn apply(&mut self, input: Input) {
        self.take_in(input);
    }

    /// The same. If it is a pod or a claim that is there now: its number.
    fn take_in(&mut self, input: Input) -> Option<u32> {
        let mut number = None;
        let input = self.gates.admit(input)?;
        match input {
            Input::Slice(slice) => self.apply_slice(&slice),
            Input::SliceGone(name) => self.slice_gone(&name),
            Input::Rule(rule) => self.apply_rule(rule),
            Input::RuleGone(name) => self.rule_gone(&name),
            Input::Patch(patch) => self.apply_patch(patch),
            Input::PatchGone(name) => self.patch_gone(&name),
            Input::Class(class) => self.apply_class(class),
            Input::ClassGone(name) => self.class_gone(&name),
            Input::Claim(claim) => number = Some(self.apply_claim(claim)),
            Input::ClaimGone(key) => self.claim_gone(&key),
            Input::Pod(pod) => number = Some(self.apply_pod(pod)),
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
        number
    }

    /// Takes in all objects of one kind: what is not listed is gone. Objects of other kinds among them are applied
    /// as usual.
    pub fn relist(&mut self, kind: Kind, objects: Vec<Input>) {
        let known = self.names_of(kind);
        let mut gone = Vec::new();
        if !known.is_empty() {
            let listed: BTreeSet<&Text> =
                objects.iter().filter(|object| object.kind() == kind).filter_map(Input::name).collect();
            let names = known.into_iter().filter(|name| !listed.contains(name)).cloned();
            gone.extend(names.filter_map(|name| Input::gone_by_name(kind, name)));
        }
        self.make_room(kind, &objects);
        let mut numbers = Vec::with_capacity(objects.len());
        for object in objects {
            let of_kind = object.kind() == kind;
            numbers.extend(self.take_in(object).filter(|_| of_kind));
        }
        gone.extend(self.except(kind, &numbers));
        gone.into_iter().for_each(|object| self.apply(object));
    }

    /// These of a kind are about to come.
    fn make_room(&mut self, kind: Kind, objects: &[Input]) {
        let more = |known: usize| objects.len().saturating_sub(known);
        match kind {
            Kind::Pod => {
                let more = more(self.pods.len());
                self.pods.reserve(more);
                self.pod_keys.reserve(more, |(hash, _)| *hash);
            }
            Kind::Claim => {
                let more = more(self.claims.len());
                self.claims.reserve(more);
                self.claim_names.reserve(more);
                self.holders.reserve(more);
                self.holder_lookup.reserve(more, |(hash, _)| *hash);
            }
            Kind::Slice => {
                let more = more(self.slices.len());
                self.slices.reserve(more);
                if more == objects.len() {
                    let devices = |object: &Input| {
                        // All objects of a list are of one kind.
                        let Input::Slice(slice) = object else { return 0 };
                        slice.devices.len().min(DEVICES_PER_SLICE_MAX)
                    };
                    self.devices.reserve(objects.iter().map(devices).sum());
                }
            }
            Kind::Rule | Kind::Patch | Kind::Class | Kind::Node => {}
        }
    }

    /// For each pod, or claim, that has none of these numbers, the news that it is gone.
    fn except(&self, kind: Kind, numbers: &[u32]) -> Vec<Input> {
        let numbers = numbers.iter().copied();
        match kind {
            Kind::Pod => {
                self.pods.except(numbers).map(|entry| Input::PodGone(entry.pod.key.clone())).collect()
            }
            Kind::Claim => {
                self.claims.except(numbers).map(|entry| Input::ClaimGone(entry.claim.key.clone())).collect()
            }
            Kind::Slice | Kind::Rule | Kind::Patch | Kind::Class | Kind::Node => Vec::new(),
        }
    }

    /// The names of all objects of a kind that has no namespaces.
    fn names_of(&self, kind: Kind) -> Vec<&Text> {
        match kind {
            Kind::Slice => {
                let published = self.pools.iter().flat_map(|(_, pool)| pool.slices.iter());
                published.filter_map(|&slice| Some(self.slices.get(slice)?.state.name())).collect()
            }
            Kind::Rule => self.rule_names.keys().collect(),
            Kind::Patch => self.patch_names.keys().collect(),
            Kind::Class => self.next.classes.iter().map(|(name, _)| name).collect(),
            Kind::Node => self.next.nodes.iter().map(|(name, _)| name).collect(),
            Kind::Claim | Kind::Pod => Vec::new(),
        }
    }

    fn note_node(&mut self, name: &Text) {
        self.noted.moved = true;
        self.noted.nodes.insert(name.clone());
    }
}
