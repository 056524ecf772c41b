//! Control groups, version 1, version 2, and both at once.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Limits, Usage};

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// Below which everything of Lazaret is.
const PREFIX: &str = "/lazaret";
/// Version 1 says of what has no limit that it is about as large as an address can be.
const UNLIMITED_BYTES: u64 = 1 << 60;
/// Rounds of killing everything in a group, and of waiting until it is empty. A fork bomb needs several; one that is limited, few. On a machine that is
/// very busy a process that was killed runs its last instructions seconds later: this is six seconds of killing and fifteen of waiting.
const KILL_ROUNDS_MAX: usize = 3_000;

/// How this machine has its control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cgroups {
    /// One directory for each controller.
    V1 {
        /// `cpu`, `memory`, …, with their directories.
        controllers: Vec<(String, PathBuf)>,
    },
    /// One directory for all.
    V2,
    /// None that can be written to.
    Absent,
}

/// The group of a runtime, by the id of its state. Every group below it belongs to that runtime alone.
pub(crate) fn of_runtime(instance: &str) -> String {
    format!("{PREFIX}/{instance}")
}

/// The group of a pod.
pub(crate) fn of_pod(runtime: &str, uid: &str) -> String {
    format!("{runtime}/{uid}")
}

/// The group of a container.
pub(crate) fn of_container(runtime: &str, key: &crate::Key) -> String {
    format!("{runtime}/{}/{}-{}", key.pod_uid, key.name, key.attempt)
}

impl Cgroups {
    /// Looks at what is mounted.
    pub(crate) fn find() -> Self {
        let root = Path::new(ROOT);
        if root.join("cgroup.controllers").exists() {
            return Self::V2;
        }
        let names = [
            "cpu", "cpuacct", "cpuset", "memory", "pids", "devices", "freezer", "blkio", "hugetlb", "net_cls",
        ];
        // The last is version 2 beside version 1, with none of its controllers: programs make groups there as well.
        let others = ["net_prio", "perf_event", "rdma", "misc", "systemd", "unified"];
        let mut controllers = Vec::new();
        for name in names.into_iter().chain(others) {
            let path = root.join(name);
            if path.join("cgroup.procs").exists() {
                controllers.push((name.to_owned(), path));
            }
        }
        if controllers.is_empty() { Self::Absent } else { Self::V1 { controllers } }
    }

    /// Whether a limit by this controller can be set.
    pub(crate) fn has(&self, controller: &str) -> bool {
        match self {
            Self::V1 { controllers } => controllers.iter().any(|(name, _)| name == controller),
            Self::V2 => fs::read_to_string(Path::new(ROOT).join("cgroup.controllers"))
                .is_ok_and(|all| all.split_whitespace().any(|name| name == controller)),
            Self::Absent => false,
        }
    }

    pub(crate) fn is_v2(&self) -> bool {
        *self == Self::V2
    }

    /// Makes the group of a pod and sets its limits.
    pub(crate) fn make(&self, group: &str, limits: &Limits) -> io::Result<()> {
        for directory in self.directories(group) {
            fs::create_dir_all(&directory)?;
        }
        if self.is_v2() {
            // A child can limit only the controllers that its parent delegates.
            let mut directory = PathBuf::from(ROOT);
            for part in [""].into_iter().chain(group.split('/').filter(|part| !part.is_empty())) {
                directory.push(part);
                for controller in
                    ["cpu", "cpuset", "memory", "pids", "io"].into_iter().filter(|name| self.has(name))
                {
                    let _ = fs::write(directory.join("cgroup.subtree_control"), format!("+{controller}"));
                }
            }
        }
        for (controller, file, value) in self.settings(limits) {
            if let Some(directory) = self.directory(controller, group) {
                fs::write(directory.join(file), value)
                    .map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))?;
            }
        }
        Ok(())
    }

    /// Changes the limits for processor time and memory of an existing group. A limit that is `None` is removed.
    pub(crate) fn change(&self, group: &str, limits: &Limits) -> io::Result<()> {
        let mut all = self.settings(&Limits { pids: None, ..*limits });
        let v2 = self.is_v2();
        if limits.memory.is_none() {
            let (file, value) = if v2 { ("memory.max", "max") } else { ("memory.limit_in_bytes", "-1") };
            all.push(("memory", file, value.to_owned()));
        }
        if limits.cpu_quota_us.is_none() {
            let (file, value) = if v2 { ("cpu.max", "max") } else { ("cpu.cfs_quota_us", "-1") };
            all.push(("cpu", file, value.to_owned()));
        }
        for (controller, file, value) in all {
            let Some(directory) = self.directory(controller, group).filter(|path| path.exists()) else {
                continue;
            };
            let written = match file {
                "memory.limit_in_bytes" => write_memory(&directory, &value),
                _ => fs::write(directory.join(file), &value),
            };
            written
                .map_err(|error| io::Error::new(error.kind(), format!("set {file} to {value}: {error}")))?;
        }
        Ok(())
    }

    /// Which file of which controller gets what.
    fn settings(&self, limits: &Limits) -> Vec<(&'static str, &'static str, String)> {
        let mut all = Vec::new();
        let v2 = self.is_v2();
        let mut set = |controller, v1_file, v2_file, value: String| {
            all.push((controller, if v2 { v2_file } else { v1_file }, value));
        };
        if let Some(bytes) = limits.memory {
            set("memory", "memory.limit_in_bytes", "memory.max", bytes.to_string());
        }
        if let Some(pids) = limits.pids {
            set("pids", "pids.max", "pids.max", pids.to_string());
        }
        if let Some(shares) = limits.cpu_shares {
            let value = if v2 { cpu_weight(shares) } else { shares.max(2) };
            set("cpu", "cpu.shares", "cpu.weight", value.to_string());
        }
        if let Some(quota) = limits.cpu_quota_us.filter(|quota| *quota > 0) {
            let period = limits.cpu_period_us.unwrap_or(100_000);
            if v2 {
                set("cpu", "", "cpu.max", format!("{quota} {period}"));
            } else {
                set("cpu", "cpu.cfs_period_us", "", period.to_string());
                set("cpu", "cpu.cfs_quota_us", "", quota.to_string());
            }
        }
        all
    }

    fn directories(&self, group: &str) -> Vec<PathBuf> {
        let group = group.trim_start_matches('/');
        match self {
            Self::V1 { controllers } => controllers.iter().map(|(_, path)| path.join(group)).collect(),
            Self::V2 => vec![Path::new(ROOT).join(group)],
            Self::Absent => Vec::new(),
        }
    }

    fn directory(&self, controller: &str, group: &str) -> Option<PathBuf> {
        let group = group.trim_start_matches('/');
        match self {
            Self::V1 { controllers } => {
                let (_, path) = controllers.iter().find(|(name, _)| name == controller)?;
                Some(path.join(group))
            }
            Self::V2 => Some(Path::new(ROOT).join(group)),
            Self::Absent => None,
        }
    }

    /// The names of the groups below one, by any controller.
    pub(crate) fn below(&self, group: &str) -> BTreeSet<String> {
        let directories = self.directories(group);
        directories
            .iter()
            .flat_map(|directory| below(directory))
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect()
    }

    /// Removes a group where it has none below it and no processes.
    pub(crate) fn remove_empty(&self, group: &str) {
        for directory in self.directories(group) {
            let _ = fs::remove_dir(directory);
        }
    }

    /// Kills every process of a group and of those below it.
    pub(crate) fn kill_all(&self, group: &str) {
        for name in self.below(group) {
            self.kill(&format!("{group}/{name}"));
        }
        self.kill(group);
    }

    /// Removes a group and those below it. A missing group is no error.
    pub(crate) fn remove(&self, group: &str) -> io::Result<()> {
        for directory in self.directories(group) {
            for path in below(&directory) {
                remove_directory(&path)?;
            }
            remove_directory(&directory)?;
        }
        Ok(())
    }

    /// Processes that the kernel killed in this group because its memory ran out.
    pub(crate) fn out_of_memory_kills(&self, group: &str) -> u64 {
        let file = if self.is_v2() { "memory.events" } else { "memory.oom_control" };
        let Some(directory) = self.directory("memory", group) else { return 0 };
        number_of(&directory.join(file), "oom_kill").unwrap_or(0)
    }

    /// Kills every process of a group, until none is left or the rounds are over.
    pub(crate) fn kill(&self, group: &str) {
        if self.is_v2()
            && let Some(directory) = self.directory("", group)
            && fs::write(directory.join("cgroup.kill"), "1").is_ok()
        {
            return;
        }
        for _ in 0..KILL_ROUNDS_MAX {
            let mut killed = false;
            for directory in self.directories(group) {
                for pid in processes(&directory) {
                    killed |= kill_process(pid, Signal::KILL).is_ok();
                }
            }
            if !killed {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Resource usage of a group.
    pub(crate) fn usage(&self, group: &str) -> Usage {
        let read = |controller, file: &str| {
            let text = fs::read_to_string(self.directory(controller, group)?.join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let field =
            |controller, file: &str, name| number_of(&self.directory(controller, group)?.join(file), name);
        let v2 = self.is_v2();
        let memory = read("memory", if v2 { "memory.current" } else { "memory.usage_in_bytes" }).unwrap_or(0);
        let inactive = if v2 { "inactive_file" } else { "total_inactive_file" };
        let cache = field("memory", "memory.stat", inactive).unwrap_or(0);
        let cpu = if v2 {
            field("cpu", "cpu.stat", "usage_usec").map(|micros| micros.saturating_mul(1_000))
        } else {
            read("cpuacct", "cpuacct.usage")
        };
        Usage {
            cpu_nanoseconds: cpu.unwrap_or(0),
            memory_working_set: memory.saturating_sub(cache),
            memory,
            pids: read("pids", "pids.current").unwrap_or(0),
        }
    }
}

/// Version 1 has a limit for memory with swap as well, which runtimes set to the same, and which is never lower than the one without.
fn write_memory(directory: &Path, value: &str) -> io::Result<()> {
    let [alone, with_swap] =
        ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"].map(|file| directory.join(file));
    let text = fs::read_to_string(&with_swap).unwrap_or_default();
    let is_limited = text.trim().parse::<u64>().is_ok_and(|bytes| bytes < UNLIMITED_BYTES);
    if !is_limited {
        return fs::write(alone, value);
    }
    if fs::write(&alone, value).is_err() {
        fs::write(&with_swap, value)?;
        return fs::write(&alone, value);
    }
    fs::write(&with_swap, value)
}

/// As Kubernetes' runtimes turn shares (2 to 262,144) into a weight (1 to 10,000).
fn cpu_weight(shares: u64) -> u64 {
    let shares = shares.clamp(2, 262_144);
    1 + (shares - 2) * 9_999 / 262_142
}

fn number_of(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

fn processes(directory: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}

fn below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove_directory(path: &Path) -> io::Result<()> {
    // Processes that were killed leave a group a moment after they were reaped.
    for _ in 0..KILL_ROUNDS_MAX {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("{} has processes", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_as_each_version_wants_them() {
        let limits = Limits {
            cpu_shares: Some(1_024),
            cpu_quota_us: Some(50_000),
            memory: Some(1 << 20),
            pids: Some(7),
            ..Limits::default()
        };
        let v1 = Cgroups::V1 { controllers: Vec::new() }.settings(&limits);
        let text = |(_, file, value): &(_, &'static str, String)| format!("{file}={value}");
        assert_eq!(
            v1.iter().map(text).collect::<Vec<_>>(),
            [
                "memory.limit_in_bytes=1048576",
                "pids.max=7",
                "cpu.shares=1024",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=50000"
            ]
        );
        let v2 = Cgroups::V2.settings(&limits);
        assert_eq!(
            v2.iter().map(text).collect::<Vec<_>>(),
            ["memory.max=1048576", "pids.max=7", "cpu.weight=39", "cpu.max=50000 100000"]
        );
    }
}
