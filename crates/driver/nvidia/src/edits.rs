//! CDI edits for a container with a GPU.

use lazaret_cdi::{ContainerEdits, DeviceNode, Mount};

use crate::host::{Host, Node};

/// Where the dynamic linkers of Debian's and of Fedora's families look without being told. Libraries are mounted under each
/// name that programs ask for, so that no cache must be rebuilt inside of the container and no variable set.
#[cfg(target_arch = "aarch64")]
const LINKER_DIRECTORIES: &[&str] = &["/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
/// As above.
#[cfg(not(target_arch = "aarch64"))]
const LINKER_DIRECTORIES: &[&str] = &["/usr/lib/x86_64-linux-gnu", "/usr/lib64"];
/// NVIDIA's container runtime must not add what it thinks right.
const NO_SECOND_HAND: &str = "NVIDIA_VISIBLE_DEVICES=void";

/// For a container with any GPU, once.
pub(crate) fn common(host: &Host, version: &str) -> ContainerEdits {
    let mut mounts = Vec::new();
    for library in host.libraries(version) {
        for directory in LINKER_DIRECTORIES {
            for name in &library.names {
                mounts.push(mount(&library.path.to_string_lossy(), format!("{directory}/{name}")));
            }
        }
    }
    for program in host.programs() {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        mounts.push(mount(&program.to_string_lossy(), format!("/usr/bin/{name}")));
    }
    ContainerEdits {
        env: vec![NO_SECOND_HAND.into()],
        device_nodes: host.common_nodes().iter().map(node).collect(),
        mounts,
        ..ContainerEdits::default()
    }
}

/// For a container with one GPU or partition.
pub(crate) fn device(nodes: &[Node]) -> ContainerEdits {
    ContainerEdits { device_nodes: nodes.iter().map(node).collect(), ..ContainerEdits::default() }
}

fn node(node: &Node) -> DeviceNode {
    let (major, minor) = node.numbers;
    DeviceNode {
        path: node.path.clone(),
        kind: "c".into(),
        major: major.into(),
        minor: minor.into(),
        file_mode: Some(0o666),
        permissions: "rw".into(),
        ..DeviceNode::default()
    }
}

fn mount(host_path: &str, container_path: String) -> Mount {
    let options = ["ro", "nosuid", "nodev", "rbind", "rprivate"].map(str::to_owned).to_vec();
    Mount { host_path: host_path.to_owned(), container_path, options, kind: String::new() }
}
