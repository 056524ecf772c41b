//! Resource usage of processes and of the machine, from the operating system.

use std::fs;

use serde::Serialize;

/// Resource usage of a process.
#[derive(Clone, Debug, Default, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Usage {
    pub(crate) name: String,
    /// From the beginning of the measurement to its end.
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_mb_before: f64,
    pub(crate) resident_mb_after: f64,
    pub(crate) resident_mb_peak: f64,
}

/// Processes under observation.
#[derive(Debug)]
pub(crate) struct Observed {
    processes: Vec<(u32, f64, f64)>,
}

impl Observed {
    /// From now on.
    pub(crate) fn begin(processes: &[u32]) -> Self {
        let state = |id: &u32| (*id, cpu_seconds(*id), memory_mb(*id, "VmRSS:"));
        Self { processes: processes.iter().map(state).collect() }
    }

    /// Up to now.
    pub(crate) fn end(&self) -> Vec<Usage> {
        let usage = |(id, cpu, resident): &(u32, f64, f64)| Usage {
            name: name(*id),
            cpu_seconds: cpu_seconds(*id) - cpu,
            resident_mb_before: *resident,
            resident_mb_after: memory_mb(*id, "VmRSS:"),
            resident_mb_peak: memory_mb(*id, "VmHWM:"),
        };
        self.processes.iter().map(usage).collect()
    }
}

/// Processes that wanted to run, on average over one, five and fifteen minutes.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let averages: Vec<&str> = text.split(' ').take(3).collect();
    if averages.len() == 3 { averages.join(" ") } else { "unknown".to_owned() }
}

/// Processor time of a process so far. The system counts hundredths.
pub(crate) fn cpu_seconds(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in parentheses may hold spaces; what follows it does not.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Megabytes of memory, as a line of the process's status tells them.
pub(crate) fn memory_mb(process: u32, line: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|text| text.strip_prefix(line)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0) * 1_024.0
        / 1e6
}

fn name(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { format!("process {process} (gone)") } else { format!("{name} ({process})") }
}
