//! Images as volumes: their layers, one over the other, read-only.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    path::{Path, PathBuf},
};

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, mount_bind, mount_remount, move_mount, unmount,
};

use super::dir::Dir;

/// Mounts layers, the topmost first, over a directory.
pub(crate) fn mount(layers: &[PathBuf], over: &Dir) -> io::Result<()> {
    match layers {
        [] => Ok(()),
        [layer] => {
            let at = Path::new("/proc/self/fd").join(over.as_fd().as_raw_fd().to_string());
            let mounted = std::fs::read_link(&at)?;
            mount_bind(layer, &at)?;
            // A layer that could be written to is not left there.
            mount_remount(&mounted, MountFlags::BIND | MountFlags::RDONLY, c"").inspect_err(|_| {
                let _ = unmount(&mounted, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH);
            })?;
            Ok(())
        }
        layers => {
            let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
            for layer in layers {
                fsconfig_set_string(&context, "lowerdir+", layer)?;
            }
            fsconfig_create(&context)?;
            let mounted =
                fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            Ok(move_mount(&mounted, "", over, "", flags)?)
        }
    }
}
