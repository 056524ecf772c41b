//! Files that change all at once.
//!
//! A volume has a directory for each version, and a link `..data` to the one that counts. Names that a container sees are links through
//! `..data`. A new version is written beside the old one, and then the link is replaced: a reader through it sees the one or the
//! other, and never some of both.

use std::{collections::BTreeSet, ffi::CString, io};

use super::{dir::Dir, payload::Payload, tree};

const DATA: &str = "..data";
const DATA_NEW: &str = "..data_tmp";
/// Everything that is written for a group may be read by it, and directories may be entered.
const GROUP_READS: u32 = 0o440;
const GROUP_ENTERS: u32 = 0o2550;
const VERSION_MODE: u32 = 0o755;
/// A volume has a link for each name at its top, and few directories beside them.
const NAMES_MAX: usize = super::payload::VOLUME_FILES_MAX + 1024;
/// Versions that are made within one tick of the clock.
const VERSIONS_PER_STAMP_MAX: u32 = 1000;

/// Brings a volume to this content, and answers whether it had another before. `stamp` is the time, for the name of the version.
pub(crate) fn write(volume: &Dir, payload: &Payload, group: Option<u32>, stamp: &str) -> io::Result<bool> {
    let current = volume.link_target(DATA)?.filter(|name| is_version(name));
    let is_current = match &current {
        Some(name) => matches(volume, name, payload, group)?,
        None => false,
    };
    let mut version = current.unwrap_or_default();
    // One that a crash left behind.
    volume.unlink(DATA_NEW)?;
    if !is_current {
        version = new_version(volume, stamp)?;
        if let Err(error) = write_version(volume, &version, payload, group) {
            remove(volume, &version)?;
            return Err(error);
        }
        volume.link(DATA_NEW, &version, group)?;
        volume.rename(DATA_NEW, DATA)?;
    }
    show(volume, payload, group)?;
    for name in volume.names(NAMES_MAX)? {
        let name = name.to_string_lossy();
        if is_version(&name) && name != version {
            remove(volume, &name)?;
        }
    }
    Ok(!is_current)
}

/// Names that begin with two dots are the writer's own.
fn is_version(name: &str) -> bool {
    name.starts_with("..") && name.len() > 2 && name != DATA && name != DATA_NEW && !name.contains('/')
}

fn remove(volume: &Dir, name: &str) -> io::Result<()> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    tree::remove(volume, &name)
}

fn new_version(volume: &Dir, stamp: &str) -> io::Result<String> {
    for count in 0..VERSIONS_PER_STAMP_MAX {
        let name = format!("..{stamp}.{count}");
        match rustix::fs::mkdirat(volume, name.as_str(), rustix::fs::Mode::from_raw_mode(0o700)) {
            Ok(()) => return Ok(name),
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many versions at one time"))
}

fn write_version(volume: &Dir, version: &str, payload: &Payload, group: Option<u32>) -> io::Result<()> {
    let root = volume.open(version)?;
    for (path, file) in payload.files() {
        let mode = file_mode(file.mode, group);
        match path.rsplit_once('/') {
            None => root.write_new(path, &file.data, mode, file.user, group)?,
            Some((parent, name)) => {
                let parent = make_parents(&root, parent, group)?;
                parent.write_new(name, &file.data, mode, file.user, group)?;
            }
        }
    }
    share(&root, group)
}

fn make_parents(root: &Dir, path: &str, group: Option<u32>) -> io::Result<Dir> {
    let mut parent: Option<Dir> = None;
    for name in path.split('/') {
        let next = parent.as_ref().unwrap_or(root).make(name, VERSION_MODE)?;
        share(&next, group)?;
        parent = Some(next);
    }
    parent.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn share(dir: &Dir, group: Option<u32>) -> io::Result<()> {
    if group.is_none() {
        return dir.set_mode(VERSION_MODE);
    }
    dir.set_owner(None, group)?;
    dir.set_mode(VERSION_MODE | GROUP_ENTERS)
}

fn file_mode(mode: u32, group: Option<u32>) -> u32 {
    if group.is_some() { mode | GROUP_READS } else { mode }
}

/// Whether a version has these files and no others.
fn matches(volume: &Dir, version: &str, payload: &Payload, group: Option<u32>) -> io::Result<bool> {
    let root = match volume.open(version) {
        Ok(root) => root,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    for (path, file) in payload.files() {
        if !root.has_file(path, &file.data, file_mode(file.mode, group))? {
            return Ok(false);
        }
    }
    // Names at each level of the files that are wanted: a file that is there besides them is too much.
    let mut folders: BTreeSet<&str> = BTreeSet::from([""]);
    let mut wanted: BTreeSet<(&str, &str)> = BTreeSet::new();
    for path in payload.files().keys() {
        let mut rest = path.as_str();
        loop {
            let (parent, name) = rest.rsplit_once('/').unwrap_or(("", rest));
            wanted.insert((parent, name));
            if parent.is_empty() {
                break;
            }
            folders.insert(parent);
            rest = parent;
        }
    }
    for folder in folders {
        let names =
            if folder.is_empty() { root.names(NAMES_MAX)? } else { root.open(folder)?.names(NAMES_MAX)? };
        let is_wanted = |name: &CString| name.to_str().is_ok_and(|name| wanted.contains(&(folder, name)));
        if !names.iter().all(is_wanted) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Links the names at the top of the volume to the data, and removes links to what is gone.
fn show(volume: &Dir, payload: &Payload, group: Option<u32>) -> io::Result<()> {
    let wanted: BTreeSet<&str> =
        payload.files().keys().map(|path| path.split('/').next().unwrap_or(path)).collect();
    let mut there = BTreeSet::new();
    for name in volume.names(NAMES_MAX)? {
        let Ok(name) = name.into_string() else { continue };
        if name.starts_with("..") {
            continue;
        }
        // A directory is there for something to be mounted on.
        if volume.link_target(&name)?.is_some() && !wanted.contains(name.as_str()) {
            volume.unlink(&name)?;
        } else {
            there.insert(name);
        }
    }
    for name in wanted.into_iter().filter(|name| !there.contains(*name)) {
        volume.link(name, &format!("{DATA}/{name}"), group)?;
    }
    Ok(())
}
