//! The limits of a store, each with its number and its reason; its keys and its observer.

use lazaret_storage::TxnLimits;

use crate::keys::EncryptionKeys;
use crate::notice::Observer;

/// How much a store keeps, queues and writes at once. The defaults suit one API server of up to some hundred
/// thousand objects.
#[derive(Debug, Clone)]
pub struct Options {
    /// Past events kept for watches and reads of the past. 100,000 is five minutes at 330 writes a second.
    pub history_events_max: usize,
    /// Bytes those events may keep alive, counted as if they shared nothing with the current items.
    pub history_bytes_max: usize,
    /// Transactions waiting for the writer. A full group is 512; twice that keeps the writer busy during a sync.
    pub queue_txns_max: usize,
    /// Bytes of transactions waiting for the writer, so that the queue is bounded in memory too.
    pub queue_bytes_max: usize,
    /// Operations in one group commit (a transaction is never split, so one transaction may exceed it alone).
    pub group_ops_max: usize,
    /// Bytes in one group commit, likewise. One MiB costs about as much to write as a sync costs to wait for.
    pub group_bytes_max: usize,
    /// Operations and bytes of one transaction.
    pub txn: TxnLimits,
    /// Bytes after which the log continues in a new segment file.
    pub segment_bytes_max: u64,
    /// Bytes of log after which a snapshot is taken, unless the items weigh more: then that much. So the log to
    /// replay is never much more than the data, and snapshots write no more than the log does.
    pub snapshot_log_bytes_min: u64,
    /// The keys with which files are encrypted; by default there are none.
    pub encryption: EncryptionKeys,
    /// The observer of events of the disk; by default none.
    pub observer: Observer,
}

impl Default for Options {
    fn default() -> Self {
        const MIB: usize = 1 << 20;
        Options {
            history_events_max: 100_000,
            history_bytes_max: 128 * MIB,
            queue_txns_max: 1_024,
            queue_bytes_max: 64 * MIB,
            group_ops_max: 512,
            group_bytes_max: MIB,
            txn: TxnLimits::default(),
            segment_bytes_max: 64 << 20,
            snapshot_log_bytes_min: 64 << 20,
            encryption: EncryptionKeys::default(),
            observer: Observer::default(),
        }
    }
}

impl Options {
    /// The same with limits that the format can hold: a frame's length is 32 bits.
    pub(crate) fn bounded(self) -> Options {
        const GIB: usize = 1 << 30;
        Options {
            queue_txns_max: self.queue_txns_max.max(1),
            queue_bytes_max: self.queue_bytes_max.clamp(1, GIB),
            group_bytes_max: self.group_bytes_max.min(GIB),
            txn: TxnLimits { bytes_max: self.txn.bytes_max.min(GIB), ..self.txn },
            ..self
        }
    }
}
