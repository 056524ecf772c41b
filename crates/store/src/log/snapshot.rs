//! Snapshots: all items of one revision in one file, after which older segments are no longer needed.

use std::sync::Arc;

use super::frame::{self, Found, FrameKind};
use super::header::{self, FileKind, Header};
use super::{SEGMENT, SNAPSHOT, TEMPORARY, payload, snapshot_name};
use crate::disk::{Disk, DiskFile};
use crate::error::{OpenError, StorageError};
use crate::index::Index;

/// Payload bytes of one frame: large enough to write fast, small enough to hold in memory while reading.
const FRAME_BYTES: usize = 1 << 20;

/// Everything needed to write a snapshot beside the commits.
#[derive(Debug)]
pub(super) struct SnapshotJob {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) index: Index,
    pub(super) revision: u64,
    /// The segment that begins right after this revision.
    pub(super) first_segment: u64,
    pub(super) next_seq: u64,
}

impl SnapshotJob {
    /// Writes the snapshot, makes it durable, then removes what it replaces.
    pub(super) fn run(&self) -> Result<(), StorageError> {
        let name = snapshot_name(self.revision);
        let temporary = format!("{name}{TEMPORARY}");
        if let Err(error) = self.write_as(&temporary) {
            // Best effort, to give the space back; what stays is removed when the store is next opened.
            let _ = self.disk.remove(&temporary);
            return Err(error);
        }
        self.disk.rename(&temporary, &name).map_err(StorageError::when("rename", &temporary))?;
        self.disk.sync_dir().map_err(StorageError::when("sync directory of", &name))?;
        remove_superseded(&*self.disk, self.revision, self.first_segment)
    }

    fn write_as(&self, name: &str) -> Result<(), StorageError> {
        let mut file = self.disk.create(name).map_err(StorageError::when("create", name))?;
        self.write(&mut *file).map_err(StorageError::when("write", name))?;
        file.sync().map_err(StorageError::when("sync", name))
    }

    fn write(&self, file: &mut dyn DiskFile) -> std::io::Result<()> {
        let header = Header {
            kind: FileKind::Snapshot,
            number: self.first_segment,
            revision: self.revision,
            next_seq: self.next_seq,
            items: self.index.len() as u64,
        };
        let mut buffer = header.encode().to_vec();
        let mut offset = 0;
        let mut seq = 0;
        let mut items = self.index.all().peekable();
        while items.peek().is_some() {
            frame::encode(&mut buffer, FrameKind::Items, seq, self.revision, |payload| {
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
        frame::encode(&mut buffer, FrameKind::End, seq, self.revision, |_| {});
        file.write_at(offset, &buffer)
    }
}

/// Reads a snapshot whole, or says what is wrong with it.
pub(super) fn load(disk: &dyn Disk, name: &str) -> Result<(Header, Index), OpenError> {
    let read = || StorageError::when("read", name);
    let file = disk.open(name).map_err(read())?;
    let size = file.size().map_err(read())?;
    let header = Header::read(&*file, name, FileKind::Snapshot)?;
    let mut index = Index::default();
    let mut offset = header::HEADER_BYTES as u64;
    let mut seq = 0;
    loop {
        let damaged = |what: &str| OpenError::Damaged { file: name.into(), offset, what: what.into() };
        let found = match frame::read(&*file, offset, size).map_err(read())? {
            Found::Frame(found) => found,
            Found::End => return Err(damaged("the end of the snapshot is missing")),
            Found::Unreadable(what) => return Err(damaged(what)),
        };
        if found.seq != seq || found.base != header.revision {
            return Err(damaged("a frame of another snapshot or out of order"));
        }
        match found.kind {
            FrameKind::Items => load_items(&mut index, &found.payload, header.revision).map_err(damaged)?,
            FrameKind::End if found.end != size => return Err(damaged("there is more after the end")),
            FrameKind::End if index.len() as u64 != header.items => {
                return Err(damaged("the number of items differs from the header's"));
            }
            FrameKind::End => return Ok((header, index)),
            FrameKind::Commit => return Err(damaged("a commit in a snapshot")),
        }
        offset = found.end;
        seq += 1;
    }
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
