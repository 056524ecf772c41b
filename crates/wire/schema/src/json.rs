//! JSON bodies, read with what a server must know of them: fields that stand twice, and how deep they go.

use std::fmt;

use lazaret_json::{Map, Text, Value};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::path::Path;

/// Deeper bodies are refused: no object that Kubernetes knows comes near.
pub const DEPTH_MAX: usize = 100;

// DEVIATION(body-values): what is little to send must not be much to work on.
/// Bodies of more values are refused. An object of 1.5 MiB has about a tenth of it for each value; one of many more is made of brackets,
/// and each of them would take a hundred bytes of memory.
pub const VALUES_MAX: usize = 200_000;

/// Bound on the bytes of a body's texts. It is less than the body only where a text can be repeated, as with aliases of YAML.
const TEXT_BYTES_MAX: usize = 3 << 20;

/// Bound on the repeated fields that are reported; more are only dropped. The last one of them counts, as in Kubernetes.
const DUPLICATES_MAX: usize = 32;

/// A body and what was odd about it.
#[derive(Debug)]
pub struct Parsed {
    /// The body.
    pub value: Value,
    /// Paths of fields that stand more than once.
    pub duplicates: Vec<String>,
}

/// Why a body is not JSON.
#[derive(Debug)]
pub struct JsonError(serde_json::Error);

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for JsonError {}

/// Reads one JSON value.
///
/// # Errors
/// When it is malformed, too deep, or something follows it.
pub fn parse_json(bytes: &[u8]) -> Result<Parsed, JsonError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = Parsed::deserialize(&mut deserializer).map_err(JsonError)?;
    deserializer.end().map_err(JsonError)?;
    Ok(parsed)
}

/// From any format, within the limits of a body.
impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut seen = Seen::default();
        let value = Node { at: &Path::Root, depth: 0, seen: &mut seen }.deserialize(deserializer)?;
        Ok(Self { value, duplicates: seen.duplicates })
    }
}

/// The state of parsing a body.
#[derive(Default)]
struct Seen {
    duplicates: Vec<String>,
    values: usize,
    text_bytes: usize,
}

impl Seen {
    fn count<E: de::Error>(&mut self, value: &Value) -> Result<(), E> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(E::custom(format_args!("more than {VALUES_MAX} values")));
        }
        self.count_text(value.as_str().unwrap_or_default())
    }

    fn count_text<E: de::Error>(&mut self, text: &str) -> Result<(), E> {
        self.text_bytes += text.len();
        if self.text_bytes > TEXT_BYTES_MAX {
            return Err(E::custom(format_args!("more than {TEXT_BYTES_MAX} bytes of text")));
        }
        Ok(())
    }
}

struct Node<'a> {
    at: &'a Path<'a>,
    depth: usize,
    seen: &'a mut Seen,
}

impl Node<'_> {
    fn child<'a>(&'a mut self, at: &'a Path<'a>) -> Node<'a> {
        Node { at, depth: self.depth + 1, seen: self.seen }
    }

    fn check_depth<E: de::Error>(&self) -> Result<(), E> {
        if self.depth >= DEPTH_MAX {
            return Err(E::custom(format_args!("nested deeper than {DEPTH_MAX} levels")));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    lazaret_json::visit_scalars!();

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut list = Vec::new();
        let at = self.at;
        while let Some(item) = items.next_element_seed(self.child(&Path::Item(at, list.len())))? {
            self.seen.count(&item)?;
            list.push(item);
        }
        Ok(Value::Array(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut map = Map::new();
        let at = self.at;
        while let Some(key) = entries.next_key::<Text>()? {
            let path = Path::Field(at, &key);
            if map.contains_key(&key) && self.seen.duplicates.len() < DUPLICATES_MAX {
                self.seen.duplicates.push(path.to_string());
            }
            self.seen.count_text(&key)?;
            let value = entries.next_value_seed(self.child(&path))?;
            self.seen.count(&value)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_fields_are_named_and_the_last_counts() {
        let parsed = parse_json(br#"{"a":1,"b":[{"c":1,"c":2}],"a":3}"#).unwrap();
        assert_eq!(parsed.value, lazaret_json::json!({"a": 3, "b": [{"c": 2}]}));
        assert_eq!(parsed.duplicates, ["b[0].c", "a"]);
    }

    #[test]
    fn deep_bodies_are_refused_and_whole_numbers_kept() {
        let deep = "[".repeat(DEPTH_MAX + 1) + &"]".repeat(DEPTH_MAX + 1);
        assert!(parse_json(deep.as_bytes()).unwrap_err().to_string().contains("deeper"));
        let parsed = parse_json(b"9223372036854775807").unwrap();
        assert_eq!(parsed.value.as_i64(), Some(i64::MAX));
        assert!(parse_json(b"{} {}").is_err());
    }

    #[test]
    fn bodies_of_too_many_values_are_refused() {
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert!(parse_json(list(VALUES_MAX).as_bytes()).is_ok());
        let refused = parse_json(list(VALUES_MAX + 1).as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("more than 200000 values"), "{refused}");
    }
}
