//! Text from trees.

use std::{
    fmt,
    io::{self, Write},
};

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
        text.collect_map(self.iter().map(|(name, value)| (name.as_str(), value)))
    }
}

/// As compact JSON, with `{:#}` over many lines.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pretty = f.alternate();
        let mut into = Formatted(f);
        let written = if pretty {
            serde_json::to_writer_pretty(&mut into, self)
        } else {
            serde_json::to_writer(&mut into, self)
        };
        written.map_err(|_| fmt::Error)
    }
}

struct Formatted<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Formatted<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The writer of JSON writes whole characters.
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        self.0.write_str(text).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
