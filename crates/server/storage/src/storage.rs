//! The contract between the API server and a store.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use crate::{
    Committed, Item, Key, Op, Range, RangeOptions, ReadError, SnapshotError, Snapshotted, Stats, Totals,
    TxnError, Watch, WatchError,
};

/// An answer that takes time.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A revisioned key-value store.
///
/// Reads return at once: an implementation has the newest state in memory, as kube-apiserver has in its watch cache.
/// Only writes and [`reached`](Storage::reached) wait.
///
/// The server holds an `Arc<dyn Storage>`. A virtual call costs a few instructions and a boxed future one allocation a
/// write, while a type parameter would run through every signature of the server and compile it once a store.
pub trait Storage: Debug + Send + Sync {
    /// The newest visible revision, above zero; a read that starts later sees it or a newer one.
    fn revision(&self) -> u64;

    /// The item of a key.
    fn get(&self, key: &[u8]) -> Option<Arc<Item>>;

    /// The items whose keys start with a prefix, ascending by key, all of one revision.
    ///
    /// # Errors
    /// See [`ReadError`]; never when `at` is `None`.
    fn range(&self, prefix: &[u8], options: &RangeOptions) -> Result<Range, ReadError>;

    /// The number of keys that start with a prefix.
    fn count(&self, prefix: &[u8]) -> usize;

    /// The number of keys in a directory, which ends with a slash: keys with at most one further slash. The cost does
    /// not depend on that number, because every create asks.
    fn count_in(&self, directory: &[u8]) -> usize;

    /// The number of items and their size. The cost does not depend on either.
    fn totals(&self) -> Totals;

    /// Every event of a prefix after revision `from`, which may be the revision of a [`Range`], of an event, or one
    /// that is still to come.
    ///
    /// # Errors
    /// See [`WatchError`].
    fn watch(&self, prefix: Key, from: u64) -> Result<Watch, WatchError>;

    /// Waits until the store has reached a revision; returns the one it is at.
    fn reached(&self, revision: u64) -> Pending<'_, u64>;

    /// Runs a transaction: if every expectation holds, all actions are taken, at consecutive revisions. Returns when
    /// they are durable and visible. If the future is dropped while it waits, the transaction may still be committed.
    ///
    /// # Errors
    /// See [`TxnError`].
    fn txn(&self, ops: Vec<Op>) -> Pending<'_, Result<Committed, TxnError>>;

    /// Writes a snapshot now and removes the log that it replaces.
    ///
    /// # Errors
    /// See [`SnapshotError`].
    fn snapshot(&self) -> Pending<'_, Result<Snapshotted, SnapshotError>>;

    /// Numbers for metrics, and the state of the disk.
    fn stats(&self) -> Stats;
}
