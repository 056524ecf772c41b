//! The engine: an append-only log of group commits in segment files, and snapshots that let it be cut.
//!
//! | file | holds |
//! |---|---|
//! | `log-<number>` | a header, then one frame per group commit, in order |
//! | `snapshot-<revision>` | a header, all items at that revision in key order, an end frame |
//! | `*.tmp` | a file in the making; removed when a store is opened |
//!
//! A file gets its final name only when its header (a snapshot: all of it) is durable, so a named file is never
//! half made. A group is one frame, written with one write and one sync before the next group is written: so a
//! crash can only spoil the last frame of the last segment. Reading is in [`reading`], opening in [`recovery`].
//!
//! After a failed write the end of the segment is unknown, and nothing is appended to it again. The log continues in
//! a new segment whose header says how many bytes of the one before it count: when that header is durable, the failed
//! group is void, for readers and for every later opening.

mod archive;
mod frame;
mod header;
mod payload;
mod reading;
mod recovery;
mod seal;
mod snapshot;
mod tail;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

pub use archive::{Archived, FileReport, Report, back_up, restore, verify};
pub(crate) use recovery::recover;

use crate::clock;
use crate::counters::Counters;
use crate::disk::{Disk, DiskFile};
use crate::engine::{Engine, GroupCommit, SnapshotReply};
use crate::keys::EncryptionKeys;
use crate::shared::State;
use frame::FrameKind;
use header::{FileKind, Header};
use lazaret_storage::{SnapshotError, StorageError};
use seal::Cipher;
use snapshot::SnapshotJob;

/// Where snapshots are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SnapshotMode {
    /// On a thread of their own, beside the commits.
    Thread,
    /// In between commits, so that a test can repeat it exactly.
    #[cfg(test)]
    Inline,
}

/// The writing end of the log.
#[derive(Debug)]
pub(crate) struct LogEngine {
    disk: Arc<dyn Disk>,
    keys: EncryptionKeys,
    segment: Segment,
    /// The first segment after the newest snapshot, as far as this process knows.
    first_segment: u64,
    /// The number of the next frame; frames are numbered through all segments.
    next_seq: u64,
    buffer: Vec<u8>,
    limits: Limits,
    mode: SnapshotMode,
    snapshot: Option<JoinHandle<()>>,
    repair: Repair,
    counters: Arc<Counters>,
}

/// The repair that precedes the next append.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Repair {
    /// Continue in a new segment.
    rotate: bool,
    /// Write everything anew: the disk failed in a way after which what it says it holds is not to be trusted.
    snapshot: bool,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    segment_bytes_max: u64,
    snapshot_log_bytes_min: u64,
}

/// Segments after which a snapshot is taken, however small they are: each start of an encrypted store makes one.
const SEGMENTS_MAX: u64 = 64;

/// The file being appended to.
#[derive(Debug)]
struct Segment {
    number: u64,
    name: String,
    file: Box<dyn DiskFile>,
    cipher: Cipher,
    size: u64,
}

impl Engine for LogEngine {
    fn append(&mut self, group: &GroupCommit<'_>) -> Result<(), StorageError> {
        self.buffer.clear();
        let segment = &mut self.segment;
        frame::encode(
            &mut self.buffer,
            &segment.cipher,
            FrameKind::Commit,
            self.next_seq,
            group.base,
            |payload| payload::encode_commit(payload, group),
        );
        let when = |doing| StorageError::when(doing, &segment.name);
        if let Err(source) = segment.file.write_at(segment.size, &self.buffer) {
            // A disk that is full has kept what it had. After any other failure that is not so sure.
            let full = matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
            self.repair = Repair { rotate: true, snapshot: !full };
            return Err(when("append to")(source));
        }
        let started = clock::micros();
        let synced = segment.file.sync();
        self.counters.synced(clock::micros() - started, synced.is_ok());
        if let Err(source) = synced {
            self.repair = Repair { rotate: true, snapshot: true };
            return Err(when("sync")(source));
        }
        let written = self.buffer.len() as u64;
        segment.size += written;
        self.next_seq += 1;
        self.counters.log_bytes.fetch_add(written, Ordering::Relaxed);
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        Ok(())
    }

    fn published(&mut self, state: &State) -> Result<(), StorageError> {
        let log_bytes = self.counters.log_bytes.load(Ordering::Relaxed);
        let snapshot_due = log_bytes >= self.limits.snapshot_log_bytes_min.max(state.index.bytes())
            || self.segment.number - self.first_segment >= SEGMENTS_MAX;
        if snapshot_due && !self.is_snapshot_running() {
            self.rotate(state.revision)?;
            self.start_snapshot(state, None);
        } else if self.segment.size >= self.limits.segment_bytes_max {
            self.rotate(state.revision)?;
        }
        Ok(())
    }

    fn heal(&mut self, state: &State) -> Result<(), StorageError> {
        if self.repair.rotate {
            // Gives the space of a half written frame back, if that works: it is void either way.
            let _ = self.segment.file.set_size(self.segment.size);
            self.continue_in_new_segment(state.revision, true)?;
            self.repair.rotate = false;
        }
        if self.repair.snapshot {
            self.wait_for_snapshot();
            self.snapshot_job(state).run()?;
            self.repair.snapshot = false;
        }
        Ok(())
    }

    fn snapshot(&mut self, state: &State, reply: SnapshotReply) -> Result<(), Arc<StorageError>> {
        if self.is_snapshot_running() {
            drop(reply.send(Err(SnapshotError::Busy)));
            return Ok(());
        }
        if let Err(error) = self.rotate(state.revision) {
            let error = Arc::new(error);
            drop(reply.send(Err(SnapshotError::Failed(Arc::clone(&error)))));
            return Err(error);
        }
        self.start_snapshot(state, Some(reply));
        Ok(())
    }
}

/// Bytes of the append buffer kept between groups: an ordinary group's size.
const BUFFER_BYTES_KEPT: usize = 2 << 20;

impl LogEngine {
    /// Continues the log in a new segment. The old one is durable to its last frame already.
    fn rotate(&mut self, revision: u64) -> Result<(), StorageError> {
        let rotated = self.continue_in_new_segment(revision, false);
        // The new segment may have its name by now, so the old one must not grow any more.
        self.repair.rotate = rotated.is_err();
        rotated
    }

    fn continue_in_new_segment(&mut self, revision: u64, healed: bool) -> Result<(), StorageError> {
        let header = Header {
            kind: FileKind::Log,
            number: self.segment.number + 1,
            revision,
            next_seq: self.next_seq,
            count: self.segment.size,
            healed,
        };
        let attempt = self.counters.next_attempt();
        self.segment = Segment::create(&*self.disk, &header, &self.keys, attempt)?;
        Ok(())
    }

    fn snapshot_job(&mut self, state: &State) -> SnapshotJob {
        self.counters.log_bytes.store(0, Ordering::Relaxed);
        self.first_segment = self.segment.number;
        SnapshotJob {
            disk: Arc::clone(&self.disk),
            keys: self.keys.clone(),
            index: state.index.clone(),
            revision: state.revision,
            first_segment: self.segment.number,
            next_seq: self.next_seq,
            counters: Arc::clone(&self.counters),
        }
    }

    /// A snapshot that fails costs nothing but the space that it would have freed: the log still has everything.
    fn start_snapshot(&mut self, state: &State, reply: Option<SnapshotReply>) {
        let job = self.snapshot_job(state);
        match self.mode {
            SnapshotMode::Thread => {
                let counters = Arc::clone(&self.counters);
                let thread = thread::Builder::new()
                    .name("store-snapshot".into())
                    .spawn(move || job.run_and_answer(reply));
                match thread {
                    Ok(handle) => self.snapshot = Some(handle),
                    Err(source) => {
                        let file = "store-snapshot".into();
                        counters.snapshot_failed(StorageError { doing: "start thread", file, source });
                    }
                }
            }
            #[cfg(test)]
            SnapshotMode::Inline => job.run_and_answer(reply),
        }
    }

    fn is_snapshot_running(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn wait_for_snapshot(&mut self) {
        if let Some(handle) = self.snapshot.take() {
            // A thread that panicked left a temporary file behind, and has replaced nothing.
            drop(handle.join());
        }
    }
}

impl Drop for LogEngine {
    /// Waits for a snapshot in flight, so that no thread writes to the directory once its lock is gone.
    fn drop(&mut self) {
        self.wait_for_snapshot();
    }
}

impl Segment {
    fn create(
        disk: &dyn Disk,
        header: &Header,
        keys: &EncryptionKeys,
        attempt: u64,
    ) -> Result<Segment, StorageError> {
        let name = segment_name(header.number);
        let temporary = temporary_name(&name, attempt);
        let when = |doing| StorageError::when(doing, &temporary);
        let (bytes, cipher) = header.encode(keys).map_err(when("encrypt"))?;
        let mut file = disk.create(&temporary).map_err(when("create"))?;
        let written = file.write_at(0, &bytes).map_err(when("write"));
        if let Err(error) = written.and_then(|()| file.sync().map_err(when("sync"))) {
            // Best effort, so that many attempts do not leave many files.
            let _ = disk.remove(&temporary);
            return Err(error);
        }
        disk.rename(&temporary, &name).map_err(when("rename"))?;
        disk.sync_dir().map_err(when("sync directory of"))?;
        Ok(Segment { number: header.number, name, file, cipher, size: bytes.len() as u64 })
    }
}

/// The header of a segment as version 1 of the format wrote it.
#[cfg(test)]
pub(crate) fn version_1_header(number: u64, revision: u64, next_seq: u64) -> Vec<u8> {
    let kind = FileKind::Log;
    header::version_1(&Header { kind, number, revision, next_seq, count: 0, healed: false }).to_vec()
}

const TEMPORARY: &str = ".tmp";
const SEGMENT: &str = "log-";
const SNAPSHOT: &str = "snapshot-";

/// No two attempts of one process share a name: else a crash could give the final name to the file of an earlier,
/// failed one.
fn temporary_name(name: &str, attempt: u64) -> String {
    format!("{name}.{attempt}{TEMPORARY}")
}

fn segment_name(number: u64) -> String {
    format!("{SEGMENT}{number:010}")
}

fn snapshot_name(revision: u64) -> String {
    format!("{SNAPSHOT}{revision:020}")
}
