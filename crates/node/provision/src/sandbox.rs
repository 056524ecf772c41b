//! The sandbox that the containers of a pod share.

use std::{collections::BTreeMap, path::PathBuf};

use k8s_openapi::api::core::v1::Pod;
use lazaret_containers::{Namespaces, SandboxSpec};

use crate::{NodeFacts, SpecError, amount, hostname, limits, pod::PodView, security, sysctls};

/// Describes the sandbox of a pod.
///
/// # Errors
/// When the pod asks for something that this node does not allow or does not have.
pub fn sandbox_spec(pod: &Pod, facts: &NodeFacts) -> Result<SandboxSpec, SpecError> {
    let view = PodView::new(pod)?;
    let spec = view.spec;
    amount::check(spec)?;
    security::check_app_armor(&view, facts)?;
    security::check_pod(&view)?;
    if !spec.host_users.unwrap_or(true) {
        return Err(SpecError::sandbox("user namespaces (hostUsers: false) are not supported on this node"));
    }
    let sysctls = sysctls::of_pod(&view, facts)?;
    let hostname = if view.is_host_network() {
        None
    } else {
        Some(hostname::for_kernel(&view, &hostname::of_pod(&view, &facts.cluster_domain)?)?)
    };
    Ok(SandboxSpec {
        pod_uid: view.uid.to_owned(),
        namespace: view.namespace.to_owned(),
        name: view.name.to_owned(),
        hostname,
        namespaces: Namespaces {
            host_network: view.is_host_network(),
            host_pid: spec.host_pid.unwrap_or(false),
            host_ipc: spec.host_ipc.unwrap_or(false),
            shared_pid: spec.share_process_namespace.unwrap_or(false),
        },
        sysctls,
        limits: limits::of_pod(&view, facts),
        log_directory: log_directory(&view, facts),
        labels: labels(&view),
    })
}

/// `NAMESPACE_NAME_UID` below the root of all logs.
fn log_directory(view: &PodView<'_>, facts: &NodeFacts) -> PathBuf {
    facts.log_root.join(format!("{}_{}_{}", view.namespace, view.name, view.uid))
}

/// The labels by which kubelet finds what is a pod's.
pub(crate) fn labels(view: &PodView<'_>) -> BTreeMap<String, String> {
    [
        ("io.kubernetes.pod.name", view.name),
        ("io.kubernetes.pod.namespace", view.namespace),
        ("io.kubernetes.pod.uid", view.uid),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}
