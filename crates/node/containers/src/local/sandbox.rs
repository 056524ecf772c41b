//! Sandboxes: what the containers of a pod share.

use std::{fs, io, path::Path, process::Stdio, sync::Arc};

use super::{Shared, blocking, failed, list::directories, shim::LAUNCH_TIME_MAX};
use crate::{
    Connection, RuntimeError, SandboxSpec, SandboxState, cgroup, clock, cni, connect_in,
    layout::{self, ContainerDir, SandboxDir},
    mounts::{remove_directory, unmount_at},
    record::{Engine, HoldSpec, SandboxRecord},
    shim::{pause_lock, pause_pid},
};

/// Bytes of a pod's `/dev/shm`, as other runtimes have it.
const SHM_BYTES: u64 = 64 << 20;

impl Shared {
    pub(super) async fn run_sandbox(
        self: Arc<Self>,
        spec: SandboxSpec,
    ) -> Result<SandboxState, RuntimeError> {
        if !layout::is_name(&spec.pod_uid) {
            return Err(RuntimeError::NotPossible(format!(
                "{:?} cannot be the UID of a pod here",
                spec.pod_uid
            )));
        }
        let directory = self.sandbox(&spec.pod_uid)?;
        let _lock = self.lock(&spec.pod_uid).await;
        if let Some(found) = self.state_of(&directory).await? {
            return Ok(found);
        }
        if let Err(error) = self.make_sandbox(&directory, spec).await {
            let shared = Arc::clone(&self);
            let rest = directory.clone();
            if let Err(error) = blocking(move || shared.erase_sandbox(&rest)).await {
                tracing::warn!(%error, "remove what is left of a sandbox");
            }
            return Err(error);
        }
        let missing = || RuntimeError::Failed("the sandbox is not there after it was made".to_owned());
        self.state_of(&directory).await?.ok_or_else(missing)
    }

    async fn state_of(
        self: &Arc<Self>,
        directory: &SandboxDir,
    ) -> Result<Option<SandboxState>, RuntimeError> {
        let (shared, directory) = (Arc::clone(self), directory.clone());
        blocking(move || shared.sandbox_state(&directory)).await
    }

    async fn make_sandbox(
        self: &Arc<Self>,
        directory: &SandboxDir,
        spec: SandboxSpec,
    ) -> Result<(), RuntimeError> {
        let network = self.network_for(&spec)?;
        let namespaces = self.namespaces_of(&spec, network.is_some());
        let shared = Arc::clone(self);
        let (hold, place) = (self.hold_spec(directory, &spec, &namespaces), directory.clone());
        let (limits, group) = (spec.limits, cgroup::of_pod(&self.group, &spec.pod_uid));
        blocking(move || {
            shared.erase_sandbox(&place)?;
            for made in [place.0.clone(), place.0.join("ns"), place.containers()] {
                layout::private_directory(&made).map_err(failed(&made))?;
            }
            if !matches!(shared.engine, Engine::Oci { .. }) {
                make_shared_memory(&place)?;
            }
            shared
                .cgroups
                .make(&group, &limits)
                .map_err(|error| RuntimeError::Failed(format!("cgroup: {error}")))?;
            layout::write(&place.0.join("hold.json"), &hold).map_err(failed(&place.0))
        })
        .await?;
        if matches!(self.engine, Engine::Oci { .. }) {
            self.hold(&directory.0.join("hold.json")).await?;
        }
        let mut attachment = None;
        if let Some(network) = network {
            let place = directory.namespace("net");
            let pod = cni::Pod {
                uid: spec.pod_uid.clone(),
                namespace: spec.namespace.clone(),
                name: spec.name.clone(),
            };
            let (options, noted) = (self.options.clone(), directory.network());
            attachment = Some(
                blocking(move || {
                    layout::write(&noted, &network.planned(&pod).into_value()).map_err(failed(&noted))?;
                    network.add(&options, &pod, &place)
                })
                .await?,
            );
        }
        let record = SandboxRecord {
            spec,
            created_at: clock::now(),
            namespaces,
            ips: attachment.as_ref().map(cni::Attachment::ips).unwrap_or_default(),
            network: attachment.map(cni::Attachment::into_value),
            is_stopped: false,
        };
        let path = directory.record();
        blocking(move || layout::write(&path, &record).map_err(failed(&path))).await
    }

    fn network_for(&self, spec: &SandboxSpec) -> Result<Option<cni::Network>, RuntimeError> {
        if spec.namespaces.host_network || !matches!(self.engine, Engine::Oci { .. }) {
            return Ok(None);
        }
        cni::Network::find(&self.options)
    }

    /// The namespaces that are made for a pod.
    fn namespaces_of(&self, spec: &SandboxSpec, has_network: bool) -> Vec<String> {
        if !matches!(self.engine, Engine::Oci { .. }) {
            return Vec::new();
        }
        let wanted = [
            ("net", has_network),
            ("ipc", !spec.namespaces.host_ipc),
            // The name of a host goes with its network.
            ("uts", !spec.namespaces.host_network),
            ("pid", spec.namespaces.shared_pid && !spec.namespaces.host_pid),
        ];
        wanted.into_iter().filter(|(_, wanted)| *wanted).map(|(kind, _)| kind.to_owned()).collect()
    }

    fn hold_spec(&self, directory: &SandboxDir, spec: &SandboxSpec, namespaces: &[String]) -> HoldSpec {
        HoldSpec {
            directory: directory.0.clone(),
            namespaces: namespaces.to_vec(),
            hostname: spec.hostname.clone(),
            sysctls: spec.sysctls.clone(),
            shm_bytes: (!spec.namespaces.host_ipc).then_some(SHM_BYTES),
            agent: std::process::id(),
        }
    }

    async fn hold(&self, path: &Path) -> Result<(), RuntimeError> {
        let mut command = self.plain_command("hold")?;
        command
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let output = tokio::time::timeout(LAUNCH_TIME_MAX, command.output()).await;
        let output = output.map_err(|_| super::shim::late())?;
        let output = output.map_err(|error| RuntimeError::Failed(format!("hold a sandbox: {error}")))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        Err(RuntimeError::Failed(format!("sandbox: {}", text.trim())))
    }

    pub(super) async fn stop_sandbox(self: &Arc<Self>, id: &str) -> Result<(), RuntimeError> {
        let directory = self.sandbox(id)?;
        let _lock = self.lock(id).await;
        self.stop_locked(&directory).await
    }

    /// Ends it; nothing to end is no error.
    async fn stop_locked(self: &Arc<Self>, directory: &SandboxDir) -> Result<(), RuntimeError> {
        let record_path = directory.record();
        let Some(mut record) = blocking(move || layout::read::<SandboxRecord>(&record_path)).await? else {
            return Ok(());
        };
        for path in directories(&directory.containers())? {
            self.kill(&ContainerDir(path)).await?;
        }
        if record.is_stopped {
            return Ok(());
        }
        let (shared, directory) = (Arc::clone(self), directory.clone());
        blocking(move || {
            if let Some(attachment) = record.network.take() {
                let network = directory.namespace("net");
                cni::Attachment::from_value(attachment).remove(&shared.options, &network);
            }
            kill_first_process(&directory)?;
            unmount_own(&directory)?;
            record.is_stopped = true;
            layout::write(&directory.record(), &record).map_err(failed(&directory.0))
        })
        .await
    }

    pub(super) async fn remove_sandbox(self: &Arc<Self>, id: &str) -> Result<(), RuntimeError> {
        let directory = self.sandbox(id)?;
        let _lock = self.lock(id).await;
        self.stop_locked(&directory).await?;
        for path in directories(&directory.containers())? {
            self.erase(&ContainerDir(path)).await?;
        }
        let shared = Arc::clone(self);
        blocking(move || shared.erase_sandbox(&directory)).await
    }

    /// Removes the leftovers of a sandbox whose containers are gone. Its directory is made first and removed last.
    pub(super) fn erase_sandbox(&self, directory: &SandboxDir) -> Result<(), RuntimeError> {
        if !directory.0.try_exists().map_err(failed(&directory.0))? {
            return Ok(());
        }
        // One that was stopped is attached no more.
        if !directory.record().try_exists().map_err(failed(&directory.0))?
            && let Some(planned) = layout::read(&directory.network())?
        {
            cni::Attachment::from_value(planned).remove(&self.options, &directory.namespace("net"));
        }
        kill_first_process(directory)?;
        unmount_own(directory)?;
        if let Some(uid) = directory.0.file_name().and_then(|uid| uid.to_str()) {
            let group = cgroup::of_pod(&self.group, uid);
            self.cgroups.kill_all(&group);
            self.cgroups.remove(&group).map_err(|error| RuntimeError::Failed(format!("cgroup: {error}")))?;
        }
        remove_directory(&directory.0).map_err(failed(&directory.0))
    }

    pub(super) async fn connect(&self, id: &str, port: u16) -> Result<Box<dyn Connection>, RuntimeError> {
        let directory = self.sandbox(id)?;
        let _permit = self.permits.program(id).await?;
        let unknown = || RuntimeError::NotFound(format!("sandbox {id}"));
        let record = layout::read::<SandboxRecord>(&directory.record())?.ok_or_else(unknown)?;
        if record.is_stopped {
            return Err(RuntimeError::NotPossible("the sandbox is stopped".to_owned()));
        }
        let has_network = record.namespaces.iter().any(|kind| kind == "net");
        check_ports(has_network, record.spec.namespaces.host_network)?;
        connect_in(has_network.then(|| directory.namespace("net")), port).await
    }
}

/// A pod that shares the host's network without having asked for it has no ports of its own: what listens there may be the node's.
fn check_ports(has_network: bool, wants_host: bool) -> Result<(), RuntimeError> {
    if has_network || wants_host {
        return Ok(());
    }
    let why = "the pod has no network of its own on this node, and what listens on its ports may be the node's: only pods with hostNetwork: true can be connected to here";
    Err(RuntimeError::NotPossible(why.to_owned()))
}

/// Unmounts what a sandbox has mounted.
fn unmount_own(directory: &SandboxDir) -> Result<(), RuntimeError> {
    let namespaces = ["net", "ipc", "uts", "pid"].map(|kind| directory.namespace(kind));
    for path in namespaces.into_iter().chain([directory.shm()]) {
        unmount_at(&path).map_err(failed(&path))?;
    }
    Ok(())
}

/// Without a mount of its own: a directory that the containers of the pod share.
fn make_shared_memory(directory: &SandboxDir) -> Result<(), RuntimeError> {
    let shm = directory.shm();
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    fs::create_dir_all(&shm).and_then(|()| fs::set_permissions(&shm, open_to_all)).map_err(failed(&shm))
}

/// Kills the first process of a shared process namespace, and all others of it with that.
fn kill_first_process(directory: &SandboxDir) -> Result<(), RuntimeError> {
    if !layout::is_held(&pause_lock(directory)).map_err(failed(&directory.0))? {
        return Ok(());
    }
    let text = match fs::read_to_string(pause_pid(directory)) {
        Ok(text) => text,
        // It has not begun.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(&directory.0)(error)),
    };
    if let Some(pid) = text.trim().parse().ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_ports;

    #[test]
    fn ports_of_the_host_are_those_of_pods_that_asked_for_its_network() {
        for (has_network, wants_host, may) in
            [(true, false, true), (false, true, true), (true, true, true), (false, false, false)]
        {
            assert_eq!(check_ports(has_network, wants_host).is_ok(), may, "{has_network} {wants_host}");
        }
    }
}
