//! One process at a time: an advisory lock on a file of the store's directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::Path;

use lazaret_storage::StorageError;

use crate::disk::{create_private, create_private_dir};
use crate::error::OpenError;

pub(crate) const LOCK_FILE: &str = "lock";

/// Held as long as the store is open. The kernel releases it when the process ends, however it ends, so the file
/// may stay behind.
#[derive(Debug)]
pub(crate) struct DirLock {
    file: File,
}

impl Drop for DirLock {
    /// Closing the file is not enough: a process that is being started has it too until it executes its program.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl DirLock {
    /// Takes the lock of a directory, creating the directory if need be.
    pub(crate) fn take(dir: &Path) -> Result<DirLock, OpenError> {
        let failed = |doing, source| StorageError { doing, file: dir.display().to_string(), source };
        create_private_dir(dir).map_err(|error| failed("create directory", error))?;
        let path = dir.join(LOCK_FILE);
        let mut file = create_private(&path, OpenOptions::new().write(true).create(true).truncate(false))
            .map_err(|error| failed("open lock file in", error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
                return Err(OpenError::Locked { dir: dir.to_path_buf(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock", error).into()),
        }
        // The process ID helps a process that finds the lock taken; the lock holds without it.
        let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        Ok(DirLock { file })
    }
}
