//! Files that outlive a process and a crash: what a driver has prepared, what it knows of its devices.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// A larger file of a driver is not read. A claim takes a few hundred bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// A file's length is a multiple of this, so that it seldom changes.
const BLOCK_BYTES: usize = 4_096;

/// Why a file cannot be used. Nothing may be prepared or unprepared then: what is in use is not known.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{path} cannot be understood: {why}; drain the node and remove the file")]
    Form {
        /// Which file.
        path: PathBuf,
        /// Why it cannot be understood.
        why: String,
    },
}

/// Reads a JSON file; the default if there is none.
///
/// # Errors
/// When there is one that cannot be read or understood.
pub fn read_file<T: Default + DeserializeOwned>(path: &Path) -> Result<T, FileError> {
    let text = read_bytes(path, FILE_BYTES_MAX);
    let text = text.map_err(|source| FileError::Io { path: path.to_owned(), source })?;
    let Some(text) = text else { return Ok(T::default()) };
    serde_json::from_slice(&text)
        .map_err(|error| FileError::Form { path: path.to_owned(), why: error.to_string() })
}

/// Writes a JSON file. When this returns, it is on disk; until then, whatever happens, the old one is there.
///
/// # Errors
/// When the file system refuses.
pub fn write_file<T: Serialize>(path: &Path, content: &T) -> Result<(), FileError> {
    let written = serde_json::to_vec(content).map_err(io::Error::from);
    let written = written.and_then(|text| write_bytes(path, &text));
    written.map_err(|source| FileError::Io { path: path.to_owned(), source })
}

/// The content of a file, at most `bytes_max` bytes; none if there is no file.
///
/// # Errors
/// When the file system refuses.
pub fn read_bytes(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    file.take(bytes_max).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// Writes a text that may end in blanks: beside the file first, then in its place.
///
/// The two files change places, and each keeps its blocks: the second is written over and has mostly the length that it had.
/// A file system then has less to note than for a file that is made and one that is removed.
///
/// # Errors
/// When the file system refuses.
pub fn write_bytes(path: &Path, text: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let beside = path.with_file_name(format!(".{}.new", name.to_string_lossy()));
    overwrite(&beside, text)?;
    exchange(&beside, path)?;
    sync_folder(path)
}

/// Writes over a file, with blanks up to its end, or makes it. The text is on disk when this returns. Whether the file was made:
/// its name is not on disk then.
///
/// # Errors
/// When the file system refuses. Anything may be in the file.
pub fn overwrite(path: &Path, text: &[u8]) -> io::Result<bool> {
    let open = |is_new| OpenOptions::new().write(true).create_new(is_new).mode(0o600).open(path);
    let (mut file, is_new) = match open(false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => (open(true)?, true),
        opened => (opened?, false),
    };
    let before = file.metadata()?.len();
    let needed = padded(text.len());
    let length = usize::try_from(before).ok().filter(|before| (needed..=2 * needed).contains(before));
    let length = length.unwrap_or(needed);
    let mut content = Vec::with_capacity(length);
    content.extend_from_slice(text);
    content.resize(length, b' ');
    file.write_all(&content)?;
    let length = u64::try_from(length).map_err(io::Error::other)?;
    if before > length {
        file.set_len(length)?;
    }
    file.sync_data()?;
    Ok(is_new)
}

/// A length that seldom changes while a text grows: a file whose length stays needs nothing noted but its text.
fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES.max(bytes.next_power_of_two() / 8))
}

/// Two files change places; whether they did. Where there is only the first, or the file system cannot exchange two, it takes
/// the other's place.
///
/// # Errors
/// When the file system refuses.
pub fn exchange(new: &Path, path: &Path) -> io::Result<bool> {
    match renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(_) => fs::rename(new, path).map(|()| false),
    }
}

/// The names in a file's directory are on disk when this returns.
///
/// # Errors
/// When the file system refuses.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    File::open(folder)?.sync_all()
}
