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
//! crash can only spoil the last frame of the last segment. The rest is in [`recovery`].

mod frame;
mod header;
mod payload;
mod recovery;
mod snapshot;
mod tail;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

pub(crate) use recovery::recover;

use crate::disk::{Disk, DiskFile};
use crate::engine::{Engine, GroupCommit};
use crate::error::StorageError;
use crate::shared::{Counters, State};
use frame::FrameKind;
use header::{FileKind, Header};
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
    segment: Segment,
    /// The number of the next frame; frames are numbered through all segments.
    next_seq: u64,
    buffer: Vec<u8>,
    limits: Limits,
    mode: SnapshotMode,
    snapshot: Option<JoinHandle<Result<(), StorageError>>>,
    counters: Arc<Counters>,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    segment_bytes_max: u64,
    snapshot_log_bytes_min: u64,
}

/// The file being appended to.
#[derive(Debug)]
struct Segment {
    number: u64,
    name: String,
    file: Box<dyn DiskFile>,
    size: u64,
}

impl Engine for LogEngine {
    fn append(&mut self, group: &GroupCommit<'_>) -> Result<(), StorageError> {
        self.buffer.clear();
        frame::encode(&mut self.buffer, FrameKind::Commit, self.next_seq, group.base, |payload| {
            payload::encode_commit(payload, group);
        });
        let segment = &mut self.segment;
        let when = |doing| StorageError::when(doing, &segment.name);
        segment.file.write_at(segment.size, &self.buffer).map_err(when("append to"))?;
        segment.file.sync().map_err(when("sync"))?;
        let written = self.buffer.len() as u64;
        segment.size += written;
        self.next_seq += 1;
        self.counters.log_bytes.fetch_add(written, Ordering::Relaxed);
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        Ok(())
    }

    fn published(&mut self, state: &State) -> Result<(), StorageError> {
        if self.snapshot.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish_snapshot();
        }
        let log_bytes = self.counters.log_bytes.load(Ordering::Relaxed);
        let snapshot_due = log_bytes >= self.limits.snapshot_log_bytes_min.max(state.index.bytes());
        if snapshot_due && self.snapshot.is_none() {
            self.rotate(state.revision)?;
            self.counters.log_bytes.store(0, Ordering::Relaxed);
            self.start_snapshot(state);
        } else if self.segment.size >= self.limits.segment_bytes_max {
            self.rotate(state.revision)?;
        }
        Ok(())
    }
}

/// What the append buffer keeps between groups: an ordinary group's size.
const BUFFER_BYTES_KEPT: usize = 2 << 20;

impl LogEngine {
    /// Continues the log in a new segment. The old one is durable to its last frame already.
    fn rotate(&mut self, revision: u64) -> Result<(), StorageError> {
        self.segment = Segment::create(&*self.disk, self.segment.number + 1, revision, self.next_seq)?;
        Ok(())
    }

    /// A snapshot that fails costs nothing but the space that it would have freed: the log still has everything.
    fn start_snapshot(&mut self, state: &State) {
        let job = SnapshotJob {
            disk: Arc::clone(&self.disk),
            index: state.index.clone(),
            revision: state.revision,
            first_segment: self.segment.number,
            next_seq: self.next_seq,
        };
        match self.mode {
            SnapshotMode::Thread => {
                let thread = thread::Builder::new().name("store-snapshot".into()).spawn(move || job.run());
                match thread {
                    Ok(handle) => self.snapshot = Some(handle),
                    Err(_) => self.count_snapshot(false),
                }
            }
            #[cfg(test)]
            SnapshotMode::Inline => {
                let done = job.run().is_ok();
                self.count_snapshot(done);
            }
        }
    }

    fn finish_snapshot(&mut self) {
        if let Some(handle) = self.snapshot.take() {
            let done = matches!(handle.join(), Ok(Ok(())));
            self.count_snapshot(done);
        }
    }

    fn count_snapshot(&self, done: bool) {
        let counter = if done { &self.counters.snapshots } else { &self.counters.snapshots_failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for LogEngine {
    /// Waits for a snapshot under way, so that nobody writes to the directory once its lock is gone.
    fn drop(&mut self) {
        self.finish_snapshot();
    }
}

impl Segment {
    fn create(disk: &dyn Disk, number: u64, revision: u64, next_seq: u64) -> Result<Segment, StorageError> {
        let name = segment_name(number);
        let temporary = format!("{name}{TEMPORARY}");
        let when = |doing| StorageError::when(doing, &temporary);
        let header = Header { kind: FileKind::Log, number, revision, next_seq, items: 0 }.encode();
        let mut file = disk.create(&temporary).map_err(when("create"))?;
        file.write_at(0, &header).map_err(when("write"))?;
        file.sync().map_err(when("sync"))?;
        disk.rename(&temporary, &name).map_err(when("rename"))?;
        disk.sync_dir().map_err(when("sync directory of"))?;
        Ok(Segment { number, name, file, size: header.len() as u64 })
    }
}

const TEMPORARY: &str = ".tmp";
const SEGMENT: &str = "log-";
const SNAPSHOT: &str = "snapshot-";

fn segment_name(number: u64) -> String {
    format!("{SEGMENT}{number:010}")
}

fn snapshot_name(revision: u64) -> String {
    format!("{SNAPSHOT}{revision:020}")
}
