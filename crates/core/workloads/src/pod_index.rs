//! Pods by node and by label.

use crate::{meta, pods, prelude::*};

/// Pods by node and by label.
#[derive(Debug, Default)]
pub(crate) struct PodIndex {
    by_node: BTreeMap<String, BTreeSet<Key>>,
    /// By namespace, label and value.
    by_label: BTreeMap<(String, String, String), BTreeSet<Key>>,
    /// Pods that have finished, the oldest first.
    finished: BTreeSet<(Timestamp, Key)>,
}

impl PodIndex {
    /// The pods that are bound to a node.
    pub(crate) fn on_node(&self, node: &str) -> impl Iterator<Item = &Key> {
        self.by_node.get(node).into_iter().flatten()
    }

    /// The pods with this label.
    pub(crate) fn labelled(&self, namespace: &str, label: &str, value: &str) -> Option<&BTreeSet<Key>> {
        self.by_label.get(&(namespace.to_owned(), label.to_owned(), value.to_owned()))
    }

    /// Pods that have run their course, the oldest first.
    pub(crate) fn finished(&self) -> &BTreeSet<(Timestamp, Key)> {
        &self.finished
    }

    /// A pod has changed.
    pub(crate) fn update(&mut self, key: &Key, old: &Pod, new: &Pod) {
        let same = node_of(old) == node_of(new)
            && old.metadata.labels == new.metadata.labels
            && pods::is_finished(old) == pods::is_finished(new)
            && old.metadata.creation_timestamp == new.metadata.creation_timestamp;
        if !same {
            self.remove(key, old);
            self.insert(key, new);
        }
    }

    pub(crate) fn insert(&mut self, key: &Key, pod: &Pod) {
        if pods::is_finished(pod) {
            self.finished.insert((meta::created(&pod.metadata), key.clone()));
        }
        if let Some(node) = node_of(pod) {
            self.by_node.entry(node.to_owned()).or_default().insert(key.clone());
        }
        for (label, value) in pod.metadata.labels.iter().flatten() {
            let entry = (key.namespace.clone(), label.clone(), value.clone());
            self.by_label.entry(entry).or_default().insert(key.clone());
        }
    }

    pub(crate) fn remove(&mut self, key: &Key, pod: &Pod) {
        self.finished.remove(&(meta::created(&pod.metadata), key.clone()));
        if let Some(node) = node_of(pod) {
            forget(&mut self.by_node, &node.to_owned(), key);
        }
        for (label, value) in pod.metadata.labels.iter().flatten() {
            forget(&mut self.by_label, &(key.namespace.clone(), label.clone(), value.clone()), key);
        }
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

fn forget<K: Ord>(index: &mut BTreeMap<K, BTreeSet<Key>>, entry: &K, key: &Key) {
    if let Some(keys) = index.get_mut(entry) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(entry);
        }
    }
}
