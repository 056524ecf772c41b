//! The embedded store behind the server's interface.

use std::sync::Arc;

use lazaret_storage::{
    Committed, Item, Key, Op, Pending, Range, RangeOptions, ReadError, SnapshotError, Snapshotted, Stats,
    Storage, Totals, TxnError, Watch, WatchError,
};

use crate::store::Store;

impl From<Store> for Arc<dyn Storage> {
    fn from(store: Store) -> Self {
        Arc::new(store)
    }
}

impl Storage for Store {
    fn revision(&self) -> u64 {
        self.revision()
    }

    fn get(&self, key: &[u8]) -> Option<Arc<Item>> {
        self.get(key)
    }

    fn range(&self, prefix: &[u8], options: &RangeOptions) -> Result<Range, ReadError> {
        self.range(prefix, options)
    }

    fn count(&self, prefix: &[u8]) -> usize {
        self.count(prefix)
    }

    fn count_in(&self, directory: &[u8]) -> usize {
        self.count_in(directory)
    }

    fn totals(&self) -> Totals {
        self.totals()
    }

    fn watch(&self, prefix: Key, from: u64) -> Result<Watch, WatchError> {
        self.watch(prefix, from)
    }

    fn reached(&self, revision: u64) -> Pending<'_, u64> {
        Box::pin(self.reached(revision))
    }

    fn txn(&self, ops: Vec<Op>) -> Pending<'_, Result<Committed, TxnError>> {
        Box::pin(self.txn(ops))
    }

    fn snapshot(&self) -> Pending<'_, Result<Snapshotted, SnapshotError>> {
        Box::pin(self.snapshot())
    }

    fn stats(&self) -> Stats {
        self.stats()
    }
}
