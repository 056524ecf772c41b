//! An open directory. Names are looked up in it and nowhere else.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{self, AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid},
    io::Errno,
};

/// An open directory.
#[derive(Debug)]
pub(crate) struct Dir(OwnedFd);

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

impl Dir {
    /// Opens a directory that belongs to the node. Links on the way are followed.
    pub(crate) fn open_path(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(fs::open(path, flags, Mode::empty())?))
    }

    /// Opens a directory below. No link is followed.
    pub(crate) fn open(&self, path: &str) -> io::Result<Self> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok(Self(fs::openat2(&self.0, path, DIRECTORY, Mode::empty(), resolve)?))
    }

    /// Opens a directory right below. No link is followed, and no mount is entered.
    pub(crate) fn open_in_same_mount(&self, name: &CStr) -> io::Result<Self> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        Ok(Self(fs::openat2(&self.0, name, DIRECTORY, Mode::empty(), resolve)?))
    }

    /// Opens a directory right below, and makes it if need be.
    pub(crate) fn make(&self, name: &str, mode: u32) -> io::Result<Self> {
        match fs::mkdirat(&self.0, name, Mode::from_raw_mode(mode)) {
            // The umask of this process must not matter.
            Ok(()) => {
                let made = self.open(name)?;
                made.set_mode(mode)?;
                Ok(made)
            }
            Err(Errno::EXIST) => self.open(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes each directory of a path.
    pub(crate) fn make_all(&self, path: &str, mode: u32) -> io::Result<Self> {
        let mut names = path.split('/');
        let mut dir = self.make(names.next().unwrap_or_default(), mode)?;
        for name in names {
            dir = dir.make(name, mode)?;
        }
        Ok(dir)
    }

    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(fs::fchmod(&self.0, Mode::from_raw_mode(mode))?)
    }

    pub(crate) fn mode(&self) -> io::Result<u32> {
        Ok(fs::fstat(&self.0)?.st_mode & 0o7777)
    }

    pub(crate) fn set_owner(&self, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
        Ok(fs::fchown(&self.0, user.map(Uid::from_raw), group.map(Gid::from_raw))?)
    }

    /// Writes a file that is not there yet.
    pub(crate) fn write_new(
        &self,
        name: &str,
        bytes: &[u8],
        mode: u32,
        user: Option<u32>,
        group: Option<u32>,
    ) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o600))?;
        fs::fchown(&file, user.map(Uid::from_raw), group.map(Gid::from_raw))?;
        fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        File::from(file).write_all(bytes)
    }

    /// Writes a file in place: who has it mounted sees what is new. Nothing is done when it says the same already.
    pub(crate) fn write_in_place(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o600))?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"));
        }
        fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        let mut before = Vec::new();
        (&file).take(bytes.len() as u64 + 1).read_to_end(&mut before)?;
        if before == bytes {
            return Ok(());
        }
        io::Seek::rewind(&mut file)?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)
    }

    /// Whether a file below has these bytes and this mode. No link is followed.
    pub(crate) fn has_file(&self, path: &str, bytes: &[u8], mode: u32) -> io::Result<bool> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match fs::openat2(&self.0, path, flags, Mode::empty(), resolve) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let metadata = file.metadata()?;
        let now = std::os::unix::fs::MetadataExt::mode(&metadata) & 0o7777;
        if !metadata.is_file() || metadata.len() != bytes.len() as u64 || now != mode {
            return Ok(false);
        }
        let mut found = Vec::with_capacity(bytes.len());
        file.take(bytes.len() as u64 + 1).read_to_end(&mut found)?;
        Ok(found == bytes)
    }

    pub(crate) fn link_target(&self, name: &str) -> io::Result<Option<String>> {
        match fs::readlinkat(&self.0, name, Vec::new()) {
            Ok(target) => Ok(target.into_string().ok()),
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn link(&self, name: &str, target: &str, group: Option<u32>) -> io::Result<()> {
        fs::symlinkat(target, &self.0, name)?;
        if let Some(group) = group {
            fs::chownat(&self.0, name, None, Some(Gid::from_raw(group)), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a file or a link; it is no error when there is none.
    pub(crate) fn unlink(&self, name: &str) -> io::Result<()> {
        match fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Names in it, at most `count_max`.
    pub(crate) fn names(&self, count_max: usize) -> io::Result<Vec<CString>> {
        let mut names = Vec::new();
        // A directory of its own: two readers of one would share their place in it.
        for entry in fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                names.push(name.to_owned());
                if names.len() == count_max {
                    break;
                }
            }
        }
        Ok(names)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
