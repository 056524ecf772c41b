//! Protobuf bodies, as JSON.
//!
//! Typed clients send protobuf and do not fall back. Their bodies become the JSON that Go would have printed for the same object,
//! and take the same path as every other body from there.

mod wire;

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use lazaret_json::{Map, Value, json, verbatim};

use crate::canonical;
use crate::duration;
use crate::instant::Instant;
use crate::table::{Field, Holder, Scalar, Schema, StructType, Type, TypeId};
use wire::{Reader, Wire};

/// The first bytes of an enveloped object: `k8s` and a zero.
const MAGIC: &[u8] = b"k8s\0";

/// Deeper messages are refused.
const DEPTH_MAX: usize = crate::DEPTH_MAX;

/// Messages of more values are refused.
const VALUES_MAX: usize = crate::VALUES_MAX;

/// An object with its kind, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// `group/version`.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The object's message, or text of `content_type`.
    pub raw: &'a [u8],
    /// Empty for protobuf.
    pub content_type: &'a str,
}

/// Why bytes are not the message they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtobufError {
    /// The envelope's first bytes are not there.
    NotEnveloped,
    /// The bytes end in the middle of something, or a length is wrong.
    Truncated,
    /// A value is encoded in another way than its field.
    WireType {
        /// The field, by path.
        field: String,
    },
    /// Text that is not UTF-8, or JSON that is not JSON.
    Text {
        /// The field, by path.
        field: String,
    },
    /// Nested too deep.
    TooDeep,
    /// Of more values than a body may have.
    TooMany,
}

impl fmt::Display for ProtobufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEnveloped => {
                f.write_str("the body does not begin with the magic bytes of a protobuf object")
            }
            Self::Truncated => f.write_str("the protobuf message ends too early"),
            Self::WireType { field } => write!(f, "field {field} is encoded in the wrong way"),
            Self::Text { field } => write!(f, "field {field} does not hold readable text"),
            Self::TooDeep => write!(f, "messages are nested deeper than {DEPTH_MAX} levels"),
            Self::TooMany => write!(f, "the message has more than {VALUES_MAX} values"),
        }
    }
}

impl std::error::Error for ProtobufError {}

/// Opens an enveloped object.
///
/// # Errors
/// When the bytes are no envelope.
pub fn open_envelope(bytes: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    let mut reader = Reader::new(bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NotEnveloped)?);
    let mut envelope = Envelope { api_version: "", kind: "", raw: &[], content_type: "" };
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => {
                let mut meta = Reader::new(wire.bytes("typeMeta")?);
                while let Some((number, wire)) = meta.next()? {
                    match number {
                        1 => envelope.api_version = wire.text("typeMeta.apiVersion")?,
                        2 => envelope.kind = wire.text("typeMeta.kind")?,
                        _ => {}
                    }
                }
            }
            2 => envelope.raw = wire.bytes("raw")?,
            4 => envelope.content_type = wire.text("contentType")?,
            _ => {}
        }
    }
    Ok(envelope)
}

/// Decodes the message of a `ty` to the JSON that stands for it. Fields with numbers that the table does not know are
/// skipped: newer clients send them.
///
/// # Errors
/// When the bytes are malformed.
pub fn decode_message(schema: &Schema, ty: TypeId, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let Some(found) = schema.get_struct(ty) else { return Ok(Value::Null) };
    let mut map = Map::new();
    message(schema, found, bytes, &mut map, &mut Place { path: String::new(), depth: 0, values: 0 })?;
    Ok(Value::Object(map))
}

/// Where in the object we are.
struct Place {
    path: String,
    depth: usize,
    /// How many values there are so far: a message of two bytes can be an object with a dozen fields.
    values: usize,
}

impl Place {
    fn count(&mut self) -> Result<(), ProtobufError> {
        self.values += 1;
        if self.values > VALUES_MAX { Err(ProtobufError::TooMany) } else { Ok(()) }
    }

    fn within<T>(
        &mut self,
        name: &str,
        inner: impl FnOnce(&mut Self) -> Result<T, ProtobufError>,
    ) -> Result<T, ProtobufError> {
        if self.depth >= DEPTH_MAX {
            return Err(ProtobufError::TooDeep);
        }
        let length = self.path.len();
        if length > 0 && !name.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        self.path.truncate(length);
        result
    }
}

fn message(
    schema: &Schema,
    ty: &StructType,
    bytes: &[u8],
    into: &mut Map,
    place: &mut Place,
) -> Result<(), ProtobufError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if let Some(embedded) = ty.inline.get(&number).and_then(|id| schema.get_struct(*id)) {
            place.within("", |place| message(schema, embedded, wire.bytes(&place.path)?, into, place))?;
            continue;
        }
        let Some(name) = ty.numbers.get(&number) else { continue };
        let Some(field) = ty.fields.get(name) else { continue };
        place.within(name, |place| assign(schema, field, name, wire, into, place))?;
    }
    for (name, field) in ty.numbers.values().filter_map(|name| ty.fields.get(name).map(|field| (name, field)))
    {
        if field.always && !into.contains_key(name) {
            place.count()?;
            into.insert(name.clone(), zero(schema, field));
        }
    }
    Ok(())
}

fn assign(
    schema: &Schema,
    field: &Field,
    name: &str,
    wire: Wire<'_>,
    into: &mut Map,
    place: &mut Place,
) -> Result<(), ProtobufError> {
    match schema.get(field.ty) {
        Type::List(item) => {
            let list = into.entry(name).or_insert_with(|| json!([]));
            if let Value::Array(items) = list {
                for wire in wire.unpacked(is_varint(schema.get(*item)))? {
                    items.push(value(schema, *item, wire, place)?);
                }
            }
        }
        Type::Map(item) => {
            let (mut key, mut content) = (String::new(), None);
            let mut entry = Reader::new(wire.bytes(&place.path)?);
            while let Some((number, wire)) = entry.next()? {
                match number {
                    1 => wire.text(&place.path)?.clone_into(&mut key),
                    2 => content = Some(place.within(&key, |place| value(schema, *item, wire, place))?),
                    _ => {}
                }
            }
            let content = content
                .map_or_else(|| place.within(&key, |place| value(schema, *item, Wire::EMPTY, place)), Ok)?;
            if let Value::Object(map) = into.entry(name).or_insert_with(|| json!({})) {
                map.insert(key, content);
            }
        }
        Type::Scalar(_) | Type::Any(_) | Type::Struct(_) => {
            let decoded = value(schema, field.ty, wire, place)?;
            if field.optional || field.always || !is_zero(schema, field.ty, &decoded) {
                into.insert(name.to_owned(), decoded);
            }
        }
    }
    Ok(())
}

fn value(schema: &Schema, ty: TypeId, wire: Wire<'_>, place: &mut Place) -> Result<Value, ProtobufError> {
    place.count()?;
    match schema.get(ty) {
        Type::Scalar(kind) => scalar(*kind, wire, &place.path),
        Type::Any(Holder::Schema) => json_schema(schema, wire, place),
        Type::Any(Holder::SchemaOrList) => {
            let (one, others) = alternatives(schema, wire, place, json_schema)?;
            Ok(if others.is_empty() { one.unwrap_or_default() } else { others.into() })
        }
        Type::Any(Holder::SchemaOrStrings) => {
            let (one, names) =
                alternatives(schema, wire, place, |_, wire, place| Ok(wire.text(&place.path)?.into()))?;
            Ok(if names.is_empty() { one.unwrap_or_default() } else { names.into() })
        }
        Type::Any(Holder::SchemaOrBool) => schema_or_bool(schema, wire, place),
        Type::Any(holder @ (Holder::Raw | Holder::Json | Holder::StringList | Holder::Opaque)) => {
            any(*holder, wire, &place.path)
        }
        Type::Struct(found) => {
            let mut map = Map::new();
            place.within("", |place| message(schema, found, wire.bytes(&place.path)?, &mut map, place))?;
            Ok(Value::Object(map))
        }
        // A list within a list does not occur in protobuf.
        Type::List(_) | Type::Map(_) => Err(ProtobufError::WireType { field: place.path.clone() }),
    }
}

/// The message of a JSON schema.
fn json_schema(schema: &Schema, wire: Wire<'_>, place: &mut Place) -> Result<Value, ProtobufError> {
    let Some(found) = schema.find("apiextensions/v1.JSONSchemaProps").and_then(|id| schema.get_struct(id))
    else {
        return Ok(Value::Null);
    };
    let mut map = Map::new();
    place.within("", |place| message(schema, found, wire.bytes(&place.path)?, &mut map, place))?;
    Ok(Value::Object(map))
}

/// A message whose field 1 is a schema and whose field 2 is a list of something else.
fn alternatives(
    schema: &Schema,
    wire: Wire<'_>,
    place: &mut Place,
    other: fn(&Schema, Wire<'_>, &mut Place) -> Result<Value, ProtobufError>,
) -> Result<(Option<Value>, Vec<Value>), ProtobufError> {
    let (mut one, mut others) = (None, Vec::new());
    let mut reader = Reader::new(wire.bytes(&place.path)?);
    while let Some((number, wire)) = reader.next()? {
        place.count()?;
        match number {
            1 => one = Some(json_schema(schema, wire, place)?),
            2 => others.push(other(schema, wire, place)?),
            _ => {}
        }
    }
    Ok((one, others))
}

fn schema_or_bool(schema: &Schema, wire: Wire<'_>, place: &mut Place) -> Result<Value, ProtobufError> {
    let mut found = Value::Bool(false);
    let mut reader = Reader::new(wire.bytes(&place.path)?);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 if !found.is_object() => found = (wire.integer(&place.path)? != 0).into(),
            2 => found = json_schema(schema, wire, place)?,
            _ => {}
        }
    }
    Ok(found)
}

/// As Go prints a number: whole ones without a point.
fn number(value: f64) -> Value {
    // Beyond this a float does not hold every whole number.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, reason = "it is whole, and small enough")]
    if value.fract() == 0.0 && value.abs() <= WHOLE_MAX { (value as i64).into() } else { json!(value) }
}

fn scalar(kind: Scalar, wire: Wire<'_>, path: &str) -> Result<Value, ProtobufError> {
    Ok(match kind {
        Scalar::String => wire.text(path)?.into(),
        Scalar::Int32 | Scalar::Int64 => wire.integer(path)?.into(),
        Scalar::Bool => (wire.integer(path)? != 0).into(),
        Scalar::Double => number(wire.double(path)?),
        Scalar::Bytes => STANDARD.encode(wire.bytes(path)?).into(),
        Scalar::Quantity => first_text(wire, path)?.unwrap_or("0").into(),
        Scalar::Time => instant(wire, path, false)?,
        Scalar::MicroTime => instant(wire, path, true)?,
        Scalar::Duration => duration::to_text(first_integer(wire, path)?).into(),
        Scalar::IntOrString => int_or_string(wire, path)?,
    })
}

fn any(holder: Holder, wire: Wire<'_>, path: &str) -> Result<Value, ProtobufError> {
    let mut reader = Reader::new(wire.bytes(path)?);
    let mut strings = Vec::new();
    let mut raw: &[u8] = &[];
    while let Some((number, wire)) = reader.next()? {
        if number == 1 {
            raw = wire.bytes(path)?;
            strings.push(raw);
        }
    }
    match holder {
        Holder::Schema
        | Holder::SchemaOrList
        | Holder::SchemaOrBool
        | Holder::SchemaOrStrings
        | Holder::Opaque => Ok(Value::Null),
        Holder::StringList => {
            let text = |bytes: &[u8]| {
                std::str::from_utf8(bytes)
                    .map(Value::from)
                    .map_err(|_| ProtobufError::Text { field: path.to_owned() })
            };
            strings.into_iter().map(text).collect()
        }
        Holder::Raw | Holder::Json if raw.is_empty() => Ok(Value::Null),
        Holder::Raw | Holder::Json => {
            let unread = |_| ProtobufError::Text { field: path.to_owned() };
            let parsed = crate::parse_json(raw).map_err(unread)?;
            if holder == Holder::Json {
                return Ok(parsed.value);
            }
            // Within the limits, it is kept as it was written.
            let unread = |_| ProtobufError::Text { field: path.to_owned() };
            serde_json::from_slice(raw).and_then(verbatim).map_err(unread)
        }
    }
}

fn first_text<'a>(wire: Wire<'a>, path: &str) -> Result<Option<&'a str>, ProtobufError> {
    let mut reader = Reader::new(wire.bytes(path)?);
    let mut found = None;
    while let Some((number, wire)) = reader.next()? {
        if number == 1 {
            found = Some(wire.text(path)?);
        }
    }
    Ok(found)
}

fn first_integer(wire: Wire<'_>, path: &str) -> Result<i64, ProtobufError> {
    let mut reader = Reader::new(wire.bytes(path)?);
    let mut found = 0;
    while let Some((number, wire)) = reader.next()? {
        if number == 1 {
            found = wire.integer(path)?;
        }
    }
    Ok(found)
}

const NANOS_A_SECOND: i64 = 1_000_000_000;

fn instant(wire: Wire<'_>, path: &str, micros: bool) -> Result<Value, ProtobufError> {
    let mut reader = Reader::new(wire.bytes(path)?);
    let (mut seconds, mut nanos, mut any) = (0, 0, false);
    while let Some((number, wire)) = reader.next()? {
        any = true;
        match number {
            1 => seconds = wire.integer(path)?,
            2 => nanos = wire.integer(path)?,
            _ => {}
        }
    }
    if !any {
        return Ok(Value::Null);
    }
    // A number of seconds may stand in either, as in Go.
    let (more, nanos) = (nanos.div_euclid(NANOS_A_SECOND), nanos.rem_euclid(NANOS_A_SECOND));
    let whole = seconds.checked_add(if micros { more } else { 0 });
    let instant = whole.and_then(|seconds| Instant::new(seconds, u32::try_from(nanos).unwrap_or(0)));
    let instant = instant.ok_or_else(|| ProtobufError::Text { field: path.to_owned() })?;
    Ok(instant.to_text(micros).into())
}

fn int_or_string(wire: Wire<'_>, path: &str) -> Result<Value, ProtobufError> {
    let mut reader = Reader::new(wire.bytes(path)?);
    let (mut is_text, mut number_value, mut text) = (false, 0, "");
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => is_text = wire.integer(path)? == 1,
            2 => number_value = wire.integer(path)?,
            3 => text = wire.text(path)?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number_value.into() })
}

fn is_varint(ty: &Type) -> bool {
    matches!(ty, Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Bool))
}

/// Whether Go would leave the value out of JSON where it may.
fn is_zero(schema: &Schema, ty: TypeId, value: &Value) -> bool {
    match (schema.get(ty), value) {
        (_, Value::Null) => true,
        (Type::Scalar(Scalar::Quantity | Scalar::IntOrString), _) | (_, Value::Encoded(_)) => false,
        (_, Value::Bool(value)) => !value,
        (_, Value::Number(value)) => value.as_f64() == Some(0.0),
        (_, Value::String(value)) => value.is_empty(),
        (_, Value::Array(items)) => items.is_empty(),
        // A struct that is no pointer is written even when empty, but for those that say they may be left out: harmless either way.
        (_, Value::Object(map)) => map.is_empty(),
    }
}

fn zero(schema: &Schema, field: &Field) -> Value {
    if field.optional { Value::Null } else { canonical::zero(schema.get(field.ty)).unwrap_or_default() }
}

#[cfg(test)]
mod tests;
