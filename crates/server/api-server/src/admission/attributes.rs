//! A request as policies and webhooks are asked about it.

use lazaret_json::{Value, json};
use lazaret_kinds::admission::{Attributes, Operation};
use lazaret_patch::ManagedFields;

use crate::{
    ApiError,
    call::Call,
    input::{FieldValidation, Origin, checked, read_message},
    negotiate::Media,
    object,
};

/// The operation, and its objects.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) operation: Operation,
    /// The name of the object.
    pub(crate) name: &'a str,
    /// Whether the server made the name: who asked did not know it.
    pub(crate) generated: bool,
    /// The object in the stored form, or what was sent to a part of it; null for a delete.
    pub(crate) new: &'a Value,
    /// The same before the request; null where there was nothing.
    pub(crate) old: &'a Value,
    /// How to delete; every other request has its options in the query.
    pub(crate) delete: Option<&'a DeleteAttributes>,
}

/// The options of a delete, for admission.
#[derive(Clone, Debug)]
pub(crate) struct DeleteAttributes {
    pub(crate) options: Value,
    pub(crate) dry_run: bool,
}

/// Group, version and kind.
type TypeName<'a> = (&'a str, &'a str, &'a str);

/// The type of a subresource's body, where that is not the object itself.
pub(super) fn part_type(call: &Call<'_>) -> Option<TypeName<'static>> {
    call.kind.subresource(&call.target.subresource).and_then(|part| part.takes)
}

/// Runs `inner` with the attributes of a request.
pub(super) fn with<T>(call: &Call<'_>, subject: Subject<'_>, inner: impl FnOnce(&Attributes<'_>) -> T) -> T {
    let part = part_type(call);
    let in_version =
        |version: &str| (shown(call, part, version, subject.new), shown(call, part, version, subject.old));
    let versions = call.versions();
    let versions: Vec<&str> = versions.iter().map(|version| &**version).collect();
    let options = match subject.delete {
        Some(delete) => delete.options.clone(),
        None => options(call, subject.operation),
    };
    // A namespace is in itself.
    let namespace =
        if call.kind.is("", "namespaces") { subject.name } else { call.target.namespace.as_str() };
    inner(&Attributes {
        operation: subject.operation,
        group: &call.kind.group,
        version: &call.served.version,
        versions: &versions,
        resource: &call.kind.plural,
        subresource: &call.target.subresource,
        kind: &call.kind.kind,
        part,
        name: if subject.generated { "" } else { subject.name },
        namespace,
        user: call.user,
        dry_run: subject.delete.map_or(call.query.dry_run(), |delete| delete.dry_run),
        options: &options,
        objects: &in_version,
    })
}

/// The options that the query says.
fn options(call: &Call<'_>, operation: Operation) -> Value {
    let kind = match operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete | Operation::Connect => return Value::Null,
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if call.query.dry_run() {
        options["dryRun"] = json!(["All"]);
    }
    for field in ["fieldManager", "fieldValidation"] {
        if let Some(said) = call.query.get(field) {
            options[field] = said.into();
        }
    }
    options
}

/// An object as a version has it, with its type; what was sent to a part has only its own.
fn shown(call: &Call<'_>, part: Option<TypeName<'_>>, version: &str, stored: &Value) -> Value {
    if stored.is_null() {
        return Value::Null;
    }
    let mut shown = stored.clone();
    if let Some((group, version, kind)) = part {
        return with_type(shown, group, version, kind);
    }
    call.kind.rules.to_version(&mut shown, version);
    ManagedFields::unfold(&mut shown);
    with_type(shown, &call.kind.group, version, &call.kind.kind)
}

pub(super) fn with_type(mut object: Value, group: &str, version: &str, kind: &str) -> Value {
    object["apiVersion"] =
        if group.is_empty() { version.into() } else { format!("{group}/{version}").into() };
    object["kind"] = kind.into();
    object
}

/// Converts an object that a webhook changed in a version to the stored form: unknown fields are dropped, as of a body. The record of owners
/// stays as it was.
pub(super) fn taken(
    call: &Call<'_>,
    version: &str,
    patched: Value,
    before: &Value,
    old: &Value,
) -> Result<Value, ApiError> {
    if let Some((group, part_version, kind)) = part_type(call) {
        let group = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
        let mut taken = read_message(
            Media::Json,
            patched.to_string().as_bytes(),
            &format!("{group}/{part_version}.{kind}"),
        )?;
        if let Value::Object(fields) = &mut taken {
            fields.remove("kind");
            fields.remove("apiVersion");
        }
        return Ok(taken);
    }
    let (kind, served) = call.in_version(version).ok_or_else(ApiError::no_such_path)?;
    let api_version = kind.api_version(version);
    let expected = Some((api_version.as_str(), &*kind.kind));
    let mut taken =
        checked(&kind, &served, patched, Origin::Sent, Vec::new(), FieldValidation::Ignore, expected)?.object;
    // DEVIATION(webhook-owners): what a webhook says of owners is not looked at.
    let record = before["metadata"].get("managedFields").cloned();
    let metadata = object::meta_mut(&mut taken);
    match record {
        Some(record) => metadata.insert("managedFields", record),
        None => metadata.remove("managedFields"),
    };
    kind.rules.from_version(&mut taken, version, Some(old).filter(|old| !old.is_null()));
    Ok(taken)
}
