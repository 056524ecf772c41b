//! New objects.

use std::sync::Arc;

use lazaret_json::Value;
use lazaret_kinds::{Errors, FieldProblem, Scope, admission::Operation};
use lazaret_storage::{Item, Op, TxnError};

use super::{
    finish::{storage, tracked, validate_metadata},
    identity::check_identity,
    services,
};
use crate::{
    ApiError,
    admission::{self, Refused, Subject},
    call::{Call, Write},
    ceilings,
    input::{FieldValidation, read_object},
    limits,
    negotiate::{self, Form},
    object, random,
    request::Verb,
    respond::Answer,
    service_pool::Reservation,
    table,
};

/// A generated name that is taken is drawn this number of times.
const NAME_ATTEMPTS: usize = 8;
/// The given part of a generated name is cut to this.
const PREFIX_MAX: usize = 58;

/// Metadata that only the server sets on a new object.
const WIPED: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generation",
];

pub(super) async fn create(call: &Call<'_>, body: &[u8]) -> Result<Answer, ApiError> {
    let media = negotiate::body(call.content_type.as_deref())?;
    let incoming = read_object(&call.kind, &call.served, media, body, FieldValidation::of(&call.query))?;
    let mut object = incoming.object;
    call.kind.rules.from_version(&mut object, &call.served.version, None);
    if !object::meta(&object, "resourceVersion").is_empty() {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let (item, warnings) = insert(call, object, false).await?;
    let answer = match call.form {
        Form::Json | Form::AggregatedDiscovery => {
            Answer::json(201, object::present(&call.kind, &call.served, &item))
        }
        Form::Table => Answer::value(201, &table::of_one(call, &item)),
        Form::Metadata => Answer::value(201, &table::metadata_of(&object::decode_whole(&item.value))),
    };
    Ok(answer.warn(incoming.warnings).warn(warnings))
}

/// Brings a new object into the store. `owners_known`: its record of owners is already right.
pub(super) async fn insert(
    call: &Call<'_>,
    mut object: Value,
    owners_known: bool,
) -> Result<(Arc<Item>, Vec<String>), ApiError> {
    // Some updates and patches create what does not exist yet.
    if call.verb != Verb::Create {
        call.authorize(Verb::Create)?;
    }
    place(call, &mut object)?;
    let generated = object::meta(&object, "name").is_empty();
    let prefix = object::meta(&object, "generateName").to_owned();
    if generated && prefix.is_empty() {
        return Err(ApiError::invalid_field(
            &call.kind,
            "",
            "metadata.name",
            FieldProblem::Required("name or generateName is required".into()),
        ));
    }
    let mut warnings = Vec::new();
    let (mut admitted, mut generated) = (false, generated);
    let asked = call.server.admission_rules().may_apply_to(call.user);
    for _ in 0..NAME_ATTEMPTS {
        if generated {
            let kept: String = prefix.chars().take(PREFIX_MAX).collect();
            object::meta_mut(&mut object).insert("name", format!("{kept}{}", random::name_suffix()).into());
        }
        if !admitted {
            // Once: only the name is ever tried again.
            (object, warnings) = admit(call, object, &mut generated, owners_known, asked).await?;
            admitted = true;
        }
        let name = object::meta(&object, "name").to_owned();
        let attempt = if generated { object.clone() } else { std::mem::take(&mut object) };
        let (mut ready, further, _reserved) = prepared(call, attempt, &name, generated, asked)
            .await
            .map_err(|error| error.after_warnings(&warnings))?;
        warnings.extend(further);
        if call.query.dry_run() {
            admission::check_commit(call, Write { name: &name, old: None, new: Some(&ready) })?;
            return match call.store().get(call.key(&name).as_bytes()) {
                Some(taken) => Err(exists(call, &name, &taken)),
                None => Ok((dry(call, &name, &ready)?, warnings)),
            };
        }
        let value = limits::encode_fitting(&mut ready, !owners_known)?;
        let op = Op::create(call.key(&name).as_str(), value);
        let mut ops = vec![op];
        ops.extend(admission::namespace_guard(call));
        let write = Write { name: &name, old: None, new: Some(&ready) };
        match admission::commit(call, write, ops, false).await {
            Ok(committed) => {
                let created = committed.events.into_iter().flatten().find_map(|event| event.new.clone());
                let item = created.ok_or_else(|| ApiError::internal("the new object is gone"))?;
                call.server.object_cache().put(&item, ready);
                return Ok((item, warnings));
            }
            Err(Refused::Store(TxnError::Conflict { .. })) if generated => {}
            Err(Refused::Store(TxnError::Conflict { .. })) => {
                return Err(match call.store().get(call.key(&name).as_bytes()) {
                    Some(taken) => exists(call, &name, &taken),
                    None => {
                        ApiError::conflict(&call.kind, &name, "something it depends on changed; try again")
                    }
                });
            }
            Err(Refused::Store(error)) => return Err(storage(&error)),
            Err(Refused::Request(error)) => return Err(error),
        }
    }
    let name = object::meta(&object, "name").to_owned();
    Err(ApiError::already_exists(&call.kind, &name, false).retry_after(1))
}

/// The namespace of the URL is the object's.
pub(super) fn place(call: &Call<'_>, object: &mut Value) -> Result<(), ApiError> {
    let said = object::meta(object, "namespace").to_owned();
    match call.kind.scope {
        Scope::Namespaced if call.target.namespace.is_empty() => {
            Err(ApiError::bad_request("an empty namespace may not be set during creation"))
        }
        Scope::Namespaced if !said.is_empty() && said != call.target.namespace => Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        Scope::Namespaced => {
            object::meta_mut(object).insert("namespace", call.target.namespace.clone().into());
            Ok(())
        }
        Scope::Cluster => {
            object::meta_mut(object).remove("namespace");
            Ok(())
        }
    }
}

/// Admission of a new object, once for all names that are tried: its defaults and owners, built-in plugins, and mutating webhooks.
async fn admit(
    call: &Call<'_>,
    mut object: Value,
    generated: &mut bool,
    owners_known: bool,
    asked: bool,
) -> Result<(Value, Vec<String>), ApiError> {
    wipe(&mut object);
    let name = object::meta(&object, "name").to_owned();
    admission::may_create(call, &name)?;
    ceilings::may_create(call, &name)?;
    call.with_context(|context| call.kind.rules.default(&mut object, context));
    // The creator of an object owns its fields and their defaults, not the fields that the server adds.
    if !owners_known {
        object = tracked(call, None, object);
    }
    admission::before_create(call, &mut object, &name)?;
    if !asked {
        return Ok((object, Vec::new()));
    }
    // The name that the server generates is not known yet.
    if *generated {
        object::meta_mut(&mut object).remove("name");
    }
    let subject = Subject {
        operation: Operation::Create,
        name: &name,
        generated: *generated,
        new: &object,
        old: &Value::Null,
        delete: None,
    };
    let again = |object: &mut Value| {
        wipe(object);
        place(call, object)?;
        call.with_context(|context| call.kind.rules.default(object, context));
        admission::before_create(call, object, &name)
    };
    let mutated = admission::mutate(call, subject, again).await?;
    if mutated.changed {
        object = mutated.object;
    }
    if *generated && object::meta(&object, "name").is_empty() {
        object::meta_mut(&mut object).insert("name", name.into());
    } else {
        // A webhook may give a new object its name, unless the request did that with its path.
        *generated = false;
        if !call.target.name.is_empty() {
            check_identity(call, &object)?;
        }
    }
    Ok((object, mutated.warnings))
}

fn wipe(object: &mut Value) {
    let metadata = object::meta_mut(object);
    for field in WIPED {
        metadata.remove(field);
    }
}

/// Preparation of a new object for each name that is tried: the object as it is to be stored, the warnings, and the resources held until
/// it is stored.
async fn prepared<'a>(
    call: &Call<'a>,
    mut object: Value,
    name: &str,
    generated: bool,
    asked: bool,
) -> Result<(Value, Vec<String>, Option<Reservation<'a>>), ApiError> {
    let reserved = services::allocate(call, &mut object, None)?;
    let (errors, object) = call.with_context(|context| {
        let mut errors = Errors::new();
        let metadata = object::meta_mut(&mut object);
        metadata.insert("uid", random::uid().into());
        metadata.insert("creationTimestamp", context.timestamp().into());
        if call.kind.generation {
            metadata.insert("generation", 1.into());
        }
        call.kind.rules.prepare_create(&mut object, context);
        admission::create(call, &mut object);
        if let Err(why) = lazaret_kinds::check_name(&call.kind, name) {
            errors.invalid("metadata.name", name, why);
        }
        validate_metadata(&call.kind, &object, None, &mut errors);
        call.kind.rules.validate_create(&object, context, &mut errors);
        call.kind.unheeded.into_iter().for_each(|warning| errors.warn(warning));
        (errors, object)
    });
    if !errors.is_empty() {
        return Err(ApiError::invalid(&call.kind, name, &errors));
    }
    admission::certificates::create(call, &object, name)?;
    let mut warnings = errors.warnings().to_vec();
    warnings.extend(admission::check_surroundings(call, name, &object, None)?);
    if asked {
        let (operation, old) = (Operation::Create, &Value::Null);
        let subject = Subject { operation, name, generated, new: &object, old, delete: None };
        let validated = admission::validate(call, subject).await;
        warnings.extend(validated.map_err(|error| error.after_warnings(&warnings))?);
    }
    Ok((object, warnings, reserved))
}

fn exists(call: &Call<'_>, name: &str, taken: &Item) -> ApiError {
    ApiError::already_exists(&call.kind, name, object::is_deleting(&object::decode(&taken.value)))
}

fn dry(call: &Call<'_>, name: &str, object: &Value) -> Result<Arc<Item>, ApiError> {
    let value = object::text(object)?;
    Ok(Arc::new(Item { key: call.key(name).as_str().into(), value, created: 0, modified: 0 }))
}
