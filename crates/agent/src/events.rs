//! Events of pods and of the Node.

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
pub(crate) const QUEUE_MAX: usize = 1_024;

/// What it is about.
#[derive(Debug)]
pub(crate) enum About {
    /// A pod, or a part of it.
    Pod { pod: PodRef, field: Option<String> },
    /// The Node.
    Node,
}

/// Something to say to people.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) about: About,
    pub(crate) is_warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Writes what comes, one after another, until nobody sends any more.
pub(crate) async fn write_all(client: kube::Client, node: String, mut notes: mpsc::Receiver<Note>) {
    while let Some(note) = notes.recv().await {
        write(client.clone(), &node, note).await;
    }
}

/// Writes an event. One that is lost is lost: the log has it.
pub(crate) async fn write(client: kube::Client, node: &str, note: Note) {
    let event = event(node, note);
    let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(client, namespace);
    match timeout(WRITE_TIMEOUT, api.create(&PostParams::default(), &event)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => debug!(%error, "write an event"),
        Err(_) => debug!("write an event: no answer"),
    }
}

fn event(node: &str, note: Note) -> Event {
    let Note { about, is_warning, reason, message } = note;
    // The Node has no namespace, and its UID in events is its name, as kubelet has it.
    let (kind, namespace, name, uid, field_path) = match about {
        About::Pod { pod, field } => ("Pod", pod.namespace, pod.name, pod.uid, field),
        About::Node => ("Node", "default".to_owned(), node.to_owned(), node.to_owned(), None),
    };
    let now = clock::wall();
    Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}.")),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some(kind.into()),
            name: Some(name),
            namespace: Some(namespace).filter(|_| kind == "Pod"),
            uid: Some(uid),
            field_path,
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
