//! Bringing the next snapshot up to date.

use alloc::{sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{NodeScope, PoolId, Text};

use crate::{Fleet, Pool, Snapshot, pool::PoolFacts};

impl Fleet {
    /// The fleet as it is now. Costs what changed since the last one; the same one again if nothing did.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        if self.published.revision == self.revision {
            return self.published.clone();
        }
        for id in core::mem::take(&mut self.stale_gone_pools) {
            self.withdraw(&id);
        }
        for pool in core::mem::take(&mut self.stale_pools) {
            self.publish_pool(pool);
        }
        self.next.names = self.vocabulary.names().clone();
        self.next.revision = self.revision;
        self.published = Arc::new(self.next.clone());
        self.published.clone()
    }

    fn publish_pool(&mut self, pool: u32) {
        // It went with its last slice.
        let Some(entry) = self.pools.get_mut(pool) else { return };
        if !core::mem::take(&mut entry.stale) {
            return;
        }
        let id = entry.id.clone();
        let slices: Vec<_> =
            entry.slices.iter().filter_map(|&slice| Some(self.slices.get(slice)?.state.clone())).collect();
        if slices.is_empty() {
            entry.facts = None;
            return self.withdraw(&id);
        }
        let restructured = entry.facts.is_none();
        let facts = entry.facts.get_or_insert_with(|| {
            let facts = PoolFacts::of(&slices, entry.repeats > 0, self.vocabulary.names());
            // Most pools are alike: one generation, complete and valid.
            if facts != *self.last_facts {
                self.last_facts = Arc::new(facts);
            }
            Arc::clone(&self.last_facts)
        });
        let published = Arc::new(Pool { id, revision: entry.revision, slices, facts: facts.clone() });
        if restructured {
            let old = self.next.pools.get(&published.id).map_or_else(Vec::new, |pool| nodes_of(pool));
            self.refile(&published.id, &old, &nodes_of(&published));
        }
        if published.slices.iter().any(|slice| !matches!(slice.nodes(), NodeScope::Node(_))) {
            self.next.shared.insert(published.id.clone(), published.clone());
        } else {
            self.next.shared.remove(&published.id);
        }
        self.next.pools.insert(published.id.clone(), published);
    }

    fn withdraw(&mut self, id: &PoolId) {
        self.next.shared.remove(id);
        if let Some(pool) = self.next.pools.remove(id) {
            self.refile(id, &nodes_of(&pool), &[]);
        }
    }

    /// Files a pool under other nodes than before. Both lists are sorted.
    fn refile(&mut self, id: &PoolId, old: &[Text], new: &[Text]) {
        for node in old.iter().filter(|node| new.binary_search(node).is_err()) {
            let Some(ids) =
                invariant!(self.next.by_node.get(node), "a node that a pool is filed under is known")
            else {
                continue;
            };
            let rest: Vec<PoolId> = ids.iter().filter(|other| *other != id).cloned().collect();
            if rest.is_empty() {
                self.next.by_node.remove(node);
            } else {
                self.next.by_node.insert(node.clone(), rest.into());
            }
        }
        for node in new.iter().filter(|node| old.binary_search(node).is_err()) {
            let mut ids = self.next.by_node.get(node).map_or_else(Vec::new, |ids| ids.to_vec());
            if let Err(at) = ids.binary_search(id) {
                ids.insert(at, id.clone());
            }
            self.next.by_node.insert(node.clone(), ids.into());
        }
    }
}

/// The nodes that slices of a pool name, sorted.
fn nodes_of(pool: &Pool) -> Vec<Text> {
    let named = |scope: &NodeScope| match scope {
        NodeScope::Node(node) => Some(node.clone()),
        NodeScope::Selector(_) | NodeScope::All | NodeScope::PerDevice | NodeScope::Unknown => None,
    };
    let mut nodes: Vec<Text> = pool.slices.iter().filter_map(|slice| named(slice.nodes())).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
