//! Warnings for people: events of pods.

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, api::PostParams};
use lazaret_node::PodRef;
use tokio::time::timeout;
use tracing::debug;

use crate::{clock, registration::cut};

const COMPONENT: &str = "lazaret-node";
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Writes an event. One that is lost is lost: the log has it.
pub(crate) async fn write(
    client: kube::Client,
    node: String,
    pod: PodRef,
    reason: &'static str,
    message: String,
) {
    let api: Api<Event> = Api::namespaced(client, &pod.namespace);
    let now = clock::wall();
    let event = Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}.", pod.name)),
            namespace: Some(pod.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            name: Some(pod.name),
            namespace: Some(pod.namespace),
            uid: Some(pod.uid),
            ..ObjectReference::default()
        },
        reason: Some(reason.into()),
        message: Some(cut(&message).to_owned()),
        type_: Some("Warning".into()),
        source: Some(EventSource { component: Some(COMPONENT.into()), host: Some(node.clone()) }),
        reporting_component: Some(COMPONENT.into()),
        reporting_instance: Some(node),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    };
    match timeout(WRITE_TIMEOUT, api.create(&PostParams::default(), &event)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => debug!(%error, "write an event"),
        Err(_) => debug!("write an event: no answer"),
    }
}
