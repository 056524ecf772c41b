//! The holders of claims: a pod, or a group for all of its pods.

use alloc::sync::Arc;

use lazaret_model::{ObjectKey, POD_GROUP_API, Pod, PodClaim, PodGroup, Uid};

use crate::SeenClaim;

/// The kind of a holder of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum HolderKind {
    /// A pod.
    #[default]
    Pod,
    /// A group of pods.
    Group,
}

/// One incarnation of who has claims.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Holder {
    /// A pod or a group.
    pub kind: HolderKind,
    /// Which one.
    pub key: ObjectKey,
    /// Which incarnation of it.
    pub uid: Uid,
}

impl From<&Pod> for Holder {
    fn from(pod: &Pod) -> Self {
        Self { kind: HolderKind::Pod, key: pod.key.clone(), uid: pod.uid.clone() }
    }
}

impl From<&PodGroup> for Holder {
    fn from(group: &PodGroup) -> Self {
        Self { kind: HolderKind::Group, key: group.key.clone(), uid: group.uid.clone() }
    }
}

impl HolderKind {
    /// The name of its entries in events.
    pub(crate) fn entry(self) -> &'static str {
        match self {
            Self::Pod => "PodResourceClaim",
            Self::Group => "PodGroupResourceClaim",
        }
    }

    /// Whether this is the kind of a claim's controller.
    pub(crate) fn is_owner(self, owner: &lazaret_model::Owner) -> bool {
        match self {
            Self::Pod => owner.group.is_empty() && *owner.kind == *"Pod",
            Self::Group => *owner.group == *POD_GROUP_API && *owner.kind == *"PodGroup",
        }
    }

    /// The kind of a claim's user, if it is one of these.
    pub(crate) fn of(consumer: &lazaret_model::Consumer) -> Option<Self> {
        match (consumer.api_group.as_str(), consumer.resource.as_str()) {
            ("", "pods") => Some(Self::Pod),
            (POD_GROUP_API, "podgroups") => Some(Self::Group),
            _ => None,
        }
    }
}

impl SeenClaim {
    /// Its controlling owner.
    pub(crate) fn holder(&self) -> Option<Holder> {
        let owner = self.claim.owner.as_ref()?;
        let kind = [HolderKind::Pod, HolderKind::Group].into_iter().find(|kind| kind.is_owner(owner))?;
        Some(Holder { kind, key: self.beside(&owner.name), uid: owner.uid.clone() })
    }

    /// Whether it is controlled by this one.
    pub(crate) fn is_held_by(&self, holder: &Holder) -> bool {
        let owner = self.claim.owner.as_ref();
        owner.is_some_and(|owner| owner.uid == holder.uid && holder.kind.is_owner(owner))
    }

    /// Something of this name in the same namespace.
    pub(crate) fn beside(&self, name: &lazaret_model::Text) -> ObjectKey {
        ObjectKey { namespace: self.claim.key.namespace.clone(), name: name.clone() }
    }
}

/// The part of a holder that decides about its claims.
#[derive(Clone, Debug)]
pub(crate) enum Needy {
    Pod(Arc<Pod>),
    Group(Arc<PodGroup>),
}

impl Needy {
    pub(crate) fn holder(&self) -> Holder {
        match self {
            Self::Pod(pod) => Holder::from(&**pod),
            Self::Group(group) => Holder::from(&**group),
        }
    }

    pub(crate) fn entries(&self) -> &[PodClaim] {
        match self {
            Self::Pod(pod) => &pod.claims,
            Self::Group(group) => &group.claims,
        }
    }

    /// Whether it is to be given what it lacks. Unlike Kubernetes' controller this one gives nothing to a pod that
    /// has ended, which would only be taken away again.
    // DEVIATION(ended-pods-claims)
    pub(crate) fn wants_claims(&self) -> bool {
        match self {
            Self::Pod(pod) => crate::standing::wants_claims(pod),
            Self::Group(group) => !group.deleting,
        }
    }
}
