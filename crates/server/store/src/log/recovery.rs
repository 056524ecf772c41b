//! Opening: what the files say, made durable and ready to be continued.
//!
//! The only thing that is ever cut off is a torn last frame.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lazaret_storage::StorageError;

use super::header::{FileKind, Header};
use super::reading::{self, Files, LastSegment, LoadedState};
use super::snapshot::remove_superseded;
use super::{Limits, LogEngine, Repair, SEGMENT, Segment, SnapshotMode};
use crate::counters::Counters;
use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::history::History;
use crate::notice::Notice;
use crate::options::Options;
use crate::shared::State;

/// A store as it was when its last process ended.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) history: History,
    pub(crate) engine: LogEngine,
    /// Why nothing can be written yet, though everything could be read.
    pub(crate) read_only: Option<StorageError>,
}

/// Recovers what a disk holds, or begins a new log on an empty one.
pub(crate) fn recover(
    disk: Arc<dyn Disk>,
    options: &Options,
    mode: SnapshotMode,
    counters: Arc<Counters>,
) -> Result<Recovered, OpenError> {
    // Names that a killed process left unsynced must be durable before anything is built on them.
    disk.sync_dir().map_err(StorageError::when("sync directory", "."))?;
    let reading = reading::read(&*disk, options)?;
    let mut repair = Repair::default();
    let mut read_only = None;
    let log_bytes =
        reading.files.iter().filter(|file| file.name.starts_with(SEGMENT)).map(|file| file.bytes).sum();
    let LoadedState { state, history, next_seq, base_revision, first_segment, last, .. } = reading;
    let segment = match last {
        Some(mut last) => {
            settle_tail(&mut last, &counters)?;
            remove_temporary(&*disk)?;
            match continue_segment(&*disk, options, last, &state, next_seq) {
                Ok(segment) => segment,
                // Reading works, and what is there is durable. Writing is tried again while the store is open.
                Err((last, error)) => {
                    repair.rotate = true;
                    read_only = Some(error);
                    last
                }
            }
        }
        None => {
            remove_temporary(&*disk)?;
            let header = Header {
                kind: FileKind::Log,
                number: 1,
                revision: base_revision,
                next_seq,
                count: 0,
                healed: false,
            };
            Segment::create(&*disk, &header, &options.encryption, 0)?
        }
    };
    remove_superseded(&*disk, base_revision, first_segment)?;

    counters.log_bytes.store(log_bytes, Ordering::Relaxed);
    let limits = Limits {
        segment_bytes_max: options.segment_bytes_max,
        snapshot_log_bytes_min: options.snapshot_log_bytes_min,
    };
    let engine = LogEngine {
        disk,
        keys: options.encryption.clone(),
        segment,
        first_segment,
        next_seq,
        buffer: Vec::new(),
        limits,
        mode,
        snapshot: None,
        repair,
        counters,
    };
    Ok(Recovered { state, history, engine, read_only })
}

/// Cuts a torn tail off and makes the last frame durable. It may be whole in the system's cache only: its process was
/// killed before the sync, or the sync failed, after which a kernel holds for clean what it never wrote. It is about to
/// become visible, so it is written again, and synced.
fn settle_tail(last: &mut LastSegment, counters: &Counters) -> Result<(), StorageError> {
    let when = |doing| StorageError::when(doing, &last.name);
    if last.size > last.end {
        let bytes = last.size - last.end;
        last.file.set_size(last.end).map_err(when("cut torn tail of"))?;
        counters.tail_bytes_cut.fetch_add(bytes, Ordering::Relaxed);
        counters.observer.notify(&Notice::TailCut { file: last.name.clone(), offset: last.end, bytes });
    }
    rewrite(&mut *last.file, last.last_frame..last.end).map_err(when("rewrite last frame of"))?;
    last.file.sync().map_err(when("sync"))
}

fn rewrite(file: &mut dyn DiskFile, range: std::ops::Range<u64>) -> std::io::Result<()> {
    let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
    file.read_at(range.start, &mut bytes)?;
    file.write_at(range.start, &bytes)
}

/// The segment to append to. An encrypted one is never continued by another process, because the frame that was cut
/// off had the number of the one to come: it is replaced if it is empty, else another one begins after it.
fn continue_segment(
    disk: &dyn Disk,
    options: &Options,
    last: LastSegment,
    state: &State,
    next_seq: u64,
) -> Result<Segment, (Segment, StorageError)> {
    let LastSegment { opened, name, file, end, .. } = last;
    // A header of version 1 does not say how long the segment before it is, so it cannot be written anew.
    let is_replaced = end == opened.bytes && opened.counts_previous;
    let header = if is_replaced {
        opened.header
    } else {
        let number = opened.header.number + 1;
        Header { kind: FileKind::Log, number, revision: state.revision, next_seq, count: end, healed: false }
    };
    let encrypted = opened.cipher.is_sealed() || options.encryption.writing().is_some();
    let kept = Segment { number: opened.header.number, name, file, cipher: opened.cipher, size: end };
    if !encrypted {
        return Ok(kept);
    }
    Segment::create(disk, &header, &options.encryption, 0).map_err(|error| (kept, error))
}

fn remove_temporary(disk: &dyn Disk) -> Result<(), StorageError> {
    let temporary = Files::list(disk)?.temporary;
    for name in &temporary {
        disk.remove(name).map_err(StorageError::when("remove", name))?;
    }
    if temporary.is_empty() {
        return Ok(());
    }
    // Durably, before their names are used again: else a crash could give a new file's final name to an old
    // half-made one.
    disk.sync_dir().map_err(StorageError::when("sync directory", "."))
}
