//! Which device nodes a container has and may use.

use std::{fs, path::Path};

use lazaret_cdi::{HostDevice, HostDeviceKind};
use serde_json::{Value, json};

/// Nodes of the host that a privileged container gets. A machine has a few hundred.
const HOST_NODES_MAX: usize = 4_096;
/// Directories of `/dev` that are file systems of their own in a container.
const OWN_FILE_SYSTEMS: &[&str] = &["pts", "shm", "mqueue", "fd", "console"];

/// Device rules: all denied, but for those of every container. CDI's are added after these.
pub(super) fn rules(privileged: bool) -> Vec<Value> {
    if privileged {
        return vec![json!({"allow": true, "access": "rwm"})];
    }
    let mut rules = vec![json!({"allow": false, "access": "rwm"})];
    // A node that is made, and cannot be opened, does no harm.
    rules.extend(["c", "b"].map(|kind| json!({"allow": true, "type": kind, "access": "m"})));
    // null, zero, full, random, urandom, tty, console, ptmx, and pseudo-terminals.
    let common = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)];
    let allow = |major: i64, minor: i64| json!({"allow": true, "type": "c", "major": major, "minor": minor, "access": "rwm"});
    rules.extend(common.map(|(major, minor)| allow(major, minor)));
    rules.push(json!({"allow": true, "type": "c", "major": 136, "access": "rwm"}));
    rules
}

/// All device nodes of the host, for a privileged container.
pub(super) fn host_nodes() -> Vec<Value> {
    let mut nodes = Vec::new();
    collect(Path::new("/dev"), &mut nodes, 0);
    nodes
}

fn collect(directory: &Path, nodes: &mut Vec<Value>, depth: usize) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if nodes.len() >= HOST_NODES_MAX {
            return;
        }
        let (path, name) = (entry.path(), entry.file_name());
        if depth == 0 && OWN_FILE_SYSTEMS.iter().any(|own| name == *own) {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && depth < 4 {
            collect(&path, nodes, depth + 1);
        } else if let Ok(found) = HostDevice::at(&path)
            && found.kind != HostDeviceKind::Fifo
        {
            nodes.push(json!({
                "path": path,
                "type": found.kind.letter(),
                "major": found.major,
                "minor": found.minor,
                "fileMode": found.file_mode,
            }));
        }
    }
}
