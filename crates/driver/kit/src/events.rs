//! Events of pods whose devices were also given to the claims of others.

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff,
};
use kube::{Api, api::PostParams};
use lazaret_model::Timestamp;
use tracing::{debug, warn};

use crate::{
    ClaimRef,
    api_words::api_words,
    held::{NotedPod, Refusal, place},
};

/// The reason of these events.
const REASON: &str = "DeviceAllocatedTwice";
/// For all events of a call. Kubelet waits 45 s for the whole call.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Pods of one claim that get an event.
const PODS_MAX: usize = 16;

/// Tells the pods that have a device that it was also given to another claim, which waits. The pod of that claim hears it from kubelet. An event is
/// written once for each pod and claim, however often kubelet asks again.
pub(crate) async fn tell_holders(
    client: &kube::Client,
    driver: &str,
    now: Timestamp,
    refused: &ClaimRef,
    refusal: &Refusal,
) {
    let holder = &refusal.holder;
    let api: Api<Event> = Api::namespaced(client.clone(), &holder.namespace);
    let tell = async {
        for pod in holder.pods.iter().take(PODS_MAX) {
            let event = event(driver, now, refused, refusal, pod);
            match api.create(&PostParams::default(), &event).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    debug!(pod = pod.name, "the pod was told before");
                }
                Err(error) => warn!(
                    why = api_words(&error),
                    pod = pod.name,
                    "write an event of the pod that has the device"
                ),
            }
        }
    };
    if tokio::time::timeout(WAIT_MAX, tell).await.is_err() {
        warn!(device = refusal.device, "write events of the pods that have the device: no answer");
    }
}

fn event(driver: &str, now: Timestamp, refused: &ClaimRef, refusal: &Refusal, pod: &NotedPod) -> Event {
    let Refusal { device, holder } = refusal;
    let time = jiff::Timestamp::from_millisecond(now.as_millis()).ok().map(Time);
    let message = format!(
        "device {device} is prepared for ResourceClaim {}/{} of this pod, and was also allocated to ResourceClaim {}, which waits until it is unprepared",
        holder.namespace,
        holder.name,
        place(refused),
    );
    Event {
        metadata: ObjectMeta {
            // The same for each attempt: there is one event.
            name: Some(format!("{}.{}", pod.uid, refused.uid)),
            namespace: Some(holder.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            namespace: Some(holder.namespace.clone()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        },
        type_: Some("Warning".into()),
        reason: Some(REASON.into()),
        message: Some(message),
        source: Some(EventSource { component: Some(driver.into()), host: None }),
        first_timestamp: time.clone(),
        last_timestamp: time,
        count: Some(1),
        ..Event::default()
    }
}
