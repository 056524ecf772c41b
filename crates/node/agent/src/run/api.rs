//! The pods of this node, as its own API finds them.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::api::core::v1::{Container, Pod};
use lazaret_containers::Phase;
use lazaret_nodeapi::{Found, FoundSandbox, NotFound, Pods};
use serde_json::Value;

use super::{
    shared::Shared,
    table::{Entry, Table},
    view::ephemeral,
};

/// The container that clients mean who name none.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// The pods of this node, for its API.
#[derive(Debug)]
pub(super) struct NodePods(pub(super) Arc<Shared>);

impl Pods for NodePods {
    fn find(
        &self,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
        is_previous: bool,
    ) -> Result<Found, NotFound> {
        let table = self.0.table();
        let (entry, object) = find(&table, namespace, pod)?;
        let spec = chosen(object, container)?;
        let name = &spec.name;
        let waits = || {
            let why = waits_for(object, name);
            NotFound::NotStarted(format!("container \"{name}\" in pod \"{pod}\" is waiting to start: {why}"))
        };
        let sandbox = entry.sandbox.as_ref().ok_or_else(waits)?;
        let mut own: Vec<_> = sandbox.containers.iter().filter(|state| state.key.name == *name).collect();
        own.sort_by_key(|state| std::cmp::Reverse(state.key.attempt));
        let found = match is_previous {
            false => own.first().copied().ok_or_else(waits)?,
            true => own.get(1).copied().ok_or_else(|| {
                NotFound::NotStarted(format!(
                    "previous terminated container \"{name}\" in pod \"{pod}\" not found"
                ))
            })?,
        };
        Ok(Found {
            container: found.id.clone(),
            name: name.clone(),
            pod_uid: object.metadata.uid.clone().unwrap_or_default(),
            log: found.log.clone(),
            is_running: matches!(found.phase, Phase::Running { .. }),
            tty: spec.tty == Some(true),
            stdin: spec.stdin == Some(true),
        })
    }

    fn find_sandbox(&self, namespace: &str, pod: &str) -> Result<FoundSandbox, NotFound> {
        let table = self.0.table();
        let (entry, object) = find(&table, namespace, pod)?;
        let ready = entry.sandbox.as_ref().filter(|sandbox| sandbox.is_ready);
        let sandbox = ready
            .ok_or_else(|| NotFound::NotStarted(format!("pod \"{pod}\" does not run yet, or any more")))?;
        let pod_uid = object.metadata.uid.clone().unwrap_or_default();
        Ok(FoundSandbox { id: sandbox.id.clone(), pod_uid })
    }

    fn all(&self) -> Vec<Value> {
        let table = self.0.table();
        let pods =
            table.entries.values().filter(|entry| !entry.is_gone).filter_map(|entry| entry.pod.as_deref());
        pods.filter_map(|pod| serde_json::to_value(pod).ok()).collect()
    }
}

fn find<'a>(table: &'a Table, namespace: &str, name: &str) -> Result<(&'a Entry, &'a Pod), NotFound> {
    let is_it = |pod: &Pod| {
        pod.metadata.name.as_deref() == Some(name) && pod.metadata.namespace.as_deref() == Some(namespace)
    };
    let pods = table.entries.values().filter_map(|entry| Some((entry, entry.pod.as_deref()?)));
    // One that is gone may still be here beside the one that has its name now.
    pods.filter(|(_, pod)| is_it(pod))
        .min_by_key(|(entry, _)| entry.is_gone)
        .ok_or_else(|| NotFound::Unknown(format!("pod \"{name}\" not found in namespace \"{namespace}\"")))
}

/// Why a container has not started, as its status has it, in the words that kubelet uses of logs.
fn waits_for<'a>(pod: &'a Pod, container: &str) -> &'a str {
    let status = pod.status.as_ref();
    let lists = status.map(|status| {
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses]
    });
    let mut all = lists.into_iter().flatten().flatten().flatten();
    let waiting = all
        .find(|status| status.name == container)
        .and_then(|status| status.state.as_ref()?.waiting.as_ref());
    match waiting.and_then(|waiting| waiting.reason.as_deref()) {
        Some("ErrImagePull") => "image can't be pulled",
        Some("ImagePullBackOff") => "trying and failing to pull image",
        Some(reason) => reason,
        None => "ContainerCreating",
    }
}

fn chosen<'a>(pod: &'a Pod, name: Option<&str>) -> Result<Cow<'a, Container>, NotFound> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let Some(spec) = &pod.spec else {
        return Err(NotFound::Unknown(format!("pod {pod_name} has no containers")));
    };
    let default = || pod.metadata.annotations.as_ref()?.get(DEFAULT_CONTAINER).map(String::as_str);
    let declared = spec.init_containers.iter().flatten().chain(&spec.containers).map(Cow::Borrowed);
    let mut all = declared.chain(ephemeral(spec).map(Cow::Owned));
    match name.filter(|name| !name.is_empty()).or_else(default) {
        Some(name) => all
            .find(|container| container.name == name)
            .ok_or_else(|| NotFound::Unknown(format!("container {name} is not valid for pod {pod_name}"))),
        None => match spec.containers.as_slice() {
            [only] => Ok(Cow::Borrowed(only)),
            several => {
                let names: Vec<&str> = several.iter().map(|container| container.name.as_str()).collect();
                let names = names.join(" ");
                Err(NotFound::Unknown(format!(
                    "a container name must be specified for pod {pod_name}, choose one of: [{names}]"
                )))
            }
        },
    }
}
