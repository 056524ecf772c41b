//! How much is in a directory.

use std::{collections::BTreeSet, io, path::Path};

use rustix::{
    fs::{self, AtFlags, FileType},
    io::Errno,
};

use super::dir::Dir;

/// Files that are counted in one go. It takes about a second.
const FILES_MAX: u64 = 1_000_000;
/// Directories that are open at a time on the way down.
const DEPTH_MAX: usize = 32;
/// Directories that wait to be entered because they are deeper.
const PENDING_MAX: usize = 256;
/// Files with several names that are remembered, so that each is counted once.
const SHARED_MAX: usize = 100_000;
/// The unit of what a file takes on disk.
const BLOCK_BYTES: u64 = 512;

/// Disk usage of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes that were counted.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
    /// Whether everything was: not when there are too many files, or when they go away meanwhile.
    pub is_whole: bool,
}

impl DiskUse {
    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.files = self.files.saturating_add(other.files);
        self.is_whole &= other.is_whole;
    }
}

struct Count {
    total: DiskUse,
    files_left: u64,
    shared: BTreeSet<(u64, u64)>,
    pending: Vec<Dir>,
}

/// Counts what is below a directory, up to a million files. No link is followed and no mount is entered. Nothing is counted when there
/// is no directory. To be called from where waiting is fine.
///
/// # Errors
/// When a directory cannot be read.
pub fn count(path: &Path) -> io::Result<DiskUse> {
    let root = match Dir::open_path(path) {
        Ok(root) => root,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(DiskUse { is_whole: true, ..DiskUse::default() });
        }
        Err(error) => return Err(error),
    };
    let total = DiskUse { is_whole: true, ..DiskUse::default() };
    let mut count = Count { total, files_left: FILES_MAX, shared: BTreeSet::new(), pending: vec![root] };
    while let Some(dir) = count.pending.pop() {
        enter(&dir, 0, &mut count)?;
    }
    Ok(DiskUse { files: FILES_MAX - count.files_left, ..count.total })
}

fn enter(dir: &Dir, depth: usize, count: &mut Count) -> io::Result<()> {
    for entry in fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if count.files_left == 0 {
            count.total.is_whole = false;
            return Ok(());
        }
        count.files_left -= 1;
        let found = match fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if !is_directory && found.st_nlink > 1 && count.shared.len() < SHARED_MAX {
            #[allow(clippy::useless_conversion, reason = "their width differs between machines")]
            let id = (u64::from(found.st_dev), u64::from(found.st_ino));
            if !count.shared.insert(id) {
                continue;
            }
        }
        let blocks = u64::try_from(found.st_blocks).unwrap_or_default();
        count.total.bytes = count.total.bytes.saturating_add(blocks.saturating_mul(BLOCK_BYTES));
        if !is_directory {
            continue;
        }
        match dir.open_in_same_mount(name) {
            Ok(below) if depth < DEPTH_MAX => enter(&below, depth + 1, count)?,
            Ok(below) if count.pending.len() < PENDING_MAX => count.pending.push(below),
            Ok(_) => count.total.is_whole = false,
            // Something else is mounted there, or it is gone.
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::XDEV | Errno::NOENT) => {}
                Some(_) | None => count.total.is_whole = false,
            },
        }
    }
    Ok(())
}
