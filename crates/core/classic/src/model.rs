//! The objects of `cdi.k8s.io/v1alpha1`, and what pods say of claims.

use alloc::{collections::BTreeMap, format, sync::Arc, vec::Vec};

use lazaret_model::{Node, NodeSelector, ObjectKey, Text, Uid};

/// The `userLimit` of a claim that any number of users may use.
pub const USERS_UNLIMITED: i64 = -1;
/// Users of a claim, also if any number is allowed: an object has to stay small enough to be written.
pub const RESERVED_MAX: usize = 256;

/// Which driver allocates, and with which parameters of the administrator.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ResourceClass {
    /// Its name.
    pub name: Text,
    /// The driver.
    pub driver_name: Text,
    /// For the driver, as written: never read here.
    pub parameters: Text,
}

/// A request for one device or several.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ResourceClaim {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Which incarnation.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: Text,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Text>,
    /// `metadata.ownerReferences`.
    pub owners: Vec<Reference>,
    /// The request. Never changes.
    pub spec: Arc<ClaimSpec>,
    /// The state of its allocation.
    pub status: ClaimStatus,
}

/// The request of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ClaimSpec {
    /// `resourceClassName`.
    pub class_name: Text,
    /// For the driver, as written: never read here.
    pub parameters: Text,
    /// When it is allocated.
    pub mode: AllocationMode,
}

/// When a claim is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AllocationMode {
    /// As soon as it exists.
    Immediate,
    /// When a pod needs it, for a node that the scheduler selects.
    #[default]
    Delayed,
}

/// The state of a claim's allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimStatus {
    /// The phase, which says which component has to act.
    pub phase: Phase,
    /// The driver that began to allocate it; empty while none has.
    pub driver_name: Text,
    /// `scheduling.scheduler`: what the scheduler says.
    pub scheduler: SchedulerScheduling,
    /// `scheduling.driver`: what the driver says.
    pub driver: DriverScheduling,
    /// From the driver, for the driver.
    pub attributes: BTreeMap<Text, Text>,
    /// How many users there may be at a time; [`USERS_UNLIMITED`] for any number.
    pub user_limit: i64,
    /// Its users: those that may use it now.
    pub reserved_for: Vec<Reference>,
}

/// Where a claim is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    /// Not allocated.
    #[default]
    Pending,
    /// Allocated.
    Allocated,
    /// To be deallocated by its driver, then pending again.
    Reallocate,
}

/// The scheduler's part of the status of a claim that is to be allocated.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SchedulerScheduling {
    /// Allocate it for this node.
    pub selected_node: Option<Text>,
    /// Nodes about which the scheduler asks.
    pub potential_nodes: Arc<[Text]>,
}

/// The driver's part of the status of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DriverScheduling {
    /// Of the potential nodes, those for which it cannot be allocated.
    pub unsuitable_nodes: Arc<[Text]>,
    /// Where it is available, or could be; absent: everywhere. Kept when the claim is allocated.
    pub available_on_nodes: Option<Arc<NodeSelector>>,
}

/// An owner reference: who owns a claim, or uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Reference {
    /// `apiVersion`.
    pub api_version: Text,
    /// `kind`.
    pub kind: Text,
    /// The name, in the claim's namespace.
    pub name: Text,
    /// Which incarnation.
    pub uid: Uid,
}

/// A pod, as far as claims matter.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Pod {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Which incarnation.
    pub uid: Uid,
    /// `spec.resourceClaims`.
    pub claims: Vec<PodClaim>,
    /// Which of them each container uses.
    pub containers: Vec<ContainerClaims>,
    /// `spec.nodeName`.
    pub node: Option<Text>,
    /// Whether all of its containers have ended for good.
    pub ended: bool,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

/// An entry of `spec.resourceClaims`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PodClaim {
    /// The name by which containers refer to it.
    pub name: Text,
    /// Where the claim comes from. `None`: neither is set, which validation refuses.
    pub source: Option<PodClaimSource>,
}

/// Where the claim of an entry comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodClaimSource {
    /// It exists under this name, independent of the pod.
    Named(Text),
    /// It is made from this.
    Template(Arc<Template>),
    /// Both were written, which validation refuses.
    Both(Text, Arc<Template>),
}

/// A claim is made from this.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Template {
    /// Copied.
    pub labels: BTreeMap<Text, Text>,
    /// Copied.
    pub annotations: BTreeMap<Text, Text>,
    /// Names of other metadata fields that are set, which validation refuses.
    pub other_metadata: Vec<Text>,
    /// Copied unchanged.
    pub spec: Arc<ClaimSpec>,
}

/// Which entries a container uses.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ContainerClaims {
    /// Its path: `spec.containers[0]`.
    pub path: Text,
    /// `resources.claims`.
    pub claims: Vec<Text>,
}

/// Whether an entry's claim may be used for its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimUse {
    /// It may.
    Usable,
    /// The entry has a template, and the claim of that name does not belong to the pod.
    Foreign,
}

impl Default for ClaimStatus {
    fn default() -> Self {
        Self {
            phase: Phase::default(),
            driver_name: Text::default(),
            scheduler: SchedulerScheduling::default(),
            driver: DriverScheduling::default(),
            attributes: BTreeMap::new(),
            user_limit: 1,
            reserved_for: Vec::new(),
        }
    }
}

/// The name of the claim that is made for an entry: `<pod>-<entry>`.
#[must_use]
pub fn claim_name(pod: &str, entry: &str) -> Text {
    format!("{pod}-{entry}").into()
}

impl ResourceClaim {
    /// Whether it is reserved for this user.
    #[must_use]
    pub fn is_reserved_for(&self, uid: &Uid) -> bool {
        self.status.reserved_for.iter().any(|user| user.uid == *uid)
    }

    /// Whether it can be used: its devices are held for it, and their deallocation was not requested.
    #[must_use]
    pub fn is_allocated(&self) -> bool {
        self.status.phase == Phase::Allocated
    }

    /// Whether one more user may be added: it is allocated, is not being deleted, and has fewer users than it may.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let users = self.status.reserved_for.len();
        let limit = self.status.user_limit;
        let within = limit == USERS_UNLIMITED || i64::try_from(users).is_ok_and(|users| users < limit);
        self.is_allocated() && !self.deleting && within && users < RESERVED_MAX
    }

    /// Whether an owner reference names this incarnation.
    #[must_use]
    pub fn is_owned_by(&self, uid: &Uid) -> bool {
        self.owners.iter().any(|owner| owner.uid == *uid)
    }

    /// Whether it is, or could be, available on a node. A selector that cannot be evaluated selects nothing.
    #[must_use]
    pub fn is_available_on(&self, node: &Node) -> bool {
        self.status
            .driver
            .available_on_nodes
            .as_ref()
            .is_none_or(|nodes| nodes.matches(node).unwrap_or(false))
    }
}

impl Reference {
    /// A reference to a pod.
    #[must_use]
    pub fn pod(pod: &Pod) -> Self {
        Self {
            api_version: "v1".into(),
            kind: "Pod".into(),
            name: pod.key.name.clone(),
            uid: pod.uid.clone(),
        }
    }

    /// Whether it names a pod.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        self.api_version == "v1" && self.kind == "Pod"
    }
}

impl PodClaim {
    /// Whether its claim is made for the pod, which must own it.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        matches!(self.source, Some(PodClaimSource::Template(_)))
    }

    /// The name of its claim, which need not exist.
    #[must_use]
    pub fn claim_name(&self, pod: &Pod) -> Option<Text> {
        match self.source.as_ref()? {
            PodClaimSource::Named(name) => Some(name.clone()),
            PodClaimSource::Template(_) => Some(claim_name(&pod.key.name, &self.name)),
            PodClaimSource::Both(..) => None,
        }
    }

    /// Whether this claim may be used for the entry.
    #[must_use]
    pub fn may_use(&self, pod: &Pod, claim: &ResourceClaim) -> ClaimUse {
        match &self.source {
            Some(PodClaimSource::Template(_)) if !claim.is_owned_by(&pod.uid) => ClaimUse::Foreign,
            Some(_) | None => ClaimUse::Usable,
        }
    }
}

impl Pod {
    /// The keys of its claims, in the order of its entries, without repetition.
    pub fn claim_keys(&self) -> Vec<ObjectKey> {
        let mut keys: Vec<ObjectKey> = Vec::with_capacity(self.claims.len());
        for name in self.claims.iter().filter_map(|entry| entry.claim_name(self)) {
            let key = ObjectKey { namespace: self.key.namespace.clone(), name };
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// Whether it still waits for a node.
    #[must_use]
    pub fn is_unplaced(&self) -> bool {
        self.node.is_none() && !self.ended && !self.deleting
    }
}
