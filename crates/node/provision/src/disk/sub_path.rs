//! Parts of volumes.
//!
//! The content of a volume belongs to the pod, which may put a link anywhere in it at any time. A part is therefore opened by the kernel,
//! which does not leave the volume on the way, and the opened part is mounted at a place that no container sees. That place is mounted
//! into the container.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
    mount::{UnmountFlags, mount_bind, unmount},
};

use super::{dir::Dir, mount_table};
use crate::names;

/// Parts of a path.
const PARTS_MAX: usize = 256;
/// Times that a path is looked up again when a container renames on the way.
const TRIES_MAX: u32 = 16;

/// Opens a part of a volume; a directory that is missing is made with the mode of the volume.
fn open(volume: &Path, path: &str) -> io::Result<OwnedFd> {
    let root = Dir::open_path(volume)?;
    let mode = Mode::from_raw_mode(root.mode()?);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.len() > PARTS_MAX || names::has_backsteps(path) || path.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    match find(root.as_fd(), &parts.join("/")) {
        Err(Errno::NOENT) => {}
        found => return Ok(found?),
    }
    for count in 1..=parts.len() {
        let here = parts[..count].join("/");
        match find(root.as_fd(), &here) {
            Ok(_) => continue,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let parent = find(root.as_fd(), &parts[..count - 1].join("/"))?;
        match fs::mkdirat(&parent, parts[count - 1], mode) {
            Ok(()) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let made = fs::openat(&parent, parts[count - 1], flags, Mode::empty())?;
                fs::fchmod(&made, mode)?;
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(find(root.as_fd(), &parts.join("/"))?)
}

/// Looks a path up below a directory. Links within it are followed.
fn find(root: std::os::fd::BorrowedFd<'_>, path: &str) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let path = if path.is_empty() { "." } else { path };
    let mut tries = 0;
    loop {
        match fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // Something was renamed meanwhile: the kernel cannot say whether the path stayed inside.
            Err(Errno::AGAIN) if tries < TRIES_MAX => tries += 1,
            other => return other,
        }
    }
}

/// Mounts a part of a volume at `parts/PLACE`, below the pod's own directory, and answers where that is.
pub(crate) fn bind(
    volume: &Path,
    path: &str,
    pod: &Dir,
    pod_path: &Path,
    place: [&str; 3],
) -> io::Result<PathBuf> {
    let source = open(volume, path)?;
    let found = fs::fstat(&source)?;
    let [of_volume, of_container, index] = place;
    let folder = pod.make_all(&format!("volume-subpaths/{of_volume}/{of_container}"), 0o750)?;
    let target_path = pod_path.join("volume-subpaths").join(of_volume).join(of_container).join(index);
    if mount_table::is_mounted(&target_path)? {
        let there = fs::statat(&folder, index, fs::AtFlags::SYMLINK_NOFOLLOW)?;
        if (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino) {
            return Ok(target_path);
        }
        let at = Path::new("/proc/self/fd").join(folder.as_fd().as_raw_fd().to_string()).join(index);
        unmount(&at, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?;
    }
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let target = make_target(&folder, index, is_directory)?;
    mount_bind(proc_path(source.as_fd()), proc_path(target.as_fd()))?;
    Ok(target_path)
}

/// A place of the right type to mount on. One of the wrong type is replaced.
fn make_target(folder: &Dir, name: &str, is_directory: bool) -> io::Result<OwnedFd> {
    let (remove, is_there) = match fs::statat(folder, name, fs::AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => {
            let there = FileType::from_raw_mode(there.st_mode) == FileType::Directory;
            let flags = if there { fs::AtFlags::REMOVEDIR } else { fs::AtFlags::empty() };
            ((there != is_directory).then_some(flags), true)
        }
        Err(Errno::NOENT) => (None, false),
        Err(error) => return Err(error.into()),
    };
    if let Some(flags) = remove {
        fs::unlinkat(folder, name, flags)?;
    }
    if !is_there || remove.is_some() {
        if is_directory {
            fs::mkdirat(folder, name, Mode::from_raw_mode(0o750))?;
        } else {
            folder.write_new(name, b"", 0o640, None, None)?;
        }
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(folder, name, flags, Mode::empty())?)
}

fn proc_path(fd: std::os::fd::BorrowedFd<'_>) -> PathBuf {
    Path::new("/proc/self/fd").join(fd.as_raw_fd().to_string())
}

/// Reads a file of a volume, of at most `bytes_max` bytes.
pub(crate) fn read(volume: &Path, path: &str, bytes_max: u64) -> io::Result<String> {
    let root = Dir::open_path(volume)?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let found = fs::openat2(&root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?;
    // Opening a device could do something; opening a plain file cannot.
    if FileType::from_raw_mode(fs::fstat(&found)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"));
    }
    let file = File::open(proc_path(found.as_fd()))?;
    let mut text = String::new();
    file.take(bytes_max + 1).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too large"));
    }
    Ok(text)
}
