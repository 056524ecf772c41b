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

/// An object that changed, or is gone.
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
}

impl Objects {
    /// Takes note of news. `None`: nothing changed.
    pub(crate) fn apply(&mut self, news: News) -> Option<Change> {
        match news {
            News::Pod(pod) => self.put_pod(pod),
            News::PodGone(key, uid) => {
                self.pods.get(&key).filter(|pod| pod.uid == uid)?;
                self.remove_pod(&key);
                Some(Change::Pod(key))
            }
            News::Claim(claim) => {
                let same =
                    |known: &Arc<ResourceClaim>| known.version == claim.version && known.uid == claim.uid;
                if self.claims.get(&claim.key).is_some_and(same) {
                    return None;
                }
                let key = claim.key.clone();
                self.claims.insert(key.clone(), claim);
                Some(Change::Claim(key))
            }
            News::ClaimGone(key, uid) => {
                self.claims.get(&key).filter(|claim| claim.uid == uid)?;
                self.claims.remove(&key);
                Some(Change::Claim(key))
            }
            News::Class(class) => {
                let name = class.name.clone();
                let before = self.classes.insert(name.clone(), class);
                (before.as_ref() != self.classes.get(&name)).then_some(Change::Class(name))
            }
            News::ClassGone(name) => self.classes.remove(&name).map(|_| Change::Class(name)),
            News::Node(node) => {
                let name = node.name.clone();
                let before = self.nodes.insert(name.clone(), node);
                (before.as_ref() != self.nodes.get(&name)).then_some(Change::Node(name))
            }
            News::NodeGone(name) => self.nodes.remove(&name).map(|_| Change::Node(name)),
            News::Report(_) | News::ReportGone(_) => None,
        }
    }

    /// The pods with an entry for this name of a claim.
    pub(crate) fn users_of(&self, claim: &ObjectKey) -> Vec<ObjectKey> {
        self.users.get(claim).map(|pods| pods.iter().cloned().collect()).unwrap_or_default()
    }

    fn put_pod(&mut self, pod: Arc<Pod>) -> Option<Change> {
        if self.pods.get(&pod.key) == Some(&pod) {
            return None;
        }
        self.remove_pod(&pod.key);
        for claim in pod.claim_keys() {
            self.users.entry(claim).or_default().insert(pod.key.clone());
        }
        let key = pod.key.clone();
        self.pods.insert(key.clone(), pod);
        Some(Change::Pod(key))
    }

    fn remove_pod(&mut self, key: &ObjectKey) {
        // It is seen for the first time.
        let Some(pod) = self.pods.remove(key) else { return };
        for claim in pod.claim_keys() {
            if let Some(users) = self.users.get_mut(&claim) {
                users.remove(key);
                if users.is_empty() {
                    self.users.remove(&claim);
                }
            }
        }
    }
}
