//! Objects replaced as a whole.

use lazaret_json::Value;

use lazaret_kinds::FieldProblem;

use super::{
    create,
    finish::{Change, Written, change},
    identity::check_identity,
};
use crate::{
    ApiError,
    call::Call,
    input::{FieldValidation, read_object},
    negotiate::{self, Form},
    object,
    respond::Answer,
    table,
};

pub(super) async fn update(call: &Call<'_>, body: &[u8]) -> Result<Answer, ApiError> {
    let media = negotiate::body(call.content_type.as_deref())?;
    let incoming = read_object(&call.kind, &call.served, media, body, FieldValidation::of(&call.query))?;
    let name = call.target.name.clone();
    if object::meta(&incoming.object, "name").is_empty() {
        return Err(ApiError::bad_request("name must be provided: metadata.name"));
    }
    check_identity(call, &incoming.object)?;
    if !call.kind.create_on_update && call.store().get(call.key(&name).as_bytes()).is_none() {
        return Err(ApiError::not_found(&call.kind, &name));
    }
    let expected = expected_revision(call, &incoming.object)?;
    if call.store().get(call.key(&name).as_bytes()).is_none() {
        if call.kind.create_on_update && call.target.subresource.is_empty() && expected.is_none() {
            let mut object = incoming.object;
            call.kind.rules.from_version(&mut object, &call.served.version, None);
            object::meta_mut(&mut object).insert("name", name.into());
            let (item, warnings) = create::insert(call, object, false).await?;
            return Ok(Answer::json(201, object::present(&call.kind, &call.served, &item))
                .warn(incoming.warnings)
                .warn(warnings));
        }
        return Err(ApiError::not_found(&call.kind, &name));
    }
    let written = change(call, &name, |old, _| {
        let mut object = incoming.object.clone();
        call.kind.rules.from_version(&mut object, &call.served.version, Some(old));
        Ok(Change { object, owners_known: false, expected })
    })
    .await?;
    Ok(answer(call, 200, &written).warn(incoming.warnings))
}

/// The written object, in the form that the client requested.
pub(super) fn answer(call: &Call<'_>, code: u16, written: &Written) -> Answer {
    let answer = match call.form {
        Form::Json | Form::AggregatedDiscovery => {
            Answer::json(code, object::present(&call.kind, &call.served, &written.item))
        }
        Form::Table => Answer::value(code, &table::of_one(call, &written.item)),
        Form::Metadata => {
            Answer::value(code, &table::metadata_of(&object::decode_whole(&written.item.value)))
        }
    };
    answer.warn(written.warnings.clone())
}

/// Which revision may be replaced; `None` for any, where the kind allows it.
fn expected_revision(call: &Call<'_>, object: &Value) -> Result<Option<u64>, ApiError> {
    match object::meta(object, "resourceVersion") {
        "" | "0" if call.kind.updates_unconditionally(&call.served.version) => Ok(None),
        "" | "0"
            if call.kind.create_on_update
                && call.store().get(call.key(&call.target.name).as_bytes()).is_none() =>
        {
            Ok(None)
        }
        "" | "0" => {
            let problem = FieldProblem::Invalid(0.into(), "must be specified for an update".into());
            Err(ApiError::invalid_field(&call.kind, &call.target.name, "metadata.resourceVersion", problem))
        }
        text => text.parse().map(Some).map_err(|_| {
            ApiError::bad_request(format!("invalid resource version {text:?}: it must be a whole number"))
        }),
    }
}
