//! Notices that a container ended: its shim ends, and any process can wait for that.

use std::{io, os::fd::OwnedFd, sync::Arc};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{Interest, unix::AsyncFd};

use super::{Shared, blocking, list::directories};
use crate::{
    RuntimeError,
    layout::{self, ContainerDir, SandboxDir},
};

impl Shared {
    /// Watches every container that has a shim.
    pub(super) async fn watch_all(self: &Arc<Self>) -> Result<(), RuntimeError> {
        let sandboxes = self.options.state.join("sandboxes");
        let found = blocking(move || {
            let mut containers = Vec::new();
            for sandbox in directories(&sandboxes)? {
                containers
                    .extend(directories(&SandboxDir(sandbox).containers())?.into_iter().map(ContainerDir));
            }
            Ok(containers)
        })
        .await?;
        for directory in found {
            self.watch(&directory);
        }
        Ok(())
    }

    /// Counts a change when the shim of a container ends.
    pub(super) fn watch(&self, directory: &ContainerDir) {
        // A change leads to a look at the state, also of one that cannot be watched.
        let Ok(Some(shim)) = shim_handle(directory) else {
            self.changes.send_modify(|count| *count += 1);
            return;
        };
        let changes = self.changes.clone();
        self.spawn(async move {
            if let Err(error) = ended(shim).await {
                tracing::warn!(%error, "wait for the end of a container");
            }
            changes.send_modify(|count| *count += 1);
        });
    }
}

/// A handle on the process that holds a container's lock. Its id may have been another's by the time it was used, so
/// the lock is looked at again.
///
/// # Errors
/// When it cannot be found out whether there is one.
pub(super) fn shim_handle(directory: &ContainerDir) -> io::Result<Option<OwnedFd>> {
    let Some(holder) = layout::lock_holder(&directory.lock())? else { return Ok(None) };
    let Some(pid) = i32::try_from(holder).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let handle = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok((layout::lock_holder(&directory.lock())? == Some(holder)).then_some(handle))
}

/// Waits for the end of a process.
///
/// # Errors
/// When it cannot be waited for: it may run on.
#[expect(
    deprecated,
    reason = "its successor is unsafe for values that give another descriptor later; this one owns its own"
)]
pub(super) async fn ended(process: OwnedFd) -> io::Result<()> {
    let process = AsyncFd::with_interest(process, Interest::READABLE)?;
    process.readable().await.map(drop)
}
