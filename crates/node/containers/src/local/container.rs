//! Making and starting containers.

use std::{path::PathBuf, sync::Arc};

use super::{
    Shared, blocking, failed,
    shim::{LAUNCH_TIME_MAX, late, read_reply, send_request},
};
use crate::{
    ContainerSpec, Phase, RootFs, RuntimeError, cgroup,
    layout::{self, ContainerDir, SandboxDir},
    make_log_directory,
    oci::{self, Place},
    overlay,
    protocol::{Decoder, Reply, Request},
    record::{ContainerRecord, Engine, SandboxRecord, ShimSpec},
};

impl Shared {
    pub(super) async fn create(
        self: &Arc<Self>,
        sandbox: &str,
        spec: ContainerSpec,
    ) -> Result<String, RuntimeError> {
        let parent = self.sandbox(sandbox)?;
        if spec.key.pod_uid != sandbox || !layout::is_name(&spec.key.name) || spec.command.is_empty() {
            return Err(RuntimeError::NotPossible(format!(
                "{:?} cannot be a container of {sandbox}",
                spec.key
            )));
        }
        let id = layout::container_id(&spec.key);
        let directory = parent.container(&spec.key);
        let _lock = self.lock(&id).await;
        if layout::read::<ContainerRecord>(&directory.record())?.is_some() {
            return Ok(id);
        }
        let _permit = self.launches.acquire().await;
        // A create that was interrupted may have left files.
        self.erase(&directory).await?;
        if let Err(error) = self.make(&parent, &directory, spec).await {
            if let Err(error) = self.erase(&directory).await {
                tracing::warn!(%error, "remove what is left of a container");
            }
            return Err(error);
        }
        self.watch(&directory);
        Ok(id)
    }

    async fn make(
        self: &Arc<Self>,
        parent: &SandboxDir,
        directory: &ContainerDir,
        spec: ContainerSpec,
    ) -> Result<(), RuntimeError> {
        let (shared, parent, place) = (Arc::clone(self), parent.clone(), directory.clone());
        let record = blocking(move || shared.prepare(&parent, &place, spec)).await?;
        let (mut command, mut connection) = self.shim_command("run")?;
        command.arg(&directory.0);
        let shim = command.spawn().map_err(|error| RuntimeError::Failed(format!("start a shim: {error}")))?;
        drop(command);
        let mut decoder = Decoder::default();
        let reply = tokio::time::timeout(LAUNCH_TIME_MAX, read_reply(&mut connection, &mut decoder)).await;
        // It goes on without us; its next parent reaps it.
        drop(shim);
        match reply.unwrap_or_else(|_| Err(late()))? {
            Reply::Failed { message, cannot_run: true } => return Err(RuntimeError::CannotRun(message)),
            Reply::Failed { message, cannot_run: false } => return Err(RuntimeError::Failed(message)),
            Reply::Done | Reply::Attached { .. } | Reply::Exited(_) => {}
        }
        let path = directory.record();
        blocking(move || layout::write(&path, &record).map_err(failed(&path))).await
    }

    /// Everything that is there before a process is.
    fn prepare(
        &self,
        parent: &SandboxDir,
        directory: &ContainerDir,
        spec: ContainerSpec,
    ) -> Result<ContainerRecord, RuntimeError> {
        let unknown = || RuntimeError::NotFound(format!("sandbox {}", spec.key.pod_uid));
        let sandbox = layout::read::<SandboxRecord>(&parent.record())?.ok_or_else(unknown)?;
        if sandbox.is_stopped {
            return Err(RuntimeError::NotPossible("the sandbox is stopped".to_owned()));
        }
        layout::private_directory(&directory.bundle()).map_err(failed(&directory.0))?;
        let rootfs = self.root(directory, &spec)?;
        let is_oci = matches!(self.engine, Engine::Oci { .. });
        let group = is_oci.then(|| cgroup::of_container(&self.group, &spec.key));
        let place = Place {
            rootfs,
            namespaces: namespaces(parent, &sandbox),
            shm: if sandbox.spec.namespaces.host_ipc { Some("/dev/shm".into()) } else { Some(parent.shm()) },
            cgroup: group.clone(),
            has_cgroup_v2: self.cgroups.is_v2(),
            oom_score_floor: self.oom_score_floor,
            seccomp: self.seccomp,
        };
        let mut config = oci::config(&sandbox.spec, &spec, &place)?;
        if !spec.cdi_devices.is_empty() {
            let mut cdi = self.cdi.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // A driver may have written a device of the same name again since.
            cdi.refresh();
            cdi.inject(&mut config, &spec.cdi_devices)
                .map_err(|error| RuntimeError::Failed(error.to_string()))?;
        }
        let log = sandbox.spec.log_directory.join(&spec.key.name).join(format!("{}.log", spec.key.attempt));
        if let Some(logs) = log.parent() {
            make_log_directory(logs).map_err(failed(logs))?;
        }
        let shim = ShimSpec {
            id: layout::container_id(&spec.key),
            log: log.clone(),
            tty: spec.tty,
            stdin: spec.stdin,
            stdin_once: spec.stdin_once,
            cgroup: group,
            engine: self.engine.clone(),
        };
        let config_path = directory.bundle().join("config.json");
        layout::write(&config_path, &config).map_err(failed(&config_path))?;
        layout::write(&directory.shim_spec(), &shim).map_err(failed(&directory.0))?;
        Ok(ContainerRecord { spec, log })
    }

    /// The root file system, mounted where it has layers.
    fn root(&self, directory: &ContainerDir, spec: &ContainerSpec) -> Result<PathBuf, RuntimeError> {
        match (&spec.root, &self.engine) {
            (RootFs::Directory(path), _) => Ok(path.clone()),
            (RootFs::Layers(layers), Engine::Oci { .. }) => {
                let (upper, work) = (directory.upper(), directory.0.join("work"));
                let rootfs = directory.rootfs();
                overlay::mount_layers(layers, &upper, &work, &rootfs, overlay::Attributes::Trusted)
                    .map_err(|error| RuntimeError::Failed(format!("mount the image's layers: {error}")))?;
                Ok(rootfs)
            }
            // Mounted by the container itself, or not at all.
            (RootFs::Layers(_), Engine::Namespaces | Engine::Processes) => {
                for name in ["upper", "work", "bundle/rootfs"] {
                    let made = directory.0.join(name);
                    std::fs::create_dir_all(&made).map_err(failed(&made))?;
                }
                Ok(directory.rootfs())
            }
        }
    }

    pub(super) async fn start(self: &Arc<Self>, id: &str) -> Result<(), RuntimeError> {
        let directory = self.container(id)?;
        let _lock = self.lock(id).await;
        match self.phase_of(&directory, id).await? {
            Phase::Created => {}
            Phase::Running { .. } => return Ok(()),
            Phase::Exited(_) => return Err(RuntimeError::NotPossible(format!("container {id} has ended"))),
        }
        let _permit = self.launches.acquire().await;
        send_request(&directory, &Request::Start).await
    }

    /// How far a container is.
    pub(super) async fn phase_of(
        self: &Arc<Self>,
        directory: &ContainerDir,
        id: &str,
    ) -> Result<Phase, RuntimeError> {
        let (shared, directory) = (Arc::clone(self), directory.clone());
        let state = blocking(move || shared.container_state(&directory)).await?;
        state.map(|state| state.phase).ok_or_else(|| RuntimeError::NotFound(format!("container {id}")))
    }
}

/// The namespaces of a sandbox, by OCI's names for them.
fn namespaces(parent: &SandboxDir, sandbox: &SandboxRecord) -> Vec<(&'static str, PathBuf)> {
    let names = [("net", "network"), ("ipc", "ipc"), ("uts", "uts"), ("pid", "pid")];
    let has = |kind: &str| sandbox.namespaces.iter().any(|other| other == kind);
    names
        .into_iter()
        .filter(|(kind, _)| has(kind))
        .map(|(kind, name)| (name, parent.namespace(kind)))
        .collect()
}
