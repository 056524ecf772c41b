//! Log files: a new one when the old one is large, and few old ones.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use lazaret_containers::Phase;
use tracing::warn;

use super::shared::Shared;
use crate::clock;

/// Kubelet's limits: a file of a container, and its files together with the newest one.
const LOG_BYTES_MAX: u64 = 10 << 20;
const LOG_FILES_MAX: usize = 5;
const ROTATE_EVERY: Duration = Duration::from_secs(10);
/// After a log was too large: its container may write on as fast, and all pods share the disk.
const ROTATE_AGAIN: Duration = Duration::from_secs(1);

/// Looks after the logs of all containers that run. Never ends.
pub(super) async fn keep_small(shared: Arc<Shared>) {
    let mut pause = ROTATE_EVERY;
    loop {
        tokio::time::sleep(pause).await;
        pause = ROTATE_EVERY;
        for (id, log) in running(&shared) {
            let is_large = fs::metadata(&log).is_ok_and(|file| file.len() > LOG_BYTES_MAX);
            if !is_large {
                continue;
            }
            pause = ROTATE_AGAIN;
            if let Err(error) = rotate(&shared, &id, &log).await {
                warn!(%error, log = %log.display(), "begin a new log file");
            }
        }
    }
}

fn running(shared: &Shared) -> Vec<(String, PathBuf)> {
    let table = shared.table();
    let sandboxes = table.entries.values().filter_map(|entry| entry.sandbox.as_ref());
    let containers = sandboxes.flat_map(|sandbox| &sandbox.containers);
    let running = containers.filter(|container| matches!(container.phase, Phase::Running { .. }));
    running.map(|container| (container.id.clone(), container.log.clone())).collect()
}

async fn rotate(shared: &Shared, id: &str, log: &Path) -> io::Result<()> {
    let older = older(log);
    let surplus = (older.len() + 2).saturating_sub(LOG_FILES_MAX);
    for file in older.iter().take(surplus) {
        fs::remove_file(file)?;
    }
    let stamp = clock::wall().0.strftime("%Y%m%d-%H%M%S").to_string();
    let moved = PathBuf::from(format!("{}.{stamp}", log.display()));
    fs::rename(log, &moved)?;
    let reopened = shared.runtime.reopen_log(id).await;
    if let Err(error) = reopened {
        // The runtime writes on where it was.
        fs::rename(&moved, log)?;
        return Err(io::Error::other(error.to_string()));
    }
    Ok(())
}

/// Log files of a container that were moved away, the oldest first.
fn older(log: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let prefix = format!("{name}.");
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&prefix))
    };
    let mut found: Vec<PathBuf> = files.map(|file| file.path()).filter(is_one).collect();
    found.sort();
    found
}

/// Removes the log of a container that was removed.
pub(super) fn remove(log: &Path) {
    for file in older(log).iter().map(PathBuf::as_path).chain([log]) {
        if let Err(error) = fs::remove_file(file)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(%error, log = %file.display(), "remove a log file");
        }
    }
}
