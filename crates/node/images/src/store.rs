//! The directory that images are in.
//!
//! ```text
//! ROOT/index.json            names, and what they mean
//! ROOT/blobs/HEX             configurations
//! ROOT/layers/HEX/root       an unpacked layer, by the name of its chain; beside it layer.json
//! ROOT/used/HEX              the time of this file says when the image was last asked for
//! ROOT/in-use.json           images that containers of this node use
//! ROOT/ingest/…              incomplete content; read by its writer alone
//! ROOT/store.lock            held shared while something is taken in, alone while something is removed
//! ROOT/index.lock            held while the index is written
//! ```
//! A layer counts once it has been renamed to its place, an image once the index names it. Several processes may use one store.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use ring::rand::{SecureRandom, SystemRandom};
use rustix::{fs::FlockOperation, io::Errno};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    Digest, Image, ImageError,
    document::Configuration,
    error::{Context, Result, invalid},
};

/// Names in one store: a node has some hundred.
pub(crate) const NAMES_MAX: usize = 10_000;
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// The entry of the index for a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The digest of the configuration.
    pub(crate) id: String,
    /// The digest of the manifest.
    pub(crate) manifest: Option<String>,
    /// `NAME@DIGEST`, when it came from a registry.
    #[serde(default)]
    pub(crate) repo_digest: Option<String>,
    /// Names of chains, the topmost first.
    pub(crate) layers: Vec<String>,
}

/// All names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) names: BTreeMap<String, Record>,
}

/// Facts of an unpacked layer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LayerFacts {
    pub(crate) diff_id: String,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// The store.
#[derive(Debug)]
pub(crate) struct Store {
    root: PathBuf,
    /// Tells its drafts from those of other processes.
    unique: String,
    next: AtomicU64,
}

/// Held while something is taken in, or removed.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Closing the file is not enough: a process that is being started has it too until it executes its program.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl Store {
    pub(crate) fn open(root: PathBuf) -> Result<Self> {
        for folder in ["", "blobs", "layers", "used", "ingest"] {
            let path = root.join(folder);
            // Other users must not reach programs with setuid and devices of images.
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .context(|| format!("make {}", path.display()))?;
        }
        let mut random = [0; 8];
        SystemRandom::new().fill(&mut random).map_err(|_| invalid("the system has no random numbers"))?;
        let store =
            Self { root, unique: format!("{:016x}", u64::from_ne_bytes(random)), next: AtomicU64::new(0) };
        store.index()?;
        // Removes leftovers of a crash, unless another process is at work.
        if let Some(lock) = store.try_lock_alone()? {
            store.sweep(&lock)?;
        }
        Ok(store)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn layer(&self, chain: &Digest) -> PathBuf {
        self.root.join("layers").join(chain.hex())
    }

    pub(crate) fn layer_root(&self, chain: &Digest) -> PathBuf {
        self.layer(chain).join("root")
    }

    /// A path that no other task uses.
    pub(crate) fn ingest_path(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.root.join("ingest").join(format!("{}-{number}", self.unique))
    }

    /// Held while content is added. Waits while content is removed, which is short.
    pub(crate) fn lock_shared(&self) -> Result<Lock> {
        let file = self.lock_file("store.lock")?;
        rustix::fs::flock(&file, FlockOperation::LockShared).context(|| self.what("lock"))?;
        Ok(Lock { file })
    }

    /// Nothing while something is taken in.
    pub(crate) fn try_lock_alone(&self) -> Result<Option<Lock>> {
        let file = self.lock_file("store.lock")?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(ImageError::Io { what: self.what("lock"), source: error.into() }),
        }
    }

    fn lock_file(&self, name: &str) -> Result<File> {
        let path = self.root.join(name);
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .context(|| format!("open {}", path.display()))
    }

    fn what(&self, verb: &str) -> String {
        format!("{verb} {}", self.root.display())
    }

    pub(crate) fn index(&self) -> Result<Index> {
        Ok(self.read_json("index.json")?.unwrap_or_default())
    }

    /// Changes the index. The change is on disk when this answers.
    pub(crate) fn change_index<T>(&self, change: impl FnOnce(&mut Index) -> Result<T>) -> Result<T> {
        let _lock = self.lock_index()?;
        let mut index = self.index()?;
        let answer = change(&mut index)?;
        if index.names.len() > NAMES_MAX {
            return Err(ImageError::TooLarge {
                what: "the number of names of images".into(),
                limit: NAMES_MAX as u64,
            });
        }
        self.write_json("index.json", &index)?;
        Ok(answer)
    }

    fn lock_index(&self) -> Result<File> {
        let lock = self.lock_file("index.lock")?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).context(|| self.what("lock"))?;
        Ok(lock)
    }

    pub(crate) fn in_use(&self) -> Result<BTreeSet<String>> {
        Ok(self.read_json("in-use.json")?.unwrap_or_default())
    }

    pub(crate) fn set_in_use(&self, ids: &BTreeSet<String>) -> Result<()> {
        if self.in_use().is_ok_and(|before| before == *ids) {
            return Ok(());
        }
        let _lock = self.lock_index()?;
        self.write_json("in-use.json", ids)
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.root.join(name);
        let size = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(|| format!("read {}", path.display())),
        };
        if size > INDEX_BYTES_MAX {
            return Err(ImageError::TooLarge { what: format!("{}", path.display()), limit: INDEX_BYTES_MAX });
        }
        let bytes = fs::read(&path).context(|| format!("read {}", path.display()))?;
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            invalid(format!("{} is damaged: {error}; remove it and import the images again", path.display()))
        })
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(value).map_err(|error| invalid(error.to_string()))?;
        // The lock of the index is held: there is one draft at a time.
        write_file(&self.root.join(format!("{name}.draft")), &self.root.join(name), &bytes)
    }

    pub(crate) fn write_blob(&self, digest: &Digest, bytes: &[u8]) -> Result<()> {
        write_file(&self.ingest_path(), &self.root.join("blobs").join(digest.hex()), bytes)
    }

    fn read_blob(&self, digest: &Digest) -> Result<Vec<u8>> {
        let path = self.root.join("blobs").join(digest.hex());
        let bytes = fs::read(&path).context(|| format!("read {}", path.display()))?;
        let actual = Digest::of(&bytes);
        if actual == *digest {
            return Ok(bytes);
        }
        Err(ImageError::Digest {
            what: path.display().to_string(),
            expected: digest.to_string(),
            actual: actual.to_string(),
        })
    }

    /// Writes everything that was unpacked to disk, before the index names it.
    pub(crate) fn sync(&self) -> Result<()> {
        let root = File::open(&self.root).context(|| self.what("open"))?;
        rustix::fs::syncfs(&root).context(|| self.what("sync"))
    }

    pub(crate) fn layer_facts(&self, chain: &Digest) -> Result<Option<LayerFacts>> {
        let path = self.layer(chain).join("layer.json");
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(|| format!("read {}", path.display())),
        }
    }

    /// The image of a record, complete.
    pub(crate) fn image(&self, name: &str, record: &Record) -> Result<Image> {
        let id = digest(&record.id)?;
        let config = Configuration::parse(&self.read_blob(&id)?)?.image_config();
        let (mut layers, mut bytes) = (Vec::new(), 0_u64);
        for chain in &record.layers {
            let chain = digest(chain)?;
            let facts = self
                .layer_facts(&chain)?
                .ok_or_else(|| invalid(format!("the layer {chain} of {name} is not there")))?;
            bytes = bytes.saturating_add(facts.bytes);
            layers.push(self.layer_root(&chain));
        }
        Ok(Image {
            id: record.id.clone(),
            name: name.to_owned(),
            repo_digest: record.repo_digest.clone(),
            config,
            layers,
            is_opaque: false,
            bytes,
        })
    }

    /// Remembers that an image was asked for.
    pub(crate) fn touch(&self, id: &str) -> Result<()> {
        let path = self.root.join("used").join(digest(id)?.hex());
        File::create(&path).context(|| format!("write {}", path.display()))?;
        Ok(())
    }

    pub(crate) fn last_used(&self, id: &str) -> Option<std::time::SystemTime> {
        let path = self.root.join("used").join(Digest::parse(id)?.hex());
        fs::metadata(path).ok()?.modified().ok()
    }

    /// Removes what no name leads to. Answers the bytes of layers that went.
    pub(crate) fn sweep(&self, _alone: &Lock) -> Result<u64> {
        let index = self.index()?;
        let keep_layers: BTreeSet<&str> =
            index.names.values().flat_map(|record| &record.layers).filter_map(|chain| hex(chain)).collect();
        let keep_images: BTreeSet<&str> = index.names.values().filter_map(|record| hex(&record.id)).collect();
        let mut freed = 0;
        for name in self.names("layers")? {
            if keep_layers.contains(name.as_str()) {
                continue;
            }
            if let Some(chain) = Digest::parse(&format!("sha256:{name}")) {
                freed += self.layer_facts(&chain)?.map_or(0, |facts| facts.bytes);
            }
            self.remove_tree(&self.root.join("layers").join(name))?;
        }
        for folder in ["blobs", "used"] {
            for name in self.names(folder)?.into_iter().filter(|name| !keep_images.contains(name.as_str())) {
                self.remove_tree(&self.root.join(folder).join(name))?;
            }
        }
        for name in self.names("ingest")? {
            self.remove_tree(&self.root.join("ingest").join(name))?;
        }
        Ok(freed)
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.root.join(folder);
        let what = || format!("list {}", path.display());
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).context(what)? {
            names.push(entry.context(what)?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// A layer first goes out of its place in one step, so that half of it never counts.
    pub(crate) fn remove_tree(&self, path: &Path) -> Result<()> {
        let what = || format!("remove {}", path.display());
        let gone = |error: &std::io::Error| error.kind() == ErrorKind::NotFound;
        let aside = self.ingest_path();
        match fs::rename(path, &aside) {
            Ok(()) => {}
            Err(error) if gone(&error) => return Ok(()),
            Err(error) => return Err(error).context(what),
        }
        let is_directory = fs::symlink_metadata(&aside).context(what)?.is_dir();
        if !is_directory {
            return fs::remove_file(&aside).context(what);
        }
        if !rustix::process::geteuid().is_root() {
            make_writable(&aside).context(what)?;
        }
        fs::remove_dir_all(&aside).context(what)
    }
}

/// Writes a file wholly or not at all, and durably.
fn write_file(draft: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let what = || format!("write {}", path.display());
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(draft).context(what)?;
    file.write_all(bytes).context(what)?;
    file.sync_all().context(what)?;
    fs::rename(draft, path).context(what)?;
    let folder = path.parent().unwrap_or(path);
    File::open(folder).and_then(|folder| folder.sync_all()).context(what)
}

/// Without root, read-only directories of a layer cannot be emptied.
fn make_writable(directory: &Path) -> std::io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

fn digest(text: &str) -> Result<Digest> {
    Digest::parse(text).ok_or_else(|| invalid(format!("the index has a wrong digest: {text:?}")))
}

fn hex(text: &str) -> Option<&str> {
    text.strip_prefix("sha256:")
}
