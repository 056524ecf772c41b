//! The interface between the API server and whatever keeps its objects.
//!
//! It knows keys, bytes, revisions, transactions with expectations, reads now or at a revision, and watches from a
//! revision. [`Storage`] is the contract; `store` keeps items in memory and on disk, `memory` is a model of it.
//!
//! **Invariant.** A revision never repeats and never goes back. Every change of a key has a revision of its own. An
//! acknowledged transaction is visible to every read and watch that starts later, whole.
//!
//! It must never know what the bytes mean, how they are kept, or that HTTP exists. It depends on none of ours.

mod block_on;
mod error;
mod item;
mod range;
mod stats;
mod storage;
mod txn;
mod watch;

pub use block_on::block_on;
pub use error::{ReadError, SnapshotError, StorageError, TxnError, TxnInvalid, WatchError};
pub use item::{Event, EventKind, Item, Key};
pub use range::{Range, RangeOptions};
pub use stats::{Snapshotted, Stats, Totals};
pub use storage::{Pending, Storage};
pub use txn::{Action, Committed, Expect, Op, TxnLimits, Value, validate};
pub use watch::{Watch, WatchSource};
