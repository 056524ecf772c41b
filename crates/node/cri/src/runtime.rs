//! The trait, over the protocol.

use std::{
    collections::BTreeMap,
    io::Cursor,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lazaret_containers::{
    Answer, Attached, Connection as Stream, ContainerSpec, Exec, Limits, Phase, PodGroups, Running, Runtime,
    RuntimeError, SandboxSpec, SandboxState, Usage, connect_in, make_log_directory,
};
use tokio::{
    sync::{OnceCell, oneshot, watch},
    task::JoinSet,
};

use crate::{
    clock::time,
    connection::Connection,
    convert::{self, POD_UID_LABEL, unsupported},
    proto,
    uses::Uses,
    version,
};

/// Calls that only look something up.
pub(crate) const QUERY_LIMIT: Duration = Duration::from_secs(30);
/// Calls that make or remove something: what a kubelet waits.
pub(crate) const CHANGE_LIMIT: Duration = Duration::from_secs(120);
/// How often the runtime is asked whether a container ended, as a kubelet asks.
const RELIST_INTERVAL: Duration = Duration::from_secs(1);
/// A device that no file describes: a runtime that applies CDI names refuses it.
const PROBE_DEVICE: &str = "lazaret.dev/probe=absent";
const PROBE_NAME: &str = "lazaret-cdi-probe";

/// A runtime behind a CRI socket.
#[derive(Debug)]
pub struct Cri {
    pub(crate) connection: Arc<Connection>,
    /// Whose pods are ours: several nodes may use one runtime.
    node: String,
    name: String,
    version: String,
    applies_cdi: OnceCell<()>,
    /// Groups of pods, where the runtime puts the groups of containers below them.
    groups: Option<PodGroups>,
    pub(crate) uses: Uses,
    changes: watch::Receiver<u64>,
    /// Sessions of programs, and the task that watches for changes. They end with this.
    tasks: Mutex<JoinSet<()>>,
}

impl Cri {
    /// Connects to a socket, for the pods of one node. A runtime that is known to ignore CDI devices is refused.
    pub async fn connect(socket: impl Into<PathBuf>, node: &str) -> Result<Self, RuntimeError> {
        let connection = Arc::new(Connection::new(socket.into()));
        let request = proto::VersionRequest { version: String::new() };
        let version: proto::VersionResponse = connection.call(proto::VERSION, request, QUERY_LIMIT).await?;
        version::check(&version)?;
        tracing::info!(
            runtime = %version.runtime_name,
            version = %version.runtime_version,
            "connected to the runtime"
        );
        let (sender, changes) = watch::channel(0);
        let mut tasks = JoinSet::new();
        tasks.spawn(notice_changes(Arc::clone(&connection), node.to_owned(), sender));
        Ok(Self {
            connection,
            node: node.to_owned(),
            name: version::name(&version),
            version: version.runtime_version,
            applies_cdi: OnceCell::new(),
            groups: None,
            uses: Uses::default(),
            changes,
            tasks: Mutex::new(tasks),
        })
    }

    /// Limits pods as a whole from now on, by control groups of theirs that it makes, where that is possible: the runtime has to say
    /// that it makes control groups itself and does not ask systemd for them.
    pub async fn with_pod_groups(mut self) -> Self {
        let answer = self.connection.call(proto::RUNTIME_CONFIG, proto::Empty {}, QUERY_LIMIT).await;
        let driver = match answer {
            Ok(proto::RuntimeConfigResponse { linux }) => linux.map(|linux| linux.cgroup_driver),
            // Older ones do not know the question.
            Err(error) => {
                tracing::debug!(%error, "ask the runtime for its cgroup driver");
                None
            }
        };
        if driver == Some(proto::CGROUP_DRIVER_CGROUPFS) {
            self.groups = PodGroups::open(&self.node);
        }
        if let (Some(groups), Ok(states)) = (&self.groups, self.list().await) {
            groups.keep_only(&states.into_iter().map(|state| state.spec.pod_uid).collect());
        }
        self
    }

    /// Does something that ends by itself.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    /// The sandboxes of this node.
    fn ours(&self) -> proto::PodSandboxFilter {
        proto::PodSandboxFilter {
            id: String::new(),
            label_selector: [(convert::NODE_LABEL.to_owned(), self.node.clone())].into(),
        }
    }

    pub(crate) fn sandbox_config(&self, spec: &SandboxSpec) -> Result<proto::PodSandboxConfig, RuntimeError> {
        let group = self.groups.as_ref().map(|groups| groups.path(&spec.pod_uid)).unwrap_or_default();
        let mut config = convert::sandbox_config(spec, group)?;
        config.labels.insert(convert::NODE_LABEL.to_owned(), self.node.clone());
        Ok(config)
    }

    async fn find_sandbox(&self, pod_uid: &str) -> Result<Option<proto::PodSandbox>, RuntimeError> {
        let mut filter = self.ours();
        filter.label_selector.insert(POD_UID_LABEL.to_owned(), pod_uid.to_owned());
        let request = proto::ListPodSandboxRequest { filter: Some(filter) };
        let found: proto::ListPodSandboxResponse =
            self.connection.call(proto::LIST_POD_SANDBOX, request, QUERY_LIMIT).await?;
        let mut ours = Vec::new();
        for item in found.items {
            if convert::sandbox_spec(&item)?.is_some() {
                ours.push(item);
            }
        }
        // One that is ready, or the newest.
        ours.sort_by_key(|item| (item.state == proto::SANDBOX_READY, item.created_at));
        Ok(ours.pop())
    }

    async fn sandbox(&self, id: &str) -> Result<(proto::PodSandbox, SandboxSpec), RuntimeError> {
        let filter = proto::PodSandboxFilter { id: id.to_owned(), label_selector: BTreeMap::new() };
        let request = proto::ListPodSandboxRequest { filter: Some(filter) };
        let found: proto::ListPodSandboxResponse =
            self.connection.call(proto::LIST_POD_SANDBOX, request, QUERY_LIMIT).await?;
        for item in found.items {
            if let Some(spec) = convert::sandbox_spec(&item)? {
                return Ok((item, spec));
            }
        }
        Err(RuntimeError::NotFound(format!("sandbox {id}")))
    }

    async fn containers(&self, sandbox: &str) -> Result<Vec<proto::Container>, RuntimeError> {
        let filter = proto::ContainerFilter {
            pod_sandbox_id: sandbox.to_owned(),
            ..proto::ContainerFilter::default()
        };
        let request = proto::ListContainersRequest { filter: Some(filter) };
        let found: proto::ListContainersResponse =
            self.connection.call(proto::LIST_CONTAINERS, request, QUERY_LIMIT).await?;
        let is_ours =
            |container: &proto::Container| container.annotations.contains_key(convert::CONTAINER_ANNOTATION);
        Ok(found.containers.into_iter().filter(is_ours).collect())
    }

    pub(crate) async fn container(&self, id: &str) -> Result<(proto::ContainerStatus, u32), RuntimeError> {
        let request = proto::ContainerStatusRequest { container_id: id.to_owned(), verbose: true };
        let answer: proto::ContainerStatusResponse =
            self.connection.call(proto::CONTAINER_STATUS, request, QUERY_LIMIT).await?;
        let status = answer.status.ok_or_else(|| RuntimeError::NotFound(format!("container {id}")))?;
        Ok((status, pid(&answer.info)))
    }

    async fn state(&self, item: proto::PodSandbox, spec: SandboxSpec) -> Result<SandboxState, RuntimeError> {
        let request = proto::PodSandboxStatusRequest { pod_sandbox_id: item.id.clone(), verbose: false };
        let answer: proto::PodSandboxStatusResponse =
            self.connection.call(proto::POD_SANDBOX_STATUS, request, QUERY_LIMIT).await?;
        let network = answer.status.and_then(|status| status.network).unwrap_or_default();
        let additional = network.additional_ips.into_iter().map(|address| address.ip);
        let ips =
            std::iter::once(network.ip).chain(additional).filter(|address| !address.is_empty()).collect();
        let mut containers = Vec::new();
        for container in self.containers(&item.id).await? {
            match self.container(&container.id).await {
                Ok((status, pid)) => containers.extend(convert::container_state(&status, pid)?),
                // It went meanwhile.
                Err(RuntimeError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        containers.sort_by(|left, right| left.key.cmp(&right.key));
        for container in containers.iter_mut().filter(|container| container.log.is_relative()) {
            container.log = spec.log_directory.join(&container.log);
        }
        let is_ready = item.state == proto::SANDBOX_READY;
        Ok(SandboxState { id: item.id, spec, is_ready, created_at: time(item.created_at), ips, containers })
    }

    /// The network namespace of a sandbox, by the process that holds it.
    async fn network_of(&self, sandbox: &str) -> Result<PathBuf, RuntimeError> {
        let request = proto::PodSandboxStatusRequest { pod_sandbox_id: sandbox.to_owned(), verbose: true };
        let answer: proto::PodSandboxStatusResponse =
            self.connection.call(proto::POD_SANDBOX_STATUS, request, QUERY_LIMIT).await?;
        match pid(&answer.info) {
            0 => Err(unsupported("port-forward: the runtime does not say which process holds a sandbox")),
            pid => Ok(format!("/proc/{pid}/ns/net").into()),
        }
    }

    async fn run(&self, spec: SandboxSpec) -> Result<SandboxState, RuntimeError> {
        if let Some(item) = self.find_sandbox(&spec.pod_uid).await? {
            return self.state(item, spec).await;
        }
        make_directory(&spec.log_directory)?;
        let request = proto::RunPodSandboxRequest {
            config: Some(self.sandbox_config(&spec)?),
            runtime_handler: String::new(),
        };
        if let Some(groups) = &self.groups {
            groups.make(&spec.pod_uid, &spec.limits)?;
        }
        let made: Result<proto::RunPodSandboxResponse, _> =
            self.connection.call(proto::RUN_POD_SANDBOX, request, CHANGE_LIMIT).await;
        if made.is_err() {
            self.remove_group(&spec.pod_uid);
        }
        let made = made?;
        let (item, spec) = self.sandbox(&made.pod_sandbox_id).await?;
        self.state(item, spec).await
    }

    /// Removes the group of a pod. One in which something still runs is removed by the next agent.
    fn remove_group(&self, pod_uid: &str) {
        if let Some(groups) = &self.groups
            && let Err(error) = groups.remove(pod_uid)
        {
            tracing::warn!(%error, pod_uid, "remove the control group of a pod");
        }
    }

    async fn remove_pod(&self, id: &str) -> Result<(), RuntimeError> {
        let request = proto::PodSandboxIdRequest { pod_sandbox_id: id.to_owned() };
        let mut pod = None;
        if self.groups.is_some() {
            pod = self.sandbox(id).await.ok().map(|(_, spec)| spec.pod_uid);
        }
        gone_is_fine(self.call_empty(proto::STOP_POD_SANDBOX, request.clone(), CHANGE_LIMIT).await)?;
        gone_is_fine(self.call_empty(proto::REMOVE_POD_SANDBOX, request, CHANGE_LIMIT).await)?;
        pod.iter().for_each(|pod| self.remove_group(pod));
        Ok(())
    }

    async fn update_limits(&self, id: &str, own: Limits, of_pod: Limits) -> Result<(), RuntimeError> {
        let request = proto::UpdateContainerResourcesRequest {
            container_id: id.to_owned(),
            linux: Some(convert::resources(&own)),
        };
        let Some(groups) = &self.groups else {
            return self.call_empty(proto::UPDATE_CONTAINER_RESOURCES, request, CHANGE_LIMIT).await;
        };
        let (status, _) = self.container(id).await?;
        let unknown = || RuntimeError::NotFound(format!("container {id}"));
        let pod = convert::kept(&status)?.ok_or_else(unknown)?.key.pod_uid;
        // A group never has more than the one above it: what grows, grows there first; what shrinks, shrinks there last.
        let _ = groups.change(&pod, &of_pod);
        self.call_empty(proto::UPDATE_CONTAINER_RESOURCES, request, CHANGE_LIMIT).await?;
        groups.change(&pod, &of_pod)
    }

    async fn create_container(&self, sandbox: &str, spec: ContainerSpec) -> Result<String, RuntimeError> {
        let (_, sandbox_spec) = self.sandbox(sandbox).await?;
        let is_it = |container: &proto::Container| {
            container
                .metadata
                .as_ref()
                .is_some_and(|own| own.name == spec.key.name && own.attempt == spec.key.attempt)
        };
        if let Some(found) = self.containers(sandbox).await?.into_iter().find(is_it) {
            return Ok(found.id);
        }
        let mut config = convert::container_config(&sandbox_spec, &spec)?;
        config.labels.insert(convert::NODE_LABEL.to_owned(), self.node.clone());
        let sandbox_config = self.sandbox_config(&sandbox_spec)?;
        if !spec.cdi_devices.is_empty() {
            self.must_apply_cdi(sandbox, &config, &sandbox_config).await?;
        }
        make_directory(&sandbox_spec.log_directory.join(&spec.key.name))?;
        self.send_create(sandbox, config, sandbox_config).await
    }

    async fn send_create(
        &self,
        sandbox: &str,
        config: proto::ContainerConfig,
        sandbox_config: proto::PodSandboxConfig,
    ) -> Result<String, RuntimeError> {
        let request = proto::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let made: proto::CreateContainerResponse =
            self.connection.call(proto::CREATE_CONTAINER, request, CHANGE_LIMIT).await?;
        Ok(made.container_id)
    }

    /// Asks once whether CDI names are applied.
    pub(crate) async fn must_apply_cdi(
        &self,
        sandbox: &str,
        config: &proto::ContainerConfig,
        sandbox_config: &proto::PodSandboxConfig,
    ) -> Result<(), RuntimeError> {
        let probe = || self.probe_cdi(sandbox, config, sandbox_config);
        self.applies_cdi.get_or_try_init(probe).await?;
        Ok(())
    }

    /// Asks for a device that does not exist. A runtime that makes the container all the same ignores devices.
    async fn probe_cdi(
        &self,
        sandbox: &str,
        config: &proto::ContainerConfig,
        sandbox_config: &proto::PodSandboxConfig,
    ) -> Result<(), RuntimeError> {
        let mut probe = config.clone();
        probe.metadata = Some(proto::ContainerMetadata { name: PROBE_NAME.to_owned(), attempt: 0 });
        probe.cdi_devices = vec![proto::CdiDevice { name: PROBE_DEVICE.to_owned() }];
        probe.annotations.clear();
        probe.log_path.clear();
        match self.send_create(sandbox, probe, sandbox_config.clone()).await {
            Ok(id) => {
                self.remove_container(&id).await?;
                Err(RuntimeError::NotPossible(
                    "the runtime ignores CDI devices: its support for them is switched off".to_owned(),
                ))
            }
            // The refusal names the device; any other says nothing about devices.
            Err(RuntimeError::Failed(text)) if text.contains(PROBE_DEVICE) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let seconds = i64::try_from(grace.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX);
        let request = proto::StopContainerRequest { container_id: id.to_owned(), timeout: seconds };
        gone_is_fine(
            self.call_empty(proto::STOP_CONTAINER, request, grace.saturating_add(CHANGE_LIMIT)).await,
        )
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        self.stop_container(id, Duration::ZERO).await?;
        let request = proto::ContainerIdRequest { container_id: id.to_owned() };
        gone_is_fine(self.call_empty(proto::REMOVE_CONTAINER, request, CHANGE_LIMIT).await)
    }

    async fn call_empty<M: prost::Message + Default + 'static>(
        &self,
        path: &'static str,
        message: M,
        limit: Duration,
    ) -> Result<(), RuntimeError> {
        let proto::Empty {} = self.connection.call(path, message, limit).await?;
        Ok(())
    }

    /// Runs a program of a probe or a hook, of which the runtime says everything at its end.
    async fn run_program(&self, id: &str, exec: Exec, limit: Duration) -> Result<Running, RuntimeError> {
        let request = proto::ExecSyncRequest {
            container_id: id.to_owned(),
            cmd: exec.command,
            timeout: i64::try_from(limit.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX),
        };
        let answer: proto::ExecSyncResponse =
            self.connection.call(proto::EXEC_SYNC, request, limit.saturating_add(QUERY_LIMIT)).await?;
        let (sender, exit) = oneshot::channel();
        // The receiver is here.
        let _ = sender.send(Ok(answer.exit_code));
        let streams = Attached {
            stdin: None,
            stdout: Some(Box::new(Cursor::new(answer.stdout))),
            stderr: Some(Box::new(Cursor::new(answer.stderr))),
            resize: None,
        };
        Ok(Running { streams, exit })
    }

    async fn usage_of(&self, id: &str) -> Result<Usage, RuntimeError> {
        let (status, pid) = self.container(id).await?;
        if !matches!(convert::phase(&status, pid), Phase::Running { .. }) {
            return Err(RuntimeError::NotPossible(format!("container {id} does not run")));
        }
        let request = proto::ContainerIdRequest { container_id: id.to_owned() };
        let answer: proto::ContainerStatsResponse =
            self.connection.call(proto::CONTAINER_STATS, request, QUERY_LIMIT).await?;
        let stats = answer.stats.unwrap_or_default();
        let value = |value: Option<proto::UInt64Value>| value.map_or(0, |value| value.value);
        let memory = stats.memory.unwrap_or_default();
        Ok(Usage {
            cpu_nanoseconds: value(stats.cpu.unwrap_or_default().usage_core_nano_seconds),
            memory_working_set: value(memory.working_set_bytes),
            memory: value(memory.usage_bytes),
            pids: 0,
        })
    }
}

impl Runtime for Cri {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn not_applied(&self, sandbox: &SandboxSpec, container: &ContainerSpec) -> Vec<String> {
        convert::not_applied(sandbox, container, self.groups.is_some())
    }

    fn run_sandbox(&self, spec: SandboxSpec) -> Answer<'_, SandboxState> {
        Box::pin(self.run(spec))
    }

    fn stop_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        let request = proto::PodSandboxIdRequest { pod_sandbox_id: id.to_owned() };
        Box::pin(async move {
            gone_is_fine(self.call_empty(proto::STOP_POD_SANDBOX, request, CHANGE_LIMIT).await)
        })
    }

    fn remove_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.remove_pod(id))
    }

    fn create<'a>(&'a self, sandbox: &'a str, spec: ContainerSpec) -> Answer<'a, String> {
        Box::pin(self.create_container(sandbox, spec))
    }

    fn start<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        let request = proto::ContainerIdRequest { container_id: id.to_owned() };
        Box::pin(async move {
            match self.call_empty(proto::START_CONTAINER, request, CHANGE_LIMIT).await {
                // The OCI runtime's error when the program does not exist, or may not be run.
                Err(RuntimeError::Failed(text))
                    if text.contains("OCI runtime create failed") || text.contains("exec:") =>
                {
                    Err(RuntimeError::CannotRun(text))
                }
                other => other,
            }
        })
    }

    fn stop<'a>(&'a self, id: &'a str, grace: Duration) -> Answer<'a, ()> {
        Box::pin(self.stop_container(id, grace))
    }

    fn remove<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.remove_container(id))
    }

    fn list(&self) -> Answer<'_, Vec<SandboxState>> {
        Box::pin(async move {
            let request = proto::ListPodSandboxRequest { filter: Some(self.ours()) };
            let found: proto::ListPodSandboxResponse =
                self.connection.call(proto::LIST_POD_SANDBOX, request, QUERY_LIMIT).await?;
            let mut states = Vec::new();
            for item in found.items {
                let Some(spec) = convert::sandbox_spec(&item)? else { continue };
                match self.state(item, spec).await {
                    Ok(state) => states.push(state),
                    Err(RuntimeError::NotFound(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(states)
        })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    fn exec<'a>(&'a self, id: &'a str, exec: Exec) -> Answer<'a, Running> {
        Box::pin(async move {
            match exec.limit {
                Some(limit) if !exec.stdin && !exec.tty => self.run_program(id, exec, limit).await,
                Some(_) | None => self.stream_program(id, exec).await,
            }
        })
    }

    fn attach<'a>(&'a self, id: &'a str) -> Answer<'a, Attached> {
        Box::pin(self.attach_to(id))
    }

    fn reopen_log<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        let request = proto::ContainerIdRequest { container_id: id.to_owned() };
        Box::pin(self.call_empty(proto::REOPEN_CONTAINER_LOG, request, QUERY_LIMIT))
    }

    fn connect<'a>(&'a self, sandbox: &'a str, port: u16) -> Answer<'a, Box<dyn Stream>> {
        Box::pin(async move {
            let (_, spec) = self.sandbox(sandbox).await?;
            let mut network = None;
            if !spec.namespaces.host_network {
                network = Some(self.network_of(sandbox).await?);
            }
            connect_in(network, port).await
        })
    }

    fn usage<'a>(&'a self, id: &'a str) -> Answer<'a, Usage> {
        Box::pin(self.usage_of(id))
    }

    fn update<'a>(&'a self, id: &'a str, own: Limits, of_pod: Limits) -> Answer<'a, ()> {
        Box::pin(self.update_limits(id, own, of_pod))
    }
}

impl Drop for Cri {
    fn drop(&mut self) {
        self.groups.iter().for_each(PodGroups::close);
    }
}

/// Asks again and again, and tells when the answer differs.
async fn notice_changes(connection: Arc<Connection>, node: String, changes: watch::Sender<u64>) {
    let mut before: Option<BTreeMap<String, i32>> = None;
    loop {
        tokio::time::sleep(RELIST_INTERVAL).await;
        let filter = proto::ContainerFilter {
            label_selector: [(convert::NODE_LABEL.to_owned(), node.clone())].into(),
            ..proto::ContainerFilter::default()
        };
        let request = proto::ListContainersRequest { filter: Some(filter) };
        let answer: Result<proto::ListContainersResponse, _> =
            connection.call(proto::LIST_CONTAINERS, request, QUERY_LIMIT).await;
        let Ok(answer) = answer else { continue };
        let now: BTreeMap<String, i32> =
            answer.containers.into_iter().map(|container| (container.id, container.state)).collect();
        if before.as_ref().is_some_and(|before| *before != now) {
            changes.send_modify(|count| *count += 1);
        }
        before = Some(now);
    }
}

/// Removing what is gone is no error.
fn gone_is_fine(outcome: Result<(), RuntimeError>) -> Result<(), RuntimeError> {
    match outcome {
        Err(RuntimeError::NotFound(_)) => Ok(()),
        other => other,
    }
}

fn make_directory(path: &Path) -> Result<(), RuntimeError> {
    make_log_directory(path)
        .map_err(|error| RuntimeError::Failed(format!("make the log directory {}: {error}", path.display())))
}

/// The first process, which the protocol has only among the details.
fn pid(info: &BTreeMap<String, String>) -> u32 {
    #[derive(serde::Deserialize)]
    struct Info {
        pid: u32,
    }
    info.get("info").and_then(|text| serde_json::from_str::<Info>(text).ok()).map_or(0, |info| info.pid)
}
