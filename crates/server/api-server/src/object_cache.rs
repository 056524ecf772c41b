//! A cache of recently written objects, as trees: most objects are soon changed again.

use std::{
    fmt,
    hash::{DefaultHasher, Hasher},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use lazaret_json::Value;
use lazaret_storage::Item;

use crate::object;

/// Bound on the objects in the cache, each as it was last written. An object that is not in it is parsed from its bytes.
const OBJECTS_MAX: usize = 8192;

/// The tree of an object with a longer text is not kept: few are that long, and as many of them would be gigabytes.
const BYTES_MAX: usize = 16 << 10;

/// The trees of the objects written last, of those that are still there.
pub(crate) struct ObjectCache {
    slots: Vec<Slot>,
    /// Places that are taken.
    count: AtomicUsize,
}

/// Events are many, and hardly ever changed.
const NOT_KEPT: &[u8] = b"/core/events/";

/// The last object whose key led to this place, and its tree.
type Slot = Mutex<Option<(Arc<Item>, Value)>>;

impl fmt::Debug for ObjectCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObjectCache")
    }
}

impl Default for ObjectCache {
    fn default() -> Self {
        Self { slots: (0..OBJECTS_MAX).map(|_| Mutex::new(None)).collect(), count: AtomicUsize::new(0) }
    }
}

impl ObjectCache {
    /// The tree of a stored object, see [`object::decode`].
    pub(crate) fn get(&self, item: &Arc<Item>) -> Value {
        let slot = self.slot(item).lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some((known, tree)) if Arc::ptr_eq(known, item) => tree.clone(),
            Some(_) | None => {
                drop(slot);
                object::decode(&item.value)
            }
        }
    }

    /// Keeps the tree that was written as `item`.
    pub(crate) fn put(&self, item: &Arc<Item>, mut tree: Value) {
        if item.value.len() > BYTES_MAX || item.key.starts_with(NOT_KEPT) {
            return;
        }
        object::meta_mut(&mut tree).insert("resourceVersion", item.modified.to_string().into());
        debug_assert_eq!(tree, object::decode(&item.value), "what is kept is what was written");
        let mut slot = self.slot(item).lock().unwrap_or_else(PoisonError::into_inner);
        let before = slot.replace((Arc::clone(item), tree));
        drop(slot);
        if before.is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        // Taking a tree apart takes a while: not while others wait for the place.
        drop(before);
    }

    /// Removes the tree of a deleted object. Names of pods and claims do not come again, so no other object would take its
    /// place for long: with its text it is a few times as large as the bytes in the store.
    pub(crate) fn forget(&self, item: &Item) {
        let is_it = |known: &Item| known.key == item.key && known.modified <= item.modified;
        let mut slot = self.slot(item).lock().unwrap_or_else(PoisonError::into_inner);
        let before = slot.take_if(|(known, _)| is_it(known));
        drop(slot);
        if before.is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        drop(before);
    }

    /// Removes the trees of objects that were not written after `revision`: after a storm they are read again, where they are read at all.
    pub(crate) fn forget_until(&self, revision: u64) {
        for slot in &self.slots {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            let before = slot.take_if(|(known, _)| known.modified <= revision);
            drop(slot);
            if before.is_some() {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// How many are kept.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn slot(&self, item: &Item) -> &Slot {
        let mut hasher = DefaultHasher::new();
        hasher.write(&item.key);
        // The cast keeps the low bits, which is all that is wanted of it.
        #[allow(clippy::cast_possible_truncation, reason = "a hash")]
        let hash = hasher.finish() as usize;
        &self.slots[hash % OBJECTS_MAX]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_json::json;
    use lazaret_store::{Op, Options, Store};

    #[test]
    fn the_last_written_are_known_and_the_others_are_read() {
        let store = Store::ephemeral(Options::default()).unwrap();
        let object_cache = ObjectCache::default();
        let write = |name: &str| {
            let tree = json!({"metadata": {"name": name}, "spec": {"n": 1}});
            store.txn_blocking(vec![Op::create(name, object::encode(&tree).unwrap())]).unwrap();
            let item = store.get(name).unwrap();
            (item, tree)
        };
        let (item, tree) = write("/a/x");
        object_cache.put(&item, tree.clone());
        assert!(object_cache.get(&item)["spec"].is(&tree["spec"]));
        assert_eq!(object_cache.get(&item)["metadata"]["resourceVersion"], item.modified.to_string());
        let (other, _) = write("/a/y");
        assert_eq!(object_cache.get(&other)["metadata"]["name"], "/a/y");
        let long = json!({"metadata": {"name": "/a/z"}, "spec": {"text": "x".repeat(BYTES_MAX)}});
        store.txn_blocking(vec![Op::create("/a/z", object::encode(&long).unwrap())]).unwrap();
        let item_of_long = store.get("/a/z").unwrap();
        object_cache.put(&item_of_long, long.clone());
        assert!(!object_cache.get(&item_of_long)["spec"].is(&long["spec"]), "what is long is read anew");
        assert_eq!(object_cache.get(&item_of_long)["spec"], long["spec"]);
        let (event, tree) = write("/core/events/default/x");
        object_cache.put(&event, tree.clone());
        assert!(!object_cache.get(&event)["spec"].is(&tree["spec"]), "events are read anew");
        let next =
            Arc::new(Item { modified: item.modified + 1, value: other.value.clone(), ..(*item).clone() });
        assert_eq!(object_cache.get(&next)["metadata"]["name"], "/a/y", "another version in the same place");
        assert_eq!(object_cache.len(), 1);
        object_cache.forget(&other);
        assert_eq!(object_cache.len(), 1, "it was another's");
        object_cache.forget(&next);
        object_cache.forget(&next);
        assert_eq!(object_cache.len(), 0);
    }

    #[test]
    fn what_was_not_written_since_is_let_go() {
        let store = Store::ephemeral(Options::default()).unwrap();
        let object_cache = ObjectCache::default();
        let tree = json!({"metadata": {"name": "x"}});
        for name in ["/a/old", "/a/new"] {
            store.txn_blocking(vec![Op::create(name, object::encode(&tree).unwrap())]).unwrap();
            object_cache.put(&store.get(name).unwrap(), tree.clone());
        }
        assert_eq!(object_cache.len(), 2);
        object_cache.forget_until(store.get("/a/old").unwrap().modified);
        assert_eq!(object_cache.len(), 1);
        object_cache.forget_until(store.revision());
        assert_eq!(object_cache.len(), 0);
        assert_eq!(object_cache.get(&store.get("/a/old").unwrap())["metadata"]["name"], "x");
    }
}
