//! The little of a file system that the log needs, so that a test can stand in for it and fail at will.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

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

/// A directory of the real file system. Its files are for their owner alone, whatever the umask.
#[derive(Debug, Clone)]
pub struct RealDisk {
    dir: PathBuf,
    writable: bool,
}

impl RealDisk {
    /// The directory must exist.
    #[must_use]
    pub fn new(dir: PathBuf) -> RealDisk {
        RealDisk { dir, writable: true }
    }

    /// A directory of which nothing is changed.
    #[must_use]
    pub fn read_only(dir: PathBuf) -> RealDisk {
        RealDisk { dir, writable: false }
    }

    /// Takes the directory and every file in it from everybody but their owner.
    ///
    /// # Errors
    /// Whatever the operating system says.
    pub(crate) fn make_private(&self) -> io::Result<()> {
        restrict(&self.dir, DIR_MODE)?;
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                restrict(&entry.path(), FILE_MODE)?;
            }
        }
        Ok(())
    }
}

/// Sets the mode of a path that others may use.
fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    const OTHERS: u32 = 0o077;
    if fs::metadata(path)?.permissions().mode() & OTHERS == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Makes a directory for its owner alone, and those above it that are missing.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)
}

/// Creates a file for its owner alone, or empties the one that is there.
pub(crate) fn create_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.mode(FILE_MODE).open(path)?;
    // The mode given above holds for new files only, and less what the umask takes away.
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            // A name that is not text is not one of ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let path = self.dir.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Ok(Box::new(create_private(&path, &mut options)?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(self.writable).open(self.dir.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
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
