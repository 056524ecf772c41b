//! An image's layers with a writable one on top.

use std::{
    ffi::CString,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::CWD,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
        fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount, move_mount, unmount,
    },
};

/// Bytes of a mount's options: the kernel takes one page.
const OPTIONS_BYTES_MAX: usize = 4_000;
/// Layers of an image, as the kernel's overlayfs has them at most.
const LAYERS_MAX: usize = 500;

/// Where overlayfs notes what was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attributes {
    /// In attributes that only root can set.
    Trusted,
    /// In attributes that any user can set, as in a user namespace.
    User,
}

/// Mounts layers, the topmost first, with `upper` on top at `target`. All of them are made.
pub(crate) fn mount_layers(
    layers: &[PathBuf],
    upper: &Path,
    work: &Path,
    target: &Path,
    attributes: Attributes,
) -> io::Result<()> {
    if layers.is_empty() || layers.len() > LAYERS_MAX {
        return Err(io::Error::other(format!("{} layers, 1 to {LAYERS_MAX} are possible", layers.len())));
    }
    for directory in [upper, work, target] {
        fs::create_dir_all(directory)?;
    }
    // A container's users look at `/` through this directory's mode.
    let mode = fs::metadata(&layers[0])?.permissions();
    fs::set_permissions(upper, mode)?;
    let mut options = options(layers, upper, work);
    if attributes == Attributes::User {
        options.extend_from_slice(b",userxattr");
    }
    if options.len() <= OPTIONS_BYTES_MAX {
        let options = CString::new(options).map_err(|_| io::Error::other("a path has a zero byte"))?;
        return Ok(mount("overlay", target, "overlay", MountFlags::empty(), options.as_c_str())?);
    }
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for layer in layers {
        fsconfig_set_string(&context, "lowerdir+", layer)?;
    }
    if attributes == Attributes::User {
        fsconfig_set_flag(&context, "userxattr")?;
    }
    fsconfig_set_string(&context, "upperdir", upper)?;
    fsconfig_set_string(&context, "workdir", work)?;
    fsconfig_create(&context)?;
    let mounted = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(move_mount(&mounted, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn options(layers: &[PathBuf], upper: &Path, work: &Path) -> Vec<u8> {
    let mut options = b"lowerdir=".to_vec();
    for (at, layer) in layers.iter().enumerate() {
        if at > 0 {
            options.push(b':');
        }
        escape(layer, &mut options);
    }
    for (name, path) in [(&b",upperdir="[..], upper), (b",workdir=", work)] {
        options.extend_from_slice(name);
        escape(path, &mut options);
    }
    options
}

/// A colon ends a layer and a comma an option, unless a backslash stands before it.
fn escape(path: &Path, options: &mut Vec<u8>) {
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b':' | b',' | b'\\') {
            options.push(b'\\');
        }
        options.push(*byte);
    }
}

/// Unmounts what is at a path, several times if need be; nothing there is no error.
pub(crate) fn unmount_all(target: &Path) -> io::Result<()> {
    // Nothing is mounted twice at one place; the limit ends a loop that would have no end.
    for _ in 0..8 {
        match unmount(target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_in_paths_are_escaped() {
        let bytes = options(&["/a:b".into(), "/c".into()], Path::new("/u,p"), Path::new("/w\\"));
        assert_eq!(bytes, br"lowerdir=/a\:b:/c,upperdir=/u\,p,workdir=/w\\");
    }
}
