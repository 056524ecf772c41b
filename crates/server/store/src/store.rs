//! The handle that everybody else holds.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use lazaret_storage::{
    Committed, Item, Key, Op, Range, RangeOptions, ReadError, SnapshotError, Snapshotted, Stats,
    StorageError, Totals, TxnError, Watch, WatchError, block_on, validate,
};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::commit::{Committer, Request};
use crate::counters::Counters;
use crate::disk::{Disk, RealDisk};
use crate::engine::{Engine, Ephemeral};
use crate::error::{CompactError, OpenError};
use crate::index::Index;
use crate::lock::DirLock;
use crate::log::{self, SnapshotMode};
use crate::options::Options;
use crate::shared::{Shared, State, lock};
use crate::writer::{self, Message};

/// The revision of a store that was never written to: above zero, because an empty list has a revision too.
pub(crate) const FIRST_REVISION: u64 = 1;

/// A revisioned key-value store. Clones are handles to the same store; when the last is dropped, what is queued
/// is still written, then the directory is free for the next process.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    options: Options,
    queue_bytes: Arc<Semaphore>,
    queue: Mutex<Option<mpsc::Sender<Message>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

// === opening and closing ===

impl Store {
    /// Opens the store of a directory, creating it if there is none, and recovers what was acknowledged.
    ///
    /// # Errors
    /// See [`OpenError`]. A torn tail, as a crash leaves it, is no error.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Store, OpenError> {
        let lock = DirLock::take(dir.as_ref())?;
        let disk = RealDisk::of(lock.dir());
        disk.make_private().map_err(StorageError::when("protect", "the files of the store"))?;
        Store::recover(Arc::new(disk), options, Some(lock))
    }

    /// Opens a store on another disk than the file system's. The store needs the disk for itself.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_on(disk: Arc<dyn Disk>, options: Options) -> Result<Store, OpenError> {
        Store::recover(disk, options, None)
    }

    /// A store in memory only.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn ephemeral(options: Options) -> Result<Store, OpenError> {
        let state = State { index: Index::default(), revision: FIRST_REVISION };
        let history = Shared::empty_history(&options, FIRST_REVISION);
        let shared = Shared::new(state, history, Arc::new(Counters::default()));
        Store::start(shared, Box::new(Ephemeral), options, None)
    }

    fn recover(disk: Arc<dyn Disk>, options: Options, lock: Option<DirLock>) -> Result<Store, OpenError> {
        let counters = Arc::new(Counters::new(&options));
        let recovered = log::recover(disk, &options, SnapshotMode::Thread, Arc::clone(&counters))?;
        let shared = Shared::new(recovered.state, recovered.history, counters);
        if let Some(cause) = recovered.read_only {
            shared.fail(Arc::new(cause));
        }
        Store::start(shared, Box::new(recovered.engine), options, lock)
    }

    fn start(
        shared: Shared,
        engine: Box<dyn Engine>,
        options: Options,
        lock: Option<DirLock>,
    ) -> Result<Store, OpenError> {
        let options = options.bounded();
        let shared = Arc::new(shared);
        let (sender, receiver) = mpsc::channel(options.queue_txns_max);
        let committer = Committer::new(Arc::clone(&shared), engine);
        let close_on_drop = CloseOnDrop { shared: Arc::clone(&shared), _lock: lock };
        let writer = writer::spawn(committer, receiver, sender.downgrade(), &options, close_on_drop)
            .map_err(|source| StorageError { doing: "start thread", file: "store-writer".into(), source })?;
        let queue_bytes = Arc::new(Semaphore::new(options.queue_bytes_max));
        let (queue, writer) = (Mutex::new(Some(sender)), Mutex::new(Some(writer)));
        Ok(Store { inner: Arc::new(Inner { shared, options, queue_bytes, queue, writer }) })
    }

    /// Closes the store for all handles: writes what is queued, ends all watches, frees the directory. Waits for
    /// the disk.
    pub fn close(&self) {
        self.inner.close();
    }
}

/// Dropped by the writer's thread when it ends, however it ends: ends the watches, then frees the directory.
#[derive(Debug)]
struct CloseOnDrop {
    shared: Arc<Shared>,
    _lock: Option<DirLock>,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Inner {
    fn close(&self) {
        let queue = lock(&self.queue).take();
        if let Some(queue) = queue {
            // Fails only if the writer is gone already.
            drop(block_on(queue.send(Message::Close)));
        }
        let writer = lock(&self.writer).take();
        if let Some(writer) = writer {
            // A writer that panicked has given no false answer: its callers see a closed store.
            drop(writer.join());
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

// === writing ===

impl Store {
    /// Runs a transaction: if every expectation holds, all actions are taken, at consecutive revisions. Returns
    /// when that is durable and visible. If the future is dropped while it waits, the transaction may still be
    /// committed.
    ///
    /// # Errors
    /// See [`TxnError`].
    pub async fn txn(&self, ops: Vec<Op>) -> Result<Committed, TxnError> {
        let bytes = validate(&ops, self.inner.options.txn)?;
        if let Some(cause) = self.inner.shared.failure() {
            return Err(TxnError::ReadOnly(cause));
        }
        let share = u32::try_from(bytes.min(self.inner.options.queue_bytes_max)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.inner.queue_bytes).acquire_many_owned(share).await.ok();
        let (reply, answer) = oneshot::channel();
        let queue = lock(&self.inner.queue).clone().ok_or(TxnError::Closed)?;
        let request = Request::Txn { ops, bytes, reply, permit };
        queue.send(Message::Request(request)).await.map_err(|_| TxnError::Closed)?;
        answer.await.unwrap_or(Err(TxnError::Closed))
    }

    /// [`txn`](Store::txn) for a thread that may wait.
    ///
    /// # Errors
    /// See [`TxnError`].
    pub fn txn_blocking(&self, ops: Vec<Op>) -> Result<Committed, TxnError> {
        block_on(self.txn(ops))
    }

    /// Forgets what happened up to `revision`: reads and watches may name that revision and later ones. Returns
    /// the oldest revision that may be named, which is higher if more was forgotten already.
    ///
    /// # Errors
    /// See [`CompactError`].
    pub async fn compact(&self, revision: u64) -> Result<u64, CompactError> {
        let (reply, answer) = oneshot::channel();
        let queue = lock(&self.inner.queue).clone().ok_or(CompactError::Closed)?;
        let request = Request::Compact { to: revision, reply };
        queue.send(Message::Request(request)).await.map_err(|_| CompactError::Closed)?;
        answer.await.unwrap_or(Err(CompactError::Closed))
    }

    /// Writes a snapshot now and removes the log that it replaces, with all that was encrypted with older keys.
    /// Commits go on meanwhile. Returns when the snapshot is durable.
    ///
    /// # Errors
    /// See [`SnapshotError`].
    pub async fn snapshot(&self) -> Result<Snapshotted, SnapshotError> {
        let (reply, answer) = oneshot::channel();
        let queue = lock(&self.inner.queue).clone().ok_or(SnapshotError::Closed)?;
        let request = Request::Snapshot { reply };
        queue.send(Message::Request(request)).await.map_err(|_| SnapshotError::Closed)?;
        answer.await.unwrap_or(Err(SnapshotError::Closed))
    }

    /// [`snapshot`](Store::snapshot) for a thread that may wait.
    ///
    /// # Errors
    /// See [`SnapshotError`].
    pub fn snapshot_blocking(&self) -> Result<Snapshotted, SnapshotError> {
        block_on(self.snapshot())
    }

    /// [`compact`](Store::compact) for a thread that may wait.
    ///
    /// # Errors
    /// See [`CompactError`].
    pub fn compact_blocking(&self, revision: u64) -> Result<u64, CompactError> {
        block_on(self.compact(revision))
    }
}

// === reading ===

impl Store {
    /// The newest revision that is visible; a read that starts later sees it or a newer one.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.inner.shared.revision()
    }

    /// The item of a key.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Arc<Item>> {
        self.inner.shared.get(key.as_ref())
    }

    /// The items whose keys start with a prefix, ascending by key: one state, never a mixture.
    ///
    /// # Errors
    /// See [`ReadError`]; never when `at` is `None`.
    pub fn range(&self, prefix: impl AsRef<[u8]>, options: &RangeOptions) -> Result<Range, ReadError> {
        self.inner.shared.range(prefix.as_ref(), options)
    }

    /// How many keys start with a prefix.
    #[must_use]
    pub fn count(&self, prefix: impl AsRef<[u8]>) -> usize {
        self.inner.shared.count(prefix.as_ref())
    }

    /// How many keys there are in a directory, which ends with a slash: those without a further one, or with one. Costs the same however
    /// many there are.
    #[must_use]
    pub fn count_in(&self, directory: impl AsRef<[u8]>) -> usize {
        self.inner.shared.count_in(directory.as_ref())
    }

    /// How many items there are and what they weigh. Costs the same however many there are.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.inner.shared.totals()
    }

    /// Every event of a prefix after revision `from`, which may be the revision of a [`Range`], of an event, or
    /// one that is still to come.
    ///
    /// # Errors
    /// See [`WatchError`].
    pub fn watch(&self, prefix: impl Into<Key>, from: u64) -> Result<Watch, WatchError> {
        self.inner.shared.watch(prefix.into(), from)
    }

    /// Waits until the store has reached a revision; returns the one it is at.
    pub async fn reached(&self, revision: u64) -> u64 {
        let mut progress = self.inner.shared.subscribe_progress();
        // The sender lives as long as this handle, so the wait ends only when the revision is reached.
        let reached = progress.wait_for(|current| *current >= revision).await.map(|current| *current);
        reached.unwrap_or_else(|_| self.revision())
    }

    /// Numbers about the store.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let queued =
            lock(&self.inner.queue).as_ref().map_or(0, |queue| queue.max_capacity() - queue.capacity());
        self.inner.shared.stats(queued)
    }
}
