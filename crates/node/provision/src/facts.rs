//! The facts of a node.

use std::{collections::BTreeMap, path::PathBuf};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use lazaret_containers::Bytes;

use crate::resolver_config::ResolverConfig;

/// The facts and the configuration of a node.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The name of the Node.
    pub node_name: String,
    /// Its addresses; the family of the first is preferred.
    pub host_ips: Vec<String>,
    /// The amounts that pods may use: for `resourceFieldRef` without a limit, and for tmpfs.
    pub allocatable: BTreeMap<String, Quantity>,
    /// All its memory.
    pub memory_capacity: Bytes,
    /// Processes and threads of one pod; no limit when there is none.
    pub pod_pids_max: Option<u64>,
    /// `cluster.local` as a rule.
    pub cluster_domain: String,
    /// The addresses of the cluster's DNS servers. When there are none, pods get the node's resolver.
    pub cluster_dns: Vec<String>,
    /// The node's own `resolv.conf`.
    pub resolver: ResolverConfig,
    /// The node's own `/etc/hosts`, for pods in its network.
    pub hosts: String,
    /// Below it are profiles of the type `Localhost`.
    pub seccomp_root: PathBuf,
    /// Whether a pod that asks for no profile gets `RuntimeDefault`.
    pub seccomp_default: bool,
    /// Whether the kernel has AppArmor.
    pub has_app_armor: bool,
    /// Sysctls that are allowed besides the safe ones; a `*` at the end stands for anything.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// The version of the kernel, major and minor: older ones do not have every safe sysctl for each pod.
    pub kernel: (u32, u32),
    /// `/var/log/pods` as a rule.
    pub log_root: PathBuf,
}

impl Default for NodeFacts {
    fn default() -> Self {
        Self {
            node_name: String::new(),
            host_ips: Vec::new(),
            allocatable: BTreeMap::new(),
            memory_capacity: 0,
            pod_pids_max: None,
            cluster_domain: "cluster.local".to_owned(),
            cluster_dns: Vec::new(),
            resolver: ResolverConfig::default(),
            hosts: String::new(),
            seccomp_root: PathBuf::from("/var/lib/kubelet/seccomp"),
            seccomp_default: false,
            has_app_armor: false,
            allowed_unsafe_sysctls: Vec::new(),
            kernel: (6, 1),
            log_root: PathBuf::from("/var/log/pods"),
        }
    }
}
