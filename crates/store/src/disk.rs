//! The little of a file system that the log needs, so that a test can stand in for it and fail at will.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

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

/// An open file. What is written is durable only after [`sync`](DiskFile::sync).
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

/// A directory of the real file system.
#[derive(Debug, Clone)]
pub struct RealDisk {
    dir: PathBuf,
}

impl RealDisk {
    /// The directory must exist.
    #[must_use]
    pub fn new(dir: PathBuf) -> RealDisk {
        RealDisk { dir }
    }
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
        Ok(Box::new(OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).open(self.dir.join(name))?))
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
