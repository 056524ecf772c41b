//! One process at a time: advisory locks on the store's directory itself and on a file in it.
//!
//! The lock of the directory holds by whatever name another process opens it, and whatever was removed from it. The
//! file tells who holds it, and is what releases before knew. Each file that is written has a lock of its own besides:
//! see [`RealDisk`](crate::RealDisk).

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use lazaret_storage::StorageError;

use crate::disk::{create_private_dir, open_private, try_lock};
use crate::error::OpenError;

pub(crate) const LOCK_FILE: &str = "lock";

/// Held as long as the store is open. The kernel releases it when the process ends, however it ends, so the file
/// may stay behind.
#[derive(Debug)]
pub(crate) struct DirLock {
    dir: Arc<File>,
    file: File,
}

impl Drop for DirLock {
    /// Closing is not enough: a process that is being started has both too until it executes its program.
    fn drop(&mut self) {
        let _ = self.file.unlock();
        let _ = self.dir.unlock();
    }
}

impl DirLock {
    /// Takes the lock of a directory, creating the directory if need be.
    pub(crate) fn take(dir: &Path) -> Result<DirLock, OpenError> {
        let failed = |doing, source| StorageError { doing, file: dir.display().to_string(), source };
        let opened = create_private_dir(dir).map_err(|error| failed("create directory", error))?;
        let mut file =
            open_private(&opened, LOCK_FILE).map_err(|error| failed("open lock file in", error))?;
        for locked in [&opened, &file] {
            match try_lock(locked) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut text = String::new();
                    let pid = (&file).read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                    return Err(OpenError::Locked { dir: dir.to_path_buf(), pid });
                }
                Err(TryLockError::Error(error)) => return Err(failed("lock", error).into()),
            }
        }
        // The process ID helps a process that finds the lock taken; the lock holds without it.
        let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        Ok(DirLock { dir: Arc::new(opened), file })
    }

    /// The directory that is locked.
    pub(crate) fn dir(&self) -> Arc<File> {
        Arc::clone(&self.dir)
    }
}
