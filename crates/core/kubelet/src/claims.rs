//! Whether a pod has what it claims. A node starts no pod whose claims are not allocated and reserved for it.

use alloc::{collections::BTreeSet, format, string::String, sync::Arc, vec::Vec};

use lazaret_model::{ClaimSource, Consumer, ObjectKey, Owner, POD_GROUP_API, Pod, ResourceClaim, Text};

use crate::machine::{Item, Kubelet};

/// Why a pod cannot start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    pub(crate) wait: Wait,
    pub(crate) why: String,
}

/// The object that has to change before it can.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A claim.
    Claim(ObjectKey),
    /// The Node: what it is asked about.
    Node,
    /// The pod itself.
    Pod,
}

impl Kubelet {
    /// A claim as it is now.
    pub(crate) fn hear_claim(&mut self, claim: Arc<ResourceClaim>) {
        let key = claim.key.clone();
        self.prepare_anew(&claim);
        self.claims.insert(key.clone(), claim);
        self.touch_waiting(&key);
    }

    /// No such claim.
    pub(crate) fn miss_claim(&mut self, key: &ObjectKey) {
        self.claims.remove(key);
    }

    /// All claims there are.
    pub(crate) fn list_claims(&mut self, claims: Vec<Arc<ResourceClaim>>) {
        let there: BTreeSet<&ObjectKey> = claims.iter().map(|claim| &claim.key).collect();
        self.claims.retain(|key, _| there.contains(key));
        claims.into_iter().for_each(|claim| self.hear_claim(claim));
    }

    /// The first thing that the pod lacks.
    pub(crate) fn lack(&self, pod: &Pod) -> Option<Lack> {
        let entries = pod.claims.iter().find_map(|entry| match &entry.source {
            ClaimSource::Claim(name) => self.lack_of(pod, name, false),
            ClaimSource::Template { resolved: Some(None), .. } => None,
            ClaimSource::Template { resolved: Some(Some(name)), .. } => self.lack_of(pod, name, true),
            ClaimSource::Template { resolved: None, .. } => {
                Some(Lack { wait: Wait::Pod, why: format!("no claim has been made for {}", entry.name) })
            }
            ClaimSource::Unknown => Some(Lack {
                wait: Wait::Pod,
                why: format!("{} names neither a claim nor a template", entry.name),
            }),
        });
        let extended = || pod.extended_claim.as_ref().and_then(|name| self.lack_of(pod, name, true));
        entries.or_else(extended)
    }

    fn lack_of(&self, pod: &Pod, name: &Text, own: bool) -> Option<Lack> {
        let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
        let why = match self.claims.get(&key) {
            None => "does not exist",
            Some(claim) if own && !claim.owner.as_ref().is_some_and(|owner| is_made_for(owner, pod)) => {
                "was not made for this pod"
            }
            Some(claim) if claim.allocation.is_none() => "is not allocated",
            Some(claim) if !claim.reserved_for.iter().any(|user| is_user(user, pod)) => {
                "is not reserved for this pod"
            }
            Some(_) => return None,
        };
        Some(Lack { why: format!("claim {name} {why}"), wait: Wait::Claim(key) })
    }

    /// Looks at the pod again when that changes.
    pub(crate) fn wait_for(&mut self, wait: Wait, node: usize, pod: &ObjectKey) {
        match wait {
            Wait::Claim(claim) => drop(self.waiting.entry(claim).or_default().insert(pod.clone())),
            Wait::Node => drop(self.waiting_for_node.entry(node).or_default().insert(pod.clone())),
            Wait::Pod => {}
        }
    }

    pub(crate) fn touch_waiting(&mut self, claim: &ObjectKey) {
        for pod in self.waiting.remove(claim).unwrap_or_default() {
            self.touch(Item::Pod(pod));
        }
    }
}

/// A kubelet knows the name of a pod's group and nothing else of it.
fn is_made_for(owner: &Owner, pod: &Pod) -> bool {
    let is_group = || *owner.group == *POD_GROUP_API && *owner.kind == *"PodGroup";
    owner.uid == pod.uid || pod.group.as_ref().is_some_and(|group| is_group() && owner.name == *group)
}

fn is_user(user: &Consumer, pod: &Pod) -> bool {
    let is_group = || *user.api_group == *POD_GROUP_API && *user.resource == *"podgroups";
    user.uid == pod.uid || pod.group.as_ref().is_some_and(|group| is_group() && user.name == *group)
}
