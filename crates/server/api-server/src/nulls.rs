//! `null` in what clients send.

use lazaret_json::Value;
use lazaret_schema::{Schema, Type, TypeId, builtin_with_raw};

/// Where in a value JSON stands that is kept as it was written, its `null`s among it.
#[derive(Clone, Copy)]
pub(crate) struct VerbatimPart<'a> {
    schema: &'a Schema,
    ty: TypeId,
}

impl<'a> VerbatimPart<'a> {
    /// Nothing, if no such JSON stands in a value of this built-in type.
    pub(crate) fn within(schema: &'a Schema, ty: TypeId) -> Option<Self> {
        builtin_with_raw().contains(&ty).then_some(Self { schema, ty })
    }

    fn is_whole(self) -> bool {
        matches!(self.schema.get(self.ty), Type::Any(_))
    }

    fn of_field(self, name: &str) -> Option<Self> {
        match self.schema.get(self.ty) {
            Type::Struct(found) => Self::within(self.schema, found.fields.get(name)?.ty),
            Type::Map(item) => Self::within(self.schema, *item),
            Type::Scalar(_) | Type::Any(_) | Type::List(_) => None,
        }
    }

    fn of_item(self) -> Option<Self> {
        match self.schema.get(self.ty) {
            Type::List(item) => Self::within(self.schema, *item),
            Type::Scalar(_) | Type::Any(_) | Type::Struct(_) | Type::Map(_) => None,
        }
    }
}

// DEVIATION(absent-structs): what is empty is not stored, so it is not shown.
/// `null` and absent are the same to the API. Parts that a value shares with `known` have none.
pub(crate) fn drop_nulls(value: &mut Value, known: Option<&Value>, opaque: Option<VerbatimPart<'_>>) {
    if !has_nulls(value, known, opaque) {
        return;
    }
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            for (name, value) in map.iter_mut() {
                drop_nulls(value, None, opaque.and_then(|opaque| opaque.of_field(name)));
            }
        }
        Value::Array(items) => {
            let opaque = opaque.and_then(VerbatimPart::of_item);
            items.iter_mut().for_each(|value| drop_nulls(value, None, opaque));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {}
    }
}

/// Asked first, so that a shared tree without any stays shared.
fn has_nulls(value: &Value, known: Option<&Value>, opaque: Option<VerbatimPart<'_>>) -> bool {
    if opaque.is_some_and(VerbatimPart::is_whole) || known.is_some_and(|known| value.is(known)) {
        return false;
    }
    match value {
        Value::Object(map) => map.iter().any(|(name, value)| {
            let within = || opaque.and_then(|opaque| opaque.of_field(name));
            value.is_null() || has_nulls(value, known.and_then(|known| known.get(name)), within())
        }),
        Value::Array(items) => {
            let known = |at: usize| known.and_then(|known| known.get(at));
            let within = opaque.and_then(VerbatimPart::of_item);
            items.iter().enumerate().any(|(at, value)| has_nulls(value, known(at), within))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => false,
    }
}
