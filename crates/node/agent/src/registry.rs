//! Looks for registration sockets: at once when the directory changes, and every few seconds in any case.

use std::{
    collections::BTreeMap,
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use lazaret_node::{Input, SOCKETS_MAX, SocketId};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::{io::unix::AsyncFd, sync::mpsc};
use tracing::{debug, warn};

/// Nothing may be missed for longer than this, whatever the kernel says.
const RESCAN_EVERY: Duration = Duration::from_secs(5);
/// And without the kernel's help.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Events that come within this time are one: a socket is made and then its permissions are set.
const SETTLE: Duration = Duration::from_millis(5);
/// Directories below the registration directory, and files in all of them, that are looked at.
const DEPTH_MAX: usize = 4;
const FILES_MAX: usize = 4 * SOCKETS_MAX;

/// Tells which sockets there are, whenever that has changed.
pub(crate) async fn follow(registry: PathBuf, news: mpsc::Sender<Input>) {
    let kernel = match watch(&registry) {
        Ok(kernel) => Some(kernel),
        Err(error) => {
            warn!(%error, "the registration directory is polled");
            None
        }
    };
    let mut before = None;
    loop {
        let (sockets, folders) = scan(&registry);
        if let Some(kernel) = &kernel {
            // A directory that is watched already stays so.
            for folder in &folders {
                if let Err(error) = inotify::add_watch(kernel.get_ref(), folder, wanted()) {
                    debug!(%error, folder = %folder.display(), "watch a directory");
                }
            }
        }
        if before.as_ref() != Some(&sockets) {
            before = Some(sockets.clone());
            if news.send(Input::Sockets(sockets)).await.is_err() {
                return;
            }
        }
        match &kernel {
            Some(kernel) => {
                let _ = tokio::time::timeout(RESCAN_EVERY, changed(kernel)).await;
                tokio::time::sleep(SETTLE).await;
            }
            None => tokio::time::sleep(POLL_EVERY).await,
        }
    }
}

fn wanted() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::ONLYDIR
}

#[allow(deprecated, reason = "what replaces it is unsafe; an owned descriptor is not closed by anybody else")]
fn watch(registry: &Path) -> io::Result<AsyncFd<OwnedFd>> {
    let kernel = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    inotify::add_watch(&kernel, registry, wanted())?;
    AsyncFd::new(kernel)
}

/// Waits until a directory has changed. The change itself is dropped: everything is listed again.
async fn changed(kernel: &AsyncFd<OwnedFd>) -> io::Result<()> {
    loop {
        let mut guard = kernel.readable().await?;
        let mut events = [0_u8; 4_096];
        let read = guard.try_io(|kernel| Ok(rustix::io::read(kernel.get_ref(), &mut events)?));
        match read {
            Ok(read) => return read.map(drop),
            Err(_would_block) => continue,
        }
    }
}

/// The sockets that there are, and the directories.
fn scan(registry: &Path) -> (BTreeMap<String, SocketId>, Vec<PathBuf>) {
    let (mut sockets, mut folders, mut files) = (BTreeMap::new(), vec![(registry.to_owned(), 0)], 0);
    let mut next = 0;
    while let Some((folder, depth)) = folders.get(next).cloned() {
        next += 1;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            files += 1;
            if files > FILES_MAX {
                break;
            }
            let is_hidden = entry.file_name().as_encoded_bytes().first() == Some(&b'.');
            let (path, Ok(found)) = (entry.path(), fs::metadata(entry.path())) else { continue };
            if found.is_dir() && !is_hidden && depth < DEPTH_MAX {
                folders.push((path, depth + 1));
            } else if found.file_type().is_socket() && !is_hidden {
                // Not the time of the last change: permissions are set after a socket is made.
                let changed_ns =
                    found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
                let id = SocketId { device: found.dev(), inode: found.ino(), changed_ns };
                if let Some(path) = path.to_str().filter(|_| sockets.len() < SOCKETS_MAX) {
                    sockets.insert(path.to_owned(), id);
                }
            }
        }
    }
    (sockets, folders.into_iter().map(|(folder, _)| folder).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn sockets_are_found_in_directories_and_files_and_hidden_ones_are_not() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("file.sock"), "").unwrap();
        let sockets = ["top.sock", "a/b/deep.sock", ".hidden.sock"]
            .map(|name| UnixListener::bind(root.path().join(name)).unwrap());
        let (found, folders) = scan(root.path());
        let names: Vec<&str> = found.keys().map(|path| path.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["deep.sock", "top.sock"]);
        assert_eq!(folders.len(), 3);
        drop(sockets);
        let again = scan(root.path()).0;
        assert_eq!(found, again, "a socket that nobody listens on is there");
        fs::remove_file(root.path().join("top.sock")).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let _socket = UnixListener::bind(root.path().join("top.sock")).unwrap();
        assert_ne!(found, scan(root.path()).0, "another socket at the same path");
    }
}
