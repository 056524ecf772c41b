//! Trees from text.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::{Map, Text, Value, verbatim};

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        text.deserialize_any(Any)
    }
}

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        text.deserialize_map(Fields)
    }
}

/// The methods of a `Visitor` of trees for single values, whatever it does with lists and objects.
#[macro_export]
macro_rules! visit_scalars {
    () => {
        fn visit_unit<E>(self) -> Result<$crate::Value, E> {
            Ok($crate::Value::Null)
        }

        fn visit_bool<E>(self, value: bool) -> Result<$crate::Value, E> {
            Ok($crate::Value::Bool(value))
        }

        fn visit_i64<E>(self, value: i64) -> Result<$crate::Value, E> {
            Ok($crate::Value::Number(value.into()))
        }

        fn visit_u64<E>(self, value: u64) -> Result<$crate::Value, E> {
            Ok($crate::Value::Number(value.into()))
        }

        fn visit_f64<E>(self, value: f64) -> Result<$crate::Value, E> {
            Ok($crate::Number::from_f64(value).map_or($crate::Value::Null, $crate::Value::Number))
        }

        fn visit_str<E>(self, value: &str) -> Result<$crate::Value, E> {
            Ok($crate::Value::String($crate::Text::new(value)))
        }

        fn visit_string<E>(self, value: String) -> Result<$crate::Value, E> {
            Ok($crate::Value::String($crate::Text::from(value)))
        }
    };
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    visit_scalars!();

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, text: D) -> Result<Value, D::Error> {
        Value::deserialize(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        Ok(Value::Array(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        Fields.visit_map(map).map(Value::Object)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Map;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Map::from(fields))
    }
}

/// A value whose objects keep the order of their fields, wherever they are.
#[derive(Debug)]
pub struct Spelled(pub Value);

impl<'de> Deserialize<'de> for Spelled {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        text.deserialize_any(AsSpelled).map(Self)
    }
}

struct AsSpelled;

impl<'de> Visitor<'de> for AsSpelled {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    visit_scalars!();

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Spelled(value)) = seq.next_element()? {
            list.push(value);
        }
        Ok(Value::Array(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((name, Spelled(value))) = map.next_entry::<Text, Spelled>()? {
            fields.push((name, value));
        }
        Ok(Value::Object(Map::spelled(fields)))
    }
}

/// Reads a value as [`Spelled`] does, and in it the fields with some names as [`verbatim`] does. It can be read from text in memory only.
#[derive(Clone, Copy, Debug)]
pub struct WithVerbatim<'a> {
    names: &'a [&'a str],
    /// The value is that of such a field.
    whole: bool,
}

impl<'a> WithVerbatim<'a> {
    /// A value in which the fields with these names are read like this.
    #[must_use]
    pub const fn of(names: &'a [&'a str]) -> Self {
        Self { names, whole: false }
    }

    /// The names of the fields.
    #[must_use]
    pub const fn names(&self) -> &'a [&'a str] {
        self.names
    }

    /// The value of a field with this name.
    #[must_use]
    pub fn of_field(self, name: &str) -> Self {
        Self { whole: self.names.contains(&name), ..self }
    }
}

impl<'de> DeserializeSeed<'de> for WithVerbatim<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<Value, D::Error> {
        if self.whole {
            return verbatim(<&RawValue>::deserialize(text)?).map_err(D::Error::custom);
        }
        text.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for WithVerbatim<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    visit_scalars!();

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element_seed(self)? {
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
        Ok(Value::Object(Map::spelled(fields)))
    }
}
