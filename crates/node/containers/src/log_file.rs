//! The log files of containers: who may read them, and where they really are.
//!
//! A container may have the directory of the logs mounted, and put a link in the place of a file. Neither the node, which reads logs for whoever may, nor the
//! process that writes them, may follow one: below the root of all logs (`ROOT/POD/CONTAINER/ATTEMPT.log`) nothing is a link.

use std::{
    fs::{DirBuilder, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Component, Path},
};

use rustix::{
    fd::OwnedFd,
    fs::{CWD, FileType, Mode, OFlags, fstat, open, openat},
};

/// Output may be a secret: of others, only those of the file's group read it.
const FILE_MODE: u32 = 0o640;
const DIRECTORY_MODE: u32 = 0o750;
/// Parts of a path below the root of all logs: the pod, the container, the file.
const PARTS_BELOW: usize = 3;

/// Opens a log file to read it.
///
/// # Errors
/// When there is none, or a link or something else is in its place.
pub fn open_log(path: &Path) -> io::Result<File> {
    // Not to wait for a writer, where somebody has put a pipe there.
    open_below(path, OFlags::RDONLY | OFlags::NONBLOCK)
}

/// Opens a log file to write at its end, and makes it if there is none.
///
/// # Errors
/// When it cannot be made, or a link or something else is in its place.
pub fn append_to_log(path: &Path) -> io::Result<File> {
    let file = open_below(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK)?;
    // One that is there may be of a version before, and a umask may have taken something away.
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

/// Makes a directory of logs, and those that it is in.
///
/// # Errors
/// When it cannot be made.
pub fn make_log_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

fn open_below(path: &Path, flags: OFlags) -> io::Result<File> {
    let mut below: Vec<Component<'_>> = path.components().rev().take(PARTS_BELOW).collect();
    if !below.iter().all(|part| matches!(part, Component::Normal(_))) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path of a log file has no file name"));
    }
    below.reverse();
    let root = path.ancestors().nth(below.len()).filter(|root| !root.as_os_str().is_empty());
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at: OwnedFd = match root {
        Some(root) => open(root, folder, Mode::empty())?,
        None => openat(CWD, ".", folder, Mode::empty())?,
    };
    let Some((file, folders)) = below.split_last() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path of a log file is empty"));
    };
    for name in folders {
        at = openat(&at, name.as_os_str(), folder | OFlags::NOFOLLOW, Mode::empty())?;
    }
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(&at, file.as_os_str(), flags, Mode::from_raw_mode(FILE_MODE))?;
    if FileType::from_raw_mode(fstat(&opened)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the log is not a regular file"));
    }
    Ok(File::from(opened))
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _, os::unix::fs::symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn logs_are_not_for_everybody() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("logs/ns_pod_uid/main");
        make_log_directory(&folder).unwrap();
        let log = folder.join("0.log");
        append_to_log(&log).unwrap().write_all(b"text").unwrap();
        for made in [&folder, folder.parent().unwrap(), &root.path().join("logs")] {
            assert_eq!(mode(made) & 0o027, 0, "{}", made.display());
        }
        assert_eq!(mode(&log), 0o640);
        // Of a version before.
        fs::set_permissions(&log, Permissions::from_mode(0o644)).unwrap();
        append_to_log(&log).unwrap();
        assert_eq!(mode(&log), 0o640);
        assert_eq!(io::read_to_string(open_log(&log).unwrap()).unwrap(), "text");
    }

    /// A container that has the logs mounted puts links where the log is, its directory, and that of its pod.
    #[test]
    fn links_in_the_place_of_logs_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let secret = root.path().join("secret/a/b");
        fs::create_dir_all(&secret).unwrap();
        fs::write(secret.join("0.log"), "secret").unwrap();
        let rows = [("pod/main/0.log", "0.log"), ("pod/main", "."), ("pod", "..")];
        for (number, (link, target)) in rows.into_iter().enumerate() {
            let logs = root.path().join(number.to_string());
            let link = logs.join(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            // `pod` stands for `secret/a`, `main` below it for `b`.
            let target = if target == ".." { root.path().join("secret/a") } else { secret.join(target) };
            symlink(target, &link).unwrap();
            let log = if number == 2 { logs.join("pod/b/0.log") } else { logs.join("pod/main/0.log") };
            assert_eq!(fs::read_to_string(&log).unwrap(), "secret", "the link works");
            assert!(open_log(&log).is_err(), "{}", log.display());
            assert!(append_to_log(&log).is_err(), "{}", log.display());
        }
        assert!(open_log(&secret).is_err(), "a directory");
        assert!(open_log(Path::new("/")).is_err());
        assert_eq!(open_log(&secret.join("1.log")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
