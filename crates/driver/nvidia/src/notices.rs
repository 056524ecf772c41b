//! Conditions of GPUs as events of the Node, for people.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, api::PostParams};
use tokio::{sync::mpsc, time::timeout};
use tracing::{debug, warn};

use crate::{DRIVER, clock, prepare::Cards, signals::Signal};

/// Events that wait to be written. More are only in the log.
const WAITING_MAX: usize = 64;
/// Between two events: a card that reports again and again does not fill the API.
const PAUSE: Duration = Duration::from_secs(1);
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Events of objects without a namespace are here.
const NAMESPACE: &str = "default";
const REASON: &str = "GPUCondition";

/// A condition that is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewCondition {
    /// The UUID of the GPU, for a partition with a slash and the name of its device.
    place: String,
    text: String,
}

/// Where news of conditions go.
#[derive(Clone, Debug)]
pub(crate) struct Notices(mpsc::Sender<NewCondition>);

pub(crate) fn channel() -> (Notices, mpsc::Receiver<NewCondition>) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Notices(sender), receiver)
}

impl Notices {
    /// Says that a GPU, or a partition of one, has a condition. Does not wait.
    pub(crate) fn send(&self, place: &str, condition: &str, signal: &Signal) {
        let process =
            signal.process.as_ref().map(|process| format!(", process {} ({})", process.name, process.pid));
        let text = format!("{condition}: {}{}", signal.message, process.unwrap_or_default());
        if self.0.try_send(NewCondition { place: place.to_owned(), text }).is_err() {
            debug!(place, condition, "no event: too many wait");
        }
    }
}

/// Writes events until all senders are gone. A lost one is not repeated: the log and the taint say it too.
pub(crate) async fn write(
    client: kube::Client,
    cards: Arc<Cards>,
    mut notices: mpsc::Receiver<NewCondition>,
) {
    let api: Api<Event> = Api::namespaced(client, NAMESPACE);
    while let Some(NewCondition { place, text }) = notices.recv().await {
        let event = event(&cards.node, format!("{}: {text}", device(&cards, &place)));
        match timeout(WRITE_TIMEOUT, api.create(&PostParams::default(), &event)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => warn!(%error, "write an event"),
            Err(_) => warn!("write an event: no answer"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The name under which people know it.
fn device(cards: &Cards, place: &str) -> String {
    match place.split_once('/') {
        Some((_, partition)) => partition.to_owned(),
        None => {
            let gpus = cards.gpus();
            let known = gpus.iter().find(|gpu| gpu.facts.uuid == place);
            known.map_or_else(|| place.to_owned(), |gpu| format!("{} ({place})", gpu.name()))
        }
    }
}

fn event(node: &str, message: String) -> Event {
    let now = clock::wall();
    Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{node}.")),
            namespace: Some(NAMESPACE.into()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Node".into()),
            name: Some(node.into()),
            // As kubelet writes it: `kubectl describe node` looks for it.
            uid: Some(node.into()),
            ..ObjectReference::default()
        },
        reason: Some(REASON.into()),
        message: Some(message),
        type_: Some("Warning".into()),
        source: Some(EventSource { component: Some(DRIVER.into()), host: Some(node.into()) }),
        reporting_component: Some(DRIVER.into()),
        reporting_instance: Some(node.into()),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    }
}
