//! Mounts of this process' own namespace.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use crate::overlay::unmount_all;

/// Unmounts everything at and below a directory, the deepest first, so that what is removed afterwards is our own.
///
/// # Errors
/// When something stays mounted. Nothing below must be removed then.
pub(crate) fn unmount_below(directory: &Path) -> io::Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let mut targets: Vec<PathBuf> =
        table.lines().filter_map(target).filter(|target| target.starts_with(directory)).collect();
    targets.sort_by_key(|target| std::cmp::Reverse(target.as_os_str().len()));
    for target in targets {
        unmount_all(&target)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", target.display())))?;
    }
    Ok(())
}

/// The fifth field of a line; spaces and the like are written as octal numbers.
fn target(line: &str) -> Option<PathBuf> {
    let field = line.split(' ').nth(4)?;
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
    Some(OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_unescaped() {
        assert_eq!(target("36 35 98:0 / /a\\040b\\134c rw - ext4 /dev/x rw"), Some("/a b\\c".into()));
        assert_eq!(target("36 35"), None);
    }
}
