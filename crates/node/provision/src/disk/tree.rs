//! Removing a directory with everything in it, and with nothing else.

use std::{ffi::CStr, io};

use rustix::{
    fs::{self, AtFlags},
    io::Errno,
};

use super::dir::Dir;

/// Names that are read at a time: a container may have made millions.
const NAMES_AT_A_TIME: usize = 1024;
/// Directories open at a time. A deeper one is moved up first: a container may have made any depth.
const DEPTH_MAX: usize = 32;

/// Removes a directory right below `parent`. No link is followed. When something is mounted in it, it stays, and what is mounted is
/// not looked at.
pub(crate) fn remove(parent: &Dir, name: &CStr) -> io::Result<()> {
    let top = match parent.open_in_same_mount(name) {
        Ok(top) => top,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(about(error, name)),
    };
    let mut moved = 0;
    clear(&top, &top, 0, &mut moved)?;
    remove_empty(parent, name)
}

fn clear(dir: &Dir, top: &Dir, depth: usize, moved: &mut u64) -> io::Result<()> {
    loop {
        let names = dir.names(NAMES_AT_A_TIME)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            match fs::unlinkat(dir, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(Errno::ISDIR) => {}
                Err(error) => return Err(about(error.into(), &name)),
            }
            let below = match dir.open_in_same_mount(&name) {
                Ok(below) => below,
                Err(error) => return Err(about(error, &name)),
            };
            if depth == DEPTH_MAX {
                *moved += 1;
                fs::renameat(dir, &name, top, format!(".lazaret-removed-{moved}").as_str())?;
                continue;
            }
            clear(&below, top, depth + 1, moved)?;
            remove_empty(dir, &name)?;
        }
    }
}

fn remove_empty(parent: &Dir, name: &CStr) -> io::Result<()> {
    match fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(about(error.into(), name)),
    }
}

fn about(error: io::Error, name: &CStr) -> io::Error {
    let name = name.to_string_lossy();
    match Errno::from_io_error(&error) {
        Some(Errno::XDEV | Errno::BUSY) => {
            io::Error::new(error.kind(), format!("{name:?} is left alone: something is mounted there"))
        }
        Some(_) | None => io::Error::new(error.kind(), format!("remove {name:?}: {error}")),
    }
}
