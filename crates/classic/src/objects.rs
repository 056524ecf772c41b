//! A cache of the objects, and what changed in it.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use lazaret_model::{Node, ObjectKey, Text};

use crate::{
    model::{Pod, ResourceClaim, ResourceClass},
    news::News,
};

/// Something that is not as it was, or not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Pod(ObjectKey),
    Claim(ObjectKey),
    Class(Text),
    Node(Text),
}

/// As many as the API has.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) pods: BTreeMap<ObjectKey, Arc<Pod>>,
    pub(crate) claims: BTreeMap<ObjectKey, Arc<ResourceClaim>>,
    pub(crate) classes: BTreeMap<Text, Arc<ResourceClass>>,
    pub(crate) nodes: BTreeMap<Text, Arc<Node>>,
    /// For each name of a claim the pods with an entry for it.
    users: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    pub(crate) synced: bool,
}

impl Objects {
    pub(crate) fn apply(&mut self, news: News) -> Vec<Change> {
        let mut changes = Vec::new();
        match news {
            News::Pod(pod) => self.put_pod(pod, &mut changes),
            News::PodGone(key, uid) => {
                if self.pods.get(&key).is_some_and(|pod| pod.uid == uid) {
                    self.remove_pod(&key, &mut changes);
                }
            }
            News::Claim(claim) => self.put_claim(claim, &mut changes),
            News::ClaimGone(key, uid) => {
                if self.claims.get(&key).is_some_and(|claim| claim.uid == uid) {
                    self.claims.remove(&key);
                    changes.push(Change::Claim(key));
                }
            }
            News::Class(class) => self.put_class(class, &mut changes),
            News::ClassGone(name) => {
                if self.classes.remove(&name).is_some() {
                    changes.push(Change::Class(name));
                }
            }
            News::Node(node) => self.put_node(node, &mut changes),
            News::NodeGone(name) => {
                if self.nodes.remove(&name).is_some() {
                    changes.push(Change::Node(name));
                }
            }
            News::PodsListed(_) | News::ClaimsListed(_) | News::ClassesListed(_) | News::NodesListed(_) => {
                self.apply_list(news, &mut changes);
            }
            News::Synced => self.synced = true,
        }
        changes
    }

    fn apply_list(&mut self, news: News, changes: &mut Vec<Change>) {
        match news {
            News::PodsListed(pods) => {
                for key in absent(&self.pods, pods.iter().map(|pod| &pod.key)) {
                    self.remove_pod(&key, changes);
                }
                pods.into_iter().for_each(|pod| self.put_pod(pod, changes));
            }
            News::ClaimsListed(claims) => {
                for key in absent(&self.claims, claims.iter().map(|claim| &claim.key)) {
                    self.claims.remove(&key);
                    changes.push(Change::Claim(key));
                }
                claims.into_iter().for_each(|claim| self.put_claim(claim, changes));
            }
            News::ClassesListed(classes) => {
                for name in absent(&self.classes, classes.iter().map(|class| &class.name)) {
                    self.classes.remove(&name);
                    changes.push(Change::Class(name));
                }
                classes.into_iter().for_each(|class| self.put_class(class, changes));
            }
            News::NodesListed(nodes) => {
                for name in absent(&self.nodes, nodes.iter().map(|node| &node.name)) {
                    self.nodes.remove(&name);
                    changes.push(Change::Node(name));
                }
                nodes.into_iter().for_each(|node| self.put_node(node, changes));
            }
            News::Pod(_)
            | News::PodGone(..)
            | News::Claim(_)
            | News::ClaimGone(..)
            | News::Class(_)
            | News::ClassGone(_)
            | News::Node(_)
            | News::NodeGone(_)
            | News::Synced => {}
        }
    }

    /// The pods with an entry for this name of a claim.
    pub(crate) fn users_of(&self, claim: &ObjectKey) -> Vec<ObjectKey> {
        self.users.get(claim).map(|pods| pods.iter().cloned().collect()).unwrap_or_default()
    }

    fn put_pod(&mut self, pod: Arc<Pod>, changes: &mut Vec<Change>) {
        if self.pods.get(&pod.key) == Some(&pod) {
            return;
        }
        self.remove_pod(&pod.key, &mut Vec::new());
        for claim in pod.claim_keys() {
            self.users.entry(claim).or_default().insert(pod.key.clone());
        }
        changes.push(Change::Pod(pod.key.clone()));
        self.pods.insert(pod.key.clone(), pod);
    }

    fn remove_pod(&mut self, key: &ObjectKey, changes: &mut Vec<Change>) {
        let Some(pod) = self.pods.remove(key) else { return };
        for claim in pod.claim_keys() {
            if let Some(users) = self.users.get_mut(&claim) {
                users.remove(key);
                if users.is_empty() {
                    self.users.remove(&claim);
                }
            }
        }
        changes.push(Change::Pod(key.clone()));
    }

    fn put_claim(&mut self, claim: Arc<ResourceClaim>, changes: &mut Vec<Change>) {
        let same = |known: &Arc<ResourceClaim>| known.version == claim.version && known.uid == claim.uid;
        if !self.claims.get(&claim.key).is_some_and(same) {
            changes.push(Change::Claim(claim.key.clone()));
            self.claims.insert(claim.key.clone(), claim);
        }
    }

    fn put_class(&mut self, class: Arc<ResourceClass>, changes: &mut Vec<Change>) {
        if self.classes.get(&class.name) != Some(&class) {
            changes.push(Change::Class(class.name.clone()));
            self.classes.insert(class.name.clone(), class);
        }
    }

    fn put_node(&mut self, node: Arc<Node>, changes: &mut Vec<Change>) {
        if self.nodes.get(&node.name) != Some(&node) {
            changes.push(Change::Node(node.name.clone()));
            self.nodes.insert(node.name.clone(), node);
        }
    }
}

/// The known keys that are not in the list.
fn absent<'a, K: Ord + Clone + 'a, V>(known: &BTreeMap<K, V>, listed: impl Iterator<Item = &'a K>) -> Vec<K> {
    let listed: BTreeSet<&K> = listed.collect();
    known.keys().filter(|key| !listed.contains(key)).cloned().collect()
}
