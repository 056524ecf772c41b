//! A lazaret started for the run: a process of its own, ended with it.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// A server has told where it serves by then, or never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// As many objects, and as many pods in one namespace: how large the load is, is up to the person who asks for it.
const ROOM: &str = "100000000";

/// The parts to start.
#[derive(Clone, Debug)]
pub(crate) enum Parts {
    /// The API and nothing else.
    Api,
    /// Everything, with `nodes` simulated nodes of `devices` devices each.
    All { nodes: usize, devices: usize, gates: String, versions: String },
}

/// The process and its folder.
#[derive(Debug)]
pub(crate) struct Embedded {
    child: Child,
    folder: PathBuf,
    /// Goes when this goes, if it was made for it.
    _owned: Option<TempDir>,
}

impl Embedded {
    /// In a folder of its own, below `folder` or the system's.
    pub(crate) async fn start(parts: &Parts, folder: Option<&Path>) -> Result<Self> {
        let owned = temporary(folder)?;
        let mut started = Self::start_in(parts, owned.path()).await?;
        started._owned = Some(owned);
        Ok(started)
    }

    /// In a folder that stays.
    pub(crate) async fn start_in(parts: &Parts, folder: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("find this program")?);
        command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder);
        command.args(["--objects-max", ROOM, "--namespace-pods-max", ROOM]);
        match parts {
            Parts::Api => {
                command.arg("--api-only");
            }
            Parts::All { nodes, devices, gates, versions } => {
                command.args(["--nodes", &nodes.to_string(), "--devices", &devices.to_string()]);
                if !gates.is_empty() {
                    command.args(["--feature-gates", gates]);
                }
                if !versions.is_empty() {
                    command.args(["--runtime-config", versions]);
                }
            }
        }
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .context("start lazaret up")?;
        let stdout = child.stdout.take().context("read what it says")?;
        let mut lines = BufReader::new(stdout).lines();
        let address_read = async {
            while let Some(line) = lines.next_line().await? {
                if line.starts_with("kubeconfig:") {
                    return Ok(());
                }
            }
            bail!("lazaret up ended before it served")
        };
        tokio::time::timeout(PATIENCE, address_read).await.context("wait for lazaret up")??;
        Ok(Self { child, folder: folder.to_owned(), _owned: None })
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Ends it as a power failure would.
    pub(crate) async fn kill(mut self) {
        // It may have ended by itself.
        let _ = self.child.kill().await;
    }
}

/// A folder that goes with the run.
pub(crate) fn temporary(within: Option<&Path>) -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("lazaret-bench-");
    match within {
        Some(folder) => builder.tempdir_in(folder),
        None => builder.tempdir(),
    }
    .context("make a folder for the data")
}
