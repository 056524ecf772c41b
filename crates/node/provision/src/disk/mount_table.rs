//! The mounts below a directory.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::{
        fd::AsRawFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self, AtFlags, Statx, StatxAttributes, StatxFlags},
    io::Errno,
    mount::{UnmountFlags, unmount},
};

use super::dir::Dir;

/// A node with thousands of containers has less.
const TABLE_BYTES_MAX: u64 = 64 << 20;
/// Where volumes are, below the directory of a pod, by their type.
const VOLUMES: &str = "volumes";
/// Names of types, and of volumes and notes beside them: more than a pod may have.
const NAMES_MAX: usize = 4_096;
const NO_LINK: AtFlags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::NO_AUTOMOUNT);

/// Everything that is mounted at or below a path, the latest first. It reads the table of all mounts of the machine, which grows with
/// every pod.
fn below(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut table = Vec::new();
    File::open("/proc/self/mountinfo")?.take(TABLE_BYTES_MAX).read_to_end(&mut table)?;
    let mut found: Vec<PathBuf> = table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        // Most are elsewhere, and have nothing to unescape.
        .filter(|text| text.contains(&b'\\') || text.starts_with(path.as_os_str().as_bytes()))
        .map(unescaped)
        .filter(|at| at.starts_with(path))
        .collect();
    found.reverse();
    Ok(found)
}

/// Whether something is mounted at this path.
pub(crate) fn is_mounted(path: &Path) -> io::Result<bool> {
    let found = match fs::statx(fs::CWD, path, NO_LINK, StatxFlags::empty()) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    match is_mount_root(&found) {
        Some(is_mounted) => Ok(is_mounted),
        None => Ok(below(path)?.iter().any(|at| at == path)),
    }
}

/// Unmounts the volumes of a pod that are mounted, without looking through all mounts. `pod` is its directory.
pub(crate) fn unmount_volumes(pod: &Dir) -> io::Result<()> {
    let kinds = match pod.open(VOLUMES) {
        Ok(kinds) => kinds,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for kind in kinds.names(NAMES_MAX)?.into_iter().filter_map(|name| name.into_string().ok()) {
        let Ok(volumes) = kinds.open(&kind) else { continue };
        for name in volumes.names(NAMES_MAX)?.into_iter().filter_map(|name| name.into_string().ok()) {
            let found = fs::statx(&volumes, name.as_str(), NO_LINK, StatxFlags::empty())?;
            if is_mount_root(&found) == Some(true) {
                unmount_in(&volumes, Path::new(&name))?;
            }
        }
    }
    Ok(())
}

/// Whether something is mounted there, where the kernel says it.
fn is_mount_root(found: &Statx) -> Option<bool> {
    let root = StatxAttributes::MOUNT_ROOT;
    found.stx_attributes_mask.contains(root).then(|| found.stx_attributes.contains(root))
}

fn unmount_in(dir: &Dir, name: &Path) -> io::Result<()> {
    let parent = std::os::fd::AsFd::as_fd(dir).as_raw_fd();
    let target = Path::new("/proc/self/fd").join(parent.to_string()).join(name);
    Ok(unmount(&target, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?)
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
        unmount_in(parent.as_ref().unwrap_or(dir), Path::new(name))?;
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
