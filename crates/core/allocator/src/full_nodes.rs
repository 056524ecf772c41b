//! Which nodes have a free device of their own, kept up to date at the cost of what changed.

use alloc::{sync::Arc, vec::Vec};

use hashbrown::HashMap;
use lazaret_fleet::{SliceState, Snapshot};
use lazaret_model::{Node, NodeScope};
use rustc_hash::FxBuildHasher;

/// The nodes of the last snapshot seen. As large as the largest snapshot had nodes.
#[derive(Debug, Default)]
pub(crate) struct FullNodes {
    snapshot: Option<Arc<Snapshot>>,
    /// The addresses of nodes that are full, 0 for others. In the snapshot's order, as far as changes left it: who asks
    /// for one node mostly asks for the next one then.
    places: Vec<usize>,
    /// By the node's address, which stays its own while the snapshot is held.
    place_of: HashMap<usize, usize, FxBuildHasher>,
    unused: Vec<usize>,
}

impl FullNodes {
    /// Brings it up to this snapshot.
    pub(crate) fn observe(&mut self, snapshot: &Arc<Snapshot>) {
        let Some(known) = self.snapshot.replace(snapshot.clone()) else {
            snapshot.nodes().for_each(|node| self.place(None, snapshot, node));
            return;
        };
        if Arc::ptr_eq(&known, snapshot) {
            return;
        }
        for name in snapshot.changed_nodes(&known) {
            let place = known.node(name).and_then(|node| self.place_of.remove(&address(node)));
            match (snapshot.node(name), place) {
                (Some(node), place) => self.place(place, snapshot, node),
                (None, Some(place)) => {
                    self.places[place] = 0;
                    self.unused.push(place);
                }
                // It was there in neither snapshot: only slices name it.
                (None, None) => {}
            }
        }
    }

    fn place(&mut self, place: Option<usize>, snapshot: &Snapshot, node: &Arc<Node>) {
        let place = place.or_else(|| self.unused.pop()).unwrap_or(self.places.len());
        if place == self.places.len() {
            self.places.push(0);
        }
        self.places[place] = if has_free(snapshot, node) { 0 } else { address(node) };
        self.place_of.insert(address(node), place);
    }

    /// How many of the first of these nodes are known to have no device of their own that is not in use. `next` is
    /// where to look for the first of them, and then for the one after those and one more.
    pub(crate) fn count_full(&self, nodes: &[Arc<Node>], next: &mut usize) -> usize {
        let mut count = 0;
        loop {
            let places = self.places.get(*next..).unwrap_or_default();
            let run = nodes[count..]
                .iter()
                .zip(places)
                .take_while(|(node, place)| address(node) == **place)
                .count();
            count += run;
            *next += run;
            // All are full.
            let Some(node) = nodes.get(count) else { return count };
            // The node is not in the snapshot.
            let Some(&place) = self.place_of.get(&address(node)) else { return count };
            *next = place + 1;
            if self.places[place] == 0 {
                return count;
            }
            count += 1;
        }
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

#[cfg(test)]
mod tests {
    use lazaret_fleet::{Fleet, Input};
    use lazaret_model::{Device, PoolSpec, ResourceSlice, Text};

    use super::*;

    fn node(fleet: &mut Fleet, name: &str) {
        fleet.apply(Input::Node(Arc::new(Node { name: name.into(), ..Node::default() })));
    }

    fn device(fleet: &mut Fleet, node: &str) {
        let name = Text::from(node);
        fleet.apply(Input::Slice(Arc::new(ResourceSlice {
            name: name.clone(),
            driver: "d".into(),
            pool: PoolSpec { name: name.clone(), generation: 1, slice_count: 1 },
            nodes: NodeScope::Node(name),
            devices: alloc::vec![Device { name: "x".into(), ..Device::default() }],
            ..ResourceSlice::default()
        })));
    }

    fn full(full_nodes: &FullNodes, nodes: &[&Arc<Node>]) -> Vec<bool> {
        let nodes: Vec<Arc<Node>> = nodes.iter().copied().cloned().collect();
        let (mut next, mut full) = (0, Vec::new());
        while full.len() < nodes.len() {
            let count = full_nodes.count_full(&nodes[full.len()..], &mut next);
            full.extend((0..count).map(|_| true));
            full.extend((full.len() < nodes.len()).then_some(false));
        }
        full
    }

    #[test]
    fn any_order_and_any_change_give_the_same_as_a_fresh_look() {
        let (mut fleet, mut full_nodes) = (Fleet::new(), FullNodes::default());
        ["a", "b", "c", "d"].iter().for_each(|name| node(&mut fleet, name));
        device(&mut fleet, "b");
        let first = fleet.snapshot();
        full_nodes.observe(&first);
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| first.node(name).unwrap());
        assert_eq!(full(&full_nodes, &[a, b, c, d]), [true, false, true, true]);
        assert_eq!(full(&full_nodes, &[d, b, b, a, c]), [true, false, false, true, true]);

        node(&mut fleet, "e");
        device(&mut fleet, "c");
        fleet.apply(Input::Node(Arc::new(Node {
            name: "a".into(),
            declared_features: alloc::vec!["f".into()],
            ..Node::default()
        })));
        let second = fleet.snapshot();
        full_nodes.observe(&second);
        let [a2, e] = ["a", "e"].map(|name| second.node(name).unwrap());
        assert_eq!(full(&full_nodes, &[a2, b, c, d, e]), [true, false, false, true, true]);
        assert_eq!(full(&full_nodes, &[a]), [false], "not of this snapshot: nothing is known of it");
        assert_eq!((full_nodes.places.len(), full_nodes.place_of.len()), (5, 5));

        fleet.apply(Input::NodeGone("b".into()));
        let third = fleet.snapshot();
        full_nodes.observe(&third);
        assert_eq!(full(&full_nodes, &[a2, b, c, d, e]), [true, false, false, true, true]);
        node(&mut fleet, "f");
        let fourth = fleet.snapshot();
        full_nodes.observe(&fourth);
        let f = fourth.node("f").unwrap();
        assert_eq!(full(&full_nodes, &[a2, f, c, d, e]), [true, true, false, true, true]);
        assert_eq!(
            (full_nodes.places.len(), full_nodes.unused.len()),
            (5, 0),
            "the seat of the node that left"
        );
    }
}
