//! The objects of one kind, found by name, by namespace and by who manages them.

use k8s_openapi::Metadata;

use crate::{meta, prelude::*};

/// The objects of one kind.
#[derive(Debug)]
pub struct Table<T> {
    objects: BTreeMap<Key, Arc<T>>,
    /// By the UID of the owner that manages them.
    managed: BTreeMap<String, BTreeSet<Key>>,
    /// Those without a controller.
    uncontrolled: BTreeSet<Key>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), managed: BTreeMap::new(), uncontrolled: BTreeSet::new() }
    }
}

impl<T: Metadata<Ty = ObjectMeta>> Table<T> {
    /// The object of this name.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.objects.get(key)
    }

    /// All objects, by namespace and name.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Arc<T>)> {
        self.objects.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Those in a namespace, by name.
    pub fn within<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a Arc<T>)> {
        self.objects.range(Key::new(namespace, "")..).take_while(move |(key, _)| key.namespace == namespace)
    }

    /// Objects that the owner with this UID controls, by name.
    pub fn managed_by<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Arc<T>> {
        self.managed.get(uid).into_iter().flatten().filter_map(|key| self.objects.get(key))
    }

    /// Those in a namespace without a controller, by name.
    pub fn uncontrolled_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<T>> {
        self.uncontrolled
            .range(Key::new(namespace, "")..)
            .take_while(move |key| key.namespace == namespace)
            .filter_map(|key| self.objects.get(key))
    }

    pub(crate) fn put(&mut self, key: Key, object: Arc<T>) {
        let manager = meta::controller_of(object.metadata()).map(|owner| &owner.uid);
        let is_same =
            |known: &&mut Arc<T>| meta::controller_of(known.metadata()).map(|owner| &owner.uid) == manager;
        if let Some(known) = self.objects.get_mut(&key).filter(is_same) {
            *known = object;
            return;
        }
        self.take(&key);
        match meta::controller_of(object.metadata()) {
            Some(owner) => {
                self.managed.entry(owner.uid.clone()).or_default().insert(key.clone());
            }
            None => {
                self.uncontrolled.insert(key.clone());
            }
        }
        self.objects.insert(key, object);
    }

    pub(crate) fn take(&mut self, key: &Key) -> Option<Arc<T>> {
        let object = self.objects.remove(key)?;
        match meta::controller_of(object.metadata()) {
            Some(owner) => {
                if let Some(keys) = self.managed.get_mut(&owner.uid) {
                    keys.remove(key);
                    if keys.is_empty() {
                        self.managed.remove(&owner.uid);
                    }
                }
            }
            None => {
                self.uncontrolled.remove(key);
            }
        }
        Some(object)
    }
}
