//! Removing a directory with whatever a container made in it. The standard library's way has a directory open, and a frame on the
//! stack, for each level: a container that makes ten thousand would end the agent.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::OwnedFd,
    path::Path,
};

use rustix::{
    fs::{self, AtFlags, CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
};

/// Names that are read at a time: a container may have made millions.
const NAMES_AT_A_TIME: usize = 1_024;
/// Directories open at a time. A deeper one is moved to the top first.
const DEPTH_MAX: usize = 32;
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
/// For a directory that its owner cannot look into, or change: overlayfs leaves one, and a container may.
const OWNER_ALL: Mode = Mode::RWXU;

/// Removes a directory of ours, links as links. One that is not there is no error; one in which something is mounted stays.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let top = match fs::openat(CWD, path, DIRECTORY, Mode::empty()) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    clear(&top, &top, 0, &mut 0)?;
    match fs::unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes the entries of a directory. A directory at [`DEPTH_MAX`] is moved to the top, and removed from there.
fn clear(dir: &OwnedFd, top: &OwnedFd, depth: usize, moved: &mut u64) -> io::Result<()> {
    loop {
        let names = names(dir)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            match unlink(dir, &name, AtFlags::empty()) {
                Ok(()) => continue,
                Err(Errno::ISDIR) => {}
                Err(error) => return Err(about(error, &name)),
            }
            if depth == DEPTH_MAX {
                *moved += 1;
                fs::renameat(dir, &name, top, format!(".lazaret-removed-{moved}").as_str())?;
                continue;
            }
            let below = open(dir, &name).map_err(|error| about(error, &name))?;
            clear(&below, top, depth + 1, moved)?;
            unlink(dir, &name, AtFlags::REMOVEDIR).map_err(|error| about(error, &name))?;
        }
    }
}

fn names(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
        if names.len() == NAMES_AT_A_TIME {
            break;
        }
    }
    Ok(names)
}

/// Removes a name, if need be after making its directory writable. A missing name is no error.
fn unlink(dir: &OwnedFd, name: &CStr, flags: AtFlags) -> rustix::io::Result<()> {
    let mut removed = fs::unlinkat(dir, name, flags);
    if removed == Err(Errno::ACCESS) {
        fs::fchmod(dir, OWNER_ALL)?;
        removed = fs::unlinkat(dir, name, flags);
    }
    if removed == Err(Errno::NOENT) { Ok(()) } else { removed }
}

/// Opens a directory right below. No link is followed, and no mount is entered.
fn open(dir: &OwnedFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let open = || {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        fs::openat2(dir, name, DIRECTORY, Mode::empty(), resolve)
    };
    match open() {
        // It is a directory: a link would have been removed.
        Err(Errno::ACCESS) => {
            fs::chmodat(dir, name, OWNER_ALL, AtFlags::empty())?;
            open()
        }
        opened => opened,
    }
}

fn about(error: Errno, name: &CStr) -> io::Error {
    io::Error::new(io::Error::from(error).kind(), format!("remove {:?}: {error}", name.to_string_lossy()))
}
