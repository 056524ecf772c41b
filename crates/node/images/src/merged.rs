//! Layers on top of each other, as overlayfs shows them. No link leads out of them.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io::{self, Read},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use crate::error::{Context, Result, invalid};

/// How many links one path may go through, as on Linux.
pub(crate) const LINKS_MAX: usize = 40;
/// How deep directories may be: each level holds open files while it is walked or removed.
pub(crate) const DEPTH_MAX: usize = 256;
/// Marks a directory that hides those of lower layers: as root, and without.
pub(crate) const OPAQUE: [&CStr; 2] = [c"trusted.overlay.opaque", c"user.overlay.opaque"];

/// A directory, of all layers that have it, the topmost first.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    parts: Vec<OwnedFd>,
}

/// The entry of a directory under a name.
#[derive(Debug)]
pub(crate) enum Found {
    Absent,
    Directory(Directory),
    /// Something else, with the number of the part of the directory that it is in.
    Other {
        part: usize,
        stat: Stat,
    },
}

impl Directory {
    /// The root of these layers, the topmost first.
    pub(crate) fn root<'a>(layers: impl IntoIterator<Item = &'a Path>) -> Result<Self> {
        let parts = layers.into_iter().map(open_root).collect::<Result<_>>()?;
        Ok(Self { parts })
    }

    /// The attributes of the topmost.
    pub(crate) fn stat(&self) -> io::Result<Option<Stat>> {
        Ok(self.parts.first().map(rustix::fs::fstat).transpose()?)
    }

    pub(crate) fn find(&self, name: &CStr) -> io::Result<Found> {
        let mut found = Directory::default();
        for (part, directory) in self.parts.iter().enumerate() {
            let stat = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let below = open_directory(directory, name)?;
                let is_opaque = is_opaque(&below);
                found.parts.push(below);
                if is_opaque {
                    break;
                }
                continue;
            }
            if found.parts.is_empty() && !is_whiteout(&stat) {
                return Ok(Found::Other { part, stat });
            }
            break;
        }
        Ok(if found.parts.is_empty() { Found::Absent } else { Found::Directory(found) })
    }

    pub(crate) fn link(&self, part: usize, name: &CStr) -> io::Result<CString> {
        Ok(rustix::fs::readlinkat(&self.parts[part], name, Vec::new())?)
    }

    pub(crate) fn open(&self, part: usize, name: &CStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(rustix::fs::openat(&self.parts[part], name, flags, Mode::empty())?.into())
    }
}

/// The content of a regular file in these layers, the topmost first. Nothing when it is not there, or no such file.
pub(crate) fn read_file(layers: &[&Path], path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    let mut above = vec![Directory::root(layers.iter().copied())?];
    let mut left: Vec<Vec<u8>> = components(path.as_bytes());
    let mut links = 0;
    while let Some(component) = left.pop() {
        if component == b".." {
            if above.len() > 1 {
                above.pop();
            }
            continue;
        }
        let name = CString::new(component).map_err(|_| invalid("a path has a NUL byte"))?;
        let Some(here) = above.last() else { return Ok(None) };
        match here.find(&name).context(|| format!("look up {path}"))? {
            Found::Absent => return Ok(None),
            Found::Directory(directory) if above.len() < DEPTH_MAX => above.push(directory),
            Found::Directory(_) => return Err(invalid(format!("{path} is too deep"))),
            Found::Other { part, stat } if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(invalid(format!("{path} has too many levels of links")));
                }
                let target = here.link(part, &name).context(|| format!("look up {path}"))?;
                if target.as_bytes().starts_with(b"/") {
                    above.truncate(1);
                }
                left.extend(components(target.as_bytes()));
            }
            Found::Other { part, stat } => {
                let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                if !is_file || !left.is_empty() {
                    return Ok(None);
                }
                let file = here.open(part, &name).context(|| format!("open {path}"))?;
                return read_bounded(file, path, bytes_max).map(Some);
            }
        }
    }
    Ok(None)
}

fn read_bounded(file: File, path: &str, bytes_max: u64) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut content).context(|| format!("read {path}"))?;
    if content.len() as u64 > bytes_max {
        return Err(invalid(format!("{path} has more than {bytes_max} bytes")));
    }
    Ok(content)
}

/// The components of a path, the last first, without empty ones and dots.
pub(crate) fn components(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/')
        .filter(|component| !component.is_empty() && *component != b".")
        .rev()
        .map(<[u8]>::to_vec)
        .collect()
}

pub(crate) fn open_root(path: &Path) -> Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| invalid("a path has a NUL byte"))?;
    rustix::fs::open(&*name, directory_flags(), Mode::empty()).context(|| format!("open {}", path.display()))
}

pub(crate) fn open_directory(parent: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(parent, name, directory_flags(), Mode::empty())?)
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

pub(crate) fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

pub(crate) fn is_opaque(directory: &OwnedFd) -> bool {
    OPAQUE.iter().any(|name| {
        let mut value = [0_u8; 1];
        rustix::fs::fgetxattr(directory, *name, &mut value[..]) == Ok(1) && value == *b"y"
    })
}
