//! A lazaret started for the run: a process of its own, ended with it.

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::stats::Usage;

/// The process and its folder.
#[derive(Debug)]
pub(super) struct Started {
    child: Child,
    folder: PathBuf,
    pub(super) kubeconfig: PathBuf,
}

impl Started {
    pub(super) async fn start(nodes: usize, devices: usize) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("lazaret-bench-{}", std::process::id()));
        let mut child = Command::new(std::env::current_exe().context("find this program")?)
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&folder)
            .args(["--nodes", &nodes.to_string(), "--devices", &devices.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .context("start lazaret up")?;
        let kubeconfig = folder.join("kubeconfig");
        let stdout = child.stdout.take().context("read what it says")?;
        let mut lines = BufReader::new(stdout).lines();
        let told = async {
            while let Some(line) = lines.next_line().await? {
                if line.starts_with("kubeconfig:") {
                    return Ok(());
                }
            }
            bail!("lazaret up ended before it served")
        };
        tokio::time::timeout(Duration::from_secs(60), told).await.context("wait for lazaret up")??;
        Ok(Self { child, folder, kubeconfig })
    }

    /// Seconds of CPU since its start, and resident megabytes.
    pub(super) fn usage(&self) -> (f64, u64) {
        let pid = self.child.id().unwrap_or(0);
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name in parentheses may hold anything; what follows it is counted from the third field.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u32>().ok()).unwrap_or(0);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
        (f64::from(ticks(11) + ticks(12)) / 100.0, kilobytes.unwrap_or(0) / 1_024)
    }

    pub(super) fn report(&self, at_rest: u64) -> Usage {
        let (cpu_seconds, resident_mb) = self.usage();
        Usage { cpu_seconds, resident_mb, resident_at_rest_mb: at_rest }
    }

    pub(super) async fn stop(mut self) {
        // It may have ended by itself; its folder goes in any case.
        let _ = self.child.kill().await;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The machine's load, as the system tells it.
pub(super) fn load() -> String {
    fs::read_to_string("/proc/loadavg")
        .map(|text| text.split(' ').take(3).collect::<Vec<_>>().join(" "))
        .unwrap_or_else(|_| "unknown".to_owned())
}
