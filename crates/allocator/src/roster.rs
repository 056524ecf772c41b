//! Which nodes have a free device of their own, kept up to date at the cost of what changed.

use alloc::{sync::Arc, vec::Vec};

use hashbrown::HashMap;
use lazaret_fleet::{SliceState, Snapshot};
use lazaret_model::{Node, NodeScope};
use rustc_hash::FxBuildHasher;

/// The nodes of the last snapshot seen. As large as the largest snapshot had nodes.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    snapshot: Option<Arc<Snapshot>>,
    /// The addresses of nodes that are full, 0 for others. In the snapshot's order, as far as changes left it: who asks
    /// for one node mostly asks for the next one then.
    seats: Vec<usize>,
    /// By the node's address, which stays its own while the snapshot is held.
    seat_of: HashMap<usize, usize, FxBuildHasher>,
    vacant: Vec<usize>,
}

impl Roster {
    /// Brings it up to this snapshot.
    pub(crate) fn observe(&mut self, snapshot: &Arc<Snapshot>) {
        let Some(known) = self.snapshot.replace(snapshot.clone()) else {
            snapshot.nodes().for_each(|node| self.seat(None, snapshot, node));
            return;
        };
        if Arc::ptr_eq(&known, snapshot) {
            return;
        }
        for name in snapshot.changed_nodes(&known) {
            let seat = known.node(name).and_then(|node| self.seat_of.remove(&address(node)));
            match (snapshot.node(name), seat) {
                (Some(node), seat) => self.seat(seat, snapshot, node),
                (None, Some(seat)) => {
                    self.seats[seat] = 0;
                    self.vacant.push(seat);
                }
                (None, None) => {}
            }
        }
    }

    fn seat(&mut self, seat: Option<usize>, snapshot: &Snapshot, node: &Arc<Node>) {
        let seat = seat.or_else(|| self.vacant.pop()).unwrap_or(self.seats.len());
        if seat == self.seats.len() {
            self.seats.push(0);
        }
        self.seats[seat] = if has_free(snapshot, node) { 0 } else { address(node) };
        self.seat_of.insert(address(node), seat);
    }

    /// How many of the first of these nodes are known to have no device of their own that is not in use. `next` is
    /// where to look for the first of them, and then for the one after those and one more.
    pub(crate) fn count_full(&self, nodes: &[Arc<Node>], next: &mut usize) -> usize {
        let mut count = 0;
        loop {
            let seats = self.seats.get(*next..).unwrap_or_default();
            let run =
                nodes[count..].iter().zip(seats).take_while(|(node, seat)| address(node) == **seat).count();
            count += run;
            *next += run;
            let Some(node) = nodes.get(count) else { return count };
            let Some(&seat) = self.seat_of.get(&address(node)) else { return count };
            *next = seat + 1;
            if self.seats[seat] == 0 {
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

    fn full(roster: &Roster, nodes: &[&Arc<Node>]) -> Vec<bool> {
        let nodes: Vec<Arc<Node>> = nodes.iter().copied().cloned().collect();
        let (mut next, mut full) = (0, Vec::new());
        while full.len() < nodes.len() {
            let count = roster.count_full(&nodes[full.len()..], &mut next);
            full.extend((0..count).map(|_| true));
            full.extend((full.len() < nodes.len()).then_some(false));
        }
        full
    }

    #[test]
    fn any_order_and_any_change_give_the_same_as_a_fresh_look() {
        let (mut fleet, mut roster) = (Fleet::new(), Roster::default());
        ["a", "b", "c", "d"].iter().for_each(|name| node(&mut fleet, name));
        device(&mut fleet, "b");
        let first = fleet.snapshot();
        roster.observe(&first);
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| first.node(name).unwrap());
        assert_eq!(full(&roster, &[a, b, c, d]), [true, false, true, true]);
        assert_eq!(full(&roster, &[d, b, b, a, c]), [true, false, false, true, true]);

        node(&mut fleet, "e");
        device(&mut fleet, "c");
        fleet.apply(Input::Node(Arc::new(Node {
            name: "a".into(),
            declared_features: alloc::vec!["f".into()],
            ..Node::default()
        })));
        let second = fleet.snapshot();
        roster.observe(&second);
        let [a2, e] = ["a", "e"].map(|name| second.node(name).unwrap());
        assert_eq!(full(&roster, &[a2, b, c, d, e]), [true, false, false, true, true]);
        assert_eq!(full(&roster, &[a]), [false], "not of this snapshot: nothing is known of it");
        assert_eq!((roster.seats.len(), roster.seat_of.len()), (5, 5));

        fleet.apply(Input::NodeGone("b".into()));
        let third = fleet.snapshot();
        roster.observe(&third);
        assert_eq!(full(&roster, &[a2, b, c, d, e]), [true, false, false, true, true]);
        node(&mut fleet, "f");
        let fourth = fleet.snapshot();
        roster.observe(&fourth);
        let f = fourth.node("f").unwrap();
        assert_eq!(full(&roster, &[a2, f, c, d, e]), [true, true, false, true, true]);
        assert_eq!((roster.seats.len(), roster.vacant.len()), (5, 0), "the seat of the node that left");
    }
}
