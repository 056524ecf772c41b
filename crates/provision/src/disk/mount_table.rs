//! What is mounted below a directory.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::{fd::AsRawFd, unix::ffi::OsStringExt},
    path::{Path, PathBuf},
};

use rustix::mount::{UnmountFlags, unmount};

use super::dir::Dir;

/// A node with thousands of containers has less.
const TABLE_BYTES_MAX: u64 = 64 << 20;

/// Everything that is mounted at or below a path, the latest first.
pub(crate) fn below(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut table = Vec::new();
    File::open("/proc/self/mountinfo")?.take(TABLE_BYTES_MAX).read_to_end(&mut table)?;
    let mut found: Vec<PathBuf> = table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescaped)
        .filter(|at| at.starts_with(path))
        .collect();
    found.reverse();
    Ok(found)
}

/// Whether something is mounted at this path.
pub(crate) fn is_mounted(path: &Path) -> io::Result<bool> {
    Ok(below(path)?.iter().any(|at| at == path))
}

/// Unmounts whatever is below a directory. `dir` is that directory, open; no link is followed from there.
pub(crate) fn unmount_below(dir: &Dir, path: &Path) -> io::Result<()> {
    for at in below(path)? {
        let Ok(relative) = at.strip_prefix(path) else { continue };
        let (Some(name), Some(parent)) = (relative.file_name(), relative.parent()) else { continue };
        let parent = match parent.to_str() {
            Some("") => None,
            Some(parent) => Some(dir.open(parent)?),
            None => return Err(io::Error::new(io::ErrorKind::InvalidData, "a mount is not named by text")),
        };
        let parent = std::os::fd::AsFd::as_fd(parent.as_ref().unwrap_or(dir)).as_raw_fd();
        let target = Path::new("/proc/self/fd").join(parent.to_string()).join(name);
        unmount(&target, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?;
    }
    Ok(())
}

/// Spaces and the like are written as `\040`.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let code = text.get(at + 1..at + 4).filter(|_| text[at] == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                at += 4;
            }
            None => {
                bytes.push(text[at]);
                at += 1;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}
