//! Owners and dependents: the metadata of every object of every kind, linked by UID.

use lazaret_machine::Recent;
use lazaret_model::Text;

use crate::{meta, prelude::*};

/// Owners remembered as absent because a fresh read did not find them.
const ABSENT_MAX: usize = 4_096;

/// An object, as far as owning and being owned goes.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its kind.
    pub resource: &'static Resource,
    /// Where it is found.
    pub key: Key,
    object: Object,
}

impl Node {
    pub(crate) fn object(&self) -> Object {
        self.object.clone()
    }

    /// Its metadata: owners, finalizers, departure.
    pub(crate) fn meta(&self) -> &ObjectMeta {
        self.object.metadata()
    }

    pub(crate) fn owners(&self) -> &[OwnerReference] {
        self.meta().owner_references.as_deref().unwrap_or_default()
    }
}

/// Owners and dependents of all kinds.
#[derive(Debug)]
pub struct Graph {
    /// By UID.
    nodes: BTreeMap<Text, Node>,
    by_kind: BTreeMap<&'static Resource, BTreeMap<Key, Text>>,
    /// From the UID of an owner to those of the objects that name it.
    dependents: BTreeMap<Text, BTreeSet<Text>>,
    absent: Recent<(String, &'static Resource, Key)>,
    known: Vec<&'static Resource>,
}

impl Default for Graph {
    fn default() -> Self {
        Self {
            nodes: BTreeMap::new(),
            by_kind: BTreeMap::new(),
            dependents: BTreeMap::new(),
            absent: Recent::new(ABSENT_MAX),
            known: resource::KNOWN.to_vec(),
        }
    }
}

impl Graph {
    /// The object with this UID.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The objects that name this UID as an owner.
    pub fn dependents<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Node> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|uid| self.nodes.get(uid))
    }

    /// The kinds that have objects in this namespace, and their objects.
    pub(crate) fn within<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Node> {
        self.by_kind.values().flat_map(move |objects| {
            objects
                .range(Key::new(namespace, "")..)
                .take_while(move |(key, _)| key.namespace == namespace)
                .filter_map(|(_, uid)| self.nodes.get(uid))
        })
    }

    pub(crate) fn find(&self, resource: &'static Resource, key: &Key) -> Option<&Node> {
        self.nodes.get(self.by_kind.get(resource)?.get(key)?)
    }

    pub(crate) fn of_kind(&self, resource: &'static Resource) -> impl Iterator<Item = &Key> {
        self.by_kind.get(resource).into_iter().flat_map(BTreeMap::keys)
    }

    /// The kind that a reference means, if it is one that is known.
    pub(crate) fn kind_of(&self, owner: &OwnerReference) -> Option<&'static Resource> {
        self.known.iter().copied().find(|resource| resource.is(&owner.api_version, &owner.kind))
    }

    /// Whether a fresh look has not found this object where it should be. Without a UID: whether it found none at all,
    /// and none has been heard of since.
    pub(crate) fn is_absent(&self, uid: &str, resource: &'static Resource, key: &Key) -> bool {
        self.absent.contains(&(uid.to_owned(), resource, key.clone()))
    }

    pub(crate) fn learn(&mut self, resource: &'static Resource) {
        if !self.known.contains(&resource) {
            self.known.push(resource);
        }
    }

    pub(crate) fn forget(&mut self, resource: &'static Resource) {
        self.known.retain(|known| *known != resource);
    }

    pub(crate) fn mark_absent(&mut self, resource: &'static Resource, key: &Key, uid: &str) {
        self.absent.insert((uid.to_owned(), resource, key.clone()));
    }

    pub(crate) fn put(&mut self, object: &Object) {
        if !self.absent.is_empty() {
            self.absent.remove(&(String::new(), object.resource(), object.key()));
        }
        let owners = object.metadata().owner_references.as_deref().unwrap_or_default();
        if let Some(known) = self.nodes.get_mut(object.uid())
            && known.resource == object.resource()
            && known.key.is_of(object.metadata())
            && known.owners() == owners
        {
            known.object = object.clone();
            return;
        }
        let node = Node { resource: object.resource(), key: object.key(), object: object.clone() };
        let uid = Text::from(object.uid());
        self.remove(&uid);
        for owner in node.owners() {
            self.dependents.entry(owner.uid.as_str().into()).or_default().insert(uid.clone());
        }
        self.by_kind.entry(node.resource).or_default().insert(node.key.clone(), uid.clone());
        self.nodes.insert(uid, node);
    }

    pub(crate) fn remove(&mut self, uid: &str) {
        // It was never seen.
        let Some(node) = self.nodes.remove(uid) else { return };
        for owner in node.owners() {
            if let Some(dependents) = self.dependents.get_mut(owner.uid.as_str()) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(owner.uid.as_str());
                }
            }
        }
        if let Some(objects) = self.by_kind.get_mut(node.resource)
            && objects.get(&node.key).is_some_and(|known| **known == *uid)
        {
            objects.remove(&node.key);
        }
    }
}

/// Whether the object stays until what it owns has gone.
pub(crate) fn waits_for_dependents(metadata: &ObjectMeta) -> bool {
    meta::is_leaving(metadata) && meta::has_finalizer(metadata, FOREGROUND)
}

/// The finalizer of a deletion that waits for dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of a deletion that lets dependents be.
pub(crate) const ORPHAN: &str = "orphan";
