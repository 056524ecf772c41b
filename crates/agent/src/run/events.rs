//! Events of pods, written one after another.

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, api::PostParams};
use lazaret_pods::PodRef;
use tokio::{sync::mpsc, time::timeout};
use tracing::debug;

use crate::{clock, registration::cut};

const COMPONENT: &str = "lazaret-node";
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Events that wait. More are only in the log: 110 pods that start say five each.
pub(super) const QUEUE_MAX: usize = 1_024;

/// Something to say about a pod.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) pod: PodRef,
    pub(super) field: Option<String>,
    pub(super) is_warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Writes what comes, until nobody sends any more. One that is lost is lost: the log has it.
pub(super) async fn write_all(client: kube::Client, node: String, mut notes: mpsc::Receiver<Note>) {
    while let Some(note) = notes.recv().await {
        let api: Api<Event> = Api::namespaced(client.clone(), &note.pod.namespace);
        let event = event(&node, note);
        match timeout(WRITE_TIMEOUT, api.create(&PostParams::default(), &event)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => debug!(%error, "write an event"),
            Err(_) => debug!("write an event: no answer"),
        }
    }
}

fn event(node: &str, note: Note) -> Event {
    let Note { pod, field, is_warning, reason, message } = note;
    let now = clock::wall();
    Event {
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
            field_path: field,
            ..ObjectReference::default()
        },
        reason: Some(reason.into()),
        message: Some(cut(&message).to_owned()),
        type_: Some(if is_warning { "Warning" } else { "Normal" }.into()),
        source: Some(EventSource { component: Some(COMPONENT.into()), host: Some(node.to_owned()) }),
        reporting_component: Some(COMPONENT.into()),
        reporting_instance: Some(node.to_owned()),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    }
}
