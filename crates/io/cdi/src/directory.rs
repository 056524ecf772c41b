//! Where a driver puts its specs.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use thiserror::Error;

use crate::{Spec, SpecError, minimum_version, read::FILE_BYTES_MAX, validate};

/// A directory that runtimes read specs from.
#[derive(Clone, Debug)]
pub struct SpecDirectory {
    path: PathBuf,
}

/// Why a spec was not written or removed. The file before it is unchanged.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The name of the file could be that of another directory, or of none.
    #[error("{0:?} is not a file name")]
    FileName(String),
    /// The spec is wrong.
    #[error(transparent)]
    Invalid(#[from] SpecError),
    /// Readers would refuse it.
    #[error("the spec has more than {FILE_BYTES_MAX} bytes")]
    TooLarge,
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Makes names of temporary files differ within a process.
static TEMPORARY: AtomicU64 = AtomicU64::new(0);

impl SpecDirectory {
    /// The directory at this path. It is made when something is written.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file name that CDI proposes for what lives as long as something with this id: `vendor-class_id`.
    #[must_use]
    pub fn transient_name(vendor: &str, class: &str, id: &str) -> String {
        format!("{vendor}-{class}_{}", id.replace('/', "_"))
    }

    /// Writes a spec as `name.json`, in the lowest version that has what it uses, whatever version it states. Readers see
    /// the old file or the new one. Gives the path.
    ///
    /// # Errors
    /// When the spec is wrong or the file system refuses.
    pub fn write(&self, name: &str, spec: &Spec) -> Result<PathBuf, WriteError> {
        let path = self.file(name)?;
        let spec = Spec { version: minimum_version(spec).to_string(), ..spec.clone() };
        validate(&spec)?;
        let mut text = serde_json::to_vec_pretty(&spec).map_err(|error| failed(&path, error.into()))?;
        text.push(b'\n');
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(WriteError::TooLarge);
        }
        fs::create_dir_all(&self.path).map_err(|error| failed(&self.path, error))?;
        let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
        // No reader takes a file with this ending for a spec.
        let temporary = self.path.join(format!(".{name}.{}-{number}.tmp", std::process::id()));
        let written = put(&temporary, &text).and_then(|()| fs::rename(&temporary, &path));
        if let Err(error) = written {
            // A temporary file that cannot be removed is no spec, and the first error says more.
            let _ = fs::remove_file(&temporary);
            return Err(failed(&path, error));
        }
        let synced = File::open(&self.path).and_then(|directory| directory.sync_all());
        synced.map_err(|error| failed(&self.path, error))?;
        Ok(path)
    }

    /// Removes what [`write`](Self::write) wrote under this name. Nothing there is no error.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), WriteError> {
        let path = self.file(name)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&path, error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn file(&self, name: &str) -> Result<PathBuf, WriteError> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            return Err(WriteError::FileName(name.to_owned()));
        }
        Ok(self.path.join(format!("{name}.json")))
    }
}

fn put(path: &Path, text: &[u8]) -> io::Result<()> {
    // Never through a link that another process put there.
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

fn failed(path: &Path, source: io::Error) -> WriteError {
    WriteError::Io { path: path.to_owned(), source }
}
