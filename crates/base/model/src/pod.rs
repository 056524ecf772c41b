//! Pods, as far as devices are concerned.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};

use crate::{
    EvictionPreference, Labels, Node, NodeAllocatableStatus, NodeSelector, ObjectKey, PodSpec, Taint, Text,
    Timestamp, Toleration, Uid, tolerates,
};

/// A pod, as far as any core of a control plane reads it. It is decoded once for all of them; each takes the fields that it needs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Pod {
    /// Where it is.
    pub key: ObjectKey,
    /// The incarnation.
    pub uid: Uid,
    /// Its labels; pods of one template share them.
    pub labels: Arc<Labels>,
    /// Its scheduling requirements; pods of one template share them.
    pub spec: Arc<PodSpec>,
    /// The node it is bound to.
    pub node: Option<Text>,
    /// How far it is.
    pub phase: PodPhase,
    /// When deletion was asked for.
    pub deleting_since: Option<Timestamp>,
    /// Its claims, by entry.
    pub claims: Vec<PodClaim>,
    /// The claim that the scheduler made for its extended resources.
    pub extended_claim: Option<Text>,
    /// The group it is scheduled with.
    pub group: Option<Text>,
    /// Its priority.
    pub priority: i32,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// When it began to run.
    pub started: Option<Timestamp>,
    /// `status.nominatedNodeName`.
    pub nominated: Option<Text>,
    /// Its controller, for people to recognise it.
    pub owner: Option<Owner>,
    /// Conditions of its status.
    pub conditions: Vec<Condition>,
    /// The wish of its owner for its eviction.
    pub eviction_preference: Option<EvictionPreference>,
    /// The pods of its namespace with the same value leave together with it, where a rule wants that.
    pub eviction_group: Option<Text>,
    /// The eviction that it was marked by.
    pub evicted_by: Option<Box<EvictionMark>>,
    /// Which nodes it may run on; `None`: all that are not tainted.
    pub node_requirements: Option<Arc<NodeRequirements>>,
    /// Fields that few pods have.
    pub rare: Option<Box<RarePodFields>>,
}

/// Fields that few pods have.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RarePodFields {
    /// The kubelet's own pod, which only the kubelet can replace.
    pub mirror: bool,
    /// The first finalizer of a terminating pod that has no time left to end.
    pub kept_by: Option<Text>,
    /// The annotation that a replacement wrote on it.
    pub replacement: Option<Text>,
    /// `status.nodeAllocatableResourceClaimStatuses`.
    pub node_allocatable: Vec<NodeAllocatableStatus>,
    /// The health of its devices, as kubelet reports it; at most [`Self::DEVICE_HEALTH_MAX`] entries.
    pub device_health: Vec<DeviceHealth>,
}

impl RarePodFields {
    /// Entries of one pod that are read: as many as a claim has devices, for each of several claims.
    pub const DEVICE_HEALTH_MAX: usize = 256;
}

/// The health of a device that a pod uses, from the pod's status.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeviceHealth {
    /// The claim, in the pod's namespace.
    pub claim: Text,
    /// Only devices for this request.
    pub request: Option<Text>,
    /// `driver/pool/device`, or the name of a CDI device.
    pub resource: Text,
    /// `Healthy`, `Unhealthy` or `Unknown`.
    pub health: Text,
    /// For people.
    pub message: Text,
}

/// Which nodes a pod may run on, devices and resources aside.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct NodeRequirements {
    /// Labels that a node must have.
    pub labels: BTreeMap<Text, Text>,
    /// Terms of which a node must match one.
    pub affinity: Option<NodeSelector>,
    /// Taints of nodes that it tolerates.
    pub tolerations: Vec<Toleration>,
}

impl NodeRequirements {
    fn admits(&self, node: &Node) -> bool {
        self.labels.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            // A selector that cannot be asked admits nothing.
            && self.affinity.as_ref().is_none_or(|terms| terms.matches(node).unwrap_or(false))
    }
}

impl Pod {
    /// Whether the node is one that it may be placed on, devices and resources aside.
    #[must_use]
    pub fn may_run_on(&self, node: &Node) -> bool {
        let tolerations = self.node_requirements.as_ref().map_or(&[][..], |wanted| &wanted.tolerations);
        let tolerated = |taint: &Taint| {
            !taint.effect.blocks_allocation() || tolerations.iter().any(|one| tolerates(one, taint))
        };
        node.taints.iter().all(tolerated)
            && self.node_requirements.as_ref().is_none_or(|wanted| wanted.admits(node))
    }
}

/// The annotation that an eviction leaves on a pod, for the next leader to count.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct EvictionMark {
    /// When it was decided.
    pub at: Timestamp,
    /// The rules that were due, by name and incarnation.
    pub rules: Vec<(Text, Uid)>,
}

impl EvictionMark {
    /// No pod is marked with more rules: a pod has a claim or two, and an annotation is read by everybody who watches pods.
    pub const RULES_MAX: usize = 16;
}

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PodPhase {
    /// Not yet running.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Its node does not answer, or a phase that this version does not know.
    Unknown,
}

impl PodPhase {
    /// Whether it will never run again.
    #[must_use]
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// An entry of `spec.resourceClaims`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    /// The entry's name.
    pub name: Text,
    /// Where the claim comes from.
    pub source: ClaimSource,
}

/// Where a pod's claim comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimSource {
    /// A claim of this name.
    Claim(Text),
    /// Made from a template.
    Template {
        /// The template's name.
        template: Text,
        /// From `status.resourceClaimStatuses`: `None` not there yet, `Some(None)` no claim needed.
        resolved: Option<Option<Text>>,
    },
    /// In a way this version does not know.
    Unknown,
}

/// The object that controls another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Owner {
    /// API group, without the version.
    pub group: Text,
    /// Kind.
    pub kind: Text,
    /// Name.
    pub name: Text,
    /// The incarnation.
    pub uid: Uid,
}

/// A condition of an object's status.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Condition {
    /// The type of the condition.
    pub kind: Text,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, for machines.
    pub reason: Text,
    /// Why, for people.
    pub message: Text,
    /// Which generation of the spec it speaks of.
    pub observed_generation: i64,
    /// When it changed.
    pub last_transition: Option<Timestamp>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ConditionStatus {
    /// Yes.
    True,
    /// No.
    False,
    /// It is not known.
    #[default]
    Unknown,
}
