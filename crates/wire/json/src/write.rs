//! Text from trees.

use std::fmt;

use serde::ser::{Serialize, Serializer};

use crate::{List, Map, Value};

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, text: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => text.serialize_unit(),
            Self::Bool(value) => text.serialize_bool(*value),
            Self::Number(number) => number.serialize(text),
            Self::String(value) => text.serialize_str(value),
            Self::Array(list) => list.serialize(text),
            Self::Object(map) => map.serialize(text),
            Self::Encoded(encoded) => encoded.serialize(text),
        }
    }
}

impl Serialize for List {
    fn serialize<S: Serializer>(&self, text: S) -> Result<S::Ok, S::Error> {
        text.collect_seq(self)
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, text: S) -> Result<S::Ok, S::Error> {
        match self.text() {
            Some(own) => own.serialize(text),
            None => text.collect_map(self.iter().map(|(name, value)| (name.as_str(), value))),
        }
    }
}

/// As compact JSON, with `{:#}` over many lines.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A formatter takes a piece at a time through a table of functions: slow for the many small ones of a tree.
        let text =
            if f.alternate() { serde_json::to_string_pretty(self) } else { serde_json::to_string(self) };
        f.write_str(&text.map_err(|_| fmt::Error)?)
    }
}
