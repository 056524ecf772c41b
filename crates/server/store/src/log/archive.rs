//! Operations on the files of a store from outside: checking them, copying them into one file, and making a store of
//! such a file.
//!
//! Reading needs no lock. Segments only grow, snapshots never change, and a file is removed only when another one has
//! replaced it: so files can be read while a server writes to them, and reading begins again when one has gone.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use lazaret_storage::StorageError;

use super::header::{FileKind, Header};
use super::reading::{self, LoadedState};
use super::{Segment, segment_name, snapshot, snapshot_name, temporary_name};
use crate::disk::{Disk, RealDisk, create_private_dir};
use crate::error::{ArchiveError, OpenError};
use crate::lock::{DirLock, LOCK_FILE};
use crate::options::Options;

/// Reading is tried this often before a file that is not there counts as missing. Each time, a snapshot must have
/// replaced files within the time of one reading.
const READS_MAX: u32 = 10;
/// Reading is tried this often before what looks damaged counts as damaged: a tail that is being written may look so.
const READS_OF_DAMAGE_MAX: u32 = 3;

/// The content of a store's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The newest revision in them.
    pub revision: u64,
    /// The oldest revision that reads and watches could name.
    pub oldest: u64,
    /// Items at the newest revision.
    pub items: u64,
    /// The files, in the order they are read.
    pub files: Vec<FileReport>,
    /// Bytes at the end of the last segment that are no whole commit: one that is being written, or that a crash tore.
    pub tail_bytes: u64,
}

/// One file of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReport {
    /// Its name.
    pub name: String,
    /// Its length, up to the end of its last frame.
    pub bytes: u64,
    /// Its frames: commits, or parts of a snapshot.
    pub frames: u64,
    /// The key it is encrypted with; `None` if it is not.
    pub key: Option<String>,
}

/// A backup that was written and read back, or a store that was made of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Archived {
    /// Its revision.
    pub revision: u64,
    /// Items in it.
    pub items: u64,
    /// Its length.
    pub bytes: u64,
}

/// Reads every file of a store and checks all that can be checked. Changes nothing; a server may be writing.
///
/// # Errors
/// See [`ArchiveError`].
pub fn verify(dir: &Path, options: &Options) -> Result<Report, ArchiveError> {
    let reading = read(dir, options)?;
    let tail_bytes = reading.last.as_ref().map_or(0, |last| last.size - last.end);
    let files = reading.files.into_iter();
    Ok(Report {
        revision: reading.state.revision,
        oldest: reading.history.oldest(),
        items: reading.state.index.len() as u64,
        files: files
            .map(|file| FileReport {
                name: file.name,
                bytes: file.bytes,
                frames: file.frames,
                key: file.key_id,
            })
            .collect(),
        tail_bytes,
    })
}

/// Writes what a store holds into one new file, encrypted as the store's options say, and reads it back. A server may
/// be writing to the store: the backup is one state of it, and has all that was acknowledged before the call.
///
/// # Errors
/// See [`ArchiveError`].
pub fn back_up(dir: &Path, file: &Path, options: &Options) -> Result<Archived, ArchiveError> {
    let (parent, name) = split(file)?;
    if file.symlink_metadata().is_ok() {
        return Err(ArchiveError::Exists(file.to_path_buf()));
    }
    let LoadedState { state, next_seq, .. } = read(dir, options)?;
    let header = Header {
        kind: FileKind::Snapshot,
        number: 1,
        revision: state.revision,
        next_seq,
        count: state.index.len() as u64,
        healed: false,
    };
    let disk = RealDisk::open_dir(&parent)
        .map_err(StorageError::when("open directory of", &file.display().to_string()))?;
    let temporary = format!("{name}.tmp");
    let done = (|| {
        let mut output = disk.create(&temporary).map_err(StorageError::when("create", &temporary))?;
        let when = |doing| StorageError::when(doing, &temporary);
        let bytes = snapshot::write(&mut *output, &header, &state.index, &options.encryption)
            .map_err(when("write"))?;
        output.sync().map_err(when("sync"))?;
        let back = snapshot::load(&disk.reader(), &temporary, &options.encryption)?;
        let (found, items) = (back.header.revision, back.index.len() as u64);
        if (found, items) != (header.revision, header.count) {
            let (expected, expected_items) = (header.revision, header.count);
            let path = file.to_path_buf();
            return Err(ArchiveError::Differs { path, found, items, expected, expected_items });
        }
        disk.rename(&temporary, &name).map_err(when("rename"))?;
        disk.sync_dir().map_err(when("sync directory of"))?;
        Ok(Archived { revision: found, items, bytes })
    })();
    if done.is_err() {
        // Best effort: the error matters more.
        let _ = disk.remove(&temporary);
    }
    done
}

/// Makes a store of a backup, in a directory that is empty or not there, at `skip_revisions` after the backup's
/// revision: clients that saw later revisions of the lost store must not take new ones for those.
///
/// # Errors
/// See [`ArchiveError`].
pub fn restore(
    file: &Path,
    dir: &Path,
    skip_revisions: u64,
    options: &Options,
) -> Result<Archived, ArchiveError> {
    let (parent, name) = split(file)?;
    let source = RealDisk::read_only(&parent)
        .map_err(StorageError::when("open directory of", &file.display().to_string()))?;
    let loaded = snapshot::load(&source, &name, &options.encryption)?;
    let failed = |source| StorageError { doing: "make", file: dir.display().to_string(), source };
    create_private_dir(dir).map_err(failed)?;
    let is_empty = fs::read_dir(dir).map_err(failed)?.next().is_none();
    if !is_empty {
        return Err(ArchiveError::Exists(dir.to_path_buf()));
    }
    let lock = DirLock::take(dir)?;
    let disk = RealDisk::of(lock.dir());
    if disk.list().map_err(failed)?.iter().any(|name| name != LOCK_FILE) {
        return Err(ArchiveError::Exists(dir.to_path_buf()));
    }
    disk.make_private().map_err(failed)?;
    let revision = loaded.header.revision.saturating_add(skip_revisions);
    let header = Header { number: 1, revision, healed: false, ..loaded.header };
    // The segment first: a directory with a segment alone, as a crash here leaves it, does not open.
    let first = Header { kind: FileKind::Log, count: 0, ..header };
    let name = snapshot_name(revision);
    let temporary = temporary_name(&name, 0);
    let when = |doing| StorageError::when(doing, &name);
    let written = (|| {
        Segment::create(&disk, &first, &options.encryption, 0)?;
        let mut output = disk.create(&temporary).map_err(when("create"))?;
        let bytes = snapshot::write(&mut *output, &header, &loaded.index, &options.encryption)
            .map_err(when("write"))?;
        output.sync().map_err(when("sync"))?;
        disk.rename(&temporary, &name).map_err(when("rename"))?;
        disk.sync_dir().map_err(when("sync directory of"))?;
        Ok::<_, OpenError>(bytes)
    })();
    let checked = written.and_then(|bytes| reading::read(&disk, options).map(|_| bytes));
    let bytes = match checked {
        Ok(bytes) => bytes,
        Err(error) => {
            // Nothing was here before; half a store must not stay.
            for left in [name, temporary, segment_name(1), LOCK_FILE.into()] {
                let _ = disk.remove(&left);
            }
            return Err(error.into());
        }
    };
    Ok(Archived { revision, items: header.count, bytes })
}

/// Reads a directory whose files may be replaced meanwhile.
fn read(dir: &Path, options: &Options) -> Result<LoadedState, ArchiveError> {
    let disk = match RealDisk::read_only(dir) {
        Ok(disk) => disk,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(ArchiveError::NoStore(dir.to_path_buf()));
        }
        Err(source) => {
            return Err(StorageError { doing: "open", file: dir.display().to_string(), source }.into());
        }
    };
    let mut attempt = 1;
    loop {
        match reading::read(&disk, options) {
            Ok(reading) if reading.last.is_none() => return Err(ArchiveError::NoStore(dir.to_path_buf())),
            Ok(reading) => return Ok(reading),
            Err(error) if attempt < reads_max(&error) => attempt += 1,
            Err(OpenError::Storage(error)) if error.file == "." && is_not_found(&error) => {
                return Err(ArchiveError::NoStore(dir.to_path_buf()));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// How often reading is worth it that fails like this.
fn reads_max(error: &OpenError) -> u32 {
    match error {
        OpenError::Storage(error) if is_not_found(error) && error.file != "." => READS_MAX,
        OpenError::Missing { .. } => READS_MAX,
        OpenError::Damaged { .. } => READS_OF_DAMAGE_MAX,
        OpenError::Storage(_)
        | OpenError::Locked { .. }
        | OpenError::Unsupported { .. }
        | OpenError::Key { .. }
        | OpenError::NotEncrypted { .. } => 1,
    }
}

fn is_not_found(error: &StorageError) -> bool {
    matches!(error.source.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof)
}

/// The directory and the name of a file.
fn split(file: &Path) -> Result<(PathBuf, String), OpenError> {
    let name = file.file_name().and_then(OsStr::to_str).map(str::to_owned);
    let source = || std::io::Error::new(ErrorKind::InvalidInput, "not a file name");
    let name = name.ok_or_else(|| StorageError {
        doing: "open",
        file: file.display().to_string(),
        source: source(),
    })?;
    let parent = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        Some(_) | None => PathBuf::from("."),
    };
    File::open(&parent).map_err(StorageError::when("open directory of", &file.display().to_string()))?;
    Ok((parent, name))
}
