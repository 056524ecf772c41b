//! Where a volume is, and how it comes to be there.

use std::{
    ffi::CString,
    io,
    os::fd::{AsFd, AsRawFd},
    path::{Path, PathBuf},
};

use rustix::mount::{MountFlags, mount};

use super::{atomic, dir::Dir, image_volume, mount_table, payload::Payload};

const DIRECTORY_MODE: u32 = 0o750;
const NOTE_MODE: u32 = 0o640;
const IMAGE_NOTE: &str = ".image";
/// Everybody may use a volume, unless its group is set.
const VOLUME_MODE: u32 = 0o777;
/// Mode of a writable volume with a group: full access for the group, which also owns files created in it.
const GROUP_WRITES: u32 = 0o2770;
/// Mode of a read-only volume with a group.
const GROUP_READS: u32 = 0o2550;
/// A volume of secrets has two versions while it changes.
const SECRET_BYTES_MAX: u64 = 3 * super::payload::VOLUME_BYTES_MAX as u64;

/// Where the id of an image is noted that a volume of this name is made of: beside the volume, whose own name is a DNS label.
fn image_note(volume: &str) -> String {
    format!(".{volume}{IMAGE_NOTE}")
}

/// Whether a file beside volumes is such a note.
pub(crate) fn is_image_note(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(IMAGE_NOTE)
}

/// Where a volume is, and whose.
#[derive(Debug)]
pub(crate) struct Place {
    /// The directory of all pods.
    pub(crate) pods: PathBuf,
    pub(crate) uid: String,
    /// Below the pod's directory.
    pub(crate) volume: String,
    pub(crate) group: Option<u32>,
}

impl Place {
    /// Makes an empty directory, in memory when it has a size there.
    pub(crate) fn empty_dir(&self, mode: Option<i32>, memory: Option<u64>) -> Result<(), String> {
        match memory {
            None => self.make(GROUP_WRITES, mode).map(drop).map_err(|error| error.to_string()),
            Some(bytes) => self
                .mount_memory(bytes, GROUP_WRITES, mode)
                .map(drop)
                .map_err(|error| format!("mount tmpfs: {error}")),
        }
    }

    /// Mounts the layers of an image, unless some are mounted already. Its id is noted before that: a mounted image is not garbage.
    pub(crate) fn image(&self, id: &str, layers: &[PathBuf]) -> Result<(), String> {
        let mounted = || -> io::Result<()> {
            let dir = self.make(0, None)?;
            if self.is_mounted()? {
                return Ok(());
            }
            let (parent, name) = self.volume.rsplit_once('/').unwrap_or(("", &self.volume));
            let parent = Dir::open_path(&self.pods)?.open(&self.uid)?.open(parent)?;
            parent.write_in_place(&image_note(name), id.as_bytes(), NOTE_MODE)?;
            image_volume::mount(layers, &dir)
        };
        mounted().map_err(|error| format!("mount the image: {error}"))
    }

    /// Opens a volume that is written as one, and makes it. Secrets are in memory, and never on disk, where this process may mount it.
    pub(crate) fn make_written(&self, in_memory: bool) -> io::Result<Dir> {
        if !in_memory {
            return self.make(GROUP_READS, None);
        }
        match self.mount_memory(SECRET_BYTES_MAX, GROUP_READS, None) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(volume = self.volume, "secrets are kept on disk: memory cannot be mounted");
                self.make(GROUP_READS, None)
            }
            mounted => mounted,
        }
    }

    /// Brings a volume that is written as one to this content. `nested` are directories for what is mounted in it.
    pub(crate) fn write(
        &self,
        dir: &Dir,
        payload: &Payload,
        nested: &[String],
        stamp: &str,
    ) -> Result<(), String> {
        for path in nested {
            dir.make_all(path, 0o755)
                .map_err(|error| format!("unable to create nested volume mountpoints: {error}"))?;
        }
        atomic::write(dir, payload, self.group, stamp).map(drop).map_err(|error| error.to_string())
    }

    pub(crate) fn open(&self) -> io::Result<Dir> {
        Dir::open_path(&self.pods)?.open(&self.uid)?.open(&self.volume)
    }

    /// Opens the directory, and makes it if need be. `for_group` is what its group gets.
    fn make(&self, for_group: u32, mode: Option<i32>) -> io::Result<Dir> {
        match self.open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let pod = Dir::open_path(&self.pods)?.make(&self.uid, DIRECTORY_MODE)?;
        let (parent, name) = self.volume.rsplit_once('/').unwrap_or(("", &self.volume));
        let parent = pod.make_all(parent, DIRECTORY_MODE)?;
        // It gets its name when it is complete: a volume by that name is complete.
        let new = format!(".{name}.new");
        let dir = parent.make(&new, VOLUME_MODE)?;
        dir.set_owner(None, self.group)?;
        dir.set_mode(self.mode(for_group, mode))?;
        parent.rename(&new, name)?;
        Ok(dir)
    }

    fn mode(&self, for_group: u32, mode: Option<i32>) -> u32 {
        let mode = mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(VOLUME_MODE) & 0o7777;
        if self.group.is_some() { mode | for_group } else { mode }
    }

    fn is_mounted(&self) -> io::Result<bool> {
        mount_table::is_mounted(&self.pods.join(&self.uid).join(&self.volume))
    }

    /// Mounts memory of this size there, unless it is already; with 0 the kernel decides. Answers the directory in it.
    fn mount_memory(&self, bytes: u64, for_group: u32, mode: Option<i32>) -> io::Result<Dir> {
        let dir = self.make(for_group, mode)?;
        if self.is_mounted()? {
            return self.open();
        }
        let mut options = format!("mode={:o}", self.mode(for_group, mode));
        if bytes > 0 {
            options.push_str(&format!(",size={bytes}"));
        }
        if let Some(group) = self.group {
            options.push_str(&format!(",gid={group}"));
        }
        let options = CString::new(options)?;
        let at = Path::new("/proc/self/fd").join(dir.as_fd().as_raw_fd().to_string());
        mount("tmpfs", &at, "tmpfs", MountFlags::empty(), options.as_c_str())?;
        self.open()
    }
}
