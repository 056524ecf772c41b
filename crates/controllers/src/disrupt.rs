//! How a pod is made to leave: the condition first, so that whoever sees it go can read why; both only for one incarnation.

use lazaret_api::{EVICTION_MARK, eviction_mark_to_text};
use lazaret_model::{Condition, EvictionMark, ObjectKey, Uid};
use lazaret_runtime::{Call, CallError, Client, Outcome, PODS, PatchKind};
use serde_json::json;

use crate::wire;

/// Marks a pod with `condition`, and for counts that have to survive with `mark`, and deletes it. [`Outcome::Gone`] when there is nothing
/// left to do.
pub(crate) async fn disrupt(
    client: &Client,
    pod: &ObjectKey,
    uid: &Uid,
    condition: &Condition,
    mark: Option<&EvictionMark>,
) -> Result<Outcome, CallError> {
    let (namespace, name) = (&*pod.namespace, &*pod.name);
    let mut body =
        json!({"metadata": {"uid": &**uid}, "status": {"conditions": [wire::condition(condition)]}});
    if let Some(mark) = mark.filter(|mark| !mark.rules.is_empty()) {
        // Annotations can be written with the status of a pod, here as in Kubernetes.
        body["metadata"]["annotations"] = json!({EVICTION_MARK: eviction_mark_to_text(mark)});
    }
    let call = Call::patch(&PODS, namespace, name, "status", PatchKind::Strategic, body.to_string());
    let marked = match client.send(call).await {
        Ok(marked) => marked,
        // The only precondition is the UID: a conflict over it means that this incarnation is gone.
        Err(CallError::Conflict(_) | CallError::NotFound(_)) => return Ok(Outcome::Gone),
        Err(error) => return Err(error),
    };
    if wire::metadata(&marked).is_some_and(|metadata| metadata.deletion_timestamp.is_some()) {
        return Ok(Outcome::Gone);
    }
    let options = json!({"preconditions": {"uid": &**uid}});
    match client.send(Call::delete(&PODS, namespace, name, options.to_string())).await {
        Ok(_) => Ok(Outcome::Done),
        Err(CallError::Conflict(_) | CallError::NotFound(_)) => Ok(Outcome::Gone),
        Err(error) => Err(error),
    }
}
