//! Names of claims, by which pods and claims find each other, whoever comes first.

use hashbrown::HashTable;
use lazaret_model::{ObjectKey, Slab, Text};

use crate::{few::Few, vocabulary::hash_texts};

/// All names that a claim has or a pod uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimNames {
    names: Slab<ClaimName>,
    /// Hash and number.
    lookup: HashTable<(u64, u32)>,
}

/// A name.
#[derive(Clone, Debug)]
pub(crate) struct ClaimName {
    key: ObjectKey,
    hash: u64,
    /// The claim that has it.
    pub(crate) claim: Option<u32>,
    /// Pods that name it, ascending.
    pub(crate) users: Few<u32>,
}

impl ClaimNames {
    /// The number of a name.
    pub(crate) fn find(&self, namespace: &Text, name: &Text) -> Option<u32> {
        self.find_hashed(hash_texts([namespace, name]), namespace, name)
    }

    fn find_hashed(&self, hash: u64, namespace: &Text, name: &Text) -> Option<u32> {
        let is_it = |(_, at): &(u64, u32)| {
            self.get(*at).is_some_and(|known| known.key.name == *name && known.key.namespace == *namespace)
        };
        self.lookup.find(hash, |entry| entry.0 == hash && is_it(entry)).map(|(_, at)| *at)
    }

    /// The claim of this name.
    pub(crate) fn claim(&self, key: &ObjectKey) -> Option<u32> {
        self.get(self.find(&key.namespace, &key.name)?)?.claim
    }

    /// The number of a name, given if it has none.
    pub(crate) fn number(&mut self, namespace: &Text, name: &Text) -> u32 {
        let hash = hash_texts([namespace, name]);
        if let Some(known) = self.find_hashed(hash, namespace, name) {
            return known;
        }
        let key = ObjectKey { namespace: namespace.clone(), name: name.clone() };
        let at = self.names.insert(ClaimName { key, hash, claim: None, users: Few::default() });
        self.lookup.insert_unique(hash, (hash, at), |(hash, _)| *hash);
        at
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&ClaimName> {
        self.names.get(at)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut ClaimName> {
        self.names.get_mut(at)
    }

    /// Forgets a name that nobody has and nobody uses.
    pub(crate) fn forget_if_unused(&mut self, at: u32) {
        let Some(name) = self.names.get(at).filter(|name| name.claim.is_none() && name.users.is_empty())
        else {
            return;
        };
        if let Ok(found) = self.lookup.find_entry(name.hash, |(_, other)| *other == at) {
            found.remove();
        }
        self.names.remove(at);
    }

    /// Reserves room for this many more.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.names.reserve(more);
        self.lookup.reserve(more, |(hash, _)| *hash);
    }
}
