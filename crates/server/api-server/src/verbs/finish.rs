//! The common part of every write: the server's own fields, rules and validation, the record of owners, and the compare-and-swap.

use std::{collections::HashSet, sync::Arc};

use lazaret_json::Value;
use lazaret_kinds::{Context, Errors, FieldProblem, Kind, SpecPart, admission::Operation};
use lazaret_patch::{ApplyRequest, Compared, ManagedFields, track_update};
use lazaret_schema::alike;
use lazaret_storage::{Item, Op, TxnError};

use super::{replicas, services};
use crate::{
    ApiError,
    admission::{self, Refused, Subject},
    call::{Call, Write},
    ceilings, disk, limits,
    object::{self, equal_but},
    service_pool::Reservation,
};

/// Writes give up after this number of conflicts; each means that another write went through.
const RETRIES_MAX: usize = 32;

/// Fields that only the server sets, kept from the stored object whatever a client sends.
const SERVER_FIELDS: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "name",
    "namespace",
    "selfLink",
];

/// The result of a change of a stored object.
pub(super) struct Change {
    /// The object in the stored form, as the client wants it.
    pub(super) object: Value,
    /// The record of owners is already right (server-side apply).
    pub(super) owners_known: bool,
    /// Only this revision may be replaced; a lost race is then the client's to resolve.
    pub(super) expected: Option<u64>,
}

/// The result of a write.
pub(super) struct Written {
    pub(super) item: Arc<Item>,
    pub(super) warnings: Vec<String>,
}

/// Changes the object called `name` to what `make` makes of it, however often others write in between.
pub(super) async fn change(
    call: &Call<'_>,
    name: &str,
    mut make: impl FnMut(&Value, u64) -> Result<Change, ApiError>,
) -> Result<Written, ApiError> {
    for _ in 0..RETRIES_MAX {
        let item = call
            .store()
            .get(call.key(name).as_bytes())
            .ok_or_else(|| ApiError::not_found(&call.kind, name))?;
        let old = call.server.object_cache().get(&item);
        let change = make(&old, item.modified)?;
        if change.expected.is_some_and(|expected| expected != item.modified) {
            return Err(ApiError::modified(&call.kind, name));
        }
        let (mut new, warnings, _reserved) =
            prepared_update(call, &old, change.object, change.owners_known).await?;
        if call.query.dry_run() {
            admission::check_commit(call, Write { name, old: Some(&old), new: Some(&new) })?;
            return Ok(Written { item: unsaved(&item, &new)?, warnings });
        }
        if same(&old, &new) {
            return Ok(Written { item, warnings });
        }
        let key = call.key(name);
        let gone = deletes(call, &new);
        let op = if gone {
            Op::delete(key.as_str(), item.modified)
        } else {
            let value = limits::encode_fitting(&mut new, !change.owners_known)?;
            ceilings::may_grow(call, name, item.value.len(), &value)?;
            Op::update(key.as_str(), item.modified, value)
        };
        let write = Write { name, old: Some(&old), new: (!gone).then_some(&new) };
        match admission::commit(call, write, vec![op], false).await {
            Ok(committed) => {
                let written =
                    committed.events.into_iter().flatten().next().and_then(|event| event.new.clone());
                let Some(written) = written else {
                    call.server.object_cache().forget(&item);
                    return Ok(Written { item: unsaved(&item, &new)?, warnings });
                };
                call.server.object_cache().put(&written, new);
                return Ok(Written { item: written, warnings });
            }
            Err(Refused::Store(TxnError::Conflict { .. })) if change.expected.is_some() => {
                return Err(ApiError::modified(&call.kind, name));
            }
            Err(Refused::Store(TxnError::Conflict { .. })) => {}
            Err(Refused::Store(error)) => return Err(storage(&error)),
            Err(Refused::Request(error)) => return Err(error),
        }
    }
    Err(ApiError::conflict(&call.kind, name, "too many writers at once; try again"))
}

/// The object as it is to be stored, what to warn of, and what it holds until it is stored.
async fn prepared_update<'a>(
    call: &Call<'a>,
    old: &Value,
    mut new: Value,
    mut owners_known: bool,
) -> Result<(Value, Vec<String>, Option<Reservation<'a>>), ApiError> {
    let name = object::meta(old, "name").to_owned();
    let wanted_uid = object::meta(&new, "uid").to_owned();
    if !wanted_uid.is_empty() && wanted_uid != object::meta(old, "uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {}",
            object::meta(old, "uid")
        );
        return Err(ApiError::conflict(&call.kind, &name, &why));
    }
    keep_server_fields(&mut new, old);
    // Those two are posted, and were asked about when they came.
    let posted = ["binding", "eviction"].contains(&call.target.subresource.as_str());
    let asked = !posted && call.server.admission_rules().may_apply_to(call.user);
    let mut warnings = Vec::new();
    // A binding writes spec and status at once, which no update may; what it writes was made by the server.
    if call.target.subresource != "binding" {
        call.with_context(|context| default_changed(call, &mut new, old, context));
        keep_alike(&call.kind, &mut new, old);
        admission::before_update(call, &new, old)?;
        if asked {
            (new, warnings) = mutated(call, &name, new, old, &mut owners_known).await?;
        }
    }
    let reserved = services::allocate(call, &mut new, Some(old))?;
    let (errors, mut new) = call.with_context(|context| finished(call, new, old, context));
    admission::sign(call, &mut new, Some(old));
    admission::may_update(call, &new, old)?;
    if !errors.is_empty() {
        return Err(ApiError::invalid(&call.kind, &name, &errors).after_warnings(&warnings));
    }
    admission::certificates::update(call, &new, old)?;
    warnings.extend(errors.warnings().iter().cloned());
    warnings.extend(admission::check_surroundings(call, &name, &new, Some(old))?);
    if asked {
        let (shown_new, shown_old) = (shown(call, &new), shown(call, old));
        let subject = updated(&name, &shown_new, &shown_old);
        let validated = admission::validate(call, subject).await;
        warnings.extend(validated.map_err(|error| error.after_warnings(&warnings))?);
    }
    // DEVIATION(last-owners): the record of owners of an object that this write deletes is not stored.
    if !owners_known && !deletes(call, &new) {
        new = tracked(call, Some(old), new);
    }
    Ok((new, warnings, reserved))
}

/// Whether an update to this object deletes it: it is to be deleted, and nothing keeps it any longer.
fn deletes(call: &Call<'_>, new: &Value) -> bool {
    object::is_deleting(new)
        && object::finalizers(new).is_empty()
        && grace(new) == 0
        && !call.kind.rules.is_held(new)
}

fn updated<'a>(name: &'a str, new: &'a Value, old: &'a Value) -> Subject<'a> {
    Subject { operation: Operation::Update, name, generated: false, new, old, delete: None }
}

/// The object as policies and webhooks see it: of a scale the scale.
fn shown(call: &Call<'_>, object: &Value) -> Value {
    if call.target.subresource == "scale" { replicas::scale_of(call, object) } else { object.clone() }
}

/// Lets mutating webhooks change the object. Their changes belong to no manager: owners are those of the client's object.
async fn mutated(
    call: &Call<'_>,
    name: &str,
    mut new: Value,
    old: &Value,
    owners_known: &mut bool,
) -> Result<(Value, Vec<String>), ApiError> {
    let (shown_new, shown_old) = (shown(call, &new), shown(call, old));
    let subject = updated(name, &shown_new, &shown_old);
    let is_scale = call.target.subresource == "scale";
    let again = |object: &mut Value| {
        if is_scale {
            return Ok(());
        }
        keep_server_fields(object, old);
        call.with_context(|context| default_changed(call, object, old, context));
        admission::before_update(call, object, old)
    };
    let mutated = admission::mutate(call, subject, again).await?;
    if !mutated.changed {
        return Ok((new, mutated.warnings));
    }
    if !*owners_known {
        let owned = tracked(call, Some(old), new);
        *owners_known = true;
        new = owned;
    }
    if is_scale {
        replicas::take(call, &mut new, &mutated.object)?;
        return Ok((new, mutated.warnings));
    }
    let mut object = mutated.object;
    let metadata = object::meta_mut(&mut object);
    match new["metadata"].get("managedFields") {
        Some(record) => metadata.insert("managedFields", record.clone()),
        None => metadata.remove("managedFields"),
    };
    Ok((object, mutated.warnings))
}

/// The rules of the kind: what they prepare, and what they find wrong.
fn finished(call: &Call<'_>, mut new: Value, old: &Value, context: &Context<'_>) -> (Errors, Value) {
    let mut errors = Errors::new();
    if let Some(part) = SpecPart::of(&call.target.subresource) {
        call.kind.rules.prepare_part(part, &mut new, old, context);
        count_generation(&call.kind, &mut new, old);
        validate_metadata(&call.kind, &new, Some(old), &mut errors);
        call.kind.rules.validate_part(part, &new, old, &mut errors);
        return (errors, new);
    }
    match call.target.subresource.as_str() {
        "binding" => {}
        "finalize" => {
            match old.get("status") {
                Some(status) => new["status"] = status.clone(),
                None => {
                    new.as_object_mut().map(|fields| fields.remove("status"));
                }
            }
            validate_metadata(&call.kind, &new, Some(old), &mut errors);
        }
        "approval" => {
            call.kind.rules.prepare_approval(&mut new, old, context);
            validate_metadata(&call.kind, &new, Some(old), &mut errors);
            call.kind.rules.validate_approval(&new, old, context, &mut errors);
        }
        "status" => {
            call.kind.rules.prepare_status(&mut new, old, context);
            validate_metadata(&call.kind, &new, Some(old), &mut errors);
            call.kind.rules.validate_status(&new, old, context, &mut errors);
        }
        _ => {
            call.kind.rules.prepare_update(&mut new, old, context);
            count_generation(&call.kind, &mut new, old);
            validate_metadata(&call.kind, &new, Some(old), &mut errors);
            call.kind.rules.validate_update(&new, old, context, &mut errors);
            call.kind.unheeded.into_iter().for_each(|warning| errors.warn(warning));
        }
    }
    (errors, new)
}

/// Sets the defaults of absent fields. Unchanged parts got their defaults when they were written; only for defined kinds can
/// these differ by now.
fn default_changed(call: &Call<'_>, new: &mut Value, old: &Value, context: &Context<'_>) {
    let mut left_alone = Vec::new();
    if call.kind.is_builtin()
        && let Value::Object(fields) = &mut *new
    {
        for field in ["spec", "status"] {
            if fields.get(field).is_some_and(|value| value.is(&old[field])) {
                left_alone.extend(fields.remove_entry(field));
            }
        }
    }
    call.kind.rules.default_update(new, old, context);
    if let Value::Object(fields) = new {
        fields.extend(left_alone);
    }
}

/// The object with the record of its owners brought up to date for a plain write.
pub(super) fn tracked(call: &Call<'_>, old: Option<&Value>, new: Value) -> Value {
    let Some((schema, shape)) = call.kind.hub().shape.find() else { return new };
    let api_version = call.kind.api_version(&call.served.version);
    let time = Call::timestamp();
    let ignored = ignored(call);
    let compared = |object: &mut Value| call.kind.rules.from_version(object, &call.served.version, None);
    let request = ApplyRequest {
        manager: &call.manager,
        api_version: &api_version,
        subresource: &call.target.subresource,
        force: true,
        time: &time,
        ignored,
        other_names: call.kind.rules.other_names(),
        compared: Compared(&compared),
    };
    track_update(schema, shape, old, new, &request)
}

/// Fields that a write of a part of the spec does not change.
const BESIDE_SPEC: &[&str] =
    &["status", "metadata.annotations", "metadata.finalizers", "metadata.labels", "metadata.ownerReferences"];

/// Fields that an endpoint never changes, so that no manager comes to own them there.
pub(super) fn ignored(call: &Call<'_>) -> &'static [&'static str] {
    match call.target.subresource.as_str() {
        "status" => call.kind.rules.status_resets(),
        "approval" => &["spec", "status.certificate"],
        part if SpecPart::of(part).is_some() => BESIDE_SPEC,
        _ if call.kind.subresource("status").is_some() => &["status"],
        _ => &[],
    }
}

/// Nothing that a client could notice differs: the revision and times in the record of owners do not count.
fn same(old: &Value, new: &Value) -> bool {
    equal_but(old, new, &["metadata"])
        && equal_but(&old["metadata"], &new["metadata"], &["resourceVersion", "managedFields"])
        && (old["metadata"]["managedFields"] == new["metadata"]["managedFields"]
            || ManagedFields::of(old).same_owners(&ManagedFields::of(new)))
}

fn keep_server_fields(new: &mut Value, old: &Value) {
    let kept: Vec<(&str, Option<Value>)> =
        SERVER_FIELDS.iter().map(|field| (*field, old["metadata"].get(*field).cloned())).collect();
    let metadata = object::meta_mut(new);
    for (field, value) in kept {
        match value {
            Some(value) => metadata.insert(field.to_owned(), value),
            None => metadata.remove(field),
        };
    }
}

fn count_generation(kind: &Kind, new: &mut Value, old: &Value) {
    let is_relabelled = || kind.rules.labels_are_contents() && !equal_labels(new, old);
    if kind.generation && (spec_differs(kind, new, old) || is_relabelled()) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        object::meta_mut(new).insert("generation", generation.into());
    }
}

/// No labels and none are the same.
fn equal_labels(new: &Value, old: &Value) -> bool {
    let labels = |object: &Value| {
        object["metadata"]["labels"].as_object().filter(|labels| !labels.is_empty()).cloned()
    };
    labels(new) == labels(old)
}

/// Whether anything but metadata differs, and but the status where that is written apart.
fn spec_differs(kind: &Kind, new: &Value, old: &Value) -> bool {
    let but: &[&str] =
        if kind.subresource("status").is_some() { &["metadata", "status"] } else { &["metadata"] };
    !equal_but(old, new, but)
}

/// Parts that say what they said before, with or without what Go writes empty, stay as they are: nothing counts as changed by them.
fn keep_alike(kind: &Kind, new: &mut Value, old: &Value) {
    let Some((schema, shape)) = kind.hub().shape.find().filter(|_| kind.hub().shape.builtin_name().is_some())
    else {
        return;
    };
    let Some(found) = schema.get_struct(shape) else { return };
    let Value::Object(fields) = new else { return };
    for (name, value) in fields.iter_mut().filter(|(name, _)| *name != "metadata") {
        let (Some(field), Some(before)) = (found.fields.get(name.as_str()), old.get(name.as_str())) else {
            continue;
        };
        if !value.is(before) && alike(schema, field.ty, value, before) {
            *value = before.clone();
        }
    }
}

pub(super) fn grace(object: &Value) -> i64 {
    object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0)
}

/// Validates the metadata of every kind. Unchanged fields are not checked again.
pub(super) fn validate_metadata(kind: &Kind, new: &Value, old: Option<&Value>, errors: &mut Errors) {
    const NOTHING: &Value = &Value::Null;
    let changed = |field: &str| {
        let value = &new["metadata"][field];
        if old.is_some_and(|old| old["metadata"][field] == *value) { NOTHING } else { value }
    };
    for (key, value) in changed("labels").as_object().into_iter().flatten() {
        if let Err(error) = lazaret_kinds::check_label_name(key) {
            errors.invalid("metadata.labels", key.as_str(), error);
        }
        if let Err(error) = lazaret_kinds::check_label_value(value.as_str().unwrap_or_default()) {
            errors.invalid("metadata.labels", value.clone(), error);
        }
    }
    let mut total = 0;
    for (key, value) in changed("annotations").as_object().into_iter().flatten() {
        total += key.len() + value.as_str().map_or(0, str::len);
        if let Err(error) = lazaret_kinds::check_label_name(&key.to_ascii_lowercase()) {
            errors.invalid("metadata.annotations", key.as_str(), error);
        }
    }
    if total > 256 << 10 {
        errors.push("metadata.annotations", FieldProblem::TooLong(256 << 10));
    }
    validate_owners(changed("ownerReferences"), errors);
    validate_finalizers(kind, new, old, errors);
}

/// Each owner says what it is, and one at most controls the object. Which of several owners is wrong is not in the path, as in Kubernetes.
fn validate_owners(owners: &Value, errors: &mut Errors) {
    const PATH: &str = "metadata.ownerReferences";
    let all = owners.as_array().map_or(&[][..], Vec::as_slice);
    let mut controller: Option<String> = None;
    for owner in all {
        let said = |field: &str| owner[field].as_str().unwrap_or_default();
        let (version, kind, name) = (said("apiVersion"), said("kind"), said("name"));
        let has_version = match version.split_once('/') {
            Some((_, version)) => !version.is_empty() && !version.contains('/'),
            None => !version.is_empty(),
        };
        if !has_version {
            errors.invalid(format!("{PATH}.apiVersion"), version, "version must not be empty");
        }
        for field in ["kind", "name", "uid"].into_iter().filter(|field| said(field).is_empty()) {
            errors.invalid(format!("{PATH}.{field}"), "", "must not be empty");
        }
        if (version, kind) == ("v1", "Event") {
            errors.invalid(PATH, owner.clone(), "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner["controller"] == true {
            let this = format!("{kind}/{name}");
            match &controller {
                Some(first) => {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    errors.invalid(PATH, owners.clone(), why);
                }
                None => controller = Some(this),
            }
        }
    }
}

/// Names of new finalizers are qualified, or those that Kubernetes itself has always used; kinds by definition may use any name.
fn validate_finalizers(kind: &Kind, new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let known: HashSet<String> = old.map(object::finalizers).unwrap_or_default().into_iter().collect();
    let mut added = Vec::new();
    for (at, name) in
        object::finalizers(new).into_iter().enumerate().filter(|(_, name)| !known.contains(name))
    {
        if let Err(why) = lazaret_kinds::check_label_name(&name) {
            errors.invalid("metadata.finalizers", name.as_str(), why);
        } else if kind.hub().shape.builtin_name().is_some()
            && !name.contains('/')
            && !matches!(name.as_str(), "orphan" | "foregroundDeletion" | "kubernetes")
        {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(format!("metadata.finalizers[{at}]"), name.as_str(), why);
        }
        added.push(name);
    }
    if old.is_some_and(object::is_deleting) && !added.is_empty() {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
        );
        errors.forbidden("metadata.finalizers", why);
    }
}

/// An object that was not written, as if it had been.
pub(super) fn unsaved(item: &Item, new: &Value) -> Result<Arc<Item>, ApiError> {
    let mut object = new.clone();
    object::meta_mut(&mut object).insert("resourceVersion", item.modified.to_string().into());
    let value = object::text(&object)?;
    Ok(Arc::new(Item { key: item.key.clone(), value, created: item.created, modified: item.modified }))
}

pub(crate) fn storage(error: &TxnError) -> ApiError {
    disk::refusal(error)
}
