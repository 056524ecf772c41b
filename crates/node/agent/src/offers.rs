//! A file for each pod: what a runtime would be given.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use lazaret_node::PodRef;
use serde::Serialize;

/// Bytes of a UID that becomes the name of a file.
const UID_BYTES_MAX: usize = 64;

#[derive(Serialize)]
struct Offer<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    /// CDI names by container.
    containers: &'a BTreeMap<String, Vec<String>>,
}

pub(crate) fn write(
    folder: &Path,
    pod: &PodRef,
    containers: &BTreeMap<String, Vec<String>>,
) -> io::Result<()> {
    let path = path(folder, &pod.uid).ok_or(io::ErrorKind::InvalidInput)?;
    let offer = Offer { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid, containers };
    // Not forced to disk: after a crash of the machine no container runs, and it is written anew.
    let beside = folder.join(format!(".{}.new", pod.uid));
    fs::write(&beside, serde_json::to_vec_pretty(&offer)?)?;
    fs::rename(beside, path)
}

pub(crate) fn remove(folder: &Path, pod_uid: &str) -> io::Result<()> {
    let Some(path) = path(folder, pod_uid) else { return Ok(()) };
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes files of pods that hold nothing, from a time before.
pub(crate) fn keep_only(folder: &Path, pods: &BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_known = path.file_stem().and_then(|name| name.to_str()).is_some_and(|uid| pods.contains(uid));
        if !is_known {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The UID is the server's: it is the name of a file only if it can be no other path.
fn path(folder: &Path, uid: &str) -> Option<PathBuf> {
    let is_plain = uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_short = !uid.is_empty() && uid.len() <= UID_BYTES_MAX;
    (is_plain && is_short).then(|| folder.join(format!("{uid}.json")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_that_is_a_path_is_no_file() {
        let root = tempfile::tempdir().unwrap();
        let pod = |uid: &str| PodRef { namespace: "n".into(), name: "p".into(), uid: uid.into() };
        let containers = BTreeMap::from([("c".to_owned(), vec!["v/c=x".to_owned()])]);
        for uid in ["../x", "", ".", "a/b", &"x".repeat(65)] {
            assert!(write(root.path(), &pod(uid), &containers).is_err(), "{uid}");
        }
        write(root.path(), &pod("a-1"), &containers).unwrap();
        write(root.path(), &pod("b"), &containers).unwrap();
        let text = fs::read_to_string(root.path().join("a-1.json")).unwrap();
        assert!(text.contains(r#""v/c=x""#), "{text}");
        keep_only(root.path(), &["b".to_owned()].into()).unwrap();
        assert!(!root.path().join("a-1.json").exists() && root.path().join("b.json").exists());
        remove(root.path(), "b").unwrap();
        remove(root.path(), "b").unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
