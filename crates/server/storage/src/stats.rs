//! Numbers about a store.

use std::time::Duration;

/// Numbers about a store, for metrics and for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// The newest visible revision.
    pub revision: u64,
    /// The oldest revision that reads and watches may name.
    pub oldest: u64,
    /// Items held.
    pub items: usize,
    /// Their keys and values, with a little overhead each, in bytes.
    pub items_bytes: u64,
    /// Events held in the history.
    pub history_events: usize,
    /// Bytes those events may keep alive.
    pub history_bytes: usize,
    /// Watches open.
    pub watches: usize,
    /// Distinct prefixes they watch.
    pub watched_prefixes: usize,
    /// Watches that ended because their reader was too slow, ever.
    pub watches_dropped: u64,
    /// Transactions waiting for the writer.
    pub queued: usize,
    /// Group commits made durable since the store was opened.
    pub groups: u64,
    /// Transactions acknowledged since the store was opened, conflicts not counted.
    pub txns: u64,
    /// Bytes appended to the log since the last snapshot.
    pub log_bytes: u64,
    /// Snapshots completed since the store was opened.
    pub snapshots: u64,
    /// Snapshots that failed since the store was opened: the log keeps growing while this does.
    pub snapshots_failed: u64,
    /// Why the store accepts no writes, if so.
    pub read_only: Option<String>,
    /// How often it became read-only since it was opened.
    pub failures: u64,
    /// How often it took writes again.
    pub heals: u64,
    /// Syncs of the log that failed since the store was opened.
    pub syncs_failed: u64,
    /// How long the last sync of the log took.
    pub last_sync: Duration,
    /// How long the writer has been waiting for the disk, if it is.
    pub disk_busy: Option<Duration>,
    /// Bytes of a torn tail that were cut off when the store was opened.
    pub tail_bytes_cut: u64,
}

/// The number of items and their size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Items.
    pub items: usize,
    /// Their keys and values, with a little overhead each, in bytes.
    pub bytes: u64,
}

/// A snapshot that was asked for and is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshotted {
    /// The revision of the snapshot.
    pub revision: u64,
    /// The items in it.
    pub items: u64,
    /// Its length.
    pub bytes: u64,
}
