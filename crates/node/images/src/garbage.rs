//! Which images go when the disk is full.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, SystemTime},
};

use crate::{
    ImageError,
    error::{Context, Result},
    store::Store,
};

/// When images are removed, as in the configuration of a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Above this use of the disk images are removed, in percent.
    pub high_percent: u8,
    /// Until the use is at this, in percent.
    pub low_percent: u8,
    /// An image that was asked for within this time stays.
    pub unused_for: Duration,
}

impl Default for Thresholds {
    /// A kubelet's.
    fn default() -> Self {
        Self { high_percent: 85, low_percent: 80, unused_for: Duration::from_secs(120) }
    }
}

impl Thresholds {
    /// Removes everything that nothing uses.
    pub fn all() -> Self {
        Self { high_percent: 0, low_percent: 0, unused_for: Duration::ZERO }
    }
}

/// The images that were removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Names of images that went.
    pub names: Vec<String>,
    /// Bytes of layers that went.
    pub bytes: u64,
}

/// The bytes that must be freed on the disk of this directory; nothing while it is not full.
///
/// # Errors
/// When the disk cannot be asked.
pub fn bytes_to_free_at(directory: &Path, thresholds: Thresholds) -> Result<Option<u64>, ImageError> {
    Ok(bytes_to_free(disk(directory)?, thresholds))
}

/// How full a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) total: u64,
    pub(crate) available: u64,
}

/// An image that may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: String,
    /// When it was asked for last, if that is known.
    pub last_used: Option<SystemTime>,
}

/// The bytes that must be freed; nothing while the disk is not full.
pub(crate) fn bytes_to_free(disk: Disk, thresholds: Thresholds) -> Option<u64> {
    let used = disk.total.saturating_sub(disk.available);
    let part = |percent: u8| {
        let part = u128::from(disk.total) * u128::from(percent) / 100;
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    let is_full = used >= part(thresholds.high_percent);
    is_full.then(|| used.saturating_sub(part(thresholds.low_percent)))
}

/// Images that may go, the one that was unused for longest first.
pub fn order_unused(mut candidates: Vec<Candidate>, now: SystemTime, unused_for: Duration) -> Vec<Candidate> {
    candidates.retain(|candidate| {
        let Some(used) = candidate.last_used else { return true };
        // A time in the future is none that anything can be concluded from.
        now.duration_since(used).unwrap_or(Duration::ZERO) >= unused_for
    });
    candidates.sort_by(|left, right| (left.last_used, &left.id).cmp(&(right.last_used, &right.id)));
    candidates
}

pub(crate) fn disk(root: &Path) -> Result<Disk> {
    let stat = rustix::fs::statvfs(root).context(|| format!("ask for the size of {}", root.display()))?;
    Ok(Disk {
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
        available: stat.f_bavail.saturating_mul(stat.f_frsize),
    })
}

/// Removes images until there is room. `Busy` when something is taken in at this moment: the next time will do.
pub(crate) fn collect(
    store: &Store,
    in_use: &BTreeSet<String>,
    thresholds: Thresholds,
    now: SystemTime,
) -> Result<Collected> {
    let Some(wanted) = bytes_to_free(disk(store.root())?, thresholds) else {
        return Ok(Collected::default());
    };
    let Some(lock) = store.try_lock_alone()? else {
        return Err(ImageError::Busy(store.root().display().to_string()));
    };
    let kept = protected(store, in_use)?;
    let ids: BTreeSet<String> = store.index()?.names.into_values().map(|record| record.id).collect();
    let candidates = ids
        .into_iter()
        .filter(|id| !kept.contains(id))
        .map(|id| Candidate { last_used: store.last_used(&id), id })
        .collect();
    let mut collected = Collected::default();
    for candidate in order_unused(candidates, now, thresholds.unused_for) {
        // Without a threshold everything goes, also what has no bytes.
        if collected.bytes >= wanted && thresholds.low_percent > 0 {
            break;
        }
        let names = store.change_index(|index| {
            let names: Vec<String> = index
                .names
                .iter()
                .filter(|(_, record)| record.id == candidate.id)
                .map(|(name, _)| name.clone())
                .collect();
            index.names.retain(|_, record| record.id != candidate.id);
            Ok(names)
        })?;
        collected.names.extend(names);
        collected.bytes += store.sweep(&lock)?;
    }
    Ok(collected)
}

/// Images that stay: those that the caller names, those that the node wrote down, and those with a mounted layer.
pub(crate) fn protected(store: &Store, in_use: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let mut kept: BTreeSet<String> = store.in_use()?;
    kept.extend(in_use.iter().cloned());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")
        .context(|| "read which layers are mounted".to_owned())?;
    let index = store.index()?;
    let by_layer: BTreeMap<&str, Vec<&str>> =
        index.names.values().fold(BTreeMap::new(), |mut map, record| {
            for chain in &record.layers {
                map.entry(chain.trim_start_matches("sha256:"))
                    .or_insert_with(Vec::new)
                    .push(record.id.as_str());
            }
            map
        });
    for (hex, ids) in by_layer {
        if mounts.contains(hex) {
            kept.extend(ids.into_iter().map(str::to_owned));
        }
    }
    Ok(kept)
}
