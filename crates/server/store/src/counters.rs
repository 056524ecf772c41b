//! Counters of the writer and the engine, and the observer of the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lazaret_storage::StorageError;

use crate::clock;
use crate::notice::{Notice, Observer};
use crate::options::Options;
use crate::sync::AtomicU64;

/// One for each store, shared by its threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) observer: Observer,
    pub(crate) failures: AtomicU64,
    pub(crate) heals: AtomicU64,
    pub(crate) syncs_failed: AtomicU64,
    pub(crate) last_sync_micros: AtomicU64,
    pub(crate) tail_bytes_cut: AtomicU64,
    /// When the writer began to use the disk; zero if it does not.
    disk_busy_since: AtomicU64,
    attempts: AtomicU64,
    pub(crate) groups: AtomicU64,
    pub(crate) txns: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) snapshots: AtomicU64,
    pub(crate) snapshots_failed: AtomicU64,
    pub(crate) watches_dropped: AtomicU64,
}

impl Counters {
    pub(crate) fn new(options: &Options) -> Counters {
        Counters { observer: options.observer.clone(), ..Counters::default() }
    }

    /// A number that no other attempt to make a file has, not zero.
    pub(crate) fn next_attempt(&self) -> u64 {
        self.attempts.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn synced(&self, micros: u64, succeeded: bool) {
        self.last_sync_micros.store(micros, Ordering::Relaxed);
        self.syncs_failed.fetch_add(u64::from(!succeeded), Ordering::Relaxed);
    }

    pub(crate) fn snapshot_done(&self) {
        self.snapshots.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot_failed(&self, error: StorageError) -> Arc<StorageError> {
        let error = Arc::new(error);
        self.snapshots_failed.fetch_add(1, Ordering::Relaxed);
        self.observer.notify(&Notice::SnapshotFailed(Arc::clone(&error)));
        error
    }

    /// The writer turns to the disk, until the guard goes.
    pub(crate) fn disk_busy(&self) -> DiskBusy<'_> {
        self.disk_busy_since.store(clock::micros(), Ordering::Relaxed);
        DiskBusy(self)
    }

    pub(crate) fn disk_busy_for(&self) -> Option<Duration> {
        let since = self.disk_busy_since.load(Ordering::Relaxed);
        (since > 0).then(|| Duration::from_micros(clock::micros().saturating_sub(since)))
    }
}

/// The writer uses the disk.
#[derive(Debug)]
pub(crate) struct DiskBusy<'a>(&'a Counters);

impl Drop for DiskBusy<'_> {
    fn drop(&mut self) {
        self.0.disk_busy_since.store(0, Ordering::Relaxed);
    }
}
