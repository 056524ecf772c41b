//! A pod, taken apart once.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSecurityContext, PodSpec};

use crate::{SpecError, names};

/// The parts of a pod that are always there. Its names can be names of directories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodView<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) spec: &'a PodSpec,
}

impl<'a> PodView<'a> {
    pub(crate) fn new(pod: &'a Pod) -> Result<Self, SpecError> {
        let metadata = &pod.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let uid = metadata.uid.as_deref().unwrap_or_default();
        if !names::is_subdomain(name) || !names::is_label(namespace) || !names::is_uid(uid) {
            return Err(SpecError::sandbox(format!(
                "pod {namespace:?}/{name:?} with the UID {uid:?} has a name that cannot name a directory"
            )));
        }
        let Some(spec) = &pod.spec else {
            return Err(SpecError::sandbox(format!("pod {namespace}/{name} has no spec")));
        };
        Ok(Self { pod, name, namespace, uid, spec })
    }

    /// `NAME_NAMESPACE(UID)`, as Kubernetes names pods in its messages.
    pub(crate) fn long_name(&self) -> String {
        format!("{}_{}({})", self.name, self.namespace, self.uid)
    }

    pub(crate) fn security(&self) -> Option<&'a PodSecurityContext> {
        self.spec.security_context.as_ref()
    }

    /// Whether its users are those of the node, as they are if it does not say.
    pub(crate) fn has_host_users(&self) -> bool {
        self.spec.host_users.unwrap_or(true)
    }

    pub(crate) fn is_host_network(&self) -> bool {
        self.spec.host_network.unwrap_or(false)
    }

    /// Containers for initialisation first, as they are declared.
    pub(crate) fn containers(&self) -> impl Iterator<Item = Cow<'a, Container>> + use<'a> {
        let spec = self.spec;
        let ephemeral =
            spec.ephemeral_containers.iter().flatten().map(|container| Cow::Owned(plain(container)));
        long_running(spec).map(Cow::Borrowed).chain(ephemeral)
    }

    pub(crate) fn container(&self, name: &str) -> Result<Cow<'a, Container>, SpecError> {
        if !names::is_label(name) {
            return Err(SpecError::config(format!(
                "container {name:?} has a name that cannot name a directory"
            )));
        }
        self.containers()
            .find(|container| container.name == name)
            .ok_or_else(|| SpecError::config(format!("container {name} not found")))
    }
}

/// Containers for initialisation, then the others; none that were added later.
pub(crate) fn long_running(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// Whether a container for initialisation goes on beside the others.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn plain(container: &EphemeralContainer) -> Container {
    let container = container.clone();
    Container {
        args: container.args,
        command: container.command,
        env: container.env,
        env_from: container.env_from,
        image: container.image,
        image_pull_policy: container.image_pull_policy,
        lifecycle: container.lifecycle,
        name: container.name,
        resources: container.resources,
        security_context: container.security_context,
        stdin: container.stdin,
        stdin_once: container.stdin_once,
        termination_message_path: container.termination_message_path,
        termination_message_policy: container.termination_message_policy,
        tty: container.tty,
        volume_devices: container.volume_devices,
        volume_mounts: container.volume_mounts,
        working_dir: container.working_dir,
        ..Container::default()
    }
}
