//! Opening: the newest snapshot, then every segment after it, frame by frame.
//!
//! The only thing that is ever cut off is a torn last frame. Anything else that is not as it was written is an
//! error that names the file and the offset, because reading around it would forget something acknowledged.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::frame::{self, Found, Frame, FrameKind};
use super::header::{self, FileKind, Header};
use super::payload::{Record, next_record};
use super::snapshot::{self, number_in, remove_superseded};
use super::tail::{self, Tail};
use super::{
    Limits, LogEngine, SEGMENT, SNAPSHOT, Segment, SnapshotMode, TEMPORARY, segment_name, snapshot_name,
};
use crate::disk::{Disk, DiskFile};
use crate::draft::{Changes, Draft};
use crate::error::{OpenError, StorageError};
use crate::history::History;
use crate::index::Index;
use crate::item::Key;
use crate::options::Options;
use crate::shared::{Counters, Shared, State};
use crate::store::FIRST_REVISION;

/// A store as it was when its last process ended.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) history: History,
    pub(crate) engine: LogEngine,
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
    let files = Files::list(&*disk)?;
    let base = match files.snapshots.last() {
        Some(revision) => {
            let name = snapshot_name(*revision);
            let (header, index) = snapshot::load(&*disk, &name)?;
            if header.revision != *revision {
                let what = "its header tells another revision than its name".into();
                return Err(OpenError::Damaged { file: name, offset: 0, what });
            }
            Base { index, revision: *revision, first_segment: header.number, next_seq: header.next_seq }
        }
        None => Base { index: Index::default(), revision: FIRST_REVISION, first_segment: 1, next_seq: 1 },
    };
    let last_segment = files.check_segments(&base)?;

    let (first_segment, base_revision) = (base.first_segment, base.revision);
    let mut replay = Replay {
        state: State { index: base.index, revision: base.revision },
        history: Shared::empty_history(options, base.revision),
        next_seq: base.next_seq,
    };
    let segment = match last_segment {
        Some(last) => {
            for number in first_segment..last {
                replay.segment(&*disk, number, false)?;
            }
            let segment = replay.segment(&*disk, last, true)?;
            files.remove_temporary(&*disk)?;
            segment
        }
        None => {
            files.remove_temporary(&*disk)?;
            Segment::create(&*disk, 1, base_revision, base.next_seq)?
        }
    };
    remove_superseded(&*disk, base_revision, first_segment)?;

    counters.log_bytes.store(files.log_bytes(&*disk, first_segment)?, Ordering::Relaxed);
    let limits = Limits {
        segment_bytes_max: options.segment_bytes_max,
        snapshot_log_bytes_min: options.snapshot_log_bytes_min,
    };
    let engine = LogEngine {
        disk,
        segment,
        next_seq: replay.next_seq,
        buffer: Vec::new(),
        limits,
        mode,
        snapshot: None,
        counters,
    };
    Ok(Recovered { state: replay.state, history: replay.history, engine })
}

/// Where replay begins.
struct Base {
    index: Index,
    revision: u64,
    first_segment: u64,
    next_seq: u64,
}

/// The names in the directory that are ours, each kind ascending.
struct Files {
    snapshots: Vec<u64>,
    segments: Vec<u64>,
    temporary: Vec<String>,
}

impl Files {
    fn list(disk: &dyn Disk) -> Result<Files, StorageError> {
        let names = disk.list().map_err(StorageError::when("list", "."))?;
        let numbers = |kind| {
            let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_in(name, kind)).collect();
            numbers.sort_unstable();
            numbers
        };
        let ours = |name: &&String| name.starts_with(SEGMENT) || name.starts_with(SNAPSHOT);
        let temporary = names.iter().filter(ours).filter(|name| name.ends_with(TEMPORARY)).cloned().collect();
        Ok(Files { snapshots: numbers(SNAPSHOT), segments: numbers(SEGMENT), temporary })
    }

    /// The last segment; `None` if this is a new store. Every segment from the base on must be there.
    fn check_segments(&self, base: &Base) -> Result<Option<u64>, OpenError> {
        let Some(last) = self.segments.last().copied().filter(|last| *last >= base.first_segment) else {
            if self.snapshots.is_empty() && self.segments.is_empty() {
                return Ok(None);
            }
            let why = format!("the snapshot of revision {} is continued there", base.revision);
            return Err(OpenError::Missing { file: segment_name(base.first_segment), why });
        };
        match (base.first_segment..last).find(|number| self.segments.binary_search(number).is_err()) {
            Some(number) => {
                let why = format!("{} is there", segment_name(last));
                Err(OpenError::Missing { file: segment_name(number), why })
            }
            None => Ok(Some(last)),
        }
    }

    fn remove_temporary(&self, disk: &dyn Disk) -> Result<(), StorageError> {
        for name in &self.temporary {
            disk.remove(name).map_err(StorageError::when("remove", name))?;
        }
        if self.temporary.is_empty() {
            return Ok(());
        }
        // Durably, before their names are used again: else a crash could give a new file's final name to an old
        // half-made one.
        disk.sync_dir().map_err(StorageError::when("sync directory", "."))
    }

    /// The bytes of log that were replayed, which is what a snapshot would save.
    fn log_bytes(&self, disk: &dyn Disk, first_segment: u64) -> Result<u64, StorageError> {
        let mut bytes = 0;
        for number in self.segments.iter().filter(|number| **number >= first_segment) {
            let name = segment_name(*number);
            let size = disk.open(&name).and_then(|file| file.size());
            bytes += size.map_err(StorageError::when("read", &name))?;
        }
        Ok(bytes)
    }
}

fn rewrite(file: &mut dyn DiskFile, range: std::ops::Range<u64>) -> std::io::Result<()> {
    let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
    file.read_at(range.start, &mut bytes)?;
    file.write_at(range.start, &bytes)
}

/// The state as far as it has been read.
struct Replay {
    state: State,
    history: History,
    next_seq: u64,
}

impl Replay {
    /// Replays one segment and returns it, open at its end and durable up to there.
    fn segment(&mut self, disk: &dyn Disk, number: u64, last: bool) -> Result<Segment, OpenError> {
        let name = segment_name(number);
        let when = |doing| StorageError::when(doing, &name);
        let mut file = disk.open(&name).map_err(when("open"))?;
        let size = file.size().map_err(when("read"))?;
        let header = Header::read(&*file, &name, FileKind::Log)?;
        let expected = Header {
            kind: FileKind::Log,
            number,
            revision: self.state.revision,
            next_seq: self.next_seq,
            items: 0,
        };
        if header != expected {
            let what = format!(
                "it continues revision {} and frame {}, but what precedes it ends at revision {} and frame {}",
                header.revision, header.next_seq, expected.revision, expected.next_seq
            );
            return Err(OpenError::Damaged { file: name, offset: 0, what });
        }
        let mut offset = header::HEADER_BYTES as u64;
        let mut last_frame = 0..offset;
        loop {
            let damaged = |what: &str| OpenError::Damaged { file: name.clone(), offset, what: what.into() };
            match frame::read(&*file, offset, size).map_err(when("read"))? {
                Found::Frame(found) => {
                    self.frame(&found).map_err(damaged)?;
                    last_frame = offset..found.end;
                    offset = found.end;
                }
                Found::End => break,
                Found::Unreadable(what) if !last => return Err(damaged(what)),
                Found::Unreadable(_) => {
                    self.judge_tail(&*file, &name, offset, size)?;
                    file.set_size(offset).map_err(when("cut torn tail of"))?;
                    break;
                }
            }
        }
        if last {
            // The last frame may be whole in the system's cache only: its process was killed before the sync, or
            // the sync failed, after which a kernel holds for clean what it never wrote. It is about to become
            // visible, so it is written again, and synced.
            rewrite(&mut *file, last_frame).map_err(when("rewrite last frame of"))?;
            file.sync().map_err(when("sync"))?;
        }
        Ok(Segment { number, name, file, size: offset })
    }

    fn judge_tail(&self, file: &dyn DiskFile, name: &str, offset: u64, size: u64) -> Result<(), OpenError> {
        let mut rest = vec![0; usize::try_from(size - offset).unwrap_or(usize::MAX)];
        file.read_at(offset, &mut rest).map_err(StorageError::when("read", name))?;
        match tail::judge(&rest, offset, self.next_seq) {
            Tail::Torn => Ok(()),
            Tail::Damaged(what) => Err(OpenError::Damaged { file: name.into(), offset, what: what.into() }),
        }
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), &'static str> {
        if frame.kind != FrameKind::Commit {
            return Err("a piece of a snapshot in a log");
        }
        if frame.seq != self.next_seq {
            return Err("a frame is out of order");
        }
        if frame.base != self.state.revision {
            return Err("a frame does not continue the revision before it");
        }
        let mut draft = Draft::new(std::mem::take(&mut self.state.index), frame.base);
        let mut compact = 0;
        let mut payload = &frame.payload[..];
        while !payload.is_empty() {
            match next_record(&mut payload).ok_or("a record does not decode")? {
                Record::Put(key, value) => {
                    draft.put(&Key::from(key), Bytes::copy_from_slice(value));
                }
                Record::Delete(key) => {
                    draft.delete(key).ok_or("a key is deleted that does not exist")?;
                }
                Record::Compact(revision) => compact = revision,
            }
        }
        let (index, changes) = draft.finish();
        self.state.index = index;
        changes.apply_to(&mut self.state.index);
        self.state.revision = changes.revision;
        self.remember(changes, compact);
        self.next_seq += 1;
        Ok(())
    }

    /// Adds to the history, within its limits.
    fn remember(&mut self, changes: Changes, compact: u64) {
        for event in changes.events {
            self.history.push(event);
        }
        while self.history.pop_excess().or_else(|| self.history.pop_until(compact)).is_some() {}
        self.history.raise_oldest(compact);
    }
}
