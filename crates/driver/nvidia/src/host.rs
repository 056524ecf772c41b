//! The host's files for containers: libraries, programs, device nodes. Layouts differ; nothing but the files is asked.

use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Where libraries of the driver may be.
const LIBRARY_DIRECTORIES: &[&str] = &[
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "lib64",
    "usr/lib",
    "lib",
    "usr/local/nvidia/lib64",
    "usr/local/nvidia/lib",
    "usr/local/lib",
];
/// Where programs of the driver may be.
const PROGRAM_DIRECTORIES: &[&str] = &["usr/bin", "bin", "usr/local/bin", "usr/local/nvidia/bin", "usr/sbin"];
const SMI: &str = "nvidia-smi";
/// Programs that containers get.
const PROGRAMS: &[&str] =
    &[SMI, "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"];
/// Device nodes that every container with a GPU needs, if they are there.
const COMMON_NODES: &[&str] =
    &["dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-uvm-tools", "dev/nvidia-modeset"];
/// Libraries of one driver. More are not mounted.
const LIBRARIES_MAX: usize = 256;

/// A host, seen from its root directory.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

/// A library with the names under which programs look for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The file.
    pub path: PathBuf,
    /// `libcuda.so.580.159.04`, `libcuda.so.1`, `libcuda.so`.
    pub names: Vec<String>,
}

/// A device node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// In containers and on the host.
    pub path: String,
    /// Its numbers, major and minor.
    pub numbers: (u32, u32),
}

impl Host {
    /// The host whose root is here.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Libraries of this version of the driver: their files end with it.
    #[must_use]
    pub fn libraries(&self, version: &str) -> Vec<Library> {
        let ending = format!(".so.{version}");
        let mut found: BTreeMap<String, Library> = BTreeMap::new();
        for directory in LIBRARY_DIRECTORIES {
            let directory = self.root.join(directory);
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            let names: Vec<String> =
                entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
            for name in names.iter().filter(|name| name.ends_with(&ending)) {
                let path = directory.join(name);
                let known = found.contains_key(name) || found.len() >= LIBRARIES_MAX;
                if known || !path.is_file() {
                    continue;
                }
                let library = Library { names: links(&directory, &names, &path, name), path };
                found.insert(name.clone(), library);
            }
        }
        found.into_values().collect()
    }

    /// Programs of the driver.
    #[must_use]
    pub fn programs(&self) -> Vec<PathBuf> {
        let find = |name: &&str| {
            let mut places = PROGRAM_DIRECTORIES.iter().map(|directory| self.root.join(directory).join(name));
            places.find(|path| is_program(path))
        };
        PROGRAMS.iter().filter_map(find).collect()
    }

    /// `nvidia-smi`, to be run on the host: there a script that calls it does as well.
    #[must_use]
    pub fn nvidia_smi(&self) -> Option<PathBuf> {
        let places = || PROGRAM_DIRECTORIES.iter().map(|directory| self.root.join(directory).join(SMI));
        let is_executable =
            |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0);
        places().find(|path| is_program(path)).or_else(|| places().find(is_executable))
    }

    /// Device nodes that every container with a GPU needs.
    #[must_use]
    pub fn common_nodes(&self) -> Vec<Node> {
        COMMON_NODES.iter().filter_map(|path| self.node(path)).collect()
    }

    /// The device node of a card.
    #[must_use]
    pub fn card_node(&self, minor: u32) -> Option<Node> {
        self.node(&format!("dev/nvidia{minor}"))
    }

    /// The capability nodes that a container needs for a partition. They need not exist on the host: a runtime makes them from
    /// their numbers.
    ///
    /// # Errors
    /// When the driver does not say which they are.
    pub fn partition_nodes(
        &self,
        minor: u32,
        gpu_instance: u32,
        compute_instance: u32,
    ) -> Result<Vec<Node>, String> {
        let major = self.capability_major()?;
        let folder =
            self.root.join(format!("proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{gpu_instance}"));
        let files = [folder.join("access"), folder.join(format!("ci{compute_instance}/access"))];
        let node = |file: &PathBuf| {
            let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            let number =
                text.lines().find_map(|line| line.strip_prefix("DeviceFileMinor:")?.trim().parse().ok());
            let number: u32 = number.ok_or_else(|| format!("{} names no device", file.display()))?;
            Ok(Node { path: format!("/dev/nvidia-caps/nvidia-cap{number}"), numbers: (major, number) })
        };
        files.iter().map(node).collect()
    }

    fn capability_major(&self) -> Result<u32, String> {
        let file = self.root.join("proc/devices");
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let line = text.lines().find_map(|line| line.trim().strip_suffix(" nvidia-caps")?.parse().ok());
        line.ok_or_else(|| format!("{} has no nvidia-caps", file.display()))
    }

    /// Where a card is connected: `pci0000:00`.
    #[must_use]
    pub fn pcie_root(&self, address: &str) -> Option<String> {
        let link = fs::canonicalize(self.root.join("sys/bus/pci/devices").join(address)).ok()?;
        let mut parts = link.components().filter_map(|part| part.as_os_str().to_str());
        parts.find(|part| part.starts_with("pci") && part.contains(':')).map(str::to_owned)
    }

    /// The NUMA node that a card is nearest to. A machine with one says -1.
    #[must_use]
    pub fn numa_node(&self, address: &str) -> Option<i64> {
        let file = self.root.join("sys/bus/pci/devices").join(address).join("numa_node");
        fs::read_to_string(file).ok()?.trim().parse().ok().filter(|node| *node >= 0)
    }

    /// The machine's boot.
    #[must_use]
    pub fn boot(&self) -> String {
        let text = fs::read_to_string(self.root.join("proc/sys/kernel/random/boot_id"));
        text.unwrap_or_default().trim().to_owned()
    }

    fn node(&self, path: &str) -> Option<Node> {
        let meta = fs::metadata(self.root.join(path)).ok()?;
        let number = meta.rdev();
        // As glibc's gnu_dev_major and gnu_dev_minor.
        let major = (number >> 8 & 0xfff) | (number >> 32 & !0xfff);
        let minor = (number & 0xff) | (number >> 12 & !0xff);
        let numbers = (u32::try_from(major).ok()?, u32::try_from(minor).ok()?);
        Some(Node { path: format!("/{path}"), numbers })
    }
}

/// All names in a directory that lead to a file.
fn links(directory: &Path, names: &[String], path: &Path, own: &str) -> Vec<String> {
    let Ok(target) = fs::canonicalize(path) else { return vec![own.to_owned()] };
    let stem = own.split(".so.").next().unwrap_or(own);
    let same = |name: &&String| {
        name.starts_with(stem)
            && name.contains(".so")
            && fs::canonicalize(directory.join(name)).is_ok_and(|to| to == target)
    };
    let mut found: Vec<String> = names.iter().filter(same).cloned().collect();
    // The name that programs ask for, where no link was made at all.
    if found.len() < 2 {
        found.push(format!("{stem}.so.1"));
    }
    found.sort();
    found
}

/// Whether a file is a program of its own. A script in its place calls others, which a container does not have.
fn is_program(path: &Path) -> bool {
    const ELF: [u8; 4] = *b"\x7fELF";
    let mut start = [0; ELF.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == ELF
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn libraries_are_found_in_any_layout_with_all_their_names() {
        let root = tempfile::tempdir().unwrap();
        let lib = root.path().join("usr/local/nvidia/lib64");
        fs::create_dir_all(&lib).unwrap();
        fs::write(lib.join("libcuda.so.580.1"), "x").unwrap();
        symlink("libcuda.so.580.1", lib.join("libcuda.so.1")).unwrap();
        symlink("libcuda.so.1", lib.join("libcuda.so")).unwrap();
        fs::write(lib.join("libcudart.so.12"), "x").unwrap();
        fs::write(lib.join("libnvidia-ml.so.580.1"), "x").unwrap();
        fs::write(lib.join("libcuda.so.570.9"), "another version").unwrap();
        let found = Host::at(root.path()).libraries("580.1");
        let names: Vec<Vec<String>> = found.into_iter().map(|library| library.names).collect();
        assert_eq!(
            names,
            [
                vec!["libcuda.so", "libcuda.so.1", "libcuda.so.580.1"],
                vec!["libnvidia-ml.so.1", "libnvidia-ml.so.580.1"]
            ]
        );
        assert!(Host::at(root.path()).libraries("1.2").is_empty());
    }

    #[test]
    fn a_script_that_calls_a_program_is_not_taken_for_it() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            path
        };
        write("usr/bin/nvidia-smi", "#!/bin/sh\nexec /usr/local/nvidia/bin/nvidia-smi \"$@\"\n");
        let program = write("usr/local/nvidia/bin/nvidia-smi", "\x7fELF and more");
        write("usr/bin/nvidia-debugdump", "");
        assert_eq!(Host::at(root.path()).programs(), [program]);
    }

    #[test]
    fn capability_nodes_are_those_that_the_driver_names() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("proc/driver/nvidia/capabilities/gpu0/mig/gi3/ci0");
        fs::create_dir_all(&folder).unwrap();
        fs::write(root.path().join("proc/devices"), "Character devices:\n195 nvidia\n236 nvidia-caps\n")
            .unwrap();
        let host = Host::at(root.path());
        assert!(host.partition_nodes(0, 3, 0).is_err());
        fs::write(folder.join("access"), "DeviceFileMinor: 31\nDeviceFileMode: 292\n").unwrap();
        fs::write(folder.parent().unwrap().join("access"), "DeviceFileMinor: 30\n").unwrap();
        let nodes = host.partition_nodes(0, 3, 0).unwrap();
        assert_eq!(nodes[0], Node { path: "/dev/nvidia-caps/nvidia-cap30".into(), numbers: (236, 30) });
        assert_eq!(nodes[1].numbers, (236, 31));
    }
}
