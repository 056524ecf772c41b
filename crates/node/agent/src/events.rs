//! Events of pods and of the Node.

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use lazaret_pods::{Correlator, EventText, PodRef, Written};
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};
use tracing::debug;

use crate::{
    api_words::api_words,
    clock::{self, Clock},
    registration::cut,
};

const COMPONENT: &str = "lazaret-node";
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Events that wait. More are only in the log: 110 pods that start say five each.
pub(crate) const QUEUE_MAX: usize = 1_024;

/// The object of an event.
#[derive(Debug)]
pub(crate) enum EventObject {
    /// A pod, or a part of it.
    Pod { pod: PodRef, field: Option<String> },
    /// The Node.
    Node,
}

/// Something to say to people.
#[derive(Debug)]
pub(crate) struct NewEvent {
    pub(crate) about: EventObject,
    pub(crate) is_warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Writes events, one after another, until all senders are gone.
pub(crate) async fn write_all(
    client: kube::Client,
    node: String,
    clock: Clock,
    mut notes: mpsc::Receiver<NewEvent>,
) {
    let mut correlator = Correlator::default();
    while let Some(mut note) = notes.recv().await {
        note.message = cut(&note.message).to_owned();
        let Some(written) = correlator.correlate(clock.unix(), note.text(&node)) else {
            debug!(reason = note.reason, "an event is left out: there are too many about its object");
            continue;
        };
        let written = Written { first_at: clock.wall_of(written.first_at), ..written };
        match timeout(WRITE_TIMEOUT, write(&client, &node, note, written)).await {
            Ok(Ok(())) => {}
            // One that is lost is lost: the log has it.
            Ok(Err(error)) => debug!(why = api_words(&error), "write an event"),
            Err(_) => debug!("write an event: no answer"),
        }
    }
}

impl NewEvent {
    fn text(&self, node: &str) -> EventText {
        let (uid, field) = match &self.about {
            EventObject::Pod { pod, field } => (pod.uid.clone(), field.clone()),
            EventObject::Node => (node.to_owned(), None),
        };
        let Self { is_warning, reason, message, .. } = self;
        EventText {
            uid,
            field,
            is_warning: *is_warning,
            reason: (*reason).to_owned(),
            message: message.clone(),
        }
    }
}

/// Writes an event, or how often it was said where it is there already.
async fn write(
    client: &kube::Client,
    node: &str,
    note: NewEvent,
    written: Written,
) -> Result<(), kube::Error> {
    let event = event(node, note, &written);
    let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    if written.count > 1 {
        let name = event.metadata.name.as_deref().unwrap_or_default();
        let patch =
            json!({"count": event.count, "lastTimestamp": event.last_timestamp, "message": event.message});
        match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            // It has expired.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            patched => return patched.map(drop),
        }
    }
    api.create(&PostParams::default(), &event).await.map(drop)
}

fn event(node: &str, note: NewEvent, written: &Written) -> Event {
    let NewEvent { about, is_warning, reason, .. } = note;
    // The Node has no namespace, and its UID in events is its name, as kubelet has it.
    let (kind, namespace, name, uid, field_path) = match about {
        EventObject::Pod { pod, field } => ("Pod", pod.namespace, pod.name, pod.uid, field),
        EventObject::Node => ("Node", "default".to_owned(), node.to_owned(), node.to_owned(), None),
    };
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:x}", written.stamp)),
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
        message: Some(written.message.clone()),
        type_: Some(if is_warning { "Warning" } else { "Normal" }.into()),
        source: Some(EventSource { component: Some(COMPONENT.into()), host: Some(node.to_owned()) }),
        reporting_component: Some(COMPONENT.into()),
        reporting_instance: Some(node.to_owned()),
        first_timestamp: Some(clock::time(written.first_at)),
        last_timestamp: Some(clock::wall()),
        count: Some(written.count),
        ..Event::default()
    }
}
