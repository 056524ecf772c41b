//! All specs of several directories, and which device is meant by a name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use thiserror::Error;

use crate::{ApplyError, ContainerEdits, ReadError, Spec, apply, read};

/// Specs read from one directory. A node runs hundreds of pods, each with a few claims and one file a claim.
const FILES_PER_DIRECTORY_MAX: usize = 8192;
/// Bytes of all specs that are kept.
const BYTES_MAX: u64 = 256 << 20;
/// Names in one request. A container has at most a few hundred devices.
const NAMES_MAX: usize = 4096;

/// The devices of several directories. Later directories win.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    directories: Vec<PathBuf>,
    devices: BTreeMap<String, Entry>,
    errors: Vec<CacheError>,
}

#[derive(Clone, Debug)]
struct Entry {
    spec: Arc<Spec>,
    path: Arc<Path>,
    priority: usize,
    /// Of which of the spec's devices.
    index: usize,
}

/// Something that was left out, and why.
#[derive(Debug, Clone, Error)]
pub enum CacheError {
    /// A directory cannot be read.
    #[error("{path}: {source}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// A file is no spec.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Arc<ReadError>,
    },
    /// There are too many files, or too large ones; those from here on were not read.
    #[error("{path}: more than {FILES_PER_DIRECTORY_MAX} files or {BYTES_MAX} bytes of specs")]
    TooMany {
        /// The first that was left out.
        path: PathBuf,
    },
    /// Two files of one priority have a device of the same name. Neither can be used.
    #[error("{device} is in {first} and in {second}")]
    Conflict {
        /// Its qualified name.
        device: String,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
}

/// Why devices were not injected. The OCI spec is as it was.
#[derive(Debug, Error)]
pub enum InjectError {
    /// No file describes these devices. The text is the one by which runtimes are known.
    #[error("unresolvable CDI devices {}", .0.join(", "))]
    Unresolved(Vec<String>),
    /// More names than a container can have devices.
    #[error("{0} CDI devices for one container, at most {NAMES_MAX} are allowed")]
    TooMany(usize),
    /// The edits do not fit the OCI spec or this machine.
    #[error("failed to inject devices: {0}")]
    Apply(#[from] ApplyError),
}

impl Cache {
    /// A cache over these directories, the most important one last, and reads them.
    pub fn new<P: Into<PathBuf>>(directories: impl IntoIterator<Item = P>) -> Self {
        let directories = directories.into_iter().map(Into::into).collect();
        let mut cache = Self { directories, ..Self::default() };
        cache.refresh();
        cache
    }

    /// Reads all files again.
    pub fn refresh(&mut self) {
        let mut scan = Scan::default();
        for (priority, directory) in self.directories.iter().enumerate() {
            scan.directory(directory, priority);
        }
        // As in the reference implementation: a name that is ambiguous anywhere is ambiguous, even where a more important
        // directory has it too.
        scan.devices.retain(|name, _| !scan.conflicts.contains(name));
        (self.devices, self.errors) = (scan.devices, scan.errors);
    }

    /// The errors of the last read; each left a file or a device out.
    #[must_use]
    pub fn errors(&self) -> &[CacheError] {
        &self.errors
    }

    /// The qualified names of all devices, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.devices.keys().map(String::as_str)
    }

    /// The file in which a device is.
    #[must_use]
    pub fn path_of(&self, name: &str) -> Option<&Path> {
        self.devices.get(name).map(|entry| &*entry.path)
    }

    /// All edits for a container that gets these devices: those of each file once, before those of its first device.
    /// A device that is named again adds nothing. Files are read again when a name is unknown.
    ///
    /// # Errors
    /// When a name is unknown after that.
    pub fn resolve<N: AsRef<str>>(&mut self, names: &[N]) -> Result<ContainerEdits, InjectError> {
        if names.len() > NAMES_MAX {
            return Err(InjectError::TooMany(names.len()));
        }
        if names.iter().any(|name| !self.devices.contains_key(name.as_ref())) {
            self.refresh();
        }
        let (mut edits, mut unresolved) = (ContainerEdits::default(), Vec::new());
        let (mut specs, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for name in names.iter().map(AsRef::as_ref).filter(|name| seen.insert((*name).to_owned())) {
            let Some(entry) = self.devices.get(name) else {
                unresolved.push(name.to_owned());
                continue;
            };
            if specs.insert(Arc::clone(&entry.path)) {
                edits.append(&entry.spec.container_edits);
            }
            edits.append(&entry.spec.devices[entry.index].container_edits);
        }
        if unresolved.is_empty() { Ok(edits) } else { Err(InjectError::Unresolved(unresolved)) }
    }

    /// Changes an OCI runtime spec (its JSON) so that the container gets these devices.
    ///
    /// # Errors
    /// When a name is unknown, or the edits do not fit. Nothing is changed then.
    pub fn inject<N: AsRef<str>>(&mut self, oci: &mut Value, names: &[N]) -> Result<(), InjectError> {
        let edits = self.resolve(names)?;
        apply(&edits, oci)?;
        Ok(())
    }
}

#[derive(Default)]
struct Scan {
    devices: BTreeMap<String, Entry>,
    conflicts: BTreeSet<String>,
    errors: Vec<CacheError>,
    bytes: u64,
}

impl Scan {
    fn directory(&mut self, directory: &Path, priority: usize) {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                let source = Arc::new(error);
                self.errors.push(CacheError::Directory { path: directory.to_owned(), source });
                return;
            }
        };
        let is_spec =
            |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json" || ending == "yaml");
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(is_spec)
            .take(FILES_PER_DIRECTORY_MAX + 1)
            .collect();
        paths.sort();
        for (count, path) in paths.into_iter().enumerate() {
            if count == FILES_PER_DIRECTORY_MAX || self.bytes > BYTES_MAX {
                self.errors.push(CacheError::TooMany { path });
                return;
            }
            self.bytes += path.metadata().map_or(0, |found| found.len());
            match read(&path) {
                Ok(spec) => self.spec(Arc::new(spec), path.into(), priority),
                Err(ReadError::NotAFile) => {}
                Err(error) => self.errors.push(CacheError::File { path, source: Arc::new(error) }),
            }
        }
    }

    fn spec(&mut self, spec: Arc<Spec>, path: Arc<Path>, priority: usize) {
        for (index, device) in spec.devices.iter().enumerate() {
            let name = format!("{}={}", spec.kind, device.name);
            if let Some(other) = self.devices.get(&name).filter(|other| other.priority == priority) {
                let (first, second) = (other.path.to_path_buf(), path.to_path_buf());
                self.errors.push(CacheError::Conflict { device: name.clone(), first, second });
                self.conflicts.insert(name);
                continue;
            }
            let entry = Entry { spec: Arc::clone(&spec), path: Arc::clone(&path), priority, index };
            self.devices.insert(name, entry);
        }
    }
}
