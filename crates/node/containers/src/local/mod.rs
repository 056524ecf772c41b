//! Runtimes that make containers here: by an OCI runtime's program, by namespaces of our own, or as plain processes.

mod attach;
mod container;
mod exec;
mod list;
mod not_applied;
mod permits;
mod programs;
mod sandbox;
mod shim;
mod stop;
mod sweep;
mod update;
mod usage;
mod watch;

use permits::Permits;

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lazaret_cdi::Cache;
use tokio::{
    sync::{Semaphore, watch as channel},
    task::JoinSet,
};

use crate::{
    Answer, Attached, Connection, ContainerSpec, Exec, Limits, Options, Running, Runtime, RuntimeError,
    SandboxSpec, SandboxState, Usage,
    cgroup::{self, Cgroups},
    layout::{self, ContainerDir, SandboxDir},
    oci::Architecture,
    record::Engine,
};

/// Containers that are made or started at a time. Each takes an OCI runtime's program with 10 MiB and tens of
/// milliseconds of processor time.
const LAUNCHES_MAX: usize = 8;

/// A runtime of this machine.
pub(crate) struct Local {
    name: String,
    shared: Arc<Shared>,
}

/// The state that its tasks share.
pub(crate) struct Shared {
    options: Options,
    engine: Engine,
    cgroups: Cgroups,
    /// The control group of this runtime.
    group: String,
    /// Held by the one runtime of a state that may remove what another left. Another that is opened beside it removes nothing.
    only: Option<layout::StateLock>,
    /// The lowest `oom_score_adj` that can be given.
    oom_score_floor: i32,
    seccomp: Option<Architecture>,
    cdi: Mutex<Cache>,
    launches: Semaphore,
    permits: Permits,
    /// One lock for each sandbox and container that is being made or removed.
    locks: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    changes: channel::Sender<u64>,
    tasks: Mutex<JoinSet<()>>,
}

impl fmt::Debug for Local {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Local")
            .field("name", &self.name)
            .field("options", &self.shared.options)
            .finish()
    }
}

impl Local {
    /// Opens a runtime over its state, and watches what runs there. Must be called within a tokio runtime.
    pub(crate) async fn open(
        name: &str,
        engine: Engine,
        seccomp: bool,
        options: Options,
    ) -> Result<Self, RuntimeError> {
        let state = options.state.clone();
        let (instance, only) = blocking(move || {
            for directory in [state.join("sandboxes"), state.join("oci")] {
                layout::private_directory(&directory).map_err(failed(&directory))?;
            }
            let instance = layout::instance(&state)?;
            Ok((instance, layout::try_lock(&state.join("lock")).map_err(failed(&state))?))
        })
        .await?;
        let cgroups = match engine {
            Engine::Oci { .. } => Cgroups::find(),
            Engine::Namespaces | Engine::Processes => Cgroups::Absent,
        };
        let shared = Arc::new(Shared {
            cdi: Mutex::new(Cache::new(options.cdi_directories.clone())),
            options,
            engine,
            cgroups,
            group: cgroup::of_runtime(&instance),
            only,
            oom_score_floor: oom_score_floor(),
            seccomp: Architecture::here().filter(|_| seccomp),
            launches: Semaphore::new(LAUNCHES_MAX),
            permits: Permits::default(),
            locks: Mutex::default(),
            changes: channel::Sender::new(0),
            tasks: Mutex::default(),
        });
        if shared.only.is_some() {
            shared.sweep().await;
        }
        shared.watch_all().await?;
        Ok(Self { name: name.to_owned(), shared })
    }
}

impl Shared {
    fn sandbox(&self, id: &str) -> Result<SandboxDir, RuntimeError> {
        if !layout::is_name(id) {
            return Err(RuntimeError::NotFound(format!("sandbox {id:?}")));
        }
        Ok(SandboxDir(self.options.state.join("sandboxes").join(id)))
    }

    fn container(&self, id: &str) -> Result<ContainerDir, RuntimeError> {
        let unknown = || RuntimeError::NotFound(format!("container {id:?}"));
        let key = layout::parse_container_id(id).ok_or_else(unknown)?;
        Ok(self.sandbox(&key.pod_uid)?.container(&key))
    }

    /// The lock of an id. Locks that are not held are dropped here, so that there are never more than calls.
    async fn lock(&self, id: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(id.to_owned()).or_default())
        };
        lock.lock_owned().await
    }

    /// Starts a task that ends with this runtime.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// Runs what reads and writes files beside the tasks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RuntimeError> + Send + 'static,
) -> Result<T, RuntimeError> {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or_else(|error| Err(RuntimeError::Failed(format!("a task of the runtime ended: {error}"))))
}

fn failed<E: fmt::Display>(path: &Path) -> impl Fn(E) -> RuntimeError + '_ {
    move |error| RuntimeError::Failed(format!("{}: {error}", path.display()))
}

/// Without `CAP_SYS_RESOURCE` a process cannot go below its own value.
fn oom_score_floor() -> i32 {
    const SYS_RESOURCE: u32 = 24;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if mask >> SYS_RESOURCE & 1 == 1 {
        return -1_000;
    }
    let own =
        std::fs::read_to_string("/proc/self/oom_score_adj").ok().and_then(|text| text.trim().parse().ok());
    own.unwrap_or(0)
}

impl Runtime for Local {
    fn name(&self) -> &str {
        &self.name
    }

    fn not_applied(&self, sandbox: &SandboxSpec, container: &ContainerSpec) -> Vec<String> {
        self.shared.not_applied(sandbox, container)
    }

    fn run_sandbox(&self, spec: SandboxSpec) -> Answer<'_, SandboxState> {
        Box::pin(Arc::clone(&self.shared).run_sandbox(spec))
    }

    fn stop_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.shared.stop_sandbox(id))
    }

    fn remove_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.shared.remove_sandbox(id))
    }

    fn create<'a>(&'a self, sandbox: &'a str, spec: ContainerSpec) -> Answer<'a, String> {
        Box::pin(self.shared.create(sandbox, spec))
    }

    fn start<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.shared.start(id))
    }

    fn stop<'a>(&'a self, id: &'a str, grace: Duration) -> Answer<'a, ()> {
        Box::pin(self.shared.stop(id, grace))
    }

    fn remove<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.shared.remove(id))
    }

    fn list(&self) -> Answer<'_, Vec<SandboxState>> {
        Box::pin(self.shared.list())
    }

    fn changes(&self) -> channel::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    fn exec<'a>(&'a self, id: &'a str, exec: Exec) -> Answer<'a, Running> {
        Box::pin(self.shared.exec(id, exec))
    }

    fn attach<'a>(&'a self, id: &'a str) -> Answer<'a, Attached> {
        Box::pin(self.shared.attach(id))
    }

    fn reopen_log<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.shared.reopen_log(id))
    }

    fn connect<'a>(&'a self, sandbox: &'a str, port: u16) -> Answer<'a, Box<dyn Connection>> {
        Box::pin(self.shared.connect(sandbox, port))
    }

    fn usage<'a>(&'a self, id: &'a str) -> Answer<'a, Usage> {
        Box::pin(self.shared.usage(id))
    }

    fn update<'a>(&'a self, id: &'a str, own: Limits, of_pod: Limits) -> Answer<'a, ()> {
        Box::pin(self.shared.update(id, own, of_pod))
    }

    fn writable_directory(&self, id: &str) -> Option<std::path::PathBuf> {
        Some(self.shared.container(id).ok()?.upper())
    }
}
