//! The settings of a pod that this runtime cannot apply.

use super::Shared;
use crate::{ContainerSpec, Propagation, RootFs, SandboxSpec, Seccomp, cni, record::Engine};

impl Shared {
    pub(super) fn not_applied(&self, sandbox: &SandboxSpec, container: &ContainerSpec) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut add = |is_asked_for: bool, text: &str| {
            if is_asked_for && !all.iter().any(|other| other == text) {
                all.push(text.to_owned());
            }
        };
        let score = container.limits.oom_score_adjustment;
        add(score.is_some_and(|score| score < self.oom_score_floor), "OOM score below that of the agent");
        let filters = container.security.seccomp != Seccomp::Unconfined && !container.security.privileged;
        add(filters && self.seccomp.is_none(), "seccomp profile");
        let has_network = || !matches!(cni::Network::find(&self.options), Ok(None));
        match self.engine {
            Engine::Oci { .. } => {
                self.limits_not_applied(sandbox, container, &mut add);
                add(
                    !sandbox.namespaces.host_network && !has_network(),
                    "network of the pod (no CNI configuration)",
                );
            }
            Engine::Namespaces => {
                without_cgroups(sandbox, container, &mut add);
                let is_root = rustix::process::geteuid().is_root();
                let user = &container.identity;
                add(
                    !is_root && (user.uid != 0 || user.gid != 0 || !user.groups.is_empty()),
                    "user and groups",
                );
                add(!sandbox.namespaces.host_network, "network of the pod");
                add(!sandbox.sysctls.is_empty(), "sysctls");
                add(sandbox.namespaces.shared_pid, "shared process namespace");
                add(
                    container.mounts.iter().any(|mount| mount.propagation == Propagation::Both),
                    "mount propagation to the host",
                );
                add(container.security.privileged, "privileged mode");
            }
            Engine::Processes => {
                without_cgroups(sandbox, container, &mut add);
                without_namespaces(sandbox, container, &mut add);
            }
        }
        all
    }

    fn limits_not_applied(
        &self,
        sandbox: &SandboxSpec,
        container: &ContainerSpec,
        add: &mut impl FnMut(bool, &str),
    ) {
        let both = [&sandbox.limits, &container.limits];
        add(both.iter().any(|limits| limits.memory.is_some()) && !self.cgroups.has("memory"), "memory limit");
        add(both.iter().any(|limits| limits.pids.is_some()) && !self.cgroups.has("pids"), "process limit");
        let has_cpu = |limits: &&crate::Limits| limits.cpu_shares.is_some() || limits.cpu_quota_us.is_some();
        add(both.iter().any(has_cpu) && !self.cgroups.has("cpu"), "CPU limit");
    }
}

fn without_cgroups(sandbox: &SandboxSpec, container: &ContainerSpec, add: &mut impl FnMut(bool, &str)) {
    for limits in [&sandbox.limits, &container.limits] {
        add(limits.memory.is_some(), "memory limit");
        add(limits.pids.is_some(), "process limit");
        add(limits.cpu_quota_us.is_some(), "CPU limit");
        add(limits.cpu_shares.is_some(), "CPU shares");
    }
    add(true, "device cgroup");
}

fn without_namespaces(sandbox: &SandboxSpec, container: &ContainerSpec, add: &mut impl FnMut(bool, &str)) {
    let spaces = &sandbox.namespaces;
    add(!spaces.host_network, "network of the pod");
    add(!spaces.host_pid, "process namespace");
    add(!spaces.host_ipc, "IPC namespace");
    add(sandbox.hostname.is_some(), "hostname");
    add(!sandbox.sysctls.is_empty(), "sysctls");
    let is_image = matches!(&container.root, RootFs::Layers(_));
    let is_host = matches!(&container.root, RootFs::Directory(path) if path == std::path::Path::new("/"));
    add(is_image, "image");
    add(!is_image && !is_host, "root directory (it is only the working directory)");
    add(!container.mounts.is_empty(), "mounts");
    add(
        !container.cdi_devices.is_empty(),
        "device nodes, mounts and hooks of CDI devices (their environment is applied)",
    );
    let security = &container.security;
    add(security.read_only_root, "read-only root file system");
    add(security.privileged, "privileged mode");
    add(!security.privileged, "capabilities");
    let user = &container.identity;
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    add(own.0 != 0 && (user.uid, user.gid) != own, "user and groups");
}
