//! The scheduling requirements of pods. They do not change, and the pods of one template have equal ones.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{Amounts, LabelSelector, Labels, NodeSelector, NodeSelectorTerm, Text, Toleration};

/// The scheduler of pods that name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The scheduling requirements of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSpec {
    /// The name of its scheduler.
    pub scheduler: Text,
    /// The gates that keep it from being placed at all.
    pub gates: Vec<Text>,
    /// Higher goes first.
    pub priority: i32,
    /// Whether others may be evicted for it.
    pub preempts: bool,
    /// Its requests at their peak, overhead included.
    pub requests: Amounts,
    /// The same with [`CPU_MILLI_ASSUMED`] and [`MEMORY_ASSUMED`] for containers that ask for none: what a node is
    /// weighed by.
    pub weighed: ScoredAmounts,
    /// Containers that ask for extended resources; those that initialise first.
    pub containers: Vec<Container>,
    /// Containers that use claims, those that initialise first, each with the entries that it names.
    pub claim_users: Vec<(Text, Vec<Text>)>,
    /// The requests of the pod as a whole.
    pub pod_level: Vec<PodLevel>,
    /// Ports of the node that it needs.
    pub ports: Vec<HostPort>,
    /// The taints of nodes that it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Labels that a node must have.
    pub node_selector: Labels,
    /// Terms of which a node must match one.
    pub node_affinity: Option<NodeSelector>,
    /// Terms that a node had better match, each with its weight.
    pub preferred_nodes: Vec<(i64, NodeSelectorTerm)>,
    /// Pods that it must be near.
    pub affinity: Vec<PodTerm>,
    /// Pods that it must not be near, nor they near it.
    pub anti_affinity: Vec<PodTerm>,
    /// Pods that it had better be near, or with a negative weight had better not.
    pub preferred_pods: Vec<(i64, PodTerm)>,
    /// How evenly it must be spread among its like.
    pub spread: Vec<Spread>,
}

/// The CPU assumed in scores for a container that requests none, as in Kubernetes.
pub const CPU_MILLI_ASSUMED: i64 = 100;
/// The memory assumed in scores for a container that requests none, as in Kubernetes: 200 MiB.
pub const MEMORY_ASSUMED: i64 = 200 << 20;

/// Processor and memory as nodes are weighed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScoredAmounts {
    /// Thousandths of a processor.
    pub cpu_milli: i64,
    /// Bytes.
    pub memory: i64,
}

/// The request of a pod as a whole for a resource; thousandths of `cpu`, whole units of everything else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodLevel {
    /// Which resource.
    pub resource: Text,
    /// How much of it.
    pub requested: i64,
    /// How much its containers ask for together.
    pub containers: i64,
}

/// A container that asks for extended resources.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Container {
    /// Its name.
    pub name: Text,
    /// Its place among all containers of the pod, those that initialise first.
    pub index: usize,
    /// When it runs.
    pub role: Role,
    /// By name, how much of each resource with a name of the form `domain/name`, and of how many requests the place in
    /// the sorted list of all its requests.
    pub extended: BTreeMap<Text, Extended>,
}

/// The request of a container for an extended resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extended {
    /// How many.
    pub amount: i64,
    /// The resource's place among the sorted names of all that the container requests.
    pub place: usize,
}

/// When a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Before the others, then never again.
    Init,
    /// From its turn among those that initialise until the end.
    Sidecar,
    /// After those that initialise.
    Main,
}

/// A port of the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Its number.
    pub port: i32,
    /// `TCP`, `UDP`, `SCTP`.
    pub protocol: Text,
    /// On this address; `0.0.0.0` means all.
    pub address: Text,
}

impl HostPort {
    /// Whether two pods cannot have these on one node.
    #[must_use]
    pub fn clashes_with(&self, other: &Self) -> bool {
        let all = |port: &Self| port.address == "0.0.0.0" || port.address.is_empty();
        self.port == other.port
            && self.protocol == other.protocol
            && (all(self) || all(other) || self.address == other.address)
    }
}

/// Some pods, and what being near them means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// Which pods; `None`: none at all. Includes the requirements from `matchLabelKeys`.
    pub selector: Option<LabelSelector>,
    /// In these namespaces.
    pub namespaces: Vec<Text>,
    /// And in namespaces with such labels.
    pub namespace_selector: Option<LabelSelector>,
    /// Near: on a node with the same value of this label.
    pub topology: Text,
}

/// How evenly pods are to be spread over the values of a label of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spread {
    /// The difference allowed between the fullest and the emptiest.
    pub skew_max: i64,
    /// The label.
    pub topology: Text,
    /// Whether it must be so or had better be.
    pub required: bool,
    /// Which pods count; `None`: none. Includes the requirements from `matchLabelKeys`.
    pub selector: Option<LabelSelector>,
    /// The number of values assumed at least.
    pub domains_min: i64,
    /// Count only nodes that the pod's node affinity and selector admit.
    pub honors_affinity: bool,
    /// Count only nodes whose taints the pod tolerates.
    pub honors_taints: bool,
}

impl Default for PodSpec {
    fn default() -> Self {
        Self {
            scheduler: DEFAULT_SCHEDULER.into(),
            gates: Vec::new(),
            priority: 0,
            preempts: true,
            requests: Amounts::default(),
            weighed: ScoredAmounts::default(),
            containers: Vec::new(),
            claim_users: Vec::new(),
            pod_level: Vec::new(),
            ports: Vec::new(),
            tolerations: Vec::new(),
            node_selector: Labels::new(),
            node_affinity: None,
            preferred_nodes: Vec::new(),
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            preferred_pods: Vec::new(),
            spread: Vec::new(),
        }
    }
}
