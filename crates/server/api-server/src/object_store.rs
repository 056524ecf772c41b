//! The stored objects, as they are read to decide about requests.

use std::{fmt, sync::Arc};

use lazaret_json::Value;
use lazaret_kinds::{Features, Kind};
use lazaret_storage::Storage;

use crate::{object, object_cache::ObjectCache};

/// A store, the objects read from it last, and the features that are on.
pub struct ObjectStore {
    store: Arc<dyn Storage>,
    object_cache: Arc<ObjectCache>,
    features: Features,
}

impl fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStore").field("revision", &self.store.revision()).finish_non_exhaustive()
    }
}

impl ObjectStore {
    pub(crate) fn new(store: Arc<dyn Storage>, features: Features) -> Self {
        Self { store, object_cache: Arc::default(), features }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &dyn Storage {
        &*self.store
    }

    /// Which features are on.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.features
    }

    pub(crate) fn shared_store(&self) -> Arc<dyn Storage> {
        Arc::clone(&self.store)
    }

    /// The objects written last.
    pub(crate) fn object_cache(&self) -> &Arc<ObjectCache> {
        &self.object_cache
    }

    /// A stored object.
    pub(crate) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        self.store.get(object::key(kind, namespace, name).as_bytes()).map(|item| self.object_cache.get(&item))
    }
}
