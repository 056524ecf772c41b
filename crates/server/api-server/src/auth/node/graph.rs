//! The objects related to each node through its pods, as a graph whose paths end at nodes:
//!
//! ```text
//! secret, config map, service account, resource claim, volume claim ──▶ pod ──▶ node
//! secret ──▶ persistent volume ──▶ volume claim
//! volume attachment, resource slice ──▶ node
//! ```

use std::collections::{BTreeMap, BTreeSet};

use lazaret_json::{Text, Value};

use super::references::{
    classic_claims, config_maps, is_mirror, resource_claims, secrets, text, volume_claims, volume_secrets,
};

/// The kinds of objects that a path can begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Vertex {
    Secret,
    ConfigMap,
    ServiceAccount,
    ResourceClaim,
    ClassicClaim,
    VolumeClaim,
    Volume,
    Attachment,
    Slice,
    Pod,
}

/// An object by its namespace, empty for the cluster's, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    namespace: Text,
    name: Text,
}

impl Key {
    fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// An object that a pod references.
type Reference = (Vertex, Key);

#[derive(Debug, PartialEq, Eq)]
struct Pod {
    node: Text,
    /// Sorted, each once.
    references: Vec<Reference>,
}

#[derive(Debug)]
struct Volume {
    claim: Key,
    secrets: Vec<Key>,
}

/// The graph. A change costs what the changed object references; a question costs one search, and for a secret one more for each volume
/// that needs it.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pods: BTreeMap<Key, Pod>,
    /// How many pods of which node reference an object; nodes in order.
    referenced: BTreeMap<Reference, Vec<(Text, u32)>>,
    volumes: BTreeMap<Text, Volume>,
    /// Volumes that need a secret.
    volumes_of_secret: BTreeMap<Key, BTreeSet<Text>>,
    /// Nodes of volume attachments and of resource slices.
    attachments: BTreeMap<Text, Text>,
    slices: BTreeMap<Text, Text>,
}

impl Graph {
    /// Whether a path leads from an object to a node.
    pub(crate) fn has_path(&self, node: &str, vertex: Vertex, namespace: &str, name: &str) -> bool {
        let is_node = |found: Option<&Text>| found.is_some_and(|found| found == node);
        match vertex {
            Vertex::Pod => is_node(self.pods.get(&Key::new(namespace, name)).map(|pod| &pod.node)),
            Vertex::Attachment => is_node(self.attachments.get(name)),
            Vertex::Slice => is_node(self.slices.get(name)),
            Vertex::Volume => self.volume_reaches(node, name),
            Vertex::Secret => {
                let key = Key::new(namespace, name);
                let volumes = self.volumes_of_secret.get(&key).into_iter().flatten();
                let mut volumes = volumes.map(Text::as_str);
                self.is_referenced(node, &(vertex, key))
                    || volumes.any(|name| self.volume_reaches(node, name))
            }
            Vertex::ConfigMap
            | Vertex::ServiceAccount
            | Vertex::ResourceClaim
            | Vertex::ClassicClaim
            | Vertex::VolumeClaim => self.is_referenced(node, &(vertex, Key::new(namespace, name))),
        }
    }

    fn volume_reaches(&self, node: &str, name: &str) -> bool {
        let claim = self.volumes.get(name).map(|volume| volume.claim.clone());
        claim.is_some_and(|claim| self.is_referenced(node, &(Vertex::VolumeClaim, claim)))
    }

    fn is_referenced(&self, node: &str, reference: &Reference) -> bool {
        let nodes = self.referenced.get(reference).map(Vec::as_slice).unwrap_or_default();
        nodes.binary_search_by(|(known, _)| known.as_str().cmp(node)).is_ok()
    }

    /// A pod as it is now; `None` if it is gone. A pod that is bound to no node leads nowhere.
    pub(crate) fn set_pod(&mut self, namespace: &str, name: &str, pod: Option<&Value>) {
        let key = Key::new(namespace, name);
        let new = pod.and_then(|pod| Pod::read(namespace, pod));
        // Most changes of a pod change none of this.
        if self.pods.get(&key) == new.as_ref() {
            return;
        }
        if let Some(old) = self.pods.remove(&key) {
            old.references.iter().for_each(|reference| self.drop_reference(reference, &old.node));
        }
        if let Some(new) = new {
            new.references.iter().for_each(|reference| self.add_reference(reference, &new.node));
            self.pods.insert(key, new);
        }
    }

    /// A persistent volume as it is now; `None` if it is gone. A volume that is bound to no claim leads nowhere.
    pub(crate) fn set_volume(&mut self, name: &str, volume: Option<&Value>) {
        if let Some(old) = self.volumes.remove(name) {
            for secret in old.secrets {
                if let Some(volumes) = self.volumes_of_secret.get_mut(&secret) {
                    volumes.remove(name);
                    if volumes.is_empty() {
                        self.volumes_of_secret.remove(&secret);
                    }
                }
            }
        }
        let Some(new) = volume.and_then(Volume::read) else { return };
        for secret in &new.secrets {
            self.volumes_of_secret.entry(secret.clone()).or_default().insert(name.into());
        }
        self.volumes.insert(name.into(), new);
    }

    /// A volume attachment as it is now; `None` if it is gone.
    pub(crate) fn set_attachment(&mut self, name: &str, attachment: Option<&Value>) {
        set_node(&mut self.attachments, name, attachment);
    }

    /// A resource slice as it is now; `None` if it is gone. Only a slice of one node leads to it.
    pub(crate) fn set_slice(&mut self, name: &str, slice: Option<&Value>) {
        set_node(&mut self.slices, name, slice);
    }

    /// All pods are unknown again.
    pub(crate) fn forget_pods(&mut self) {
        self.pods.clear();
        self.referenced.clear();
    }

    /// All persistent volumes are unknown again.
    pub(crate) fn forget_volumes(&mut self) {
        self.volumes.clear();
        self.volumes_of_secret.clear();
    }

    /// All volume attachments are unknown again.
    pub(crate) fn forget_attachments(&mut self) {
        self.attachments.clear();
    }

    /// All resource slices are unknown again.
    pub(crate) fn forget_slices(&mut self) {
        self.slices.clear();
    }

    fn add_reference(&mut self, reference: &Reference, node: &Text) {
        let nodes = self.referenced.entry(reference.clone()).or_default();
        match nodes.binary_search_by(|(known, _)| known.cmp(node)) {
            Ok(at) => nodes[at].1 += 1,
            Err(at) => nodes.insert(at, (node.clone(), 1)),
        }
    }

    fn drop_reference(&mut self, reference: &Reference, node: &Text) {
        let Some(nodes) = self.referenced.get_mut(reference) else {
            debug_assert!(false, "{reference:?} of a pod on {node} is not counted");
            return;
        };
        if let Ok(at) = nodes.binary_search_by(|(known, _)| known.cmp(node)) {
            nodes[at].1 -= 1;
            if nodes[at].1 == 0 {
                nodes.remove(at);
            }
        }
        if nodes.is_empty() {
            self.referenced.remove(reference);
        }
    }

    /// Nothing is held for objects that are gone.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
            && self.referenced.is_empty()
            && self.volumes.is_empty()
            && self.volumes_of_secret.is_empty()
            && self.attachments.is_empty()
            && self.slices.is_empty()
    }
}

fn set_node(nodes: &mut BTreeMap<Text, Text>, name: &str, object: Option<&Value>) {
    match object.and_then(|object| text(&object["spec"], "nodeName")) {
        Some(node) => nodes.insert(name.into(), node.into()),
        None => nodes.remove(name),
    };
}

impl Pod {
    fn read(namespace: &str, pod: &Value) -> Option<Self> {
        let node = text(&pod["spec"], "nodeName")?.into();
        // A pod that its node made must not give the node anything. Admission lets no such pod reference other objects; this is the
        // second lock on the same door.
        if is_mirror(pod) {
            return Some(Self { node, references: Vec::new() });
        }
        let mut references = Vec::new();
        let mut add = |vertex: Vertex, name: &str| references.push((vertex, Key::new(namespace, name)));
        text(&pod["spec"], "serviceAccountName")
            .into_iter()
            .for_each(|name| add(Vertex::ServiceAccount, name));
        secrets(pod).into_iter().for_each(|name| add(Vertex::Secret, name));
        config_maps(pod).into_iter().for_each(|name| add(Vertex::ConfigMap, name));
        volume_claims(pod).iter().for_each(|name| add(Vertex::VolumeClaim, name));
        resource_claims(pod).into_iter().for_each(|name| add(Vertex::ResourceClaim, name));
        classic_claims(pod).iter().for_each(|name| add(Vertex::ClassicClaim, name));
        references.sort_unstable();
        references.dedup();
        Some(Self { node, references })
    }
}

impl Volume {
    fn read(volume: &Value) -> Option<Self> {
        let claim = &volume["spec"]["claimRef"];
        let claim = Key::new(text(claim, "namespace")?, text(claim, "name")?);
        let mut secrets: Vec<Key> =
            volume_secrets(volume).into_iter().map(|(namespace, name)| Key::new(namespace, name)).collect();
        secrets.sort_unstable();
        secrets.dedup();
        Some(Self { claim, secrets })
    }
}
