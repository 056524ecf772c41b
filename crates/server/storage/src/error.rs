//! Errors of reads, writes and watches, by the caller's decision about them.

use std::io;
use std::sync::Arc;

use thiserror::Error;

use crate::item::{Item, Key};

/// Why a transaction was not acknowledged.
#[derive(Debug, Clone, Error)]
pub enum TxnError {
    /// An expectation did not hold; nothing was changed. Carries what is there, so that a caller can re-run its
    /// update without another read.
    #[error("{key} changed: {}", describe(.current))]
    Conflict {
        /// Which operation of the transaction.
        op: usize,
        /// The key of that operation.
        key: Key,
        /// The current item of the key.
        current: Option<Arc<Item>>,
    },
    /// The transaction breaks a rule or a limit; nothing was changed.
    #[error(transparent)]
    Invalid(#[from] TxnInvalid),
    /// An earlier write failed and the store accepts no more; nothing was changed.
    #[error("the store is read-only since a write failed: {0}; it takes writes again when the disk does")]
    ReadOnly(Arc<StorageError>),
    /// Writing this very transaction failed. It is not visible now. If the store takes writes again, it never will
    /// be; if the process ends before, it may be there (whole) after a reopen.
    #[error("the outcome of the write is unknown: {0}")]
    Unknown(Arc<StorageError>),
    /// The store was closed before the transaction was taken up.
    #[error("the store is closed")]
    Closed,
}

fn describe(current: &Option<Arc<Item>>) -> String {
    match current {
        Some(item) => format!("it is at revision {}", item.modified),
        None => "it does not exist".into(),
    }
}

/// A rule or limit that a transaction broke.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TxnInvalid {
    /// No operations.
    #[error("a transaction needs at least one operation")]
    Empty,
    /// Two operations on one key, which have no order to define their result.
    #[error("{0} occurs twice in one transaction")]
    RepeatedKey(Key),
    /// A key of no bytes.
    #[error("a key needs at least one byte")]
    EmptyKey,
    /// See [`TxnLimits`](crate::TxnLimits).
    #[error("a key of {bytes} bytes exceeds the limit of {max}")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// See [`TxnLimits`](crate::TxnLimits).
    #[error("{ops} operations exceed the limit of {max} a transaction")]
    TooManyOps {
        /// How many there were.
        ops: usize,
        /// The limit.
        max: usize,
    },
    /// See [`TxnLimits`](crate::TxnLimits).
    #[error("{bytes} bytes exceed the limit of {max} a transaction")]
    TooLarge {
        /// How many there were.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

/// Why a read of the past (or future) has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The history no longer reaches back that far.
    #[error("revision {asked} is compacted: the oldest readable one is {oldest}")]
    Compacted {
        /// The revision asked for.
        asked: u64,
        /// The oldest revision that reads and watches may name.
        oldest: u64,
    },
    /// The store has not got there yet.
    #[error("revision {asked} is in the future: the store is at {current}")]
    Future {
        /// The revision asked for.
        asked: u64,
        /// The revision of the store.
        current: u64,
    },
}

/// Why a watch did not start or has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WatchError {
    /// Events after the watch's revision are gone: it started too far back, or its reader was too slow.
    #[error("events after revision {asked} are compacted: the oldest revision to watch from is {oldest}")]
    Compacted {
        /// The revision after which the next event would have been.
        asked: u64,
        /// The oldest revision that reads and watches may name.
        oldest: u64,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Why a snapshot that was asked for was not taken.
#[derive(Debug, Clone, Error)]
pub enum SnapshotError {
    /// Another one is being written.
    #[error("a snapshot is being written already: try again")]
    Busy,
    /// The store keeps nothing.
    #[error("the store is in memory only")]
    Ephemeral,
    /// The disk refused it. Nothing is lost: the log has everything.
    #[error("write a snapshot: {0}")]
    Failed(Arc<StorageError>),
    /// The store cannot write.
    #[error("the store is read-only since a write failed: {0}; it takes writes again when the disk does")]
    ReadOnly(Arc<StorageError>),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// The disk refused something.
#[derive(Debug, Error)]
#[error("{doing} {file}: {source}")]
pub struct StorageError {
    /// The operation, as a verb.
    pub doing: &'static str,
    /// To which file of the store's directory.
    pub file: String,
    /// The error of the operating system.
    #[source]
    pub source: io::Error,
}

impl StorageError {
    /// Says what was being done when the operating system refused.
    pub fn when(doing: &'static str, file: &str) -> impl FnOnce(io::Error) -> StorageError {
        move |source| StorageError { doing, file: file.into(), source }
    }
}
