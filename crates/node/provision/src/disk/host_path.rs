//! Paths of the host.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt},
    path::Path,
};

use crate::names;

/// Checks that a path of the host is of the type that the pod names, and makes it where the type says so.
pub(crate) fn check(path: &str, kind: Option<&str>) -> Result<(), String> {
    if names::has_backsteps(path) {
        return Err(format!("invalid HostPath `{path}`: must not contain '..'"));
    }
    if !path.starts_with('/') || path.contains('\0') {
        return Err(format!("invalid HostPath `{path}`: must be an absolute path"));
    }
    let at = Path::new(path);
    let exists = fs::metadata(at).is_ok();
    let made = match kind.unwrap_or_default() {
        // Runtimes make what is not there.
        "" | "DirectoryOrCreate" if !exists => fs::DirBuilder::new().recursive(true).mode(0o755).create(at),
        "FileOrCreate" if !exists => {
            OpenOptions::new().write(true).create_new(true).mode(0o644).open(at).map(drop)
        }
        "" => return Ok(()),
        "Directory" | "DirectoryOrCreate" => return expect(path, "directory", fs::FileType::is_dir),
        "File" | "FileOrCreate" => return expect(path, "file", fs::FileType::is_file),
        "Socket" => return expect(path, "socket file", fs::FileType::is_socket),
        "CharDevice" => return expect(path, "character device", fs::FileType::is_char_device),
        "BlockDevice" => return expect(path, "block device", fs::FileType::is_block_device),
        other => return Err(format!("{other} is an invalid volume type")),
    };
    made.map_err(|error| format!("make {path}: {error}"))
}

fn expect(path: &str, expected: &str, is: fn(&fs::FileType) -> bool) -> Result<(), String> {
    let kind = fs::metadata(path).map(|metadata| metadata.file_type()).map_err(|error| {
        format!(
            "hostPath type check failed, {path} is not a {expected}, unable to determine its type: {error}"
        )
    })?;
    if is(&kind) {
        return Ok(());
    }
    let found = match () {
        () if kind.is_dir() => "Directory",
        () if kind.is_file() => "File",
        () if kind.is_socket() => "Socket",
        () if kind.is_char_device() => "CharDevice",
        () if kind.is_block_device() => "BlockDevice",
        () => "file of another type",
    };
    Err(format!("hostPath type check failed: {path} is not a {expected}, it's a {found}"))
}
