//! One step of a path into an object.

use std::borrow::Borrow;

use lazaret_json::{Map, Text, Value};

/// One step of a path, held as the text that stands for it in `fieldsV1`: `f:name`, `k:{"type":"Ready"}`, `v:"x"`. A record of owners
/// is read and written without looking into its steps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathElement(Text);

impl PathElement {
    /// A field of a struct or map.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self(["f:", name].into_iter().collect())
    }

    /// An item of a keyed list, by its key fields in name order.
    #[must_use]
    pub fn key(keys: Vec<(String, Value)>) -> Self {
        Self(format!("k:{}", Value::Object(keys.into_iter().collect())).into())
    }

    /// An item of a set.
    #[must_use]
    pub fn value(value: &Value) -> Self {
        Self(format!("v:{value}").into())
    }

    /// As in `fieldsV1`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// An item of a keyed list that has none of its keys.
    pub(crate) fn is_nameless(&self) -> bool {
        self.0 == "k:{}"
    }

    /// The first key of an item of a keyed list, if it is a number.
    pub(crate) fn number(&self) -> Option<i64> {
        let (_, value) = self.0.strip_prefix("k:{")?.split_once(':')?;
        let end = value.find([',', '}'])?;
        value[..end].parse().ok()
    }

    /// Parses a step in `fieldsV1`; `None` if it is none.
    pub(crate) fn read(text: &str) -> Option<Self> {
        matches!(text.as_bytes(), [b'f' | b'k' | b'v', b':', ..]).then(|| Self(text.into()))
    }

    /// As people read it in a conflict: `.spec`, `[type="Ready"]`.
    #[must_use]
    pub fn display(&self) -> String {
        let (kind, rest) = self.0.split_once(':').unwrap_or_default();
        match kind {
            "k" => {
                let keys: Map = serde_json::from_str(rest).unwrap_or_default();
                let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!("[{}]", pairs.join(","))
            }
            "v" => format!("[={rest}]"),
            _ => format!(".{rest}"),
        }
    }
}

impl Borrow<str> for PathElement {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}
