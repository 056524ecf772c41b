//! The nodes whose slices a pool has, by the store.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use lazaret_json::Value;
use lazaret_storage::{Item, Key, RangeOptions, Watch};

use super::device_holdings::{Look, look};
use crate::ObjectStore;

const SLICES: &str = "/resource.k8s.io/resourceslices/";

/// The nodes of each pool, brought up to date when a node creates a slice. Costs nothing before.
#[derive(Default)]
pub(crate) struct SlicePools {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watch: Option<Watch>,
    /// The slices of nodes.
    slices: HashMap<Key, PoolOfNode>,
    /// By driver and pool: how many slices each node has in it.
    nodes: BTreeMap<(String, String), BTreeMap<String, usize>>,
}

#[derive(Clone, PartialEq, Eq)]
struct PoolOfNode {
    pool: (String, String),
    node: String,
}

impl fmt::Debug for SlicePools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SlicePools")
    }
}

impl SlicePools {
    /// Another node that has a slice in a pool.
    pub(super) fn other_node(
        &self,
        stored: &ObjectStore,
        (driver, pool): (&str, &str),
        node: &str,
    ) -> Option<String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.follow(stored);
        let nodes = state.nodes.get(&(driver.to_owned(), pool.to_owned()))?;
        nodes.keys().find(|other| *other != node).cloned()
    }
}

impl State {
    /// Takes in everything that was written before this was called.
    fn follow(&mut self, stored: &ObjectStore) {
        loop {
            match look(&mut self.watch) {
                Look::News(event) => self.set(stored, &event.key, event.new.as_ref()),
                Look::UpToDate => return,
                Look::Lost => return self.begin(stored),
            }
        }
    }

    fn begin(&mut self, stored: &ObjectStore) {
        self.slices.clear();
        self.nodes.clear();
        // It cannot fail: nothing of the present was forgotten.
        let Ok(range) = stored.store().range(SLICES.as_bytes(), &RangeOptions::default()) else { return };
        for item in &range.items {
            self.set(stored, &item.key, Some(item));
        }
        self.watch = stored.store().watch(SLICES.into(), range.revision).ok();
    }

    fn set(&mut self, stored: &ObjectStore, key: &Key, item: Option<&Arc<Item>>) {
        let new = item.and_then(|item| pool_of_node(&stored.object_cache().get(item)));
        if self.slices.get(key) == new.as_ref() {
            return;
        }
        if let Some(old) = self.slices.remove(key) {
            self.count(&old, |count| count.saturating_sub(1));
        }
        if let Some(new) = new {
            self.count(&new, |count| count + 1);
            self.slices.insert(key.clone(), new);
        }
    }

    fn count(&mut self, of: &PoolOfNode, change: impl Fn(usize) -> usize) {
        let nodes = self.nodes.entry(of.pool.clone()).or_default();
        let count = nodes.entry(of.node.clone()).or_default();
        *count = change(*count);
        nodes.retain(|_, count| *count > 0);
        if nodes.is_empty() {
            self.nodes.remove(&of.pool);
        }
    }
}

fn pool_of_node(slice: &Value) -> Option<PoolOfNode> {
    let spec = &slice["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let node = text(&spec["nodeName"]);
    let pool = (text(&spec["driver"]), text(&spec["pool"]["name"]));
    (!node.is_empty()).then_some(PoolOfNode { pool, node })
}
