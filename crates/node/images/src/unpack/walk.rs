//! The way to a directory of a layer.

use std::{
    ffi::{CStr, CString},
    os::fd::OwnedFd,
};

use rustix::fs::{FileType, Mode, Stat};

use super::{
    Unpacker,
    files::{file_name, make_opaque, remove, stat},
};
use crate::{
    error::{Context, Result, invalid},
    merged::{self, DEPTH_MAX, Directory, Found, LINKS_MAX, components, open_directory},
};

/// A directory of the new layer, and what is under it.
pub(super) struct WalkedDirectory {
    pub(super) upper: OwnedFd,
    pub(super) lower: Directory,
}

/// A directory with all those above it: a path without links.
pub(super) struct Walk {
    places: Vec<WalkedDirectory>,
    pub(super) names: Vec<CString>,
}

impl Walk {
    pub(super) fn here(&self) -> &WalkedDirectory {
        // There is always the root.
        &self.places[self.places.len() - 1]
    }
}

enum Step {
    Into(WalkedDirectory),
    Link(CString),
}

impl Unpacker<'_> {
    /// Goes to a directory, whose components are given with the last first, and makes what is missing in this layer.
    pub(super) fn walk(&self, mut left: Vec<Vec<u8>>) -> Result<Walk> {
        if left.iter().any(|component| component == b"..") {
            return Err(invalid("the path has a `..`"));
        }
        let root = WalkedDirectory {
            upper: self.root.try_clone().context(|| "open the layer".into())?,
            lower: Directory::root(self.lower_paths.iter().copied())?,
        };
        let mut walk = Walk { places: vec![root], names: Vec::new() };
        let mut links = 0;
        while let Some(component) = left.pop() {
            if component == b".." {
                if walk.names.pop().is_some() {
                    walk.places.pop();
                }
                continue;
            }
            let name = file_name(&component)?;
            match self.step(walk.here(), &name)? {
                Step::Into(place) if walk.places.len() < DEPTH_MAX => {
                    walk.places.push(place);
                    walk.names.push(name);
                }
                Step::Into(_) => {
                    return Err(invalid(format!("the path has more than {DEPTH_MAX} directories")));
                }
                Step::Link(target) => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(invalid("the path has too many levels of links"));
                    }
                    if target.as_bytes().starts_with(b"/") {
                        walk.places.truncate(1);
                        walk.names.clear();
                    }
                    left.extend(components(target.as_bytes()));
                }
            }
        }
        Ok(walk)
    }

    fn step(&self, here: &WalkedDirectory, name: &CStr) -> Result<Step> {
        let what = || format!("look up {name:?}");
        match stat(&here.upper, name).context(what)? {
            Some(found) if merged::is_whiteout(&found) => {
                remove(&here.upper, name, &found)?;
                let upper = self.new_directory(&here.upper, name, None)?;
                make_opaque(&upper)?;
                Ok(Step::Into(WalkedDirectory { upper, lower: Directory::default() }))
            }
            Some(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {
                let upper = open_directory(&here.upper, name).context(what)?;
                let lower = lower_of(here, &upper, name)?;
                Ok(Step::Into(WalkedDirectory { upper, lower }))
            }
            Some(found) if FileType::from_raw_mode(found.st_mode) == FileType::Symlink => {
                Ok(Step::Link(rustix::fs::readlinkat(&here.upper, name, Vec::new()).context(what)?))
            }
            Some(_) => Err(invalid(format!("{name:?} is no directory"))),
            None => match here.lower.find(name).context(what)? {
                Found::Absent => {
                    let upper = self.new_directory(&here.upper, name, None)?;
                    Ok(Step::Into(WalkedDirectory { upper, lower: Directory::default() }))
                }
                Found::Directory(lower) => {
                    let like = lower.stat().context(what)?;
                    let upper = self.new_directory(&here.upper, name, like.as_ref())?;
                    Ok(Step::Into(WalkedDirectory { upper, lower }))
                }
                Found::Other { part, stat } if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                    Ok(Step::Link(here.lower.link(part, name).context(what)?))
                }
                Found::Other { .. } => Err(invalid(format!("{name:?} is no directory"))),
            },
        }
    }

    /// A directory that no entry describes, or that lower layers have: it looks as it did there.
    pub(super) fn new_directory(
        &self,
        parent: &OwnedFd,
        name: &CStr,
        like: Option<&Stat>,
    ) -> Result<OwnedFd> {
        rustix::fs::mkdirat(parent, name, Mode::RWXU).context(|| format!("make {name:?}"))?;
        let directory = open_directory(parent, name).context(|| format!("open {name:?}"))?;
        let (uid, gid) = like.map_or((0, 0), |like| (like.st_uid, like.st_gid));
        self.own(&directory, uid, gid)?;
        let mode = like.map_or(0o755, |like| like.st_mode & 0o7777);
        // Without root, its own user must be able to write into it.
        let mode = if self.is_root { mode } else { mode | 0o700 };
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode))
            .context(|| format!("set the mode of {name:?}"))?;
        Ok(directory)
    }
}

/// The lower layers' part of a directory of this layer.
fn lower_of(here: &WalkedDirectory, upper: &OwnedFd, name: &CStr) -> Result<Directory> {
    if merged::is_opaque(upper) {
        return Ok(Directory::default());
    }
    Ok(match here.lower.find(name).context(|| format!("look up {name:?}"))? {
        Found::Directory(lower) => lower,
        Found::Absent | Found::Other { .. } => Directory::default(),
    })
}
