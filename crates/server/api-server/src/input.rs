//! From a request's body to an object in the stored form.

use lazaret_json::Value;
use lazaret_kinds::{Kind, Served};
use lazaret_schema::{
    Finding, Form, Parsed, Schema, Type, TypeId, builtin, builtin_with_raw, canonical, decode_message,
    open_envelope, parse_json, read, read_raw,
};

use crate::{
    ApiError,
    negotiate::Media,
    nulls::{VerbatimPart, drop_nulls},
    object,
    query::Query,
};

/// Larger bodies are refused.
pub(crate) const BODY_BYTES_MAX: usize = 3 << 20;

/// Bound on the repetitions by aliases in one document of YAML: enough for people, too few for a bomb.
const REPEATED_MAX: usize = 10_000;

/// The treatment of unknown fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    /// The value in a request; no other values get this far.
    pub(crate) fn of(query: &Query) -> Self {
        match query.get("fieldValidation") {
            Some("Ignore") => Self::Ignore,
            Some("Strict") => Self::Strict,
            Some(_) | None => Self::Warn,
        }
    }
}

/// Where a value came from that is to become an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin<'a> {
    /// It was sent as a whole.
    Sent,
    /// It is this object, patched.
    Patched(&'a Value),
    /// It is to be applied.
    Applied,
}

impl<'a> Origin<'a> {
    /// The value whose parts were checked before.
    fn known(self) -> Option<&'a Value> {
        match self {
            Self::Patched(known) => Some(known),
            Self::Sent | Self::Applied => None,
        }
    }

    fn form(self) -> Form {
        match self {
            Self::Sent | Self::Patched(_) => Form::Whole,
            Self::Applied => Form::Applied,
        }
    }
}

/// An object as a client sent it, in the form of its version, without its type.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// Reads a body that is an object of `kind` in the version of the endpoint.
pub(crate) fn read_object(
    kind: &Kind,
    served: &Served,
    media: Media,
    bytes: &[u8],
    validation: FieldValidation,
) -> Result<Incoming, ApiError> {
    let expected = kind.api_version(&served.version);
    let (value, odd) = match media {
        Media::Json => {
            let parsed = parse_json(bytes).map_err(|error| unrecognized(kind, &error, bytes))?;
            (parsed.value, repeated(&parsed.duplicates))
        }
        Media::Yaml
        | Media::Protobuf
        | Media::JsonPatch
        | Media::MergePatch
        | Media::StrategicMergePatch
        | Media::ApplyPatch => read_value(media, bytes, served.shape.builtin_name())?,
    };
    let mut incoming =
        checked(kind, served, value, Origin::Sent, odd, validation, Some((&expected, &kind.kind)))?;
    keep_raw(served, &mut incoming.object, media, bytes);
    Ok(incoming)
}

/// Bytes of a body that is no object of any kind, for people to see what it is.
const SUMMARY_BYTES_MAX: usize = 30;

fn unrecognized(kind: &Kind, error: &impl std::fmt::Display, bytes: &[u8]) -> ApiError {
    let shown = &bytes[..bytes.len().min(SUMMARY_BYTES_MAX)];
    let mut summary = match shown {
        [] => "<empty>".to_owned(),
        [b'{', ..] => String::from_utf8_lossy(shown).into_owned(),
        _ => shown.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if shown.len() < bytes.len() {
        summary.push_str(" ...");
    }
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {error} ({summary})",
        kind.kind
    ))
}

// DEVIATION(opaque-json): what is written as JSON is answered with its spaces, too.
/// Puts JSON that is none of the server's business back as it was written. Protobuf carries it as text, and YAML has no text to keep.
pub(crate) fn keep_raw(served: &Served, object: &mut Value, media: Media, bytes: &[u8]) {
    let Some((schema, shape)) = served.shape.find().filter(|_| served.shape.builtin_name().is_some()) else {
        return;
    };
    if matches!(media, Media::Protobuf) || !builtin_with_raw().contains(&shape) {
        return;
    }
    if let Some(said) = read_raw(schema, shape, bytes) {
        graft(schema, shape, object, &said);
    }
}

fn graft(schema: &Schema, ty: TypeId, value: &mut Value, said: &Value) {
    if !builtin_with_raw().contains(&ty) || said.is_null() {
        return;
    }
    match (schema.get(ty), value, said) {
        (Type::Any(_), value, said) => *value = said.clone(),
        (Type::Struct(found), Value::Object(map), Value::Object(said)) => {
            for (name, value) in map.iter_mut() {
                if let (Some(field), Some(said)) = (found.fields.get(name.as_str()), said.get(name)) {
                    graft(schema, field.ty, value, said);
                }
            }
        }
        (Type::Map(item), Value::Object(map), Value::Object(said)) => {
            for (name, value) in map.iter_mut() {
                said.get(name).into_iter().for_each(|said| graft(schema, *item, value, said));
            }
        }
        (Type::List(item), Value::Array(items), Value::Array(said)) if items.len() == said.len() => {
            items.iter_mut().zip(said.iter()).for_each(|(value, said)| graft(schema, *item, value, said));
        }
        (Type::Scalar(_) | Type::Struct(_) | Type::Map(_) | Type::List(_), ..) => {}
    }
}

/// Checks a value against its shape, and its type against the endpoint, and brings it into the form in which it is kept.
pub(crate) fn checked(
    kind: &Kind,
    served: &Served,
    mut value: Value,
    origin: Origin<'_>,
    odd: Vec<String>,
    validation: FieldValidation,
    expected: Option<(&str, &str)>,
) -> Result<Incoming, ApiError> {
    let Value::Object(map) = &mut value else {
        return Err(ApiError::bad_request("the body of the request must be an object"));
    };
    let api_version =
        map.remove("apiVersion").and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    let said_kind =
        map.remove("kind").and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    if let Some((version, name)) = expected {
        if !api_version.is_empty() && api_version != version {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({version})"
            )));
        }
        if !said_kind.is_empty() && said_kind != name {
            return Err(ApiError::bad_request(format!(
                "the kind in the data ({said_kind}) does not match the expected kind ({name})"
            )));
        }
    }
    match origin {
        Origin::Sent | Origin::Applied => lazaret_kinds::convert_pods(kind, &mut value),
        Origin::Patched(_) => lazaret_kinds::convert_patched_pods(kind, &mut value),
    }
    let mut problems = odd;
    for finding in settled(kind, served, &mut value, origin) {
        match finding {
            Finding::Unknown { path } => problems.push(format!("unknown field {path:?}")),
            Finding::Kind { path, expected, found } => {
                return Err(ApiError::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: {path}: must be {expected}, not {found}",
                    kind.kind, served.version, kind.kind
                )));
            }
        }
    }
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => problems,
        FieldValidation::Strict if problems.is_empty() => Vec::new(),
        FieldValidation::Strict => {
            return Err(ApiError::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
                kind.kind,
                served.version,
                kind.kind,
                problems.join(", ")
            )));
        }
    };
    Ok(Incoming { object: value, warnings })
}

/// Drops unknown fields, and every `null` that means no more than an absent field. Values of built-in kinds get the form in which they are kept;
/// those of defined kinds stay as they are, as in Kubernetes, but for their metadata.
fn settled(kind: &Kind, served: &Served, value: &mut Value, origin: Origin<'_>) -> Vec<Finding> {
    let cleared = take_cleared_owners(value);
    let findings = settled_fields(kind, served, value, origin);
    if let Some(cleared) = cleared {
        object::meta_mut(value).insert(OWNERS, cleared);
    }
    findings
}

const OWNERS: &str = "managedFields";

/// An empty record of owners is no absent one: it asks for the record to be cleared.
fn take_cleared_owners(value: &mut Value) -> Option<Value> {
    let cleared = value["metadata"][OWNERS].as_array().is_some_and(|owners| owners.is_empty());
    cleared.then(|| object::meta_mut(value).remove(OWNERS))?
}

fn settled_fields(kind: &Kind, served: &Served, value: &mut Value, origin: Origin<'_>) -> Vec<Finding> {
    let known = origin.known();
    if let Some(findings) = kind.rules.drop_unknown_fields(value) {
        let known = known.and_then(|known| known.get("metadata"));
        if let (Some(ty), Some(metadata)) = (builtin().find("meta/v1.ObjectMeta"), value.get_mut("metadata"))
        {
            canonical(builtin(), ty, metadata, known, origin.form());
        }
        return findings;
    }
    let shape = served.shape.find();
    let read = |(schema, shape)| read(schema, shape, value, known, origin.form());
    let findings = shape.map(read).unwrap_or_default();
    let built_in = shape.filter(|_| served.shape.builtin_name().is_some());
    drop_nulls(value, known, built_in.and_then(|(schema, shape)| VerbatimPart::within(schema, shape)));
    findings
}

/// Reads a body that is no object of a kind but a message to one: a binding, an eviction, a scale, options. It has its shape, or is refused.
pub(crate) fn read_message(media: Media, bytes: &[u8], shape: &str) -> Result<Value, ApiError> {
    let (mut value, _) = read_value(media, bytes, Some(shape))?;
    if !value.is_object() {
        return Err(ApiError::bad_request("the body of the request must be an object"));
    }
    if let Some(found) = builtin().find(shape) {
        for finding in read(builtin(), found, &mut value, None, Form::Applied) {
            match finding {
                // As for objects with the default validation: left out.
                Finding::Unknown { .. } => {}
                Finding::Kind { path, expected, found } => {
                    let why = format!("{shape}: {path}: must be {expected}, not {found}");
                    return Err(ApiError::bad_request(why));
                }
            }
        }
    }
    drop_nulls(&mut value, None, None);
    Ok(value)
}

/// A message may leave out what it is; what it says must be so.
pub(crate) fn check_message_type(value: &Value, api_versions: &[&str], kind: &str) -> Result<(), ApiError> {
    let said = |field: &str| value[field].as_str().unwrap_or_default();
    let (version, said_kind) = (said("apiVersion"), said("kind"));
    if (version.is_empty() || api_versions.contains(&version)) && (said_kind.is_empty() || said_kind == kind)
    {
        return Ok(());
    }
    let short = version.rsplit('/').next().unwrap_or_default();
    Err(ApiError::bad_request(format!(
        "{said_kind} in version {short:?} cannot be handled as a {kind}: no kind {said_kind:?} is registered for version {version:?} here"
    )))
}

/// Reads a body as a JSON value, whatever it is encoded in, and what is odd about it; the shape is for protobuf alone.
pub(crate) fn read_value(
    media: Media,
    bytes: &[u8],
    shape: Option<&str>,
) -> Result<(Value, Vec<String>), ApiError> {
    match media {
        Media::Protobuf => {
            let envelope = open_envelope(bytes).map_err(|error| ApiError::bad_request(error.to_string()))?;
            let shape = match (envelope.kind, shape.and_then(|shape| builtin().find(shape))) {
                ("DeleteOptions", _) => builtin().find("meta/v1.DeleteOptions"),
                (_, found) => found,
            };
            let shape = shape.ok_or_else(|| ApiError::unsupported_media_type("application/json"))?;
            let mut value = decode_message(builtin(), shape, envelope.raw)
                .map_err(|error| ApiError::bad_request(error.to_string()))?;
            value["apiVersion"] = envelope.api_version.into();
            value["kind"] = envelope.kind.into();
            Ok((value, Vec::new()))
        }
        Media::Yaml | Media::ApplyPatch => {
            // JSON is YAML, but far cheaper to read as what it is.
            if let Ok(parsed) = parse_json(bytes) {
                return Ok((parsed.value, repeated(&parsed.duplicates)));
            }
            let text =
                std::str::from_utf8(bytes).map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
            let parsed: Parsed = serde_saphyr::from_str_with_options(text, yaml())
                .map_err(|error| ApiError::bad_request(format!("error parsing YAML: {error}")))?;
            Ok((parsed.value, Vec::new()))
        }
        Media::Json => {
            let parsed = parse_json(bytes)
                .map_err(|error| ApiError::bad_request(format!("error decoding the body: {error}")))?;
            Ok((parsed.value, repeated(&parsed.duplicates)))
        }
        Media::JsonPatch | Media::MergePatch | Media::StrategicMergePatch => {
            let parsed = parse_json(bytes).map_err(ApiError::no_patch)?;
            let mut odd = repeated(&parsed.duplicates);
            if media == Media::JsonPatch {
                odd.extend(unknown_in_operations(&parsed.value));
                odd.iter_mut().for_each(|problem| problem.insert_str(0, "json patch "));
            }
            Ok((parsed.value, odd))
        }
    }
}

fn repeated(duplicates: &[String]) -> Vec<String> {
    duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect()
}

/// Bound on the unknown fields of operations that are reported; more are only ignored.
const UNKNOWN_MAX: usize = 32;

fn unknown_in_operations(patch: &Value) -> impl Iterator<Item = String> {
    let operations = patch.as_array().into_iter().flatten().enumerate();
    let fields = operations.flat_map(|(at, operation)| {
        operation.as_object().into_iter().flatten().map(move |(name, _)| (at, name))
    });
    fields
        .filter(|(_, name)| !matches!(name.as_str(), "op" | "path" | "from" | "value"))
        .map(|(at, name)| format!("unknown field {:?}", format!("[{at}].{name}")))
        .take(UNKNOWN_MAX)
}

/// How YAML is read.
fn yaml() -> serde_saphyr::Options {
    let mut options = serde_saphyr::Options::default();
    options.alias_limits.max_total_replayed_events = REPEATED_MAX;
    options
}
