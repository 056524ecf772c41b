//! Where a runtime keeps what, and how its files are written.
//!
//! ```text
//! STATE/instance, lock                which state this is, and that a runtime has it
//! STATE/oci                           what runc knows (--root)
//! STATE/sandboxes/UID/sandbox.json    a sandbox is there when this is
//!                     ns/KIND         its namespaces, mounted
//!                     shm             what its containers have at /dev/shm
//!                     containers/NAME-ATTEMPT/container.json    a container is there when this is
//!                                             lock, socket      its shim
//!                                             process.json, started.json, exit.json
//!                                             bundle/config.json, bundle/rootfs, upper, work
//! ```

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Key, RuntimeError};

/// Bytes of one of our own files. The largest is a container's spec with its environment.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Characters of a UID or a name; both are parts of a file's name.
const NAME_CHARS_MAX: usize = 128;

/// The directory of a sandbox.
#[derive(Clone, Debug)]
pub(crate) struct SandboxDir(pub(crate) PathBuf);

/// The directory of a container.
#[derive(Clone, Debug)]
pub(crate) struct ContainerDir(pub(crate) PathBuf);

impl SandboxDir {
    pub(crate) fn record(&self) -> PathBuf {
        self.0.join("sandbox.json")
    }

    /// The network that a pod is about to be attached to.
    pub(crate) fn network(&self) -> PathBuf {
        self.0.join("network.json")
    }

    /// Where a namespace is mounted: `net`, `ipc`, `uts`, `pid`.
    pub(crate) fn namespace(&self, kind: &str) -> PathBuf {
        self.0.join("ns").join(kind)
    }

    pub(crate) fn shm(&self) -> PathBuf {
        self.0.join("shm")
    }

    pub(crate) fn containers(&self) -> PathBuf {
        self.0.join("containers")
    }

    pub(crate) fn container(&self, key: &Key) -> ContainerDir {
        ContainerDir(self.containers().join(format!("{}-{}", key.name, key.attempt)))
    }
}

impl ContainerDir {
    pub(crate) fn record(&self) -> PathBuf {
        self.0.join("container.json")
    }

    pub(crate) fn shim_spec(&self) -> PathBuf {
        self.0.join("shim.json")
    }

    pub(crate) fn bundle(&self) -> PathBuf {
        self.0.join("bundle")
    }

    pub(crate) fn rootfs(&self) -> PathBuf {
        self.0.join("bundle/rootfs")
    }

    /// Which process becomes the program: written before it does, where there is no control group to find it by.
    pub(crate) fn process(&self) -> PathBuf {
        self.0.join("process.json")
    }

    /// The container's writable layer over the layers of its image.
    pub(crate) fn upper(&self) -> PathBuf {
        self.0.join("upper")
    }

    pub(crate) fn started(&self) -> PathBuf {
        self.0.join("started.json")
    }

    pub(crate) fn exit(&self) -> PathBuf {
        self.0.join("exit.json")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }
}

/// The id of a container: what its key says, in characters that a file and runc can have.
pub(crate) fn container_id(key: &Key) -> String {
    format!("{}_{}_{}", key.pod_uid, key.name, key.attempt)
}

/// The UID, the name and the attempt of an id. Neither a UID nor a name has an underscore.
pub(crate) fn parse_container_id(id: &str) -> Option<Key> {
    let mut parts = id.splitn(3, '_');
    let (pod_uid, name, attempt) = (parts.next()?, parts.next()?, parts.next()?);
    let key = Key { pod_uid: pod_uid.into(), name: name.into(), attempt: attempt.parse().ok()? };
    (is_name(pod_uid) && is_name(name)).then_some(key)
}

/// Whether this can be part of a path and of an id.
pub(crate) fn is_name(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    (1..=NAME_CHARS_MAX).contains(&text.len()) && !text.starts_with(['.', '-']) && text.bytes().all(known)
}

/// Makes a directory that only its owner can look into.
pub(crate) fn private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Reads one of our files; none when it is not there.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RuntimeError> {
    let failed = |error: &dyn std::fmt::Display| RuntimeError::Failed(format!("{}: {error}", path.display()));
    let bytes = match read_bounded(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| failed(&error))
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, FILE_BYTES_MAX), &mut bytes)?;
    Ok(bytes)
}

/// Writes a file that is there wholly or not at all. It is private: a spec has secrets in its environment.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    drop(file);
    fs::rename(&temporary, path)
}

/// Takes the lock of a running process for as long as the file is kept, and writes its process id into it.
pub(crate) fn hold_lock(path: &Path) -> io::Result<File> {
    let mut file = File::options().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    file.set_len(0)?;
    file.write_all(std::process::id().to_string().as_bytes())?;
    Ok(file)
}

/// A lock that is held as long as this is there.
#[derive(Debug)]
pub(crate) struct StateLock {
    file: File,
}

impl Drop for StateLock {
    /// Closing the file is not enough: a process that is being started has it too until it executes its program.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Takes a lock that no other process holds.
pub(crate) fn try_lock(path: &Path) -> io::Result<Option<StateLock>> {
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(StateLock { file })),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Which state this is: an id that no other has, wherever it is mounted.
pub(crate) fn instance(state: &Path) -> Result<String, RuntimeError> {
    let path = state.join("instance");
    if let Some(id) = read::<String>(&path)?.filter(|id| is_name(id)) {
        return Ok(id);
    }
    let failed = |error: io::Error| RuntimeError::Failed(format!("{}: {error}", path.display()));
    let id = fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(failed)?.trim().to_owned();
    write(&path, &id).map_err(failed)?;
    Ok(id)
}

/// Whether a process holds this lock; none does when it has ended, however it did.
///
/// # Errors
/// When it cannot be found out: then a process may hold it.
pub(crate) fn is_held(path: &Path) -> io::Result<bool> {
    Ok(held(path)?.is_some())
}

/// The process that holds this lock, once it has said so.
///
/// # Errors
/// When it cannot be found out: then there may be one.
pub(crate) fn lock_holder(path: &Path) -> io::Result<Option<u32>> {
    let Some(mut file) = held(path)? else { return Ok(None) };
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let unknown = || io::Error::other(format!("{}: it is held, and does not say by whom", path.display()));
    text.parse().map(Some).map_err(|_| unknown())
}

/// The file of a lock that a process holds.
fn held(path: &Path) -> io::Result<Option<File>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(Some(file)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_which_container_it_is() {
        let key = Key { pod_uid: "a-1".into(), name: "main".into(), attempt: 3 };
        assert_eq!(container_id(&key), "a-1_main_3");
        assert_eq!(parse_container_id("a-1_main_3"), Some(key));
        for id in ["", "a", "a_b", "a_b_c", "../x_b_1", "a_.._1", "_b_1", "a_b_-1"] {
            assert_eq!(parse_container_id(id), None, "{id}");
        }
    }

    #[test]
    fn a_name_is_one_part_of_a_path() {
        assert!(is_name("0f3c-9.x"));
        for name in ["", ".", "..", "a/b", "a_b", "-a", "a b", "a\0", &"x".repeat(129)] {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn a_lock_ends_with_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert_eq!((lock_holder(&path).unwrap(), is_held(&path).unwrap()), (None, false));
        let held = hold_lock(&path).unwrap();
        assert_eq!(lock_holder(&path).unwrap(), Some(std::process::id()));
        drop(held);
        // A process that another test starts has every open file until it executes its program.
        flock(File::open(&path).unwrap(), FlockOperation::LockShared).unwrap();
        assert_eq!(lock_holder(&path).unwrap(), None);
    }

    #[test]
    fn a_lock_that_cannot_be_looked_at_is_not_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, "").unwrap();
        // A path through a file is one that cannot be opened, and is not absent.
        assert!(is_held(&path.join("lock")).is_err() && lock_holder(&path.join("lock")).is_err());
        // Its holder is about to write who it is.
        let held = File::open(&path).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        assert!(is_held(&path).unwrap());
        assert!(lock_holder(&path).is_err());
        flock(&held, FlockOperation::Unlock).unwrap();
    }
}
