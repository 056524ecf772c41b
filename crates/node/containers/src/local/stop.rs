//! Ending and removing containers.

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{
    Shared, blocking, failed,
    programs::kill_makers,
    shim::send_request,
    watch::{ended, shim_handle},
};
use crate::{
    Phase, RuntimeError, cgroup,
    layout::{self, ContainerDir},
    mounts::{remove_directory, unmount_at},
    protocol::Request,
    record::{ContainerRecord, Engine},
    signal,
};

const KILL: i32 = 9;
/// How long a container may take to end after it was killed. A process that waits for a disk takes its time.
const KILL_TIME_MAX: Duration = Duration::from_secs(30);
/// How long removing a container by its OCI runtime may take, hooks included.
const DELETE_TIME_MAX: Duration = Duration::from_secs(60);

impl Shared {
    pub(super) async fn stop(self: &Arc<Self>, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let directory = self.container(id)?;
        let unknown = || RuntimeError::NotFound(format!("container {id}"));
        let record = layout::read::<ContainerRecord>(&directory.record())?.ok_or_else(unknown)?;
        let number = record.spec.stop_signal.as_deref().and_then(signal::number).unwrap_or(signal::TERM);
        match self.phase_of(&directory, id).await? {
            Phase::Exited(_) => return Ok(()),
            Phase::Running { .. } if !grace.is_zero() => {
                // A shim that does not answer has ended, or is killed below.
                let sent = send_request(&directory, &Request::Signal(number)).await;
                if sent.is_ok() && matches!(timeout(grace, self.ended(&directory)).await, Ok(Ok(()))) {
                    return self.phase_of(&directory, id).await.map(drop);
                }
            }
            Phase::Created | Phase::Running { .. } => {}
        }
        self.kill(&directory).await
    }

    /// Ends a container now; one that has ended, or is not there, is no error.
    pub(super) async fn kill(self: &Arc<Self>, directory: &ContainerDir) -> Result<(), RuntimeError> {
        if shim_of(directory)?.is_some() {
            let sent = send_request(directory, &Request::Signal(KILL)).await;
            if sent.is_err() || !matches!(timeout(KILL_TIME_MAX, self.ended(directory)).await, Ok(Ok(()))) {
                self.kill_shim(directory).await?;
            }
        }
        // Where the shim said nothing, this does.
        let (shared, directory) = (Arc::clone(self), directory.clone());
        blocking(move || shared.container_state(&directory).map(drop)).await
    }

    /// Waits until the shim of a container has ended.
    async fn ended(&self, directory: &ContainerDir) -> Result<(), RuntimeError> {
        match shim_of(directory)? {
            Some(shim) => ended(shim).await.map_err(failed(&directory.0)),
            None => Ok(()),
        }
    }

    async fn kill_shim(&self, directory: &ContainerDir) -> Result<(), RuntimeError> {
        if let Some(shim) = shim_of(directory)? {
            tracing::warn!(directory = %directory.0.display(), "kill a shim that does not answer");
            let _ = rustix::process::pidfd_send_signal(&shim, rustix::process::Signal::KILL);
            // Its state says whether it has ended.
            let _ = timeout(KILL_TIME_MAX, ended(shim)).await;
        }
        Ok(())
    }

    pub(super) async fn remove(self: &Arc<Self>, id: &str) -> Result<(), RuntimeError> {
        let directory = self.container(id)?;
        let _lock = self.lock(id).await;
        self.erase(&directory).await
    }

    /// Kills and removes everything of a container; nothing there is no error.
    pub(super) async fn erase(self: &Arc<Self>, directory: &ContainerDir) -> Result<(), RuntimeError> {
        if !directory.0.try_exists().map_err(failed(&directory.0))? {
            return Ok(());
        }
        self.kill(directory).await?;
        self.kill_shim(directory).await?;
        let Some(key) = key_of(directory) else { return Ok(()) };
        if let Engine::Oci { program, root } = &self.engine {
            let id = layout::container_id(&key);
            if !directory.record().try_exists().map_err(failed(&directory.0))? {
                let (root, id) = (root.clone(), id.clone());
                blocking(move || {
                    kill_makers(&root, &id);
                    Ok(())
                })
                .await?;
            }
            if root.join(&id).try_exists().map_err(failed(root))? {
                let mut command = tokio::process::Command::new(program);
                command.arg("--root").arg(root).args(["delete", "--force", &id]).kill_on_drop(true);
                let output = timeout(DELETE_TIME_MAX, command.output()).await;
                match output {
                    Ok(Ok(output)) if output.status.success() => {}
                    // Its leftovers, and its own record of the container, are removed below.
                    Ok(Ok(output)) => {
                        let text = String::from_utf8_lossy(&output.stderr).into_owned();
                        tracing::warn!(%id, error = %text.trim(), "delete a container by its OCI runtime");
                    }
                    Ok(Err(error)) => {
                        return Err(RuntimeError::Failed(format!("execute {}: {error}", program.display())));
                    }
                    Err(_) => tracing::warn!(%id, "deleting a container by its OCI runtime took too long"),
                }
                let rest = root.join(&id);
                blocking(move || remove_directory(&rest).map_err(failed(&rest))).await?;
            }
        }
        let (shared, directory) = (Arc::clone(self), directory.clone());
        blocking(move || {
            let group = cgroup::of_container(&shared.group, &key);
            shared.cgroups.kill(&group);
            shared
                .cgroups
                .remove(&group)
                .map_err(|error| RuntimeError::Failed(format!("cgroup: {error}")))?;
            unmount_at(&directory.rootfs()).map_err(failed(&directory.0))?;
            // Without its record, a concurrent list does not report it as a container whose shim was killed.
            match std::fs::remove_file(directory.record()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failed(&directory.0)(error));
                }
                Ok(()) | Err(_) => {}
            }
            remove_directory(&directory.0).map_err(failed(&directory.0))
        })
        .await
    }

    pub(super) async fn reopen_log(&self, id: &str) -> Result<(), RuntimeError> {
        let directory = self.container(id)?;
        if !directory.record().try_exists().map_err(failed(&directory.0))? {
            return Err(RuntimeError::NotFound(format!("container {id}")));
        }
        // One that has ended writes nothing more.
        if shim_of(&directory)?.is_none() {
            return Ok(());
        }
        send_request(&directory, &Request::ReopenLog).await
    }
}

fn shim_of(directory: &ContainerDir) -> Result<Option<OwnedFd>, RuntimeError> {
    shim_handle(directory).map_err(failed(&directory.0))
}

/// The key of a container, from where its directory is.
fn key_of(directory: &ContainerDir) -> Option<crate::Key> {
    let (name, attempt) = directory.0.file_name()?.to_str()?.rsplit_once('-')?;
    let uid = directory.0.parent()?.parent()?.file_name()?.to_str()?;
    Some(crate::Key { pod_uid: uid.to_owned(), name: name.to_owned(), attempt: attempt.parse().ok()? })
}
