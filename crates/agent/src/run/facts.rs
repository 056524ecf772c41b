//! What the machine under a node is.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use lazaret_containers::Runtime;
use lazaret_pods::Amounts;

/// Below this much available memory a node is under pressure, as kubelet has it.
const MEMORY_AVAILABLE_MIN: u64 = 100 << 20;
/// Below this share of free disk, or of free inodes, in percent, likewise.
///
/// DEVIATION(disk-pressure): of the disk also less than this many bytes. A tenth of a large disk is room enough for pods.
const DISK_FREE_PERCENT_MIN: u64 = 10;
const DISK_FREE_BYTES_MIN: u64 = 5 << 30;
const INODES_FREE_PERCENT_MIN: u64 = 5;
/// Below this share of free process ids, in percent, likewise.
const PIDS_FREE_PERCENT_MIN: u64 = 10;

/// What the machine is, as far as it does not change.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) memory: u64,
    cpus: u64,
    disk: u64,
    root: PathBuf,
    kernel: String,
    os_image: String,
    machine_id: String,
    boot_id: String,
}

/// What it lacks now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pressure {
    pub(super) memory: bool,
    pub(super) disk: bool,
    pub(super) pids: bool,
}

impl Machine {
    pub(super) fn read(root: &Path) -> io::Result<Self> {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let os = text("/etc/os-release");
        let os_image = os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let disk = rustix::fs::statvfs(root)?;
        Ok(Self {
            memory: meminfo("MemTotal:").unwrap_or(0),
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64),
            disk: disk.f_blocks.saturating_mul(disk.f_frsize),
            root: root.to_owned(),
            kernel: text("/proc/sys/kernel/osrelease"),
            os_image: os_image.unwrap_or("Linux").trim_matches('"').to_owned(),
            machine_id: text("/etc/machine-id"),
            boot_id: text("/proc/sys/kernel/random/boot_id"),
        })
    }

    pub(super) fn capacity(&self) -> Amounts {
        Amounts { cpu_milli: self.cpus * 1_000, memory: self.memory, ephemeral_storage: self.disk }
    }

    pub(super) fn amounts(&self, pods_max: u32) -> BTreeMap<String, Quantity> {
        let amounts = [
            ("cpu", self.cpus.to_string()),
            ("memory", format!("{}Ki", self.memory >> 10)),
            ("ephemeral-storage", format!("{}Ki", self.disk >> 10)),
            ("pods", pods_max.to_string()),
        ];
        amounts.into_iter().map(|(name, amount)| (name.to_owned(), Quantity(amount))).collect()
    }

    pub(super) fn labels(&self, node: &str) -> BTreeMap<String, String> {
        let labels = [
            ("kubernetes.io/hostname", node),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", architecture()),
            ("beta.kubernetes.io/os", "linux"),
            ("beta.kubernetes.io/arch", architecture()),
        ];
        labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// `nodeInfo` of the Node's status.
    pub(super) fn info(&self, runtime: &dyn Runtime) -> serde_json::Value {
        serde_json::json!({
            "architecture": architecture(),
            "operatingSystem": "linux",
            "kubeletVersion": concat!("v1.37.1+lazaret-", env!("CARGO_PKG_VERSION")),
            "kubeProxyVersion": "",
            "containerRuntimeVersion": format!("{}://{}", runtime.name(), runtime.version()),
            "kernelVersion": self.kernel,
            "osImage": self.os_image,
            "machineID": self.machine_id,
            "systemUUID": self.machine_id,
            "bootID": self.boot_id,
        })
    }

    /// Major and minor.
    pub(super) fn kernel_version(&self) -> (u32, u32) {
        let mut numbers =
            self.kernel.split(|char: char| !char.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    pub(super) fn pressure(&self) -> Pressure {
        let is_low = |free: u64, all: u64, percent: u64| {
            all > 0 && free.saturating_mul(100) < all.saturating_mul(percent)
        };
        let disk = rustix::fs::statvfs(&self.root).is_ok_and(|disk| {
            let is_small = disk.f_bavail.saturating_mul(disk.f_frsize) < DISK_FREE_BYTES_MIN;
            is_small && is_low(disk.f_bavail, disk.f_blocks, DISK_FREE_PERCENT_MIN)
                || is_low(disk.f_favail, disk.f_files, INODES_FREE_PERCENT_MIN)
        });
        Pressure {
            memory: meminfo("MemAvailable:").is_some_and(|available| available < MEMORY_AVAILABLE_MIN),
            disk,
            pids: pids()
                .is_some_and(|(used, most)| is_low(most.saturating_sub(used), most, PIDS_FREE_PERCENT_MIN)),
        }
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Bytes of a line of `/proc/meminfo`.
fn meminfo(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Processes and threads that there are, and that there may be.
fn pids() -> Option<(u64, u64)> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let used = load.split(' ').nth(3)?.split('/').nth(1)?.parse().ok()?;
    let most = fs::read_to_string("/proc/sys/kernel/pid_max").ok()?.trim().parse().ok()?;
    Some((used, most))
}
