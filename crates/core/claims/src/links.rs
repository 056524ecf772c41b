//! References between objects: for finding the objects that a change concerns.

use alloc::collections::BTreeSet;

use hashbrown::HashMap;
use lazaret_model::{ObjectKey, Text};
use rustc_hash::FxBuildHasher;

/// From a name to the objects in the same namespace that mention it. As large as the number of mentions.
#[derive(Debug, Default)]
pub(crate) struct Links(HashMap<ObjectKey, BTreeSet<Text>, FxBuildHasher>);

impl Links {
    pub(crate) fn add(&mut self, namespace: &Text, named: &Text, by: &Text) {
        let key = ObjectKey { namespace: namespace.clone(), name: named.clone() };
        self.0.entry(key).or_default().insert(by.clone());
    }

    pub(crate) fn remove(&mut self, namespace: &Text, named: &Text, by: &Text) {
        let key = ObjectKey { namespace: namespace.clone(), name: named.clone() };
        if let Some(members) = self.0.get_mut(&key) {
            members.remove(by);
            if members.is_empty() {
                self.0.remove(&key);
            }
        }
    }

    /// The objects that mention it, in order of their names.
    pub(crate) fn of<'a>(&'a self, named: &'a ObjectKey) -> impl Iterator<Item = ObjectKey> + 'a {
        let members = self.0.get(named).into_iter().flatten();
        members.map(|name| ObjectKey { namespace: named.namespace.clone(), name: name.clone() })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
