//! The fleet at one moment, for whoever needs it to hold still: allocator, scheduler, what-if.

use alloc::{collections::BTreeSet, sync::Arc};
use core::cmp::Reverse;

use lazaret_model::{AttrNames, DeviceId, Node, NodeScope, PoolId, Text};

use crate::{ClassState, DeviceRef, Pool, SliceState, pmap::PMap};

/// Immutable and numbered. Shares everything that did not change with the snapshots before and after it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) names: Arc<AttrNames>,
    pub(crate) classes: PMap<Text, Arc<ClassState>>,
    pub(crate) nodes: PMap<Text, Arc<Node>>,
    pub(crate) pools: PMap<PoolId, Arc<Pool>>,
    /// By node: the pools with a slice for that node by name, in order.
    pub(crate) by_node: PMap<Text, Arc<[PoolId]>>,
    pub(crate) shared: PMap<PoolId, Arc<Pool>>,
}

impl Snapshot {
    pub(crate) fn empty() -> Self {
        Self {
            revision: 0,
            names: Arc::default(),
            classes: PMap::new(),
            nodes: PMap::new(),
            pools: PMap::new(),
            by_node: PMap::new(),
            shared: PMap::new(),
        }
    }

    /// Its number. A later snapshot of the same fleet has a higher one if anything changed.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The names of attributes and capacities that occur.
    #[must_use]
    pub fn names(&self) -> &AttrNames {
        &self.names
    }

    /// A class with its selectors ready to run on this snapshot's devices.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&Arc<ClassState>> {
        self.classes.get(name)
    }

    /// All classes by name.
    pub fn classes(&self) -> impl Iterator<Item = &Arc<ClassState>> {
        self.classes.iter().map(|(_, class)| class)
    }

    /// A node.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.get(name)
    }

    /// All nodes by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.iter().map(|(_, node)| node)
    }

    /// A pool.
    #[must_use]
    pub fn pool(&self, id: &PoolId) -> Option<&Arc<Pool>> {
        self.pools.get(id)
    }

    /// All pools by driver and name.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.pools.iter().map(|(_, pool)| pool)
    }

    /// How many pools there are.
    #[must_use]
    pub fn pool_count(&self) -> usize {
        self.pools.len()
    }

    /// The pools with a slice that names this node, by driver and name.
    pub fn pools_of_node(&self, node: &str) -> impl Iterator<Item = &Arc<Pool>> {
        self.by_node.get(node).into_iter().flat_map(|ids| ids.iter()).filter_map(|id| self.pools.get(id))
    }

    /// The pools with a slice that is not bound to a node by name, by driver and name.
    pub fn shared_pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.shared.iter().map(|(_, pool)| pool)
    }

    /// The names of nodes that differ from an older snapshot of the same fleet, or whose pools do: a pool's change
    /// counts for every node that a slice of it names. Costs what changed.
    #[must_use]
    pub fn changed_nodes<'a>(&'a self, older: &'a Self) -> BTreeSet<&'a Text> {
        let mut changed = BTreeSet::new();
        self.nodes.differences(&older.nodes, Arc::ptr_eq, |name, _, _| {
            changed.insert(name);
        });
        self.by_node.differences(&older.by_node, Arc::ptr_eq, |name, _, _| {
            changed.insert(name);
        });
        self.pools.differences(&older.pools, Arc::ptr_eq, |_, old, new| {
            let slices = old.into_iter().chain(new).flat_map(|pool| &pool.slices);
            changed.extend(slices.filter_map(|slice| match slice.nodes() {
                NodeScope::Node(name) => Some(name),
                NodeScope::Selector(_) | NodeScope::All | NodeScope::PerDevice | NodeScope::Unknown => None,
            }));
        });
        changed
    }

    /// A device of one of the slices.
    ///
    /// # Panics
    /// When the slice has not that many devices.
    #[must_use]
    pub fn device<'a>(&'a self, slice: &'a SliceState, index: usize) -> DeviceRef<'a> {
        slice.device(&self.names, index)
    }

    /// The device of this name in the newest generation that has it: of the slices of no node, else of the node of the pool's name.
    #[must_use]
    pub fn find(&self, id: &DeviceId) -> Option<DeviceRef<'_>> {
        let pool = self.pools.get(&id.pool_id())?;
        let places = pool.slices.iter().filter_map(|slice| Some((slice, slice.position(&id.device)?)));
        let (slice, index) = places.rev().max_by_key(|&(slice, _)| {
            let node = slice.nodes().own_node();
            let is_own = node.is_none_or(|node| *node == id.pool);
            (pool.is_current(slice), is_own, Reverse(node), slice.generation())
        })?;
        Some(slice.device(&self.names, index))
    }
}
