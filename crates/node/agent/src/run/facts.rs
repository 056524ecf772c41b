//! Facts of the machine under a node.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use lazaret_containers::{Runtime, Usage};
use lazaret_pods::{Amounts, Level, Levels, Signal, Thresholds};

/// Nanoseconds of a tick, of which Linux counts 100 a second for programs.
const TICK_NANOSECONDS: u64 = 10_000_000;

/// Facts of the machine that do not change.
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

    /// The amounts that pods may request: the capacity without the thresholds' share, as in kubelet.
    pub(super) fn allocatable(&self, thresholds: &Thresholds) -> Amounts {
        let kept =
            |signal: Signal, of: u64| thresholds.0.get(&signal).map_or(0, |threshold| threshold.of(of));
        let Amounts { cpu_milli, memory, ephemeral_storage } = self.capacity();
        Amounts {
            cpu_milli,
            memory: memory.saturating_sub(kept(Signal::MemoryAvailable, memory)),
            ephemeral_storage: ephemeral_storage
                .saturating_sub(kept(Signal::NodefsAvailable, ephemeral_storage)),
        }
    }

    /// Amounts as the API has them.
    pub(super) fn quantities(amounts: Amounts, pods_max: u32) -> BTreeMap<String, Quantity> {
        let amounts = [
            ("cpu", (amounts.cpu_milli / 1_000).to_string()),
            ("memory", format!("{}Ki", amounts.memory >> 10)),
            ("ephemeral-storage", format!("{}Ki", amounts.ephemeral_storage >> 10)),
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

    /// Where its disk is looked at.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// How much is left of what thresholds are about.
    pub(super) fn levels(&self) -> Levels {
        let memory = meminfo("MemAvailable:").map(|available| Level { available, capacity: self.memory });
        let disk = rustix::fs::statvfs(&self.root).ok();
        let bytes = disk.as_ref().map(|disk| Level {
            available: disk.f_bavail.saturating_mul(disk.f_frsize),
            capacity: disk.f_blocks.saturating_mul(disk.f_frsize),
        });
        let inodes = disk.as_ref().map(|disk| Level { available: disk.f_favail, capacity: disk.f_files });
        let pids = pids().map(|(used, most)| Level { available: most.saturating_sub(used), capacity: most });
        let all = [
            (Signal::MemoryAvailable, memory),
            (Signal::NodefsAvailable, bytes),
            (Signal::NodefsInodesFree, inodes),
            (Signal::PidAvailable, pids),
        ];
        all.into_iter().filter_map(|(signal, level)| Some((signal, level?))).collect()
    }
}

/// Resource usage of the whole machine.
pub(super) fn usage() -> Option<Usage> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).filter_map(|ticks| ticks.parse().ok()).collect();
    // User, nice, system, interrupts, soft interrupts and what a hypervisor took; not idle, and not waiting for a disk.
    let busy: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|place| ticks.get(*place)).sum();
    let memory = meminfo("MemTotal:")?.saturating_sub(meminfo("MemAvailable:")?);
    Some(Usage {
        cpu_nanoseconds: busy.saturating_mul(TICK_NANOSECONDS),
        memory_working_set: memory,
        memory,
        pids: pids().map_or(0, |(used, _)| used),
    })
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
