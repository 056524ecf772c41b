//! Objects changed in part.

use lazaret_json::Value;
use lazaret_kinds::FieldProblem;
use lazaret_patch::{
    ApplyError, ApplyRequest, Compared, ManagedFields, Ownership, PatchError, apply, json_patch, merge_patch,
    note_last_applied, strategic_merge,
};
use lazaret_schema::{Finding, Form, canonical, check};
use memchr::memmem;

use super::{
    create,
    finish::{Change, change, ignored},
    identity::check_identity,
    options::check_patch,
    update::answer,
};
use crate::{
    ApiError,
    call::Call,
    input::{FieldValidation, Origin, checked, keep_raw, read_value},
    negotiate::{self, Media},
    object,
    respond::Answer,
};

pub(super) async fn patch(call: &Call<'_>, body: &[u8]) -> Result<Answer, ApiError> {
    let media = negotiate::patch(call.content_type.as_deref())?;
    let (patch, odd) = read_value(media, body, call.served.shape.builtin_name())?;
    check_patch(call, media)?;
    if media == Media::ApplyPatch {
        return server_side_apply(call, patch, odd, body).await;
    }
    let validation = FieldValidation::of(&call.query);
    let mut warnings = Vec::new();
    let speaks_of_owners = memmem::find(body, b"managedFields").is_some();
    let written = change(call, &call.target.name, |old, modified| {
        let mut current = object::versioned(&call.kind, &call.served, old.clone());
        // A patch that does not know of the record leaves it as it is.
        let record = if speaks_of_owners {
            ManagedFields::unfold(&mut current);
            None
        } else {
            object::meta_mut(&mut current).remove("managedFields")
        };
        let known = current.clone();
        let patched = patched(call, media, current, &patch)?;
        let origin = Origin::Patched(&known);
        let merged = patched.clone();
        let incoming = checked(&call.kind, &call.served, patched, origin, odd.clone(), validation, None)
            .map_err(|error| in_patch(call, media, merged, error.message))?;
        warnings = incoming.warnings;
        check_identity(call, &incoming.object)?;
        let expected = expected(&incoming.object, modified);
        let mut object = incoming.object;
        if let Some(record) = record {
            object::meta_mut(&mut object).insert("managedFields", record);
        }
        call.kind.rules.from_version(&mut object, &call.served.version, Some(old));
        Ok(Change { object, owners_known: false, expected })
    })
    .await?;
    Ok(answer(call, 200, &written).warn(warnings))
}

/// The revision that a patch requires, if it is another than the current one. A patch with the current one may be tried again.
fn expected(patched: &Value, modified: u64) -> Option<u64> {
    match object::meta(patched, "resourceVersion") {
        // As in a write of the whole object: any revision matches.
        "" | "0" => None,
        said => Some(said.parse().unwrap_or(0)).filter(|said| *said != modified),
    }
}

fn patched(call: &Call<'_>, media: Media, current: Value, patch: &Value) -> Result<Value, ApiError> {
    match media {
        Media::JsonPatch => json_patch(current, patch).map_err(|error| match error {
            PatchError::DoesNotApply(why) => ApiError::does_not_apply(&why),
            PatchError::Malformed(_) | PatchError::TooLarge(_) => refused(call, &error),
        }),
        Media::MergePatch if patch.is_null() => Err(ApiError::bad_request("Invalid JSON Patch")),
        Media::MergePatch if patch.is_object() => Ok(merge_patch(current, patch)),
        Media::MergePatch => {
            Err(ApiError::bad_request("error decoding patch: a merge patch must be an object"))
        }
        Media::StrategicMergePatch if call.served.shape.builtin_name().is_none() => {
            Err(ApiError::unsupported_media_type(negotiate::PATCHES_OF_CUSTOM))
        }
        Media::StrategicMergePatch => {
            let (schema, shape) = call.served.shape.find().ok_or_else(|| no_shape(call))?;
            strategic_merge(schema, shape, current, patch).map_err(|error| refused(call, &error))
        }
        Media::Json | Media::Yaml | Media::Protobuf | Media::ApplyPatch => {
            Err(ApiError::internal("not a patch"))
        }
    }
}

async fn server_side_apply(
    call: &Call<'_>,
    config: Value,
    odd: Vec<String>,
    body: &[u8],
) -> Result<Answer, ApiError> {
    // DEVIATION(unknown-fields-applied): treated as in every other write.
    let api_version = call.kind.api_version(&call.served.version);
    if config["apiVersion"].as_str().is_none_or(|said| said != api_version) {
        return Err(ApiError::bad_request(format!(
            "the applied object must have apiVersion {api_version:?} and a kind"
        )));
    }
    if config["metadata"].get("managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let expected = (api_version.as_str(), &*call.kind.kind);
    let incoming = checked(
        &call.kind,
        &call.served,
        config,
        Origin::Applied,
        odd,
        FieldValidation::of(&call.query),
        Some(expected),
    )?;
    check_identity(call, &incoming.object)?;
    let mut config = incoming.object;
    keep_raw(&call.served, &mut config, Media::ApplyPatch, body);
    // The revision is a precondition, not something to own.
    let said = object::meta(&config, "resourceVersion").to_owned();
    let revision = (!said.is_empty()).then(|| said.parse::<u64>().unwrap_or(0));
    object::meta_mut(&mut config).remove("resourceVersion");
    let sent = config.clone();
    call.kind.rules.from_version(&mut config, &call.served.version, None);

    let exists = call.store().get(call.key(&call.target.name).as_bytes()).is_some();
    if !exists {
        if !call.target.subresource.is_empty() {
            return Err(ApiError::not_found(&call.kind, &call.target.name));
        }
        if !object::meta(&config, "uid").is_empty() {
            return Err(ApiError::conflict(
                &call.kind,
                &call.target.name,
                "uid mismatch: the provided object specified uid and no existing object was found",
            ));
        }
        object::meta_mut(&mut config).insert("name", call.target.name.clone().into());
        let mut object = applied(call, None, &config)?;
        note_last_applied(&mut object, &call.manager, &sent, expected);
        let (item, warnings) = create::insert(call, object, true).await?;
        return Ok(Answer::json(201, object::present(&call.kind, &call.served, &item))
            .warn(incoming.warnings)
            .warn(warnings));
    }
    let written = change(call, &call.target.name, |old, _| {
        let mut object = applied(call, Some(old), &config)?;
        note_last_applied(&mut object, &call.manager, &sent, expected);
        Ok(Change { object, owners_known: true, expected: revision })
    })
    .await?;
    Ok(answer(call, 200, &written).warn(incoming.warnings))
}

pub(super) fn applied(call: &Call<'_>, live: Option<&Value>, config: &Value) -> Result<Value, ApiError> {
    let (schema, shape) = call.kind.hub().shape.find().ok_or_else(|| no_shape(call))?;
    let api_version = call.kind.api_version(&call.served.version);
    let time = Call::timestamp();
    let ignored = ignored(call);
    let compared = |object: &mut Value| call.kind.rules.from_version(object, &call.served.version, None);
    let request = ApplyRequest {
        manager: &call.manager,
        api_version: &api_version,
        subresource: &call.target.subresource,
        force: call.query.flag("force"),
        time: &time,
        ignored,
        other_names: call.kind.rules.other_names(),
        compared: Compared(&compared),
    };
    let owned = apply(schema, shape, live, config, &request);
    let settled = |owned: Ownership| {
        let mut object = owned.object;
        if call.kind.is_builtin() {
            canonical(schema, shape, &mut object, live, Form::Whole);
        }
        object
    };
    owned.map(settled).map_err(|error| match &error {
        ApplyError::Patch(patch) => ApiError::bad_request(patch.to_string()),
        ApplyError::Conflicts(conflicts) => {
            let mut answer = ApiError::apply_conflict(error.to_string());
            for conflict in conflicts {
                for field in &conflict.fields {
                    answer = answer.with_cause("FieldManagerConflict", &conflict.with(), field);
                }
            }
            answer
        }
    })
}

fn no_shape(call: &Call<'_>) -> ApiError {
    ApiError::internal(format!("{:?} has no shape", call.kind))
}

fn refused(call: &Call<'_>, error: &PatchError) -> ApiError {
    match error {
        PatchError::Malformed(text) => ApiError::bad_request(format!("error decoding patch: {text}")),
        PatchError::TooLarge(text) => ApiError::too_large(format!("Request entity too large: {text}")),
        PatchError::DoesNotApply(text) => ApiError::invalid_field(
            &call.kind,
            &call.target.name,
            "patch",
            FieldProblem::Invalid(Value::Null, text.clone()),
        ),
    }
}

/// A patch whose result cannot be: the patch is at fault, not the stored object.
fn in_patch(call: &Call<'_>, media: Media, mut merged: Value, message: String) -> ApiError {
    lazaret_kinds::convert_patched_pods(&call.kind, &mut merged);
    let restored = call.served.shape.find().filter(|_| media == Media::StrategicMergePatch);
    let restored = restored.and_then(|(schema, shape)| {
        check(schema, shape, &mut merged, None, false).iter().find_map(Finding::restore_error)
    });
    let why = restored.unwrap_or(message);
    ApiError::invalid_field(&call.kind, &call.target.name, "patch", FieldProblem::Invalid(Value::Null, why))
}
