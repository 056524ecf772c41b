//! Lists sandboxes and containers.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Shared, blocking, failed, programs::kill_makers};
use crate::{
    ContainerState, Phase, RuntimeError, SandboxState, clock,
    layout::{self, ContainerDir, SandboxDir},
    process,
    record::{ContainerRecord, Engine, ExitRecord, SandboxRecord, StartRecord},
    shim::pause_lock,
};

/// The file system of a mounted namespace.
const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;
/// The signal reported for a container whose shim was killed: its own end is not known.
const LOST_SIGNAL: i32 = 9;

impl Shared {
    pub(super) async fn list(self: &Arc<Self>) -> Result<Vec<SandboxState>, RuntimeError> {
        let shared = Arc::clone(self);
        blocking(move || {
            let mut all = Vec::new();
            for path in directories(&shared.options.state.join("sandboxes"))? {
                all.extend(shared.sandbox_state(&SandboxDir(path))?);
            }
            Ok(all)
        })
        .await
    }

    /// A sandbox; none when there is none.
    pub(super) fn sandbox_state(&self, directory: &SandboxDir) -> Result<Option<SandboxState>, RuntimeError> {
        let Some(record) = layout::read::<SandboxRecord>(&directory.record())? else { return Ok(None) };
        let mut containers = Vec::new();
        for path in directories(&directory.containers())? {
            containers.extend(self.container_state(&ContainerDir(path))?);
        }
        containers.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(Some(SandboxState {
            id: record.spec.pod_uid.clone(),
            is_ready: is_ready(directory, &record).map_err(failed(&directory.0))?,
            created_at: record.created_at,
            ips: record.ips,
            spec: record.spec,
            containers,
        }))
    }

    /// A container; none when there is none.
    pub(super) fn container_state(
        &self,
        directory: &ContainerDir,
    ) -> Result<Option<ContainerState>, RuntimeError> {
        let Some(record) = layout::read::<ContainerRecord>(&directory.record())? else { return Ok(None) };
        let Some(phase) = self.phase(directory, &record)? else { return Ok(None) };
        let ContainerRecord { spec, log } = record;
        Ok(Some(ContainerState {
            id: layout::container_id(&spec.key),
            key: spec.key,
            image: spec.image,
            image_id: spec.image_id,
            labels: spec.labels,
            phase,
            log,
        }))
    }

    /// How far a container is; none when it is being removed.
    fn phase(
        &self,
        directory: &ContainerDir,
        record: &ContainerRecord,
    ) -> Result<Option<Phase>, RuntimeError> {
        if let Some(exit) = layout::read::<ExitRecord>(&directory.exit())? {
            return Ok(Some(Phase::Exited(exit.into())));
        }
        let is_held = layout::is_held(&directory.lock()).map_err(failed(&directory.0))?;
        // Written before the lock is let go of, so a second look after it finds it.
        if let Some(exit) = layout::read::<ExitRecord>(&directory.exit())? {
            return Ok(Some(Phase::Exited(exit.into())));
        }
        let started = layout::read::<StartRecord>(&directory.started())?;
        if !is_held {
            // The record is removed before the end is: what has none any more was not lost.
            let is_there = directory.record().try_exists().map_err(failed(&directory.0))?;
            return Ok(is_there.then(|| Phase::Exited(self.lost(directory, record, started).into())));
        }
        Ok(Some(match started {
            Some(StartRecord { at, pid, .. }) => Phase::Running { started_at: at, pid },
            None => Phase::Created,
        }))
    }

    /// The shim is gone and left no exit: the container's output is not read any more, and its end would not be recorded. So
    /// it ends now.
    fn lost(
        &self,
        directory: &ContainerDir,
        record: &ContainerRecord,
        started: Option<StartRecord>,
    ) -> ExitRecord {
        let group = crate::cgroup::of_container(&self.group, &record.spec.key);
        let is_out_of_memory = self.cgroups.out_of_memory_kills(&group) > 0;
        match &self.engine {
            Engine::Oci { root, .. } => {
                kill_makers(root, &layout::container_id(&record.spec.key));
                self.cgroups.kill(&group);
            }
            Engine::Namespaces | Engine::Processes => kill_noted(directory, started),
        }
        let exit = ExitRecord {
            started_at: started.map(|started| started.at),
            finished_at: clock::now(),
            code: 128 + LOST_SIGNAL,
            signal: Some(LOST_SIGNAL),
            is_out_of_memory,
            message: Some(
                "the container was killed, because the process that held its output had died".to_owned(),
            ),
        };
        if let Err(error) = layout::write(&directory.exit(), &exit) {
            tracing::warn!(%error, directory = %directory.0.display(), "note the end of a container");
        }
        exit
    }
}

/// Kills the process that a shim noted before it let it begin; none was let begin before that.
fn kill_noted(directory: &ContainerDir, started: Option<StartRecord>) {
    let noted = started.or_else(|| layout::read(&directory.process()).ok().flatten());
    if let Some(StartRecord { pid, born_at: Some(born_at), .. }) = noted {
        kill_group(pid, born_at);
    }
}

/// Kills a process without a cgroup and its group, unless its id is another's by now.
fn kill_group(pid: u32, born_at: u64) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let leader = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(leader) = leader.filter(|_| process::born_at(pid) == Some(born_at)) {
        let _ = kill_process_group(leader, Signal::KILL);
    }
}

/// Whether its namespaces are still there; after a boot they are not.
fn is_ready(directory: &SandboxDir, record: &SandboxRecord) -> io::Result<bool> {
    if record.is_stopped {
        return Ok(false);
    }
    for kind in &record.namespaces {
        match rustix::fs::statfs(directory.namespace(kind)) {
            Ok(found) if found.f_type == NSFS_MAGIC => {}
            Ok(_) | Err(rustix::io::Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    let needs_first_process = record.namespaces.iter().any(|kind| kind == "pid");
    if needs_first_process { layout::is_held(&pause_lock(directory)) } else { Ok(true) }
}

/// The entries of a directory, in the order of names; none where there is no such directory.
///
/// # Errors
/// When it cannot be read: what is in it is there nevertheless.
pub(super) fn directories(path: &Path) -> Result<Vec<PathBuf>, RuntimeError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(path)(error)),
    };
    let entries = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>();
    let mut all = entries.map_err(failed(path))?;
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_cannot_be_read_is_not_empty() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(directories(folder.path()).unwrap(), std::slice::from_ref(&file));
        assert_eq!(directories(&folder.path().join("missing")).unwrap(), [""; 0].map(PathBuf::from));
        assert!(directories(&file).is_err());
    }
}
