//! Trees from other values, and other values from trees.

use serde::de::DeserializeOwned;
use serde_json::Value as Plain;

use crate::{List, Map, Number, Text, Value};

/// Converts a value to another type. It goes over `serde_json`'s tree: not for work done at every request.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(value.into())
}

impl From<Plain> for Value {
    fn from(plain: Plain) -> Self {
        match plain {
            Plain::Null => Self::Null,
            Plain::Bool(value) => Self::Bool(value),
            Plain::Number(number) => Self::Number(number),
            Plain::String(text) => Self::String(text.into()),
            Plain::Array(list) => list.into_iter().map(Self::from).collect(),
            Plain::Object(map) => map.into_iter().map(|(name, value)| (name, Self::from(value))).collect(),
        }
    }
}

impl From<Value> for Plain {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::String(text.into()),
            Value::Array(list) => list.into_iter().map(Self::from).collect(),
            Value::Object(map) => {
                map.into_iter().map(|(name, value)| (String::from(name), Self::from(value))).collect()
            }
            Value::Encoded(encoded) => Self::from(encoded.value()),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(Text::new(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<Text> for Value {
    fn from(text: Text) -> Self {
        Self::String(text)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Number::from_f64(value).map_or(Self::Null, Self::Number)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

impl From<List> for Value {
    fn from(list: List) -> Self {
        Self::Array(list)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Object(map)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(list: Vec<T>) -> Self {
        list.into_iter().collect()
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self::Array(values.into_iter().map(Into::into).collect())
    }
}

impl<N: Into<Text>> FromIterator<(N, Value)> for Value {
    fn from_iter<I: IntoIterator<Item = (N, Self)>>(fields: I) -> Self {
        Self::Object(fields.into_iter().collect())
    }
}

impl PartialEq<str> for Value {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<String> for Value {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<bool> for Value {
    fn eq(&self, other: &bool) -> bool {
        self.as_bool() == Some(*other)
    }
}

impl PartialEq<f64> for Value {
    fn eq(&self, other: &f64) -> bool {
        self.as_f64() == Some(*other)
    }
}

macro_rules! numbers {
    ($($number:ty),+) => { $(
        impl From<$number> for Value {
            fn from(value: $number) -> Self {
                Self::Number(value.into())
            }
        }

        impl PartialEq<$number> for Value {
            fn eq(&self, other: &$number) -> bool {
                self.as_number() == Some(&Number::from(*other))
            }
        }
    )+ };
}

numbers!(i32, i64, u16, u32, u64, usize);
