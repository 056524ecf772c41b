//! Measures the machine's free resources and the usage of pods, and reclaims space without ending one.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use lazaret_containers::Phase;
use lazaret_images::Thresholds;
use lazaret_pods::{ContainerUse, Outcome, PodUse};
use lazaret_provision::{disk_use, storage_violation};
use tokio::time::timeout;
use tracing::{info, warn};

use super::{
    shared::Shared,
    view::reference,
    work::{failed, is_plain},
};

/// For what one container uses.
const USAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// For the files of one pod. Counting stops at a million of them by itself.
const STORAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// How much is left.
pub(super) async fn observe(shared: &Arc<Shared>) -> Outcome {
    let shared = Arc::clone(shared);
    match tokio::task::spawn_blocking(move || shared.machine.levels()).await {
        Ok(levels) => Outcome::Observed(levels),
        Err(error) => failed("", error.to_string()),
    }
}

/// Removes images that nothing uses, whether the disk is full by their own measure or not.
pub(super) async fn reclaim(shared: &Shared) -> Outcome {
    collect_images(shared, Thresholds::all()).await;
    Outcome::Done
}

/// Removes images that nothing uses when the disk is fuller than this.
pub(super) async fn collect_images(shared: &Shared, thresholds: Thresholds) {
    let mut in_use: BTreeSet<String> = {
        let table = shared.table();
        let sandboxes = table.entries.values().filter_map(|entry| entry.sandbox.as_ref());
        let containers = sandboxes.flat_map(|sandbox| &sandbox.containers);
        containers.map(|container| container.image_id.clone()).collect()
    };
    match shared.provision.volumes().images() {
        Ok(images) => in_use.extend(images),
        // Without this list nothing is removed: an image may be in use.
        Err(error) => return warn!(%error, "look for images that volumes are made of"),
    }
    match shared.images.collect_garbage(&in_use, thresholds).await {
        Ok(collected) if collected.names.is_empty() => {}
        Ok(collected) => info!(images = collected.names.len(), bytes = collected.bytes, "removed images"),
        Err(error) => warn!(%error, "remove images that nothing uses"),
    }
}

/// A pod that runs.
struct RunningPod {
    pod: Arc<Pod>,
    /// Its containers, those that ended included: name, id, and whether it runs.
    containers: Vec<(String, String, bool)>,
}

/// Resource usage of the running pods.
pub(super) async fn measure(shared: &Arc<Shared>, usage: bool, storage: bool) -> Outcome {
    let mut uses = BTreeMap::new();
    for (uid, running) in running(shared) {
        let mut taken = PodUse::default();
        let mut is_known = false;
        for (name, id, _) in running.containers.iter().filter(|(.., runs)| usage && *runs) {
            let Ok(Ok(usage)) = timeout(USAGE_TIMEOUT, shared.runtime.usage(id)).await else { continue };
            is_known = true;
            taken.memory = taken.memory.saturating_add(usage.memory_working_set);
            taken.pids = taken.pids.saturating_add(usage.pids);
            taken.containers.entry(name.clone()).or_default().memory = usage.memory_working_set;
        }
        if storage {
            is_known |= add_storage(shared, &running, &mut taken).await;
        }
        if is_known {
            uses.insert(uid, taken);
        }
    }
    Outcome::Measured(uses)
}

fn running(shared: &Shared) -> Vec<(String, RunningPod)> {
    let table = shared.table();
    let pods = table.entries.iter().filter(|(_, entry)| !entry.is_gone);
    let running = pods.filter_map(|(uid, entry)| {
        let (pod, sandbox) = (entry.pod.clone()?, entry.sandbox.as_ref()?);
        let containers = sandbox.containers.iter().map(|container| {
            let runs = matches!(container.phase, Phase::Running { .. });
            (container.key.name.clone(), container.id.clone(), runs)
        });
        Some((uid.clone(), RunningPod { pod, containers: containers.collect() }))
    });
    running.collect()
}

/// Counts what a pod has on the disk. Whether that could be done.
async fn add_storage(shared: &Arc<Shared>, running: &RunningPod, taken: &mut PodUse) -> bool {
    let pod = reference(&running.pod);
    if !is_plain(&pod.uid) {
        return false;
    }
    let logs = shared.log_directory(&pod);
    let mut places: Vec<(String, PathBuf)> = Vec::new();
    for (name, id, _) in &running.containers {
        places.extend(shared.runtime.writable_directory(id).map(|path| (name.clone(), path)));
        if !places.contains(&(name.clone(), logs.join(name))) {
            places.push((name.clone(), logs.join(name)));
        }
    }
    let (owner, object) = (Arc::clone(shared), Arc::clone(&running.pod));
    let counted = tokio::task::spawn_blocking(move || count(&owner, &object, &places));
    match timeout(STORAGE_TIMEOUT, counted).await {
        Ok(Ok(Ok(counted))) => {
            (taken.storage, taken.inodes, taken.violation) =
                (counted.bytes, counted.files, counted.violation);
            for (name, bytes) in counted.containers {
                let container: &mut ContainerUse = taken.containers.entry(name).or_default();
                container.storage = bytes;
            }
            true
        }
        Ok(Ok(Err(error))) => {
            warn!(%error, pod = pod.name, namespace = pod.namespace, "count what a pod has on the disk");
            false
        }
        Ok(Err(_)) | Err(_) => {
            warn!(
                pod = pod.name,
                namespace = pod.namespace,
                "what a pod has on the disk is not counted in time"
            );
            false
        }
    }
}

struct DiskUsage {
    bytes: u64,
    files: u64,
    containers: BTreeMap<String, u64>,
    violation: Option<String>,
}

fn count(shared: &Shared, pod: &Pod, places: &[(String, PathBuf)]) -> std::io::Result<DiskUsage> {
    let volumes = shared.provision.volumes().storage_use(pod)?;
    let mut containers: BTreeMap<String, u64> = BTreeMap::new();
    let mut total = volumes.total();
    for (name, path) in places {
        let taken = disk_use(Path::new(path))?;
        total.add(taken);
        let sum = containers.entry(name.clone()).or_default();
        *sum = sum.saturating_add(taken.bytes);
    }
    let violation = storage_violation(pod, &volumes, &containers);
    Ok(DiskUsage { bytes: total.bytes, files: total.files, containers, violation })
}
