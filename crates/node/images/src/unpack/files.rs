//! Single steps in a directory of a layer, none of which follows a link.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::OwnedFd,
};

use rustix::{
    fs::{AtFlags, FileType, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags},
    io::Errno,
};

use super::walk::WalkedDirectory;
use crate::{
    error::{Context, ImageError, Result, invalid},
    merged::{self, DEPTH_MAX, Found, open_directory},
};

/// As long as a name may be on Linux.
const NAME_BYTES_MAX: usize = 255;

/// Hides the entry of lower layers under a name. This layer's own entry stays, whichever came first.
pub(super) fn hide(place: &WalkedDirectory, name: &CStr) -> Result<()> {
    match stat(&place.upper, name).context(|| "look it up".into())? {
        Some(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {
            make_opaque(&open_directory(&place.upper, name).context(|| "open it".into())?)
        }
        Some(_) => Ok(()),
        None => match place.lower.find(name).context(|| "look it up".into())? {
            Found::Absent => Ok(()),
            Found::Directory(_) | Found::Other { .. } => {
                let none = Mode::empty();
                rustix::fs::mknodat(
                    &place.upper,
                    name,
                    FileType::CharacterDevice,
                    none,
                    rustix::fs::makedev(0, 0),
                )
                .context(|| "make the whiteout".into())
            }
        },
    }
}

pub(super) fn make_opaque(directory: &OwnedFd) -> Result<()> {
    let mut last = Errno::OPNOTSUPP;
    for name in merged::OPAQUE {
        match rustix::fs::fsetxattr(directory, name, b"y", XattrFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(ImageError::Io { what: "mark the directory as opaque".into(), source: last.into() })
}

/// Makes room for something new: what was here before goes, directories with all they have.
pub(super) fn clear(parent: &OwnedFd, name: &CStr) -> Result<()> {
    match stat(parent, name).context(|| "look it up".into())? {
        Some(found) => remove(parent, name, &found),
        None => Ok(()),
    }
}

pub(super) fn remove(parent: &OwnedFd, name: &CStr, found: &Stat) -> Result<()> {
    if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
        remove_directory(parent, name, 0)
    } else {
        rustix::fs::unlinkat(parent, name, AtFlags::empty()).context(|| format!("remove {name:?}"))
    }
}

fn remove_directory(parent: &OwnedFd, name: &CStr, depth: usize) -> Result<()> {
    if depth > DEPTH_MAX {
        return Err(invalid("directories are too deep"));
    }
    let what = || format!("remove {name:?}");
    let directory = open_directory(parent, name).context(what)?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(&directory).context(what)? {
        let entry = entry.context(what)?;
        if ![c".", c".."].contains(&entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    for below in names {
        match stat(&directory, &below).context(what)? {
            Some(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {
                remove_directory(&directory, &below, depth + 1)?;
            }
            Some(_) => rustix::fs::unlinkat(&directory, &*below, AtFlags::empty()).context(what)?,
            None => {}
        }
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).context(what)
}

pub(super) fn stat(parent: &OwnedFd, name: &CStr) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn file_name(name: &[u8]) -> Result<CString> {
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
        return Err(invalid("the path does not end with a name"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(invalid(format!("a name in the path has more than {NAME_BYTES_MAX} bytes")));
    }
    CString::new(name).map_err(|_| invalid("the path has a NUL byte"))
}

pub(super) fn ids(uid: u32, gid: u32) -> Result<(Option<Uid>, Option<Gid>)> {
    // The largest number means "leave it" to the system.
    if uid == u32::MAX || gid == u32::MAX {
        return Err(invalid("its owner is no user"));
    }
    Ok((Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))))
}

pub(super) fn times(modified: i64) -> Timestamps {
    let time = Timespec { tv_sec: modified, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}
