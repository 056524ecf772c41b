//! An embedded, revisioned key-value store for the objects of a Kubernetes-compatible API server.
//!
//! It knows keys, bytes, revisions, compare-and-swap, reads of the past, watches without gap or repeat, compaction,
//! and how to keep all of that on a disk that may fail at any instant. All items live in memory; the disk is
//! written in groups by one thread and read only when a store is opened.
//!
//! **Invariant.** A revision never repeats and never goes back. An acknowledged write is durable; a write that is visible
//! (to a reader, a watcher, or in a conflict) is durable too; a transaction is there whole or not at all. Damage
//! is reported with file and offset, never read around. Every queue, batch and history has a stated limit. When the
//! disk refuses a write, the store is read-only until the disk takes writes again; what was in doubt is void then.
//!
//! ```
//! use lazaret_store::{Op, Options, RangeOptions, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::ephemeral(Options::default())?;
//! let created = store.txn_blocking(vec![Op::create("/pods/a", "{}")])?;
//! let list = store.range("/pods/", &RangeOptions::default())?;
//! let mut watch = store.watch("/pods/", list.revision)?;
//! store.txn_blocking(vec![Op::delete("/pods/a", created.revision)])?;
//! assert_eq!(watch.try_next()?.map(|event| event.revision), Some(created.revision + 1));
//! # Ok(())
//! # }
//! ```
//!
//! It must never know what the bytes mean, who asks, what time of day it is, or that HTTP exists. It implements the
//! [`Storage`](lazaret_storage::Storage) that `server` asks for, and depends on nothing else of ours.

mod clock;
mod commit;
mod counters;
mod disk;
mod draft;
mod engine;
mod error;
#[cfg(any(test, feature = "fault"))]
pub mod fault;
mod history;
mod index;
mod keys;
mod lock;
mod log;
mod notice;
mod options;
mod range;
mod shared;
mod storage;
mod store;
mod sync;
mod usage;
mod watch;
mod writer;

#[cfg(test)]
mod tests;

pub use disk::{Disk, DiskFile, RealDisk};
pub use error::{ArchiveError, CompactError, OpenError};
pub use keys::{EncryptionKey, EncryptionKeys, KeysInvalid};
pub use lazaret_storage::{
    Action, Committed, Event, EventKind, Expect, Item, Key, Op, Range, RangeOptions, ReadError,
    SnapshotError, Snapshotted, Stats, StorageError, Totals, TxnError, TxnInvalid, TxnLimits, Value, Watch,
    WatchError,
};
pub use log::{Archived, FileReport, Report, back_up, restore, verify};
pub use notice::{Notice, Observer};
pub use options::Options;
pub use store::Store;
