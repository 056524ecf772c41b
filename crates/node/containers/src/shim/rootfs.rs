//! The root file system of a container without an OCI runtime. Every target is resolved inside of the root,
//! whatever links an image has there.

use std::{
    ffi::OsString,
    fs,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags, mkdirat, open, openat, openat2, readlinkat, symlinkat},
    io::Errno,
    mount::{MountFlags, mount, mount_bind, mount_bind_recursive, mount_remount},
    thread::{CapabilitySet, remove_capability_from_bounding_set},
};
use serde_json::Value;

use super::oci::Refused;

/// Nodes that every container has. They are the host's: only root can make any.
const NODES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
/// Links to nothing on the way to one target. The kernel follows 40 of those that lead somewhere.
const LINKS_MAX: usize = 40;
const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Mounts all but `/proc`, which only a process of its own namespace can mount.
pub(super) fn mount_entries(root: &Path, config: &Value) -> Result<(), Refused> {
    let root = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| format!("{}: {error}", root.display()))?;
    for entry in config["mounts"].as_array().into_iter().flatten() {
        let target = entry["destination"].as_str().unwrap_or_default();
        if entry["type"] == "proc" {
            continue;
        }
        one(&root, entry, target).map_err(|error| format!("mount {target}: {error}"))?;
        if target == "/dev" {
            nodes(&root).map_err(|error| format!("nodes of /dev: {error}"))?;
        }
    }
    for device in config["linux"]["devices"].as_array().into_iter().flatten() {
        let path = device["path"].as_str().unwrap_or_default();
        let bind = || -> std::io::Result<()> {
            Ok(mount_bind(host_node(device)?, at(&place(&root, Path::new(path), false)?))?)
        };
        bind().map_err(|error| format!("device {path}: {error}"))?;
    }
    Ok(())
}

fn one(root: &OwnedFd, entry: &Value, target: &str) -> std::io::Result<()> {
    let options: Vec<&str> =
        entry["options"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let has = |option: &str| options.contains(&option);
    let source = entry["source"].as_str().unwrap_or_default();
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::NOSUID, has("nosuid"));
    flags.set(MountFlags::NODEV, has("nodev"));
    flags.set(MountFlags::NOEXEC, has("noexec"));
    let kind = entry["type"].as_str().unwrap_or_default();
    match kind {
        // Nothing is limited by one.
        "cgroup" => Ok(()),
        "tmpfs" | "devpts" | "mqueue" | "sysfs" => {
            let known = ["nosuid", "nodev", "noexec", "strictatime", "relatime", "rw", "ro"];
            // A group of the host is not known in a user namespace.
            let data: Vec<&str> = options
                .iter()
                .copied()
                .filter(|option| !known.contains(option) && !option.starts_with("gid="))
                .collect();
            let data = std::ffi::CString::new(data.join(","))?;
            let place = place(root, Path::new(target), true)?;
            flags.set(MountFlags::RDONLY, has("ro"));
            match (mount(source, at(&place), kind, flags, data.as_c_str()), kind) {
                // Only the owner of the network or of the messages can mount these; the host's are then not writable.
                (Err(Errno::PERM), "sysfs") => bind(root, Path::new("/sys"), target, true),
                (Err(Errno::PERM), "mqueue") => bind(root, Path::new("/dev/mqueue"), target, false),
                (result, _) => Ok(result?),
            }
        }
        _ if kind == "bind" || has("bind") || has("rbind") => {
            bind(root, Path::new(source), target, has("ro"))
        }
        other => Err(std::io::Error::other(format!("file systems of type {other} are not supported"))),
    }
}

fn bind(root: &OwnedFd, source: &Path, target: &str, read_only: bool) -> std::io::Result<()> {
    let is_directory = fs::metadata(source)?.is_dir();
    let place = place(root, Path::new(target), is_directory)?;
    mount_bind_recursive(source, at(&place))?;
    if read_only {
        let place = self::place(root, Path::new(target), is_directory)?;
        // A user namespace cannot clear the flags of the mount below.
        let flags = MountFlags::BIND | MountFlags::RDONLY | kept_flags(&place)?;
        mount_remount(at(&place), flags, c"")?;
    }
    Ok(())
}

/// The flags of a mount that a remount must keep.
pub(super) fn kept_flags(place: impl std::os::fd::AsFd) -> std::io::Result<MountFlags> {
    use rustix::fs::StatVfsMountFlags as Found;
    let found = rustix::fs::fstatvfs(place)?.f_flag;
    let mut flags = MountFlags::empty();
    let pairs = [
        (Found::NOSUID, MountFlags::NOSUID),
        (Found::NODEV, MountFlags::NODEV),
        (Found::NOEXEC, MountFlags::NOEXEC),
        (Found::NOATIME, MountFlags::NOATIME),
        (Found::NODIRATIME, MountFlags::NODIRATIME),
        (Found::RELATIME, MountFlags::RELATIME),
    ];
    for (found_flag, flag) in pairs {
        flags.set(flag, found.contains(found_flag));
    }
    Ok(flags)
}

fn nodes(root: &OwnedFd) -> std::io::Result<()> {
    for name in NODES {
        let path = Path::new("/dev").join(name);
        mount_bind(&path, at(&place(root, &path, false)?))?;
    }
    let dev = place(root, Path::new("/dev"), true)?;
    for (name, target) in LINKS {
        symlinkat(*target, &dev, *name)?;
    }
    Ok(())
}

/// Where the host has a device.
fn host_node(device: &Value) -> std::io::Result<PathBuf> {
    let number = |name: &str| device[name].as_i64().unwrap_or(0);
    let folder = if device["type"] == "b" { "block" } else { "char" };
    let by_number = PathBuf::from(format!("/dev/{folder}/{}:{}", number("major"), number("minor")));
    if let Ok(path) = fs::canonicalize(&by_number) {
        return Ok(path);
    }
    let path = PathBuf::from(device["path"].as_str().unwrap_or_default());
    let found = lazaret_cdi::HostDevice::at(&path)?;
    if (found.major, found.minor) == (number("major"), number("minor")) {
        return Ok(path);
    }
    Err(std::io::Error::other("the host has no node of these numbers"))
}

/// `/proc` of the new process namespace, and what is hidden of it.
pub(super) fn mount_proc(root: &Path, config: &Value) -> Result<(), Refused> {
    let mount_all = || -> std::io::Result<()> {
        let root = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let proc = place(&root, Path::new("/proc"), true)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        match mount("proc", at(&proc), "proc", flags, None) {
            // The processes are the host's, and so is this.
            Err(Errno::PERM) if !has_own_processes(config) => mount_bind_recursive("/proc", at(&proc))?,
            result => result?,
        }
        for path in strings(&config["linux"]["readonlyPaths"]) {
            hide(&root, &path, Hide::Writes)?;
        }
        for path in strings(&config["linux"]["maskedPaths"]) {
            hide(&root, &path, Hide::All)?;
        }
        Ok(())
    };
    mount_all().map_err(|error| format!("mount /proc: {error}").into())
}

fn has_own_processes(config: &Value) -> bool {
    config["linux"]["namespaces"].as_array().into_iter().flatten().any(|space| space["type"] == "pid")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hide {
    Writes,
    All,
}

/// Hides a path; one that this kernel does not have needs none.
fn hide(root: &OwnedFd, path: &str, what: Hide) -> std::io::Result<()> {
    let find = || openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT);
    let place = match find() {
        Ok(place) => place,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let is_directory = fs::metadata(at(&place))?.is_dir();
    match what {
        Hide::Writes => {
            mount_bind_recursive(at(&place), at(&place))?;
            let place = find()?;
            let flags = MountFlags::BIND | MountFlags::RDONLY | kept_flags(&place)?;
            Ok(mount_remount(at(&place), flags, c"")?)
        }
        Hide::All if is_directory => Ok(mount("tmpfs", at(&place), "tmpfs", MountFlags::RDONLY, c"size=0k")?),
        Hide::All => Ok(mount_bind("/dev/null", at(&place))?),
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|entry| entry.as_str().map(str::to_owned)).collect()
}

/// The path by which an open file is mounted upon.
fn at(place: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", place.as_raw_fd()).into()
}

/// Finds or makes a directory or an empty file. Links lead to where they would in the container, never out of it.
fn place(root: &OwnedFd, target: &Path, is_directory: bool) -> std::io::Result<OwnedFd> {
    let mut target = target.to_owned();
    for _ in 0..LINKS_MAX {
        match place_or_link(root, &target, is_directory)? {
            Placed::Here(place) => return Ok(place),
            Placed::Link(next) => target = next,
        }
    }
    Err(Errno::LOOP.into())
}

enum Placed {
    Here(OwnedFd),
    /// A link to nothing was on the way: this is what it says.
    Link(PathBuf),
}

fn place_or_link(root: &OwnedFd, target: &Path, is_directory: bool) -> std::io::Result<Placed> {
    let find = |path: &Path| {
        openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)
    };
    let mut parent = openat(root, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut done = PathBuf::from(".");
    let is_step = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    let parts: Vec<_> = target.components().filter(is_step).collect();
    for (at, part) in parts.iter().enumerate() {
        let before = done.clone();
        done.push(part);
        parent = match find(&done) {
            Err(Errno::NOENT) => {
                if let Ok(link) = readlinkat(&parent, part.as_os_str(), Vec::new()) {
                    let link = PathBuf::from(OsString::from_vec(link.into_bytes()));
                    let mut next = if link.is_absolute() { link } else { before.join(link) };
                    next.extend(&parts[at + 1..]);
                    return Ok(Placed::Link(next));
                }
                if at + 1 == parts.len() && !is_directory {
                    let flags =
                        OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                    drop(openat(&parent, part.as_os_str(), flags, Mode::from_raw_mode(0o644))?);
                } else {
                    mkdirat(&parent, part.as_os_str(), Mode::from_raw_mode(0o755))?;
                }
                find(&done)?
            }
            found => found?,
        };
    }
    Ok(Placed::Here(parent))
}

/// Takes away every capability that a container does not have, for good.
pub(super) fn drop_capabilities(process: &Value) -> Result<(), Refused> {
    let kept = strings(&process["capabilities"]["bounding"]);
    for (name, capability) in CapabilitySet::all().iter_names() {
        let name = format!("CAP_{name}");
        if !kept.contains(&name) {
            match remove_capability_from_bounding_set(capability) {
                // One that this kernel does not know cannot be had.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(error) => return Err(format!("give up {name}: {error}").into()),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_never_leaves_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("absolute")).unwrap();
        std::os::unix::fs::symlink("../../outside", root.join("relative")).unwrap();
        let open_root = open(&root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for target in ["/absolute/x", "/relative/x", "/../../outside/x", "/a/../../outside/y"] {
            let made = place(&open_root, Path::new(target), true);
            if let Ok(made) = made {
                let real = fs::read_link(at(&made)).unwrap();
                assert!(real.starts_with(&root), "{target} is {}", real.display());
            }
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        let file = place(&open_root, Path::new("/etc/hosts"), false).unwrap();
        assert!(fs::metadata(at(&file)).unwrap().is_file());
    }
}
