//! The one form in which a value is kept: that in which Go would write it after reading it.
//!
//! Times are in UTC, quantities, durations and bytes are written in one way, what says nothing is left out where Go leaves it out, and
//! is there where Go writes it all the same. Values in this form are equal when their texts are.

use base64::{
    Engine,
    alphabet::STANDARD as ALPHABET,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use lazaret_json::{Map, Value, json};
use lazaret_model::Quantity;

use crate::{
    duration,
    instant::Instant,
    table::{Field, Scalar, Schema, StructType, Type, TypeId},
};

/// How much a value says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An object: what is not in it is not there.
    Whole,
    /// An applied configuration: each field that is named is meant, though it be empty, and no other.
    Applied,
}

/// Brings a value of a type into its form, but for what it shares with `known`, which has it already. A value of another type stays.
pub fn canonical(schema: &Schema, ty: TypeId, value: &mut Value, known: Option<&Value>, form: Form) {
    if is_canonical(schema, ty, value, known, form) {
        return;
    }
    match (schema.get(ty), value) {
        (Type::Scalar(scalar), value) => {
            if let Some(written) = written(*scalar, value) {
                *value = written;
            }
        }
        (Type::Struct(found), Value::Object(map)) => {
            for (name, value) in map.iter_mut() {
                if let Some(field) = found.fields.get(name.as_str()).filter(|_| !value.is_null()) {
                    canonical(schema, field.ty, value, known.and_then(|known| known.get(name)), form);
                }
            }
            if form == Form::Whole {
                settle_fields(schema, found, map);
            }
        }
        (Type::List(item), Value::Array(items)) => {
            for (at, value) in items.iter_mut().enumerate() {
                fill_null(schema, *item, value, form);
                canonical(schema, *item, value, known.and_then(|known| known.get(at)), form);
            }
        }
        (Type::Map(item), Value::Object(map)) => {
            for (name, value) in map.iter_mut() {
                fill_null(schema, *item, value, form);
                canonical(schema, *item, value, known.and_then(|known| known.get(name)), form);
            }
        }
        (Type::Any(_) | Type::Struct(_) | Type::List(_) | Type::Map(_), _) => {}
    }
}

/// Asked first, so that a shared tree that has its form stays shared.
fn is_canonical(schema: &Schema, ty: TypeId, value: &Value, known: Option<&Value>, form: Form) -> bool {
    if value.is_null() || known.is_some_and(|known| value.is(known)) {
        return true;
    }
    let within = |ty, value: &Value, known| is_canonical(schema, ty, value, known, form);
    match (schema.get(ty), value) {
        (Type::Scalar(scalar), value) => is_written(*scalar, value),
        (Type::Struct(found), Value::Object(map)) => {
            has_form(schema, found, map, form)
                && map.iter().all(|(name, value)| {
                    let known = || known.and_then(|known| known.get(name));
                    found.fields.get(name.as_str()).is_none_or(|field| within(field.ty, value, known()))
                })
        }
        (Type::List(item), Value::Array(items)) => items.iter().enumerate().all(|(at, value)| {
            let known = known.and_then(|known| known.get(at));
            !is_null_to_fill(schema, *item, value, form) && within(*item, value, known)
        }),
        (Type::Map(item), Value::Object(map)) => map.iter().all(|(name, value)| {
            let known = known.and_then(|known| known.get(name));
            !is_null_to_fill(schema, *item, value, form) && within(*item, value, known)
        }),
        (Type::Any(_) | Type::Struct(_) | Type::List(_) | Type::Map(_), _) => true,
    }
}

/// Whether a struct has each field that is always written, and none that is left out.
pub(crate) fn has_form(schema: &Schema, found: &StructType, map: &Map, form: Form) -> bool {
    form == Form::Applied
        || found.always.iter().all(|(name, _)| map.get(name).is_some_and(|value| !value.is_null()))
            && map.iter().all(|(name, value)| {
                found.fields.get(name.as_str()).is_none_or(|field| !is_left_out(schema, field, value))
            })
}

/// `null` in a list or map is a value that says nothing; as a field it is an absent one.
pub(crate) fn is_null_to_fill(schema: &Schema, item: TypeId, value: &Value, form: Form) -> bool {
    form == Form::Whole && value.is_null() && zero(schema.get(item)).is_some()
}

fn fill_null(schema: &Schema, item: TypeId, value: &mut Value, form: Form) {
    if is_null_to_fill(schema, item, value, form)
        && let Some(zero) = zero(schema.get(item))
    {
        *value = zero;
    }
}

fn settle_fields(schema: &Schema, found: &StructType, map: &mut Map) {
    map.retain(|name, value| {
        found.fields.get(name.as_str()).is_none_or(|field| !is_left_out(schema, field, value))
    });
    for (name, zero) in &found.always {
        if map.get(name).is_none_or(Value::is_null) {
            map.insert(name.as_str(), zero.clone());
        }
    }
}

/// Whether Go writes nothing for this value of a field: it is empty, and to be left out then.
fn is_left_out(schema: &Schema, field: &Field, value: &Value) -> bool {
    if field.optional || field.always {
        return false;
    }
    match (schema.get(field.ty), value) {
        (Type::Scalar(Scalar::String | Scalar::Bytes), Value::String(text)) => text.is_empty(),
        (Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Double), Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        (Type::Scalar(Scalar::Bool), Value::Bool(truth)) => !truth,
        (Type::List(_), Value::Array(items)) => items.is_empty(),
        (Type::Map(_), Value::Object(map)) => map.is_empty(),
        (Type::Scalar(_) | Type::Any(_) | Type::Struct(_) | Type::List(_) | Type::Map(_), _) => false,
    }
}

/// The value that says nothing, where a type has one that is not `null`.
pub(crate) fn zero(ty: &Type) -> Option<Value> {
    match ty {
        Type::Scalar(Scalar::String | Scalar::Bytes) => Some("".into()),
        Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString) => Some(0.into()),
        Type::Scalar(Scalar::Bool) => Some(false.into()),
        Type::Scalar(Scalar::Quantity) => Some("0".into()),
        Type::Scalar(Scalar::Duration) => Some("0s".into()),
        Type::Struct(_) => Some(json!({})),
        Type::Scalar(Scalar::Time | Scalar::MicroTime) | Type::Any(_) | Type::List(_) | Type::Map(_) => None,
    }
}

/// Whether a value is as Go would write it.
pub(crate) fn is_written(scalar: Scalar, value: &Value) -> bool {
    let Value::String(text) = value else { return scalar != Scalar::Quantity || !value.is_number() };
    let text = text.as_str();
    match scalar {
        Scalar::String
        | Scalar::Int32
        | Scalar::Int64
        | Scalar::Bool
        | Scalar::Double
        | Scalar::IntOrString => true,
        Scalar::Quantity => is_short_quantity(text) || written(scalar, value).is_none_or(|new| new == *value),
        // Years before 1000 and the one instant that says nothing are rare.
        Scalar::Time => text.len() == 20 && text.ends_with('Z') && !text.starts_with('0'),
        Scalar::MicroTime => {
            text.len() == 27
                && text.ends_with('Z')
                && text.as_bytes().get(19) == Some(&b'.')
                && !text.starts_with('0')
        }
        Scalar::Bytes | Scalar::Duration => written(scalar, value).is_none_or(|new| new == *value),
    }
}

/// Up to three digits, and a unit: nothing can be taken out of such a number.
fn is_short_quantity(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let units = ["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"];
    (1..=3).contains(&digits) && !text.starts_with('0') && units.contains(&&text[digits..]) || text == "0"
}

/// The value as Go would write it; nothing for what it does not read.
fn written(scalar: Scalar, value: &Value) -> Option<Value> {
    let text = match value {
        Value::String(text) => text.as_str(),
        Value::Number(number) if scalar == Scalar::Quantity => {
            return Quantity::parse(&number.to_string()).ok().map(|quantity| quantity.to_string().into());
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_)
        | Value::Encoded(_) => return None,
    };
    Some(match scalar {
        Scalar::Quantity => Quantity::parse(text.trim()).ok()?.to_string().into(),
        Scalar::Time => instant(Instant::parse(text)?, false),
        // DEVIATION(micro-times): however many digits it has.
        Scalar::MicroTime => instant(Instant::parse(text)?, true),
        Scalar::Duration => duration::to_text(duration::parse(text)?).into(),
        Scalar::Bytes => bytes(text)?.into(),
        Scalar::String
        | Scalar::Int32
        | Scalar::Int64
        | Scalar::Bool
        | Scalar::Double
        | Scalar::IntOrString => {
            return None;
        }
    })
}

fn instant(instant: Instant, micros: bool) -> Value {
    if instant.is_unsaid() { Value::Null } else { instant.to_text(micros).into() }
}

/// Base64 in one line, its last bits zero.
fn bytes(text: &str) -> Option<String> {
    let lenient = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    let line: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let decoded = GeneralPurpose::new(&ALPHABET, lenient).decode(line).ok()?;
    Some(STANDARD.encode(decoded))
}

/// Whether two values of a type say the same. Values that were read have one form, but for what
/// this server leaves out where Kubernetes writes it empty: a list or map without entries, and a struct without content that is no
/// pointer in Go, are as if absent.
#[must_use]
pub fn alike(schema: &Schema, ty: TypeId, a: &Value, b: &Value) -> bool {
    if a.is(b) {
        return true;
    }
    match (schema.get(ty), a, b) {
        (Type::Struct(found), Value::Object(left), Value::Object(right)) => {
            let same = |name: &lazaret_json::Text| {
                let of = |map: &Map| map.get(name.as_str()).cloned().unwrap_or_default();
                fields_alike(schema, found, name.as_str(), &of(left), &of(right))
            };
            left.keys().all(same) && right.keys().all(|name| left.contains_key(name.as_str()) || same(name))
        }
        (Type::List(item), Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| alike(schema, *item, a, b))
        }
        (Type::Map(item), Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, a)| right.get(name.as_str()).is_some_and(|b| alike(schema, *item, a, b)))
        }
        (Type::Scalar(_) | Type::Any(_) | Type::Struct(_) | Type::List(_) | Type::Map(_), a, b) => a == b,
    }
}

fn fields_alike(schema: &Schema, found: &StructType, name: &str, a: &Value, b: &Value) -> bool {
    match found.fields.get(name) {
        Some(field) if a.is_null() || b.is_null() => {
            says_nothing(schema, field, a) && says_nothing(schema, field, b)
        }
        Some(field) => alike(schema, field.ty, a, b),
        None => a == b,
    }
}

fn says_nothing(schema: &Schema, field: &Field, value: &Value) -> bool {
    match (schema.get(field.ty), value) {
        (_, Value::Null) => true,
        (Type::List(_), Value::Array(items)) => items.is_empty(),
        (Type::Map(_), Value::Object(map)) => map.is_empty(),
        (Type::Struct(found), Value::Object(map)) if !field.optional => map.iter().all(|(name, value)| {
            found.fields.get(name.as_str()).is_some_and(|field| says_nothing(schema, field, value))
        }),
        (_, value) => is_zero(schema.get(field.ty), field, value),
    }
}

/// A single value that is always written, and says nothing.
fn is_zero(ty: &Type, field: &Field, value: &Value) -> bool {
    field.always
        && !field.optional
        && matches!(ty, Type::Scalar(_))
        && zero(ty).is_some_and(|zero| zero == *value)
}

#[cfg(test)]
mod tests;
