//! Mounts of this process' own namespace.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use crate::{overlay::unmount_all, tree};

/// Unmounts what is mounted at a path; nothing there is no error.
pub(crate) fn unmount_at(path: &Path) -> io::Result<()> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let is_mounted = match statx(CWD, path, flags, StatxFlags::empty()) {
        // A kernel that does not say it is asked to unmount.
        Ok(found) if found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) => {
            found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
        }
        Ok(_) => true,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => false,
        Err(error) => return Err(error.into()),
    };
    if is_mounted { unmount_all(path) } else { Ok(()) }
}

/// Removes a directory recursively. File systems still mounted there are unmounted first: to find them, the table of all mounts of the
/// machine is read, which grows with every pod, so a caller that knows its mounts calls [`unmount_at`] before.
pub(crate) fn remove_directory(path: &Path) -> io::Result<()> {
    match tree::remove(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::CrossesDevices | io::ErrorKind::ResourceBusy) => {
            unmount_below(path)?;
            tree::remove(path)
        }
        removed => removed,
    }
}

/// Unmounts everything at and below a directory, the deepest first.
///
/// # Errors
/// When something stays mounted.
pub(crate) fn unmount_below(directory: &Path) -> io::Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let targets = table.lines().filter_map(target).filter(|target| target.starts_with(directory));
    let mut targets: Vec<PathBuf> = targets.map(Cow::into_owned).collect();
    targets.sort_by_key(|target| std::cmp::Reverse(target.as_os_str().len()));
    for target in targets {
        unmount_all(&target)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", target.display())))?;
    }
    Ok(())
}

/// The fifth field of a line; spaces and the like are written as octal numbers.
fn target(line: &str) -> Option<Cow<'_, Path>> {
    let field = line.split(' ').nth(4)?;
    if !field.contains('\\') {
        return Some(Path::new(OsStr::from_bytes(field.as_bytes())).into());
    }
    let (mut bytes, mut rest) = (Vec::new(), field.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let octal = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    Some(PathBuf::from(OsString::from_vec(bytes)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_unescaped() {
        assert_eq!(
            target("36 35 98:0 / /a\\040b\\134c rw - ext4 /dev/x rw"),
            Some(Path::new("/a b\\c").into())
        );
        assert_eq!(target("36 35 98:0 / /plain rw - ext4 /dev/x rw"), Some(Path::new("/plain").into()));
        assert_eq!(target("36 35"), None);
    }
}
