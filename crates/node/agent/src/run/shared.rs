//! State that the parts of a node that run pods share.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use k8s_openapi::api::core::v1::Service;
use lazaret_containers::{Runtime, SandboxState};
use lazaret_images::ImageSource;
use lazaret_pods::{CrossedThreshold, PodRef, PressureKind};
use lazaret_provision::Provision;
use tokio::sync::{Semaphore, watch};

use super::{facts::Machine, table::Table};
use crate::clock::Clock;

/// Sandboxes and containers that are made at a time. Each is mostly work for a processor.
const STARTS_MAX: usize = 8;
/// Writes to the API at a time, and pods whose volumes are made at a time. Each that waits for an answer has a connection, which stays
/// for a while with its buffers: a hundred pods that end at once would hold a hundred.
const WRITES_MAX: usize = 8;
const VOLUMES_MAX: usize = 8;
/// Images that are pulled at a time.
const PULLS_MAX: usize = 3;

/// State that the parts share.
pub(super) struct Shared {
    pub(super) client: kube::Client,
    pub(super) clock: Clock,
    pub(super) node: String,
    pub(super) machine: Machine,
    /// Conditions of the Node that are true.
    pub(super) pressure: watch::Sender<BTreeMap<PressureKind, CrossedThreshold>>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) images: Arc<dyn ImageSource>,
    pub(super) provision: Provision,
    pub(super) host_ips: Vec<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) log_root: PathBuf,
    pub(super) starts: Semaphore,
    pub(super) pulls: Semaphore,
    pub(super) writes: Semaphore,
    pub(super) volumes: Semaphore,
    services: RwLock<Arc<BTreeMap<(String, String), Service>>>,
    table: Mutex<Table>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("node", &self.node).finish_non_exhaustive()
    }
}

/// The parts that a node that runs pods is built from.
pub(super) struct Parts {
    pub(super) client: kube::Client,
    pub(super) clock: Clock,
    pub(super) node: String,
    pub(super) machine: Machine,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) images: Arc<dyn ImageSource>,
    pub(super) provision: Provision,
    pub(super) host_ips: Vec<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) log_root: PathBuf,
}

impl Shared {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { client, clock, node, machine, runtime, images, provision, host_ips, labels, log_root } =
            parts;
        Self {
            client,
            clock,
            node,
            machine,
            pressure: watch::Sender::default(),
            runtime,
            images,
            provision,
            host_ips,
            labels,
            log_root,
            starts: Semaphore::new(STARTS_MAX),
            pulls: Semaphore::new(PULLS_MAX),
            writes: Semaphore::new(WRITES_MAX),
            volumes: Semaphore::new(VOLUMES_MAX),
            services: RwLock::default(),
            table: Mutex::default(),
        }
    }

    /// Held for no longer than a look.
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses of a pod: without a network of its own it has the host's.
    pub(super) fn ips(&self, sandbox: &SandboxState) -> Vec<String> {
        if sandbox.ips.is_empty() { self.host_ips.clone() } else { sandbox.ips.clone() }
    }

    /// Where the logs of a pod are, as kubelet has them.
    pub(super) fn log_directory(&self, pod: &PodRef) -> PathBuf {
        self.log_root.join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid))
    }

    /// Services that become environment variables of containers in this namespace.
    pub(super) fn services(&self, namespace: &str) -> Vec<Service> {
        let all = Arc::clone(&self.services.read().unwrap_or_else(PoisonError::into_inner));
        let is_told =
            |(of, name): &(String, String)| of == namespace || (of == "default" && name == "kubernetes");
        all.iter().filter(|(key, _)| is_told(key)).map(|(_, service)| service.clone()).collect()
    }

    pub(super) fn change_services(&self, change: impl FnOnce(&mut BTreeMap<(String, String), Service>)) {
        let mut all = self.services.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut all));
    }
}
