//! The number of replicas, as an object of its own.

use lazaret_json::{Value, json};

use super::{
    finish::{Change, change},
    identity::check_identity,
    options::check_patch,
    patch::applied,
    replicas::{replicas, scale_of, set_replicas},
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
        return Ok(shown(call, scale_of(call, &current)));
    }
    if verb == Verb::Patch {
        let media = negotiate::patch(call.content_type.as_deref())?;
        check_patch(call, media)?;
        if media == Media::ApplyPatch {
            return apply(call, body).await;
        }
    }
    let wanted = wanted(call, verb, scale_of(call, &current), body)?;
    let replicas = replicas(&wanted)?;
    // A patch is made of the scale as it is, so only what replaces it whole can speak of an older one.
    let expected = if verb == Verb::Update { revision(&wanted)? } else { None };
    let written = change(call, name, |old, _| {
        let mut object = old.clone();
        set_replicas(call, &mut object, replicas);
        Ok(Change { object, owners_known: false, expected })
    })
    .await?;
    Ok(shown(call, scale_of(call, &object::decode(&written.item.value))).warn(written.warnings))
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
    Ok(shown(call, scale_of(call, &object::decode(&written.item.value))).warn(written.warnings))
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
