//! JSON that stays text.

use std::{fmt, sync::Arc};

use serde::{
    de::IgnoredAny,
    ser::{Error as _, Serialize, Serializer},
};
use serde_json::{Error, value::RawValue};

use crate::Value;

/// Text that is known to be one JSON value: long, and rarely looked into. There is no way to make one from text that is not JSON, and
/// none of the readers of [`Value`] makes one, so that what a client sends never becomes one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Encoded(Arc<str>);

impl Encoded {
    /// The text, if it is JSON.
    ///
    /// # Errors
    /// Why it is not.
    pub fn read(text: &str) -> Result<Self, Error> {
        serde_json::from_str::<IgnoredAny>(text)?;
        Ok(Self(text.into()))
    }

    /// Serializes a value to JSON.
    ///
    /// # Errors
    /// When the value cannot be represented in JSON.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        serde_json::to_string(value).map(|text| Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tree that the text stands for.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<&RawValue> for Encoded {
    fn from(raw: &RawValue) -> Self {
        Self(raw.get().into())
    }
}

/// As its tree, so that every format can write it. A writer of JSON can take [`Encoded::as_str`].
impl Serialize for Encoded {
    fn serialize<S: Serializer>(&self, text: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<Value>(&self.0).map_err(S::Error::custom)?.serialize(text)
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn only_json_is_taken_and_it_is_written_as_its_tree() {
        for wrong in ["", "{", "[]]", r#"[],"items":[]"#, "nul", "\"a"] {
            assert!(Encoded::read(wrong).is_err(), "{wrong}");
        }
        let value = Value::Encoded(Encoded::read(r#"[ {"a" : "\u0062"} ]"#).unwrap());
        assert_eq!(value.to_string(), r#"[{"a":"b"}]"#);
        assert_eq!(json!({"x": value}), json!({"x": [{"a": "b"}]}));
        assert_ne!(value, Value::from(r#"[ {"a" : "\u0062"} ]"#), "no text of a client is one");
    }
}
