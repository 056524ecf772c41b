//! Which nodes have a free device of their own, kept up to date at the cost of what changed.

use alloc::sync::Arc;

use hashbrown::HashMap;
use lazaret_fleet::{SliceState, Snapshot};
use lazaret_model::{Node, NodeScope};
use rustc_hash::FxBuildHasher;

/// The nodes of the last snapshot seen. As large as that snapshot has nodes.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    snapshot: Option<Arc<Snapshot>>,
    /// By the node's address, which stays its own while the snapshot is held.
    free: HashMap<usize, bool, FxBuildHasher>,
}

impl Roster {
    /// Brings it up to this snapshot.
    pub(crate) fn observe(&mut self, snapshot: &Arc<Snapshot>) {
        let Some(known) = self.snapshot.replace(snapshot.clone()) else {
            self.free = snapshot.nodes().map(|node| (address(node), has_free(snapshot, node))).collect();
            return;
        };
        if Arc::ptr_eq(&known, snapshot) {
            return;
        }
        for name in snapshot.changed_nodes(&known) {
            if let Some(node) = known.node(name) {
                self.free.remove(&address(node));
            }
            if let Some(node) = snapshot.node(name) {
                self.free.insert(address(node), has_free(snapshot, node));
            }
        }
    }

    /// Whether the node is known to have no device of its own that is not in use.
    pub(crate) fn is_full(&self, node: &Arc<Node>) -> bool {
        self.free.get(&address(node)) == Some(&false)
    }
}

fn address(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node).addr()
}

fn has_free(snapshot: &Snapshot, node: &Node) -> bool {
    let is_own = |slice: &SliceState| matches!(slice.nodes(), NodeScope::Node(name) if *name == node.name);
    let mut slices = snapshot.pools_of_node(&node.name).flat_map(|pool| &pool.slices);
    slices.any(|slice| is_own(slice) && (slice.in_use_bits().count_ones() as usize) < slice.len())
}
