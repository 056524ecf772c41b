//! Which runtimes work here: by running something, not by asking for a version.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::timeout;

use crate::{
    ContainerSpec, Key, Mount, Options, Phase, RootFs, Runtime, RuntimeError, SandboxSpec, local::Local,
    record::Engine,
};

/// How long a container that does nothing may take. A machine under load takes seconds.
const PROBE_TIME_MAX: Duration = Duration::from_secs(60);
/// Where programs are looked for, beyond `PATH`.
const PROGRAM_DIRECTORIES: &[&str] =
    &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Which runtime is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first that works of `runc`, `crun` and `namespaces`. Never `processes`, which isolates nothing: that is asked for by name.
    #[default]
    Auto,
    /// `runc`.
    Runc,
    /// `crun`.
    Crun,
    /// Namespaces of our own, without a program and without root.
    Namespaces,
    /// Plain processes of the host.
    Processes,
}

/// Why no runtime works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// Each that was tried, and why it does not work.
    pub tried: Vec<(String, String)>,
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("no container runtime works here")?;
        for (name, why) in &self.tried {
            write!(formatter, "; {name}: {why}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ProbeReport {}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "runc" => Ok(Self::Runc),
            "crun" => Ok(Self::Crun),
            "namespaces" => Ok(Self::Namespaces),
            "processes" => Ok(Self::Processes),
            other => Err(format!("{other:?} is none of auto, runc, crun, namespaces, processes")),
        }
    }
}

/// Opens the runtime that was chosen, after it ran a program. Its state is in a directory of its name below
/// [`Options::state`].
///
/// # Errors
/// When none of them ran it, with the reason of each.
pub async fn probe(choice: Choice, options: Options) -> Result<Arc<dyn Runtime>, ProbeReport> {
    let names: &[&str] = match choice {
        Choice::Auto => &["runc", "crun", "namespaces"],
        Choice::Runc => &["runc"],
        Choice::Crun => &["crun"],
        Choice::Namespaces => &["namespaces"],
        Choice::Processes => &["processes"],
    };
    let mut tried = Vec::new();
    for name in names {
        match try_one(name, &options).await {
            Ok(runtime) => return Ok(runtime),
            Err(why) => {
                tracing::info!(runtime = name, %why, "a container runtime does not work here");
                tried.push(((*name).to_owned(), why));
            }
        }
    }
    Err(ProbeReport { tried })
}

async fn try_one(name: &str, options: &Options) -> Result<Arc<dyn Runtime>, String> {
    let state = options.state.join(name);
    let trial = Options { state: options.state.join(format!("probe-{name}")), ..options.clone() };
    // One that takes too long leaves its directory, by which the next one finds what else it left.
    let result = timeout(PROBE_TIME_MAX, run_true(name, &trial)).await;
    let result = result.map_err(|_| "running a program took too long".to_owned())?;
    let removed = crate::mounts::remove_directory(&trial.state)
        .map_err(|error| RuntimeError::Failed(format!("{}: {error}", trial.state.display())));
    if let Err(error) = removed {
        tracing::warn!(%error, "remove what a probe left");
    }
    result?;
    let opened = open(name, Options { state, ..options.clone() }).await?;
    Ok(Arc::new(opened))
}

async fn open(name: &str, options: Options) -> Result<Local, String> {
    let (engine, has_seccomp) = match name {
        "namespaces" => (Engine::Namespaces, false),
        "processes" => (Engine::Processes, false),
        _ => {
            let program = find(name).ok_or_else(|| format!("no program {name} is found"))?;
            let has_seccomp = has_seccomp(&program).await?;
            (Engine::Oci { program, root: options.state.join("oci") }, has_seccomp)
        }
    };
    Local::open(name, engine, has_seccomp, options).await.map_err(|error| error.to_string())
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = PROGRAM_DIRECTORIES.iter().map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(usual)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

/// Whether it can filter system calls: it says so with its version.
async fn has_seccomp(program: &Path) -> Result<bool, String> {
    let mut command = tokio::process::Command::new(program);
    let output = command.arg("--version").kill_on_drop(true).output().await;
    let output = output.map_err(|error| format!("execute {}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.contains("libseccomp") || text.contains("+SECCOMP"))
}

/// Runs our own program as `true` in a container, from the sandbox to its removal.
async fn run_true(name: &str, options: &Options) -> Result<(), String> {
    let runtime = open(name, options.clone()).await?;
    let result = async {
        // Those of a probe that was killed.
        remove_all(&runtime).await?;
        trial(&runtime, options).await
    };
    let result = result.await;
    // Also after a failure: what it left must go before its directory does.
    let removed = remove_all(&runtime).await;
    result.and(removed).map_err(|error| error.to_string())
}

async fn remove_all(runtime: &Local) -> Result<(), RuntimeError> {
    for sandbox in runtime.list().await? {
        runtime.remove_sandbox(&sandbox.id).await?;
    }
    Ok(())
}

/// So that two probes at a time have control groups of their own.
static COUNT: AtomicU64 = AtomicU64::new(0);

async fn trial(runtime: &Local, options: &Options) -> Result<(), RuntimeError> {
    let pod = format!("lazaret-probe-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let sandbox = SandboxSpec {
        pod_uid: pod.clone(),
        namespaces: crate::Namespaces { host_network: true, ..crate::Namespaces::default() },
        log_directory: options.state.join("logs"),
        ..SandboxSpec::default()
    };
    runtime.run_sandbox(sandbox).await?;
    let mut changes = runtime.changes();
    let id = runtime.create(&pod, container(&pod, runtime.name(), options)?).await?;
    runtime.start(&id).await?;
    loop {
        changes.mark_unchanged();
        let sandboxes = runtime.list().await?;
        let states = sandboxes.iter().flat_map(|sandbox| &sandbox.containers);
        match states.map(|state| &state.phase).next() {
            Some(Phase::Exited(exit)) if exit.code == 0 => return Ok(()),
            Some(Phase::Exited(exit)) => {
                let why = exit
                    .message
                    .clone()
                    .unwrap_or_else(|| format!("a program that does nothing ended with {}", exit.code));
                return Err(RuntimeError::Failed(why));
            }
            Some(Phase::Created | Phase::Running { .. }) => {}
            None => return Err(RuntimeError::Failed("the container is gone".to_owned())),
        }
        let _ = changes.changed().await;
    }
}

/// A container of nothing but this program and the libraries of the host.
fn container(pod: &str, runtime: &str, options: &Options) -> Result<ContainerSpec, RuntimeError> {
    let failed = |error: std::io::Error| RuntimeError::Failed(format!("prepare the probe: {error}"));
    let (program, words) = options
        .shim
        .split_first()
        .ok_or_else(|| RuntimeError::Failed("no program is given for shims".to_owned()))?;
    let program = std::fs::canonicalize(program).map_err(failed)?;
    let mut command = vec!["/lazaret".to_owned()];
    let mut mounts = vec![read_only(&program, "/lazaret")];
    let root = if runtime == "processes" {
        command = vec![program.to_string_lossy().into_owned()];
        mounts.clear();
        RootFs::Directory("/".into())
    } else {
        let empty = options.state.join("empty");
        std::fs::create_dir_all(&empty).map_err(failed)?;
        let libraries = ["/lib", "/lib64", "/usr"].into_iter().filter(|path| Path::new(path).is_dir());
        mounts.extend(libraries.map(|path| read_only(Path::new(path), path)));
        RootFs::Layers(vec![empty])
    };
    command.extend(words.iter().map(|word| word.to_string_lossy().into_owned()));
    command.push("true".to_owned());
    let key = Key { pod_uid: pod.to_owned(), name: "true".to_owned(), attempt: 0 };
    Ok(ContainerSpec { working_directory: "/".into(), mounts, ..ContainerSpec::new(key, root, command) })
}

fn read_only(source: &Path, target: &str) -> Mount {
    Mount { source: source.to_owned(), target: target.into(), read_only: true, ..Mount::default() }
}
