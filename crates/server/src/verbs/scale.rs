//! The number of replicas, as an object of its own.

use serde_json::{Value, json};

use super::finish::{Change, change};
use crate::{
    ApiError,
    input::read_value,
    negotiate::{self, Media},
    object,
    request::Verb,
    respond::Answer,
    server::Call,
};

pub(super) async fn scale(call: &Call<'_>, verb: Verb, body: &[u8]) -> Result<Answer, ApiError> {
    let name = &call.target.name;
    let current = call
        .server
        .get(call.kind, &call.target.namespace, name)
        .ok_or_else(|| ApiError::not_found(call.kind, name))?;
    if verb == Verb::Get {
        return Ok(Answer::value(200, &of(&current)));
    }
    let wanted = wanted(call, verb, &of(&current), body)?;
    let replicas = replicas(&wanted)?;
    // A patch is made of the scale as it is, so only what replaces it whole can speak of an older one.
    let expected = if verb == Verb::Update { revision(&wanted)? } else { None };
    let written = change(call, name, |old, _| {
        let mut object = old.clone();
        object["spec"]["replicas"] = replicas.into();
        Ok(Change { object, owners_known: false, expected })
    })
    .await?;
    Ok(Answer::value(200, &of(&object::decode(&written.item.value))))
}

fn wanted(call: &Call<'_>, verb: Verb, current: &Value, body: &[u8]) -> Result<Value, ApiError> {
    Ok(if verb == Verb::Patch {
        let media = negotiate::patch(call.content_type.as_deref())?;
        let (patch, _) = read_value(media, body, "autoscaling/v1.Scale")?;
        match media {
            Media::JsonPatch => lazaret_patch::json_patch(current, &patch)
                .map_err(|error| ApiError::bad_request(error.to_string()))?,
            // A scale has no lists: every other kind of patch merges it alike.
            Media::Json
            | Media::Yaml
            | Media::Protobuf
            | Media::MergePatch
            | Media::StrategicMergePatch
            | Media::ApplyPatch => lazaret_patch::merge_patch(current, &patch),
        }
    } else {
        read_value(negotiate::body(call.content_type.as_deref())?, body, "autoscaling/v1.Scale")?.0
    })
}

fn revision(scale: &Value) -> Result<Option<u64>, ApiError> {
    match object::meta(scale, "resourceVersion") {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            ApiError::bad_request(format!("invalid resource version {text:?}: it must be a whole number"))
        }),
    }
}

fn replicas(scale: &Value) -> Result<i64, ApiError> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if !(0..=i64::from(i32::MAX)).contains(&replicas) {
        return Err(ApiError::bad_request("spec.replicas: must not be negative"));
    }
    Ok(replicas)
}

fn of(object: &Value) -> Value {
    let labels = object["spec"]["selector"]["matchLabels"].as_object();
    let selector: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let metadata = &object["metadata"];
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": object["spec"]["replicas"].as_i64().unwrap_or(0)},
        "status": {"replicas": object["status"]["replicas"].as_i64().unwrap_or(0), "selector": selector.join(",")},
    })
}
