//! Snapshots: all items of one revision in one file, after which older segments are no longer needed.

use std::sync::Arc;

use lazaret_storage::{SnapshotError, Snapshotted, StorageError};

use super::frame::{self, Found, FrameKind};
use super::header::{FileKind, Header, Opened};
use super::seal::Cipher;
use super::{SEGMENT, SNAPSHOT, payload, snapshot_name, temporary_name};
use crate::counters::Counters;
use crate::disk::{Disk, DiskFile};
use crate::engine::SnapshotReply;
use crate::error::OpenError;
use crate::index::Index;
use crate::keys::EncryptionKeys;

/// Payload bytes of one frame: large enough to write fast, small enough to hold in memory while reading.
const FRAME_BYTES: usize = 1 << 20;

/// Everything needed to write a snapshot beside the commits.
#[derive(Debug)]
pub(super) struct SnapshotJob {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) keys: EncryptionKeys,
    pub(super) index: Index,
    pub(super) revision: u64,
    /// The segment that begins right after this revision.
    pub(super) first_segment: u64,
    pub(super) next_seq: u64,
    pub(super) counters: Arc<Counters>,
}

impl SnapshotJob {
    /// Writes the snapshot, counts it, and answers the caller that requested it.
    pub(super) fn run_and_answer(&self, reply: Option<SnapshotReply>) {
        let done = self.run().map_err(|error| self.counters.snapshot_failed(error));
        if let Some(reply) = reply {
            // The caller may have stopped waiting.
            drop(reply.send(done.map_err(SnapshotError::Failed)));
        }
    }

    /// Writes the snapshot, makes it durable, then removes what it replaces.
    pub(super) fn run(&self) -> Result<Snapshotted, StorageError> {
        let name = snapshot_name(self.revision);
        let temporary = temporary_name(&name, self.counters.next_attempt());
        let bytes = match self.write_as(&temporary) {
            Ok(bytes) => bytes,
            Err(error) => {
                // Best effort, to give the space back; what stays is removed when the store is next opened.
                let _ = self.disk.remove(&temporary);
                return Err(error);
            }
        };
        self.disk.rename(&temporary, &name).map_err(StorageError::when("rename", &temporary))?;
        self.disk.sync_dir().map_err(StorageError::when("sync directory of", &name))?;
        remove_superseded(&*self.disk, self.revision, self.first_segment)?;
        self.counters.snapshot_done();
        Ok(Snapshotted { revision: self.revision, items: self.index.len() as u64, bytes })
    }

    fn write_as(&self, name: &str) -> Result<u64, StorageError> {
        let mut file = self.disk.create(name).map_err(StorageError::when("create", name))?;
        let header = Header {
            kind: FileKind::Snapshot,
            number: self.first_segment,
            revision: self.revision,
            next_seq: self.next_seq,
            count: self.index.len() as u64,
            healed: false,
        };
        let bytes =
            write(&mut *file, &header, &self.index, &self.keys).map_err(StorageError::when("write", name))?;
        file.sync().map_err(StorageError::when("sync", name))?;
        Ok(bytes)
    }
}

/// Writes a snapshot into an empty file; tells its length.
pub(super) fn write(
    file: &mut dyn DiskFile,
    header: &Header,
    index: &Index,
    keys: &EncryptionKeys,
) -> std::io::Result<u64> {
    let (bytes, cipher) = header.encode(keys)?;
    let mut buffer = bytes.to_vec();
    let mut offset = 0;
    let mut seq = 0;
    let mut items = index.all().peekable();
    while items.peek().is_some() {
        frame::encode(&mut buffer, &cipher, FrameKind::Items, seq, header.revision, |payload| {
            let full = payload.len() + FRAME_BYTES;
            while let Some(item) = items.next_if(|_| payload.len() < full) {
                payload::encode_item(payload, item);
            }
        });
        seq += 1;
        file.write_at(offset, &buffer)?;
        offset += buffer.len() as u64;
        buffer.clear();
    }
    frame::encode(&mut buffer, &cipher, FrameKind::End, seq, header.revision, |_| {});
    file.write_at(offset, &buffer)?;
    Ok(offset + buffer.len() as u64)
}

/// A snapshot that was read.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) header: Header,
    pub(super) index: Index,
    pub(super) key_id: Option<String>,
    pub(super) frames: u64,
    pub(super) bytes: u64,
}

/// Reads a snapshot whole, or says what is wrong with it.
pub(super) fn load(disk: &dyn Disk, name: &str, keys: &EncryptionKeys) -> Result<Loaded, OpenError> {
    let read = || StorageError::when("read", name);
    let file = disk.open(name).map_err(read())?;
    let size = file.size().map_err(read())?;
    let Opened { header, bytes: mut offset, key_id, cipher, .. } =
        Header::read(&*file, name, FileKind::Snapshot, keys)?;
    let mut index = Index::default();
    let mut seq = 0;
    loop {
        let damaged = |what: &str| OpenError::Damaged { file: name.into(), offset, what: what.into() };
        let found = next_frame(&*file, &cipher, offset, size).map_err(read())?.map_err(damaged)?;
        if found.seq != seq || found.base != header.revision {
            return Err(damaged("a frame of another snapshot or out of order"));
        }
        seq += 1;
        match found.kind {
            FrameKind::Items => load_items(&mut index, &found.payload, header.revision).map_err(damaged)?,
            FrameKind::End if found.end != size => return Err(damaged("there is more after the end")),
            FrameKind::End if index.len() as u64 != header.count => {
                return Err(damaged("the number of items differs from the header's"));
            }
            FrameKind::End => return Ok(Loaded { header, index, key_id, frames: seq, bytes: size }),
            FrameKind::Commit => return Err(damaged("a commit in a snapshot")),
        }
        offset = found.end;
    }
}

fn next_frame(
    file: &dyn DiskFile,
    cipher: &Cipher,
    offset: u64,
    size: u64,
) -> std::io::Result<Result<frame::Frame, &'static str>> {
    Ok(match frame::read(file, cipher, offset, size)? {
        Found::Frame(found) => Ok(found),
        Found::End => Err("the end of the snapshot is missing"),
        Found::Unreadable(what) | Found::Forged(what) => Err(what),
    })
}

fn load_items(index: &mut Index, mut payload: &[u8], revision: u64) -> Result<(), &'static str> {
    while !payload.is_empty() {
        let item = payload::next_item(&mut payload).ok_or("an item does not decode")?;
        if item.modified > revision || item.created > item.modified {
            return Err("an item is newer than the snapshot");
        }
        if index.insert(item).is_some() {
            return Err("a key occurs twice");
        }
    }
    Ok(())
}

/// Removes snapshots older than `revision` and segments before `first_segment`. If a crash brings some of them back,
/// the next opening removes them again.
pub(super) fn remove_superseded(
    disk: &dyn Disk,
    revision: u64,
    first_segment: u64,
) -> Result<(), StorageError> {
    let listed = disk.list().map_err(StorageError::when("list", "."))?;
    for name in listed {
        let superseded = number_in(&name, SEGMENT).is_some_and(|number| number < first_segment)
            || number_in(&name, SNAPSHOT).is_some_and(|older| older < revision);
        if superseded {
            disk.remove(&name).map_err(StorageError::when("remove", &name))?;
        }
    }
    Ok(())
}

/// The number in a file's name, if it is a name of this kind.
pub(super) fn number_in(name: &str, kind: &str) -> Option<u64> {
    name.strip_prefix(kind)?.parse().ok()
}
