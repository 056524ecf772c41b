//! Errors of opening, compacting, backing up and restoring a store.

use std::path::PathBuf;
use std::sync::Arc;

use lazaret_storage::StorageError;
use thiserror::Error;

/// Why a compaction was not done.
#[derive(Debug, Clone, Error)]
pub enum CompactError {
    /// It would forget what has not happened yet.
    #[error("cannot compact to revision {asked}: the store is at {current}")]
    Future {
        /// The revision asked for.
        asked: u64,
        /// The revision of the store.
        current: u64,
    },
    /// The store cannot write any more.
    #[error("the store is read-only since a write failed: {0}")]
    ReadOnly(Arc<StorageError>),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Why a backup was not made or not restored.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// The store's directory is not as a store leaves it, or the backup is not as it was written.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The disk refused something.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// There is no store to back up.
    #[error("{} holds no store", .0.display())]
    NoStore(PathBuf),
    /// Something is in the way.
    #[error("{} exists already: give a path that does not", .0.display())]
    Exists(PathBuf),
    /// The backup does not read back as it was written.
    #[error("{} reads back at revision {found} with {items} items, written were revision {expected} and {expected_items}", .path.display())]
    Differs {
        /// The backup.
        path: PathBuf,
        /// The revision read.
        found: u64,
        /// The items read.
        items: u64,
        /// The revision written.
        expected: u64,
        /// The items written.
        expected_items: u64,
    },
}

/// Why a store could not be opened. Nothing was changed, except that a torn tail may have been cut off.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{} is in use by another process{}: one process at a time may open a store", .dir.display(), describe_pid(.pid))]
    Locked {
        /// The store's directory.
        dir: PathBuf,
        /// The other process, if it left its number.
        pid: Option<u32>,
    },
    /// A file says something that no crash can explain.
    #[error(
        "{file} is damaged at offset {offset}: {what}; restore the directory from a backup, or move it away to start empty"
    )]
    Damaged {
        /// The file in the store's directory.
        file: String,
        /// The byte at which the unreadable part begins.
        offset: u64,
        /// The damage found there.
        what: String,
    },
    /// A file that must be there is not.
    #[error("{file} is missing: {why}; restore the directory from a backup")]
    Missing {
        /// The file in the store's directory.
        file: String,
        /// How its absence is known.
        why: String,
    },
    /// The files were written by a newer version.
    #[error("{file} has format version {found}, this program reads up to {supported}: use a newer program")]
    Unsupported {
        /// The file in the store's directory.
        file: String,
        /// Its version.
        found: u32,
        /// Ours.
        supported: u32,
    },
    /// A file is encrypted with a key that is not at hand. Nothing was changed.
    #[error("{file} is encrypted with key {id}: {why}")]
    Key {
        /// The file in the store's directory.
        file: String,
        /// The key's id.
        id: String,
        /// The problem with the given keys.
        why: String,
    },
    /// A file is not encrypted, and the key file does not allow that. Nothing was changed.
    #[error(
        "{file} is not encrypted: to read it and encrypt what is written from now on, add the line \"identity\" to {key_file}, after the keys"
    )]
    NotEncrypted {
        /// The file in the store's directory.
        file: String,
        /// The key file.
        key_file: String,
    },
    /// The disk refused something.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

fn describe_pid(pid: &Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}
