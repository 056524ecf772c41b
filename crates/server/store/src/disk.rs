//! The little of a file system that the log needs, so that a test can stand in for it and fail at will.

use std::fmt::Debug;
use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, open, openat, renameat, unlinkat};
use rustix::io::Errno;

/// A directory of files. A created, renamed or removed name is durable only after [`sync_dir`](Disk::sync_dir).
pub trait Disk: Debug + Send + Sync {
    /// The names in the directory, in any order.
    ///
    /// # Errors
    /// Whatever the operating system says; so for all methods.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Creates an empty file, in place of one of that name if there is one.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, atomically replacing one that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all names durable.
    fn sync_dir(&self) -> io::Result<()>;
}

/// An open file. Bytes written are durable only after [`sync`](DiskFile::sync).
pub trait DiskFile: Debug + Send {
    /// Its length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Fills the buffer from `offset`, or fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all the bytes at `offset`, or fails having written any part of them.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file off, or extends it with zeros.
    fn set_size(&mut self, size: u64) -> io::Result<()>;
    /// Makes content and length durable. After a failure nothing may be assumed about what was written since the
    /// last success, and trying again proves nothing.
    fn sync(&mut self) -> io::Result<()>;
}

/// Only the owner may read and write.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// A directory of the real file system, held open: it stays the same one under whatever name it goes. Its files are for
/// their owner alone, whatever the umask.
#[derive(Debug, Clone)]
pub struct RealDisk {
    dir: Arc<File>,
    writable: bool,
}

impl RealDisk {
    /// The directory must exist. A file of it that is opened or created is this process' own until it is closed.
    ///
    /// # Errors
    /// Whatever the operating system says.
    pub fn open_dir(dir: &Path) -> io::Result<RealDisk> {
        Ok(RealDisk { dir: Arc::new(open_dir(dir)?), writable: true })
    }

    /// A directory of which nothing is changed, and whose files others may write.
    ///
    /// # Errors
    /// Whatever the operating system says.
    pub fn read_only(dir: &Path) -> io::Result<RealDisk> {
        Ok(RealDisk { writable: false, ..RealDisk::open_dir(dir)? })
    }

    /// A directory that is open already.
    pub(crate) fn of(dir: Arc<File>) -> RealDisk {
        RealDisk { dir, writable: true }
    }

    /// The same directory, for reading what this process itself is writing.
    pub(crate) fn reader(&self) -> RealDisk {
        RealDisk { dir: Arc::clone(&self.dir), writable: false }
    }

    /// Takes the directory and every file in it from everybody but their owner.
    ///
    /// # Errors
    /// Whatever the operating system says.
    pub(crate) fn make_private(&self) -> io::Result<()> {
        restrict(&self.dir, DIR_MODE)?;
        for name in self.list()? {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = match openat(&self.dir, &name, flags, Mode::empty()) {
                Ok(file) => File::from(file),
                // A symbolic link has no mode of its own.
                Err(Errno::LOOP) => continue,
                Err(error) => return Err(error.into()),
            };
            if file.metadata()?.is_file() {
                restrict(&file, FILE_MODE)?;
            }
        }
        Ok(())
    }
}

fn open_dir(dir: &Path) -> io::Result<File> {
    Ok(open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Sets the mode of a file that others may use.
fn restrict(file: &File, mode: u32) -> io::Result<()> {
    const OTHERS: u32 = 0o077;
    if file.metadata()?.permissions().mode() & OTHERS == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// Makes a directory for its owner alone, and those above it that are missing, and opens it.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
    open_dir(dir)
}

/// Opens a file for its owner alone, making it if it is not there. Its content stays.
pub(crate) fn open_private(dir: &File, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file = File::from(openat(dir, name, flags, Mode::from_raw_mode(FILE_MODE))?);
    // The mode given above holds for new files only, and less what the umask takes away.
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir)? {
            // A name that is not text is not one of ours.
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OwnFile::take(open_private(&self.dir, name)?)?;
        // Not before it is known that nobody else writes it.
        file.file.set_len(0)?;
        Ok(Box::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let access = if self.writable { OFlags::RDWR } else { OFlags::RDONLY };
        let file = File::from(openat(&self.dir, name, access | OFlags::CLOEXEC, Mode::empty())?);
        Ok(if self.writable { Box::new(OwnFile::take(file)?) } else { Box::new(file) })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.dir, from, &self.dir, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.dir, name, AtFlags::empty())?)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync_all()
    }
}

/// A file that this process alone writes, by whatever name and in whatever directory another process finds it.
#[derive(Debug)]
struct OwnFile {
    file: File,
}

impl OwnFile {
    fn take(file: File) -> io::Result<OwnFile> {
        match try_lock(&file) {
            Ok(()) => Ok(OwnFile { file }),
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another process has the file open to write it",
            )),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for OwnFile {
    /// Closing the file is not enough: a process that is being started has it too until it executes its program.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Locks an open file or directory. Some file systems have no such locks, or none of directories: there the others hold.
pub(crate) fn try_lock(file: &File) -> Result<(), TryLockError> {
    match file.try_lock() {
        Err(TryLockError::Error(error))
            if [Errno::BADF, Errno::INVAL, Errno::NOTSUP, Errno::NOSYS, Errno::NOLCK]
                .into_iter()
                .any(|errno| Errno::from_io_error(&error) == Some(errno)) =>
        {
            Ok(())
        }
        locked => locked,
    }
}

impl DiskFile for OwnFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        DiskFile::read_at(&self.file, offset, buffer)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        DiskFile::write_at(&mut self.file, offset, bytes)
    }

    fn set_size(&mut self, size: u64) -> io::Result<()> {
        self.file.set_size(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        DiskFile::sync(&mut self.file)?;
        // A file without a name is not kept, however often it was synced.
        if self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the file was removed or replaced while it was open",
            ));
        }
        Ok(())
    }
}

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_size(&mut self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        // fdatasync: the length is part of what is needed to read the data back, so it is included.
        self.sync_data()
    }
}
