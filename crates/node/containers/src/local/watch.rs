//! Notices that a container ended: its shim ends, and any process can wait for that.

use std::{fs, os::fd::OwnedFd, sync::Arc};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{Interest, unix::AsyncFd};

use super::{Shared, blocking};
use crate::{
    RuntimeError,
    layout::{self, ContainerDir},
};

impl Shared {
    /// Watches every container that has a shim.
    pub(super) async fn watch_all(self: &Arc<Self>) -> Result<(), RuntimeError> {
        let sandboxes = self.options.state.join("sandboxes");
        let found = blocking(move || {
            let entries = |path| fs::read_dir(path).into_iter().flatten().flatten();
            let containers =
                entries(sandboxes).flat_map(|sandbox| entries(sandbox.path().join("containers")));
            Ok(containers.map(|container| ContainerDir(container.path())).collect::<Vec<_>>())
        })
        .await?;
        for directory in found {
            self.watch(&directory);
        }
        Ok(())
    }

    /// Counts a change when the shim of a container ends.
    pub(super) fn watch(&self, directory: &ContainerDir) {
        let Some(shim) = shim_handle(directory) else {
            self.changes.send_modify(|count| *count += 1);
            return;
        };
        let changes = self.changes.clone();
        self.spawn(async move {
            ended(shim).await;
            changes.send_modify(|count| *count += 1);
        });
    }
}

/// A handle on the process that holds a container's lock. Its id may have been another's by the time it was used, so
/// the lock is looked at again.
pub(super) fn shim_handle(directory: &ContainerDir) -> Option<OwnedFd> {
    let holder = layout::lock_holder(&directory.lock())?;
    let pid = Pid::from_raw(i32::try_from(holder).ok()?)?;
    let handle = pidfd_open(pid, PidfdFlags::NONBLOCK).ok()?;
    (layout::lock_holder(&directory.lock()) == Some(holder)).then_some(handle)
}

/// Waits for the end of a process.
#[expect(
    deprecated,
    reason = "its successor is unsafe for values that give another descriptor later; this one owns its own"
)]
pub(super) async fn ended(process: OwnedFd) {
    if let Ok(process) = AsyncFd::with_interest(process, Interest::READABLE) {
        let _ = process.readable().await;
    }
}
