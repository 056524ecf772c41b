//! Unpacks a layer into a directory of its own, as overlayfs wants it.
//!
//! Every step goes from an open directory to a name in it, and follows no link by itself: what a layer says about `..`,
//! absolute paths and links stays in the directory. Links to directories are followed as a container would, lower layers
//! included, because many layers were made on top of a system where `/lib` is a link.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, XattrFlags},
    io::Errno,
};

mod files;
mod walk;

use files::{clear, file_name, hide, ids, make_opaque, remove, stat, times};
use walk::{Walk, WalkedDirectory};

use crate::{
    Limits,
    error::{Context, ImageError, Result, invalid},
    merged::{self, Found, components, open_directory},
    tar::{self, Entry, Kind},
};

/// A file of this name hides everything that lower layers have in its directory.
const OPAQUE_MARK: &[u8] = b".wh..wh..opq";
/// Files of aufs itself, which are no whiteouts.
const AUFS_PREFIX: &[u8] = b".wh..wh.";
const WHITEOUT_PREFIX: &[u8] = b".wh.";
const COPY_BUFFER_BYTES: usize = 128 << 10;

/// The content of an unpacked layer, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    /// Devices that only root can make.
    pub(crate) skipped: u64,
}

/// Unpacks `archive` into `target`, an empty directory, above `lower`, unpacked layers of which the topmost is first.
pub(crate) fn unpack(
    archive: impl Read,
    target: &Path,
    lower: &[&Path],
    limits: &Limits,
) -> Result<Unpacked> {
    let mut unpacker = Unpacker {
        root: merged::open_root(target)?,
        lower_paths: lower,
        limits,
        is_root: rustix::process::geteuid().is_root(),
        done: Unpacked::default(),
        directories: Vec::new(),
        buffer: vec![0; COPY_BUFFER_BYTES],
        last: None,
    };
    let mut archive = tar::Reader::new(archive);
    while let Some(entry) = archive.next()? {
        unpacker.done.entries += 1;
        if unpacker.done.entries > limits.entries_max {
            return Err(ImageError::TooLarge {
                what: "the number of files in a layer".into(),
                limit: limits.entries_max,
            });
        }
        let shown = String::from_utf8_lossy(&entry.path).into_owned();
        unpacker.apply(&entry, &mut archive).map_err(|error| named(error, &shown))?;
    }
    unpacker.finish()
}

/// Says which entry it was.
fn named(error: ImageError, path: &str) -> ImageError {
    match error {
        ImageError::Io { what, source } => {
            ImageError::Io { what: format!("unpack {path:?}: {what}"), source }
        }
        ImageError::Invalid(text) => ImageError::Invalid(format!("unpack {path:?}: {text}")),
        ImageError::Name(_)
        | ImageError::TooLarge { .. }
        | ImageError::Digest { .. }
        | ImageError::NotFound(_)
        | ImageError::InUse(_)
        | ImageError::Busy(_) => error,
    }
}

struct Unpacker<'a> {
    root: OwnedFd,
    lower_paths: &'a [&'a Path],
    limits: &'a Limits,
    is_root: bool,
    done: Unpacked,
    /// Modes and times of directories, set when nothing more is written into them.
    directories: Vec<Later>,
    buffer: Vec<u8>,
    /// Where the file before this one went: most files have a neighbour.
    last: Option<(Vec<Vec<u8>>, Walk)>,
}

struct Later {
    path: Vec<CString>,
    mode: u32,
    modified: i64,
}

impl Unpacker<'_> {
    fn apply(&mut self, entry: &Entry, content: &mut impl Read) -> Result<()> {
        let mut path = components(&entry.path);
        let Some(last) = (!path.is_empty()).then(|| path.remove(0)) else {
            return self.apply_root(entry);
        };
        let mut walk = match self.last.take() {
            Some((before, walk)) if before == path => walk,
            _ => self.walk(path.clone())?,
        };
        if last == OPAQUE_MARK {
            return make_opaque(&walk.here().upper);
        }
        if last.starts_with(AUFS_PREFIX) {
            return Ok(());
        }
        if let Some(hidden) = last.strip_prefix(WHITEOUT_PREFIX) {
            return hide(walk.here(), &file_name(hidden)?);
        }
        let name = file_name(&last)?;
        match entry.kind {
            Kind::Directory => self.make_directory(walk, name, entry),
            Kind::HardLink => self.make_hard_link(&mut walk, &name, entry),
            Kind::File | Kind::SymbolicLink | Kind::Character | Kind::Block | Kind::Fifo => {
                clear(&walk.here().upper, &name)?;
                self.make(&walk.here().upper, &name, entry, content)?;
                self.last = Some((path, walk));
                Ok(())
            }
        }
    }

    fn apply_root(&mut self, entry: &Entry) -> Result<()> {
        if entry.kind != Kind::Directory {
            return Err(invalid("the root of a layer is no directory"));
        }
        self.own(&self.root, entry.uid, entry.gid)?;
        self.directories.push(Later { path: Vec::new(), mode: entry.mode, modified: entry.modified });
        Ok(())
    }

    fn make_directory(&mut self, mut walk: Walk, name: CString, entry: &Entry) -> Result<()> {
        let parent = &walk.here().upper;
        let found = stat(parent, &name).context(|| "look it up".into())?;
        let is_directory =
            found.as_ref().is_some_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory);
        if let Some(found) = found.as_ref().filter(|_| !is_directory) {
            remove(parent, &name, found)?;
        }
        let directory = if is_directory {
            open_directory(parent, &name).context(|| "open it".into())?
        } else {
            let directory = self.new_directory(parent, &name, None)?;
            if found.is_some() {
                // The removed entry hid the directory of lower layers, which stays hidden.
                make_opaque(&directory)?;
            }
            directory
        };
        self.own(&directory, entry.uid, entry.gid)?;
        self.set_attributes(&directory, entry)?;
        let mode = Mode::from_raw_mode(entry.mode | 0o700);
        rustix::fs::fchmod(&directory, mode).context(|| "set its mode".into())?;
        walk.names.push(name);
        self.directories.push(Later { path: walk.names, mode: entry.mode, modified: entry.modified });
        Ok(())
    }

    fn make_hard_link(&mut self, walk: &mut Walk, name: &CStr, entry: &Entry) -> Result<()> {
        let mut path = components(&entry.link);
        if path.is_empty() {
            return Err(invalid("a hard link to the root"));
        }
        let target_name = file_name(&path.remove(0))?;
        let target = self.walk(path)?;
        let from = &target.here().upper;
        let found = match stat(from, &target_name).context(|| "look up its target".into())? {
            Some(found) => found,
            None => self.copy_up(target.here(), &target_name)?,
        };
        let file_type = FileType::from_raw_mode(found.st_mode);
        if merged::is_whiteout(&found) || file_type == FileType::Directory {
            return Err(invalid(format!("a hard link to {target_name:?}, which is no file")));
        }
        let to = &walk.here().upper;
        if let Some(there) = stat(to, name).context(|| "look it up".into())? {
            if (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino) {
                return Ok(());
            }
            remove(to, name, &there)?;
        }
        rustix::fs::linkat(from, &*target_name, to, name, AtFlags::empty()).context(|| "link it".into())
    }

    /// Makes a file of a lower layer one of this layer, so that it can have another name here.
    fn copy_up(&mut self, place: &WalkedDirectory, name: &CStr) -> Result<Stat> {
        let missing = || invalid(format!("a hard link to {name:?}, which is not there"));
        let Found::Other { part, stat: found } =
            place.lower.find(name).context(|| "look up its target".into())?
        else {
            return Err(missing());
        };
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(missing());
        }
        let mut from = place.lower.open(part, name).context(|| "open its target".into())?;
        let entry = Entry {
            path: Vec::new(),
            link: Vec::new(),
            kind: Kind::File,
            mode: found.st_mode & 0o7777,
            uid: found.st_uid,
            gid: found.st_gid,
            modified: found.st_mtime,
            size: u64::try_from(found.st_size).unwrap_or(0),
            device: (0, 0),
            attributes: Default::default(),
            offset: 0,
        };
        self.make(&place.upper, name, &entry, &mut from)?;
        stat(&place.upper, name).context(|| "look up its target".into())?.ok_or_else(missing)
    }

    fn make(&mut self, parent: &OwnedFd, name: &CStr, entry: &Entry, content: &mut impl Read) -> Result<()> {
        match entry.kind {
            Kind::File => return self.make_file(parent, name, entry, content),
            Kind::SymbolicLink => {
                let target =
                    CString::new(entry.link.clone()).map_err(|_| invalid("its target has a NUL byte"))?;
                rustix::fs::symlinkat(&*target, parent, name).context(|| "make the link".into())?;
                if self.is_root {
                    let (uid, gid) = ids(entry.uid, entry.gid)?;
                    rustix::fs::chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
                        .context(|| "set its owner".into())?;
                }
            }
            Kind::Character | Kind::Block | Kind::Fifo => {
                if !self.make_node(parent, name, entry)? {
                    return Ok(());
                }
            }
            Kind::Directory | Kind::HardLink => return Err(invalid("is not made here")),
        }
        rustix::fs::utimensat(parent, name, &times(entry.modified), AtFlags::SYMLINK_NOFOLLOW)
            .context(|| "set its time".into())
    }

    fn make_file(
        &mut self,
        parent: &OwnedFd,
        name: &CStr,
        entry: &Entry,
        content: &mut impl Read,
    ) -> Result<()> {
        self.count_bytes(entry.size)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file: OwnedFd = rustix::fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR)
            .context(|| "make the file".into())?;
        let mut file = File::from(file);
        let mut left = entry.size;
        while left > 0 {
            let wanted = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = content.read(&mut self.buffer[..wanted]).context(|| "read its content".into())?;
            if read == 0 {
                return Err(invalid("the archive is truncated"));
            }
            file.write_all(&self.buffer[..read]).context(|| "write its content".into())?;
            left -= read as u64;
        }
        let file = OwnedFd::from(file);
        self.own(&file, entry.uid, entry.gid)?;
        // After the owner, which takes away the bits of setuid and the capabilities.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(entry.mode)).context(|| "set its mode".into())?;
        self.set_attributes(&file, entry)?;
        rustix::fs::futimens(&file, &times(entry.modified)).context(|| "set its time".into())
    }

    /// Whether it was made: without root there are no devices.
    fn make_node(&mut self, parent: &OwnedFd, name: &CStr, entry: &Entry) -> Result<bool> {
        let file_type = match entry.kind {
            Kind::Character => FileType::CharacterDevice,
            Kind::Block => FileType::BlockDevice,
            Kind::Fifo | Kind::File | Kind::HardLink | Kind::SymbolicLink | Kind::Directory => FileType::Fifo,
        };
        if file_type != FileType::Fifo && !self.is_root {
            self.done.skipped += 1;
            return Ok(false);
        }
        let (major, minor) = entry.device;
        if file_type == FileType::CharacterDevice && (major, minor) == (0, 0) {
            return Err(invalid("the device 0/0 is overlayfs' own"));
        }
        let mode = Mode::from_raw_mode(entry.mode);
        let device = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(parent, name, file_type, mode, device).context(|| "make the device".into())?;
        if self.is_root {
            let (uid, gid) = ids(entry.uid, entry.gid)?;
            rustix::fs::chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
                .context(|| "set its owner".into())?;
        }
        rustix::fs::chmodat(parent, name, mode, AtFlags::empty()).context(|| "set its mode".into())?;
        Ok(true)
    }

    fn count_bytes(&mut self, size: u64) -> Result<()> {
        self.done.bytes = self.done.bytes.saturating_add(size);
        if self.done.bytes > self.limits.unpacked_bytes_max {
            return Err(ImageError::TooLarge {
                what: "the size of an unpacked layer".into(),
                limit: self.limits.unpacked_bytes_max,
            });
        }
        Ok(())
    }

    fn own(&self, file: &OwnedFd, uid: u32, gid: u32) -> Result<()> {
        if !self.is_root {
            return Ok(());
        }
        let (uid, gid) = ids(uid, gid)?;
        rustix::fs::fchown(file, uid, gid).context(|| "set its owner".into())
    }

    /// Capabilities and attributes of the user. Others are the host's, overlayfs' own above all.
    fn set_attributes(&self, file: &OwnedFd, entry: &Entry) -> Result<()> {
        for (name, value) in &entry.attributes {
            let is_capability = name == "security.capability" && self.is_root;
            let is_users = name.starts_with("user.") && !name.starts_with("user.overlay.");
            if !is_capability && !is_users {
                continue;
            }
            match rustix::fs::fsetxattr(file, name.as_str(), value, XattrFlags::empty()) {
                Ok(()) => {}
                // The file system has no such attributes; a capability that is lost takes rights away, and gives none.
                Err(Errno::OPNOTSUPP) => {}
                Err(error) => {
                    return Err(ImageError::Io {
                        what: format!("set its attribute {name}"),
                        source: error.into(),
                    });
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Unpacked> {
        for later in std::mem::take(&mut self.directories).into_iter().rev() {
            let Some(directory) = self.still_there(&later.path)? else { continue };
            rustix::fs::fchmod(&directory, Mode::from_raw_mode(later.mode))
                .context(|| "set the mode of a directory".into())?;
            rustix::fs::futimens(&directory, &times(later.modified))
                .context(|| "set the time of a directory".into())?;
        }
        Ok(self.done)
    }

    /// A directory of this layer that may have been replaced since.
    fn still_there(&self, path: &[CString]) -> Result<Option<OwnedFd>> {
        let mut directory = self.root.try_clone().context(|| "open the layer".into())?;
        for name in path {
            match open_directory(&directory, name) {
                Ok(below) => directory = below,
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(directory))
    }
}
