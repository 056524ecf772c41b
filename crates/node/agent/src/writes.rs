//! Writes to the API.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::{
    core::v1::{
        ContainerState, ContainerStateWaiting, ContainerStatus, Node, Pod, ResourceHealth as WireHealth,
        ResourceStatus as WireStatus,
    },
    resource::v1::ResourceSlice,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions},
};
use lazaret_api::unprepared_to_text;
use lazaret_model::{REPORTS_UNPREPARED, UNPREPARED};
use lazaret_node::{Outcome, PodRef, ResourceStatus};
use serde_json::json;
use tokio::time::timeout;

use crate::api_words::api_words;

/// For one write, with what has to be read for it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits the time of a write.
pub(crate) async fn limited(write: impl Future<Output = Result<(), kube::Error>>) -> Outcome {
    match timeout(WRITE_TIMEOUT, write).await {
        Ok(Ok(())) => Outcome::Done,
        Ok(Err(error)) => Outcome::Failed(api_words(&error)),
        Err(_) => Outcome::Failed(format!("no answer from the API within {} s", WRITE_TIMEOUT.as_secs())),
    }
}

/// Deletes the slices of a node; of one driver, or of all.
pub(crate) async fn wipe(
    client: kube::Client,
    node: &str,
    driver: Option<String>,
) -> Result<(), kube::Error> {
    let api: Api<ResourceSlice> = Api::all(client);
    let driver = driver.map(|driver| format!(",spec.driver={driver}")).unwrap_or_default();
    let of = ListParams::default().fields(&format!("spec.nodeName={node}{driver}"));
    match api.delete_collection(&DeleteParams::default(), &of).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => result.map(drop),
    }
}

/// Says in the Node which claims are unprepared.
pub(crate) async fn report(
    client: kube::Client,
    node: &str,
    unprepared: BTreeSet<String>,
) -> Result<(), kube::Error> {
    let api: Api<Node> = Api::all(client);
    let unprepared: BTreeSet<lazaret_model::Uid> =
        unprepared.into_iter().map(|uid| uid.as_str().into()).collect();
    let text = (!unprepared.is_empty()).then(|| unprepared_to_text(&unprepared));
    let patch = json!({"metadata": {"annotations": {REPORTS_UNPREPARED: "true", UNPREPARED: text}}});
    api.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

/// Removes a pod of which nothing is left.
pub(crate) async fn delete_pod(client: kube::Client, pod: PodRef) -> Result<(), kube::Error> {
    let api: Api<Pod> = Api::namespaced(client, &pod.namespace);
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: Some(pod.uid), resource_version: None }),
        ..DeleteParams::default()
    };
    match api.delete(&pod.name, &params).await {
        // It is gone, or another pod has its name.
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        result => result.map(drop),
    }
}

/// Writes what the statuses of containers say of devices, and leaves the rest of them alone.
pub(crate) async fn show_status(
    client: kube::Client,
    pod: PodRef,
    containers: BTreeMap<String, Vec<ResourceStatus>>,
) -> Result<(), kube::Error> {
    let api: Api<Pod> = Api::namespaced(client, &pod.namespace);
    let Some(found) = api.get_opt(&pod.name).await? else { return Ok(()) };
    if found.metadata.uid.as_deref() != Some(&pod.uid) {
        return Ok(());
    }
    let mut statuses = found.status.and_then(|status| status.container_statuses).unwrap_or_default();
    for container in found.spec.map(|spec| spec.containers).unwrap_or_default() {
        if statuses.iter().all(|status| status.name != container.name) {
            statuses.push(waiting(container.name, container.image.unwrap_or_default()));
        }
    }
    for status in &mut statuses {
        let others = status.allocated_resources_status.take().unwrap_or_default().into_iter();
        let others = others.filter(|status| !status.name.starts_with("claim:"));
        let own = containers.get(&status.name).into_iter().flatten().map(wire);
        let all: Vec<WireStatus> = others.chain(own).collect();
        status.allocated_resources_status = (!all.is_empty()).then_some(all);
    }
    let patch = json!({
        "metadata": {"uid": pod.uid, "resourceVersion": found.metadata.resource_version},
        "status": {"containerStatuses": statuses},
    });
    api.patch_status(&pod.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

/// The status of a container that was not started.
fn waiting(name: String, image: String) -> ContainerStatus {
    let waiting = ContainerStateWaiting { reason: Some("ContainerCreating".into()), message: None };
    let state = ContainerState { waiting: Some(waiting), ..ContainerState::default() };
    ContainerStatus { name, image, state: Some(state), ..ContainerStatus::default() }
}

fn wire(status: &ResourceStatus) -> WireStatus {
    let resource = |resource: &lazaret_node::ResourceHealth| WireHealth {
        resource_id: resource.id.clone(),
        health: Some(resource.health.name().to_owned()),
        message: resource.message.clone(),
    };
    let resources = status.resources.iter().map(resource).collect();
    WireStatus { name: status.name.clone(), resources: Some(resources) }
}
