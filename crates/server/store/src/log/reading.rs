//! Reading a store's files without changing any: the newest snapshot, then every segment after it, frame by frame.
//!
//! Any deviation from the written form is an error that names the file and the offset, because reading around it
//! would forget an acknowledged write. The one exception is a torn last frame, which is reported to the caller.

use bytes::Bytes;
use lazaret_storage::{Key, StorageError};

use super::frame::{self, Found, Frame, FrameKind};
use super::header::{FileKind, Header, Opened};
use super::payload::{Record, next_record};
use super::snapshot::{self, number_in};
use super::tail::{self, Tail};
use super::{SEGMENT, SNAPSHOT, TEMPORARY, segment_name, snapshot_name};
use crate::disk::{Disk, DiskFile};
use crate::draft::{Changes, Draft};
use crate::error::OpenError;
use crate::history::History;
use crate::index::Index;
use crate::keys::EncryptionKeys;
use crate::options::Options;
use crate::shared::{Shared, State};
use crate::store::FIRST_REVISION;

/// The state read from the files of a store.
#[derive(Debug)]
pub(super) struct LoadedState {
    pub(super) state: State,
    pub(super) history: History,
    pub(super) next_seq: u64,
    /// The revision of the snapshot that it begins with.
    pub(super) base_revision: u64,
    pub(super) first_segment: u64,
    /// The segment to continue; `None` in a new store.
    pub(super) last: Option<LastSegment>,
    /// Every file that was read, in that order.
    pub(super) files: Vec<FileRead>,
}

/// The end of the log.
#[derive(Debug)]
pub(super) struct LastSegment {
    pub(super) opened: Opened,
    pub(super) name: String,
    pub(super) file: Box<dyn DiskFile>,
    /// Where its last whole frame ends.
    pub(super) end: u64,
    /// Where that frame begins; the header, if there is none.
    pub(super) last_frame: u64,
    /// Its length, with what a crash left of a frame.
    pub(super) size: u64,
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct FileRead {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) frames: u64,
    pub(super) key_id: Option<String>,
}

/// Reads what a disk holds.
pub(super) fn read(disk: &dyn Disk, options: &Options) -> Result<LoadedState, OpenError> {
    let files = Files::list(disk)?;
    let mut read = Vec::new();
    let base = match files.snapshots.last() {
        Some(revision) => {
            let name = snapshot_name(*revision);
            let loaded = snapshot::load(disk, &name, &options.encryption)?;
            if loaded.header.revision != *revision {
                let what = "its header tells another revision than its name".into();
                return Err(OpenError::Damaged { file: name, offset: 0, what });
            }
            let (first_segment, next_seq) = (loaded.header.number, loaded.header.next_seq);
            read.push(FileRead { name, bytes: loaded.bytes, frames: loaded.frames, key_id: loaded.key_id });
            Base { index: loaded.index, revision: *revision, first_segment, next_seq }
        }
        None => Base { index: Index::default(), revision: FIRST_REVISION, first_segment: 1, next_seq: 1 },
    };
    let last = files.check_segments(&base)?;
    let (first_segment, base_revision) = (base.first_segment, base.revision);
    let mut replay = Replay {
        keys: &options.encryption,
        state: State { index: base.index, revision: base.revision },
        history: Shared::empty_history(options, base.revision),
        next_seq: base.next_seq,
        read,
    };
    let last = match last {
        Some(last) => Some(replay.segments(disk, first_segment, last)?),
        None => None,
    };
    Ok(LoadedState {
        state: replay.state,
        history: replay.history,
        next_seq: replay.next_seq,
        base_revision,
        first_segment,
        last,
        files: replay.read,
    })
}

/// Where replay begins.
struct Base {
    index: Index,
    revision: u64,
    first_segment: u64,
    next_seq: u64,
}

/// The names in the directory that are ours, each kind ascending.
pub(super) struct Files {
    snapshots: Vec<u64>,
    segments: Vec<u64>,
    pub(super) temporary: Vec<String>,
}

impl Files {
    pub(super) fn list(disk: &dyn Disk) -> Result<Files, StorageError> {
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
}

/// How far the frames of a segment reach.
#[derive(Clone, Copy)]
enum SegmentEnd {
    /// To the end of the file, but for a torn frame: the last segment.
    TornTail,
    /// To the end of the file.
    End,
    /// To the offset that the next segment's header says; bytes beyond it are void.
    Offset(u64),
}

/// The state as far as it has been read.
struct Replay<'a> {
    keys: &'a EncryptionKeys,
    state: State,
    history: History,
    next_seq: u64,
    read: Vec<FileRead>,
}

impl Replay<'_> {
    /// Replays segments in order and returns the last one, open.
    fn segments(&mut self, disk: &dyn Disk, first: u64, last: u64) -> Result<LastSegment, OpenError> {
        let mut current = self.open(disk, first)?;
        for number in first..last {
            let next = self.open(disk, number + 1)?;
            let until = if next.opened.counts_previous {
                SegmentEnd::Offset(next.opened.header.count)
            } else {
                SegmentEnd::End
            };
            self.segment(&mut current, number, until)?;
            current = next;
        }
        self.segment(&mut current, last, SegmentEnd::TornTail)?;
        Ok(current)
    }

    fn open(&self, disk: &dyn Disk, number: u64) -> Result<LastSegment, OpenError> {
        let name = segment_name(number);
        let file = disk.open(&name).map_err(StorageError::when("open", &name))?;
        let size = file.size().map_err(StorageError::when("read", &name))?;
        let opened = Header::read(&*file, &name, FileKind::Log, self.keys)?;
        let end = opened.bytes;
        Ok(LastSegment { opened, name, file, end, last_frame: 0, size })
    }

    fn segment(
        &mut self,
        segment: &mut LastSegment,
        number: u64,
        until: SegmentEnd,
    ) -> Result<(), OpenError> {
        self.check_header(&segment.opened.header, number, &segment.name)?;
        let name = segment.name.as_str();
        let damaged =
            |offset: u64, what: &str| OpenError::Damaged { file: name.into(), offset, what: what.into() };
        let limit = match until {
            SegmentEnd::TornTail | SegmentEnd::End => segment.size,
            SegmentEnd::Offset(offset) if offset > segment.size => {
                return Err(damaged(segment.size, "it is shorter than the next segment says"));
            }
            SegmentEnd::Offset(offset) => offset,
        };
        let mut frames = 0;
        loop {
            let offset = segment.end;
            let found = frame::read(&*segment.file, &segment.opened.cipher, offset, limit)
                .map_err(StorageError::when("read", name))?;
            match found {
                Found::Frame(found) => {
                    self.frame(&found).map_err(|what| damaged(offset, what))?;
                    (segment.last_frame, segment.end) = (offset, found.end);
                    frames += 1;
                }
                Found::End => break,
                Found::Unreadable(_) if matches!(until, SegmentEnd::TornTail) => {
                    self.judge_tail(&*segment.file, name, offset, segment.size)?;
                    break;
                }
                Found::Unreadable(what) | Found::Forged(what) => return Err(damaged(offset, what)),
            }
        }
        let key_id = segment.opened.key_id.clone();
        self.read.push(FileRead { name: name.into(), bytes: segment.end, frames, key_id });
        Ok(())
    }

    fn check_header(&mut self, header: &Header, number: u64, name: &str) -> Result<(), OpenError> {
        let revision = self.state.revision;
        let continues = header.revision == revision || header.healed && header.revision > revision;
        if header.number != number || header.next_seq != self.next_seq || !continues {
            let what = format!(
                "it is number {}, continues revision {} and frame {}, but what precedes it ends at revision {revision} and frame {}",
                header.number, header.revision, header.next_seq, self.next_seq
            );
            return Err(OpenError::Damaged { file: name.into(), offset: 0, what });
        }
        self.state.revision = header.revision;
        Ok(())
    }

    fn judge_tail(&self, file: &dyn DiskFile, name: &str, offset: u64, size: u64) -> Result<(), OpenError> {
        let mut rest = vec![0; usize::try_from(size - offset).unwrap_or(usize::MAX)];
        file.read_at(offset, &mut rest).map_err(StorageError::when("read", name))?;
        match tail::classify_tail(&rest, offset, self.next_seq) {
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
