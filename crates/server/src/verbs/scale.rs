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
    let written = change(&as_main(call), name, |old, _| {
        let mut object = old.clone();
        object["spec"]["replicas"] = wanted.into();
        Ok(Change { object, owners_known: false, expected: None })
    })
    .await?;
    Ok(Answer::value(200, &of(&object::decode(&written.item.value))))
}

fn wanted(call: &Call<'_>, verb: Verb, current: &Value, body: &[u8]) -> Result<i64, ApiError> {
    let scale = if verb == Verb::Patch {
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
    };
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if !(0..=i64::from(i32::MAX)).contains(&replicas) {
        return Err(ApiError::bad_request("spec.replicas: must not be negative"));
    }
    Ok(replicas)
}

/// Scaling changes the spec of the object itself.
fn as_main<'a>(call: &Call<'a>) -> Call<'a> {
    Call {
        server: call.server,
        user: call.user,
        kind: call.kind,
        served: call.served,
        target: crate::request::Target { subresource: String::new(), ..call.target.clone() },
        query: call.query.clone(),
        form: call.form,
        manager: call.manager.clone(),
        content_type: None,
    }
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
