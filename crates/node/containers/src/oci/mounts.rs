//! The mounts of a container.

use std::path::Path;

use serde_json::{Value, json};

use crate::{ContainerSpec, Mount, Propagation};

/// All mounts: those that every container has, then the caller's. Where both have one, the caller's wins.
pub(super) fn of(spec: &ContainerSpec, shm: Option<&Path>) -> Vec<Value> {
    let taken = |target: &str| spec.mounts.iter().any(|mount| mount.target == Path::new(target));
    let mut all: Vec<Value> = common(spec.security.privileged);
    if let Some(shm) = shm {
        let options = ["rbind", "rprivate", "nosuid", "nodev", "noexec"];
        all.push(json!({"destination": "/dev/shm", "type": "bind", "source": shm, "options": options}));
    }
    all.retain(|mount| !taken(mount["destination"].as_str().unwrap_or_default()));
    all.extend(spec.mounts.iter().map(one));
    all
}

fn common(privileged: bool) -> Vec<Value> {
    let system = if privileged { "rw" } else { "ro" };
    let mount = |target: &str, kind: &str, source: &str, options: &[&str]| json!({"destination": target, "type": kind, "source": source, "options": options});
    vec![
        mount("/proc", "proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount("/dev", "tmpfs", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount(
            "/dev/pts",
            "devpts",
            "devpts",
            &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        ),
        mount("/dev/mqueue", "mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        mount("/sys", "sysfs", "sysfs", &["nosuid", "noexec", "nodev", system]),
        mount("/sys/fs/cgroup", "cgroup", "cgroup", &["nosuid", "noexec", "nodev", "relatime", system]),
    ]
}

fn one(mount: &Mount) -> Value {
    let access = if mount.read_only { "ro" } else { "rw" };
    if let Some(bytes) = mount.tmpfs {
        let size = format!("size={bytes}");
        let options = ["nosuid", "nodev", "mode=1777", access, &size];
        return json!({"destination": mount.target, "type": "tmpfs", "source": "tmpfs", "options": options});
    }
    let propagation = match mount.propagation {
        Propagation::Private => "rprivate",
        Propagation::FromHost => "rslave",
        Propagation::Both => "rshared",
    };
    let options = ["rbind", propagation, access];
    json!({"destination": mount.target, "type": "bind", "source": mount.source, "options": options})
}
