//! Removes a container's leftovers, whatever they are. Includes the crate's own source: trees are removed only inside of it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../src/tree.rs"]
mod tree;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

/// Levels of one path, and paths one below the other. With one open file or one frame on the stack for each level, a process ends.
const LEVELS: usize = 500;
const PATHS: usize = 40;
/// More than are read at a time, twice.
const FILES: usize = 2_100;

/// In memory where that is possible: a disk takes a while for this many.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// From the deepest up: a path of all levels would be too long to name.
fn make_deep(top: &Path, next: &Path) {
    let chain = "d/".repeat(LEVELS);
    fs::create_dir_all(top.join(&chain)).unwrap();
    for _ in 1..PATHS {
        fs::create_dir_all(next.join(&chain)).unwrap();
        fs::rename(top, next.join(&chain).join("top")).unwrap();
        fs::rename(next, top).unwrap();
    }
}

#[test]
fn any_depth_and_any_number_go_and_nothing_that_a_link_leads_to() {
    let folder = folder();
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "").unwrap();
    let top = folder.path().join("top");
    make_deep(&top, &folder.path().join("next"));
    for number in 0..FILES {
        fs::write(top.join(number.to_string()), "").unwrap();
    }
    std::os::unix::fs::symlink(&outside, top.join("link")).unwrap();
    let closed = top.join("closed");
    fs::create_dir_all(closed.join("in")).unwrap();
    fs::write(closed.join("in/file"), "").unwrap();
    fs::set_permissions(closed.join("in"), fs::Permissions::from_mode(0o500)).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
    tree::remove(&top).unwrap();
    assert!(!top.exists() && outside.join("kept").exists());
    tree::remove(&top).unwrap();
}
