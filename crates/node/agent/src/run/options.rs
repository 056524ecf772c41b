//! The options of a node that runs pods.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Taint;
use lazaret_containers::Runtime;
use lazaret_images::ImageSource;
use lazaret_pods::{
    Millis, Options as PodsOptions, Pods, PressureOptions, Signal, SoftThreshold, Thresholds,
};
use lazaret_provision::{ApiObjects, NodeFacts, Provision, ResolverConfig};

use super::{
    facts::Machine,
    shared::{Parts, Shared},
};
use crate::{Options, StartError, clock::Clock};

/// The options of a node that runs pods.
pub struct RunOptions {
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Their images.
    pub images: Arc<dyn ImageSource>,
    /// The address of the node.
    pub host_ip: IpAddr,
    /// Where the node's own API is served.
    pub listener: TcpListener,
    /// Certificates of clients of that API are signed by it, in PEM. Without it, the cluster is asked.
    pub authority: Option<String>,
    /// Labels of the Node besides its own.
    pub labels: BTreeMap<String, String>,
    /// Taints of the Node when it is registered.
    pub taints: Vec<Taint>,
    /// How many pods it takes.
    pub pods_max: u32,
    /// Where logs of pods are.
    pub log_root: PathBuf,
    /// The addresses of the cluster's DNS servers.
    pub cluster_dns: Vec<String>,
    /// The domain of the cluster.
    pub cluster_domain: String,
    /// With less than this the node is under pressure.
    pub thresholds: Thresholds,
    /// With less than this for a while pods go, with time to end.
    pub soft_thresholds: BTreeMap<Signal, SoftThreshold>,
    /// That time, at most.
    pub soft_grace_max: Duration,
    /// A condition of pressure stays true this long after it was seen last.
    pub pressure_transition: Duration,
    /// Processes and threads of one pod; no limit when there is none.
    pub pod_pids_max: Option<u64>,
    /// Whether containers that ask for no seccomp profile get the runtime's own.
    pub seccomp_default: bool,
    /// Sysctls that pods may set besides the safe ones; a `*` at the end stands for anything.
    pub allowed_unsafe_sysctls: Vec<String>,
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RunOptions").field("host_ip", &self.host_ip).finish_non_exhaustive()
    }
}

/// A node that is ready to run pods.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(super) machine: Pods,
    pub(super) shared: Arc<Shared>,
    pub(super) options: RunOptions,
}

/// Looks at the machine, and makes directories.
pub(crate) fn prepare(
    (client, clock): (kube::Client, Clock),
    options: &Options,
    run: RunOptions,
) -> Result<Ready, StartError> {
    let root = options.root.clone();
    let facts = Machine::read(&options.root).map_err(StartError::io(&options.root))?;
    let host_ips = vec![run.host_ip.to_string()];
    let mut labels = facts.labels(&options.node);
    labels.extend(run.labels.clone());
    let node_facts = NodeFacts {
        node_name: options.node.clone(),
        host_ips: host_ips.clone(),
        allocatable: Machine::quantities(facts.allocatable(&run.thresholds), run.pods_max),
        memory_capacity: facts.memory,
        cluster_domain: run.cluster_domain.clone(),
        cluster_dns: run.cluster_dns.clone(),
        resolver: ResolverConfig::parse(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default()),
        hosts: std::fs::read_to_string("/etc/hosts").unwrap_or_default(),
        seccomp_root: options.root.join("seccomp"),
        kernel: facts.kernel_version(),
        log_root: run.log_root.clone(),
        pod_pids_max: run.pod_pids_max,
        seccomp_default: run.seccomp_default,
        allowed_unsafe_sysctls: run.allowed_unsafe_sysctls.clone(),
        // No runtime here applies a profile: a pod that asks for one is refused.
        has_app_armor: false,
    };
    let objects = Arc::new(ApiObjects::new(client.clone()));
    let provision = Provision::new(&root, node_facts, objects).map_err(StartError::io(&root))?;
    lazaret_containers::make_log_directory(&run.log_root).map_err(StartError::io(&run.log_root))?;
    let millis = |time: Duration| Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX);
    let pressure = PressureOptions {
        thresholds: run.thresholds.clone(),
        soft: run.soft_thresholds.clone(),
        soft_grace_ms_max: millis(run.soft_grace_max),
        transition_ms: millis(run.pressure_transition),
    };
    let capacity = facts.allocatable(&run.thresholds);
    let machine = Pods::new(PodsOptions { capacity, pods_max: run.pods_max.into(), pressure });
    let parts = Parts {
        client,
        clock,
        node: options.node.clone(),
        machine: facts,
        runtime: Arc::clone(&run.runtime),
        images: Arc::clone(&run.images),
        provision,
        host_ips,
        labels,
        log_root: run.log_root.clone(),
    };
    Ok(Ready { machine, shared: Arc::new(Shared::new(parts)), options: run })
}
