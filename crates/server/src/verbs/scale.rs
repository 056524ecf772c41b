//! The number of replicas, as an object of its own.

use lazaret_json::{Value, json};

use super::{
    finish::{Change, change},
    options::check_patch,
    patch::applied,
    update::check_identity,
};
use crate::{
    ApiError,
    call::Call,
    clock,
    input::{read_message, read_value},
    negotiate::{self, Form, Media},
    object,
    request::Verb,
    respond::Answer,
    table,
};

/// The columns of a table of scales: name and type.
const COLUMNS: &[(&str, &str)] =
    &[("Name", "string"), ("Desired", "integer"), ("Available", "integer"), ("Age", "string")];

pub(super) async fn scale(call: &Call<'_>, verb: Verb, body: &[u8]) -> Result<Answer, ApiError> {
    let name = &call.target.name;
    let current = call
        .server
        .get(&call.kind, &call.target.namespace, name)
        .ok_or_else(|| ApiError::not_found(&call.kind, name))?;
    if verb == Verb::Get {
        return Ok(shown(call, of(call, &current)));
    }
    if verb == Verb::Patch {
        let media = negotiate::patch(call.content_type.as_deref())?;
        check_patch(call, media)?;
        if media == Media::ApplyPatch {
            return apply(call, body).await;
        }
    }
    let wanted = wanted(call, verb, of(call, &current), body)?;
    let replicas = replicas(&wanted)?;
    // A patch is made of the scale as it is, so only what replaces it whole can speak of an older one.
    let expected = if verb == Verb::Update { revision(&wanted)? } else { None };
    let written = change(call, name, |old, _| {
        let mut object = old.clone();
        set_replicas(call, &mut object, replicas);
        Ok(Change { object, owners_known: false, expected })
    })
    .await?;
    Ok(shown(call, of(call, &object::decode(&written.item.value))).warn(written.warnings))
}

/// Applies a scale: the manager comes to own the number of replicas, and conflicts with other owners unless forced.
async fn apply(call: &Call<'_>, body: &[u8]) -> Result<Answer, ApiError> {
    let name = &call.target.name;
    let (sent, _) = read_value(Media::ApplyPatch, body, Some("autoscaling/v1.Scale"))?;
    if (sent["apiVersion"].as_str(), sent["kind"].as_str()) != (Some("autoscaling/v1"), Some("Scale")) {
        let why = "the applied object must have apiVersion \"autoscaling/v1\" and kind \"Scale\"";
        return Err(ApiError::bad_request(why));
    }
    if sent["metadata"].get("managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    check_identity(call, &sent)?;
    let mut config = json!({});
    if sent["spec"].get("replicas").is_some_and(|replicas| !replicas.is_null()) {
        set_replicas(call, &mut config, replicas(&sent)?);
    }
    if !object::meta(&sent, "uid").is_empty() {
        config["metadata"]["uid"] = sent["metadata"]["uid"].clone();
    }
    let expected = revision(&sent)?;
    let written = change(call, name, |old, _| {
        Ok(Change { object: applied(call, Some(old), &config)?, owners_known: true, expected })
    })
    .await?;
    Ok(shown(call, of(call, &object::decode(&written.item.value))).warn(written.warnings))
}

/// Takes the number of replicas over from a scale.
pub(super) fn take(call: &Call<'_>, object: &mut Value, scale: &Value) -> Result<(), ApiError> {
    set_replicas(call, object, replicas(scale)?);
    Ok(())
}

fn set_replicas(call: &Call<'_>, object: &mut Value, replicas: i64) {
    match call.kind.rules.scale_paths() {
        Some(paths) => paths.spec.set(object, replicas.into()),
        None => object["spec"]["replicas"] = replicas.into(),
    }
}

/// A scale in the form that the client asked for.
fn shown(call: &Call<'_>, scale: Value) -> Answer {
    match call.form {
        Form::Json | Form::AggregatedDiscovery => Answer::value(200, &scale),
        Form::Metadata => Answer::value(200, &table::metadata_of(&scale)),
        Form::Table => {
            let metadata = &scale["metadata"];
            let cells = json!([
                metadata["name"],
                scale["spec"]["replicas"],
                scale["status"]["replicas"],
                lazaret_kinds::age_of(&scale, clock::now()),
            ]);
            Answer::value(
                200,
                &table::of_cells(object::meta(&scale, "resourceVersion"), COLUMNS, &cells, metadata),
            )
        }
    }
}

fn wanted(call: &Call<'_>, verb: Verb, current: Value, body: &[u8]) -> Result<Value, ApiError> {
    Ok(if verb == Verb::Patch {
        let media = negotiate::patch(call.content_type.as_deref())?;
        let (patch, _) = read_value(media, body, Some("autoscaling/v1.Scale"))?;
        match media {
            Media::JsonPatch => lazaret_patch::json_patch(current, &patch)
                .map_err(|error| ApiError::bad_request(error.to_string()))?,
            // A scale has no lists: both kinds of patch merge it alike.
            Media::Json
            | Media::Yaml
            | Media::Protobuf
            | Media::MergePatch
            | Media::StrategicMergePatch
            | Media::ApplyPatch => lazaret_patch::merge_patch(current, &patch),
        }
    } else {
        read_message(negotiate::body(call.content_type.as_deref())?, body, "autoscaling/v1.Scale")?
    })
}

fn revision(scale: &Value) -> Result<Option<u64>, ApiError> {
    match object::meta(scale, "resourceVersion") {
        "" | "0" => Ok(None),
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

/// The scale of an object.
pub(super) fn of(call: &Call<'_>, object: &Value) -> Value {
    let count = |found: Option<&Value>| found.and_then(Value::as_i64).unwrap_or(0);
    let (wanted, current, selector) = match call.kind.rules.scale_paths() {
        Some(paths) => {
            let selector = paths.selector.as_ref().and_then(|path| path.first(object)?.as_str());
            let (wanted, current) = (paths.spec.first(object), paths.status.first(object));
            (count(wanted), count(current), selector.unwrap_or_default().to_owned())
        }
        None => (
            count(object.pointer("/spec/replicas")),
            count(object.pointer("/status/replicas")),
            selector_text(call.kind.rules.scale_labels(object)),
        ),
    };
    let metadata = &object["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": wanted}, "status": {"replicas": current, "selector": selector},
    });
    if metadata["namespace"].is_string() {
        scale["metadata"]["namespace"] = metadata["namespace"].clone();
    }
    scale
}

fn selector_text(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    let pairs: Vec<String> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    pairs.join(",")
}
