//! The parts of an object that are kept as they were written.

use std::{collections::BTreeSet, fmt};

use lazaret_json::{Map, Text, Value, verbatim, visit_scalars};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::{Schema, Type, TypeId, builtin_with_raw};

/// Reads from the text of an object of a built-in type what is kept as it was written, see [`verbatim`], at the places where it stands;
/// whatever else there is may be missing. Nothing where the text is not JSON.
#[must_use]
pub fn read_raw(schema: &Schema, ty: TypeId, text: &[u8]) -> Option<Value> {
    let mut json = serde_json::Deserializer::from_slice(text);
    Parts { schema, leading: builtin_with_raw(), ty: Some(ty) }.deserialize(&mut json).ok()
}

#[derive(Clone, Copy)]
struct Parts<'a> {
    schema: &'a Schema,
    leading: &'a BTreeSet<TypeId>,
    /// Nothing below a value of no type is wanted.
    ty: Option<TypeId>,
}

impl Parts<'_> {
    fn of(self, ty: Option<TypeId>) -> Self {
        Self { ty: ty.filter(|ty| self.leading.contains(ty)), ..self }
    }

    fn of_field(self, name: &str) -> Self {
        self.of(self.ty.and_then(|ty| match self.schema.get(ty) {
            Type::Struct(found) => found.fields.get(name).map(|field| field.ty),
            Type::Map(item) => Some(*item),
            Type::Scalar(_) | Type::Any(_) | Type::List(_) => None,
        }))
    }

    fn of_item(self) -> Self {
        self.of(self.ty.and_then(|ty| match self.schema.get(ty) {
            Type::List(item) => Some(*item),
            Type::Scalar(_) | Type::Any(_) | Type::Struct(_) | Type::Map(_) => None,
        }))
    }
}

impl<'de> DeserializeSeed<'de> for Parts<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        use serde::Deserialize as _;
        match self.ty.map(|ty| self.schema.get(ty)) {
            None => IgnoredAny::deserialize(json).map(|_| Value::Null),
            Some(Type::Any(_)) => verbatim(<&RawValue>::deserialize(json)?).map_err(D::Error::custom),
            Some(Type::Scalar(_) | Type::Struct(_) | Type::Map(_) | Type::List(_)) => {
                json.deserialize_any(self)
            }
        }
    }
}

impl<'de> Visitor<'de> for Parts<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    visit_scalars!();

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element_seed(self.of_item())? {
            list.push(value);
        }
        Ok(Value::Array(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(name) = map.next_key::<Text>()? {
            let value = map.next_value_seed(self.of_field(&name))?;
            fields.push((name, value));
        }
        Ok(Value::Object(Map::from(fields)))
    }
}
