//! How an object is called within its kind.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::prelude::*;

/// By key, in no order: a lookup touches one object's name where an ordered map would compare a dozen and more.
pub(crate) type ByKey<V> = HashMap<Key, V, FxBuildHasher>;

/// Namespace and name. The namespace of what stands above namespaces is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace, or nothing.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// The object `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Where an object with this metadata is found.
    #[must_use]
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }

    /// Whether an object with this metadata is found there.
    pub(crate) fn is_of(&self, metadata: &ObjectMeta) -> bool {
        self.namespace == metadata.namespace.as_deref().unwrap_or_default()
            && self.name == metadata.name.as_deref().unwrap_or_default()
    }
}

impl core::fmt::Display for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}
