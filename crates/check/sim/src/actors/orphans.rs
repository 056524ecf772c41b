//! Slices that go with their Node: the garbage collector removes them a while after it, and their driver publishes again when there is a Node.

use lazaret_model::{NodeScope, Text};

use crate::{
    coverage::Mark,
    world::{Step, World},
};

/// How long the garbage collector takes, at most.
const COLLECTED_MS_MAX: u64 = 3_000;
/// And a driver, to notice that there is a Node, or that a slice is gone.
const NOTICED_MS_MAX: u64 = 5_000;

impl World {
    /// A Node is deleted: its slices have no owner any more.
    pub(super) fn orphan_slices(&mut self, node: &Text) {
        if self.config.collected == 0 {
            return;
        }
        for (pool, slice) in self.slices_of(node) {
            let target = &mut self.drivers.pools[pool].slices[slice];
            target.is_orphan = self.api.slices.get(&target.name).is_some();
        }
        let delay = self.rng.below(COLLECTED_MS_MAX);
        self.push(self.now + delay, Step::Collect(node.clone()));
    }

    /// The garbage collector removes the slices whose Node is gone.
    pub(crate) fn collect_slices(&mut self, node: &Text) {
        for (pool, slice) in self.slices_of(node) {
            let target = &mut self.drivers.pools[pool].slices[slice];
            if !core::mem::take(&mut target.is_orphan) {
                continue;
            }
            let name = target.name.clone();
            self.api.slices.remove(&mut self.api.versions, &name);
            self.coverage.hit(Mark::SliceCollected);
            self.plan_to_publish(pool, slice);
        }
    }

    /// The Node of drivers is there: they publish slices that are missing.
    pub(super) fn publish_missing_of(&mut self, node: &Text) {
        if self.config.collected == 0 {
            return;
        }
        for (pool, slice) in self.slices_of(node) {
            if self.api.slices.get(&self.drivers.pools[pool].slices[slice].name).is_none() {
                self.plan_to_publish(pool, slice);
            }
        }
    }

    /// Whether a driver can publish: its slices belong to a Node, which has to be there.
    pub(super) fn may_publish(&self, pool: usize) -> bool {
        match &self.drivers.pools[pool].nodes {
            NodeScope::Node(node) => self.config.collected == 0 || self.api.nodes.get(node).is_some(),
            NodeScope::Selector(_) | NodeScope::All | NodeScope::PerDevice | NodeScope::Unknown => true,
        }
    }

    fn plan_to_publish(&mut self, pool: usize, slice: usize) {
        let delay = self.rng.below(NOTICED_MS_MAX);
        self.push(self.now + delay, Step::PublishAgain(pool, slice));
    }

    fn slices_of(&self, node: &Text) -> Vec<(usize, usize)> {
        let theirs = NodeScope::Node(node.clone());
        let pools = self.drivers.pools.iter().enumerate().filter(|(_, pool)| pool.nodes == theirs);
        pools.flat_map(|(at, pool)| (0..pool.slices.len()).map(move |slice| (at, slice))).collect()
    }
}
