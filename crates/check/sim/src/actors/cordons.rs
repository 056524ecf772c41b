//! Nodes that take no new pods for a while.

use lazaret_model::{Effect, Node, Taint};

use crate::{coverage::Mark, palette, world::World};

/// The taint of a cordoned node.
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Whether a node takes no new pods.
pub(crate) fn is_cordoned(node: &Node) -> bool {
    node.taints.iter().any(|taint| taint.key == UNSCHEDULABLE)
}

impl World {
    /// An administrator cordons a node, or uncordons it.
    pub(crate) fn set_cordon(&mut self, number: u32, cordoned: bool) {
        let name = palette::node(number % self.config.nodes);
        let Some(stored) = self.api.nodes.get(&name) else { return };
        if is_cordoned(stored.object) == cordoned {
            return;
        }
        let taint =
            || Taint { key: palette::word(UNSCHEDULABLE), effect: Effect::NoSchedule, ..Taint::default() };
        let mut node = Node::clone(stored.object);
        node.taints.retain(|taint| taint.key != UNSCHEDULABLE);
        node.taints.extend(cordoned.then(taint));
        self.api.nodes.put(&mut self.api.versions, node);
        if cordoned {
            self.coverage.hit(Mark::Cordoned);
        }
    }

    pub(crate) fn uncordon_all(&mut self) {
        (0..self.config.nodes).for_each(|number| self.set_cordon(number, false));
    }
}
