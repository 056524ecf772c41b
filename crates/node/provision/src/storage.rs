//! How much disk a pod uses, and when that is too much.

use std::{collections::BTreeMap, io};

use k8s_openapi::api::core::v1::Pod;
use lazaret_model::Quantity;

use crate::{
    SpecError, Volumes,
    amount::{self, units},
    disk::usage::{self, DiskUse},
    kind::{Kind, kind},
    pod::{self, PodView},
    qos,
    volumes::used,
};

/// Disk usage of a pod, without its containers' own roots and logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageUse {
    /// Empty directories on disk, by name.
    pub empty_dirs: BTreeMap<String, DiskUse>,
    /// Everything else below the directory of the pod.
    pub rest: DiskUse,
}

impl StorageUse {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> DiskUse {
        let mut total = self.rest;
        self.empty_dirs.values().for_each(|volume| total.add(*volume));
        total
    }
}

impl Volumes {
    /// Counts what a pod uses. It reads every directory, up to a million files; to be called from where waiting is fine.
    ///
    /// # Errors
    /// When a directory cannot be read, or when the pod cannot have one.
    pub fn storage_use(&self, pod: &Pod) -> io::Result<StorageUse> {
        let invalid = |error: SpecError| io::Error::new(io::ErrorKind::InvalidInput, error.message);
        let view = PodView::new(pod).map_err(invalid)?;
        let paths = self.paths(pod).map_err(invalid)?;
        let mut found = StorageUse::default();
        let mut in_volumes = DiskUse::default();
        for volume in used(&view) {
            let (Kind::EmptyDir(source), Some(place)) = (kind(volume), paths.get(&volume.name)) else {
                continue;
            };
            // The kernel limits volumes in memory.
            if source.medium.as_deref().unwrap_or_default().is_empty() {
                let taken = usage::count(&place.path)?;
                in_volumes.add(taken);
                found.empty_dirs.insert(volume.name.clone(), taken);
            }
        }
        let all = usage::count(&self.pod_path(view.uid))?;
        found.rest = DiskUse {
            bytes: all.bytes.saturating_sub(in_volumes.bytes),
            files: all.files.saturating_sub(in_volumes.files),
            ..all
        };
        Ok(found)
    }
}

/// Why a pod must go because of the disk that it uses: the message of an eviction, with the reason `Evicted`. `containers` is what each
/// container wrote to its own root and log.
#[must_use]
pub fn storage_violation(
    pod: &Pod,
    taken: &StorageUse,
    containers: &BTreeMap<String, u64>,
) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    for volume in spec.volumes.iter().flatten() {
        let limit = volume.empty_dir.as_ref().and_then(|source| source.size_limit.as_ref());
        let (Some(limit), Some(taken)) = (limit.map(amount::parse), taken.empty_dirs.get(&volume.name))
        else {
            continue;
        };
        if is_more(taken.bytes, &limit) {
            let text = limit.to_string();
            return Some(format!("Usage of EmptyDir volume {:?} exceeds the limit {text:?}. ", volume.name));
        }
    }
    let all = containers.values().fold(taken.total().bytes, |all, bytes| all.saturating_add(*bytes));
    if let Some(limit) = qos::pod_limits(spec).get("ephemeral-storage").filter(|limit| is_more(all, limit)) {
        return Some(format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
        ));
    }
    let stays = |name: &str| {
        !spec.init_containers.iter().flatten().any(|init| init.name == name && !pod::is_sidecar(init))
    };
    for container in pod::long_running(spec).filter(|container| stays(&container.name)) {
        let limit = amount::amount(amount::limits(container), "ephemeral-storage");
        let taken = containers.get(&container.name).copied().unwrap_or_default();
        if is_more(taken, &limit) {
            let text = limit.to_string();
            return Some(format!(
                "Container {} exceeded its local ephemeral storage limit {text:?}. ",
                container.name
            ));
        }
    }
    None
}

/// Whether this is more than a limit. Nothing is no limit.
fn is_more(bytes: u64, limit: &Quantity) -> bool {
    limit.sign() > 0 && bytes > units(limit).unsigned_abs()
}
