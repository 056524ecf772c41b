//! Single values: null as absence, quantities, instants, JSON kept as it is.

use lazaret_model::{Quantity, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::value::RawValue;

use crate::time::{format_time, parse_time};

/// A value for which null means the default, as everywhere in the API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nullable<T>(pub T);

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Nullable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Option::deserialize(deserializer)?.unwrap_or_default()))
    }
}

impl<T: Serialize> Serialize for Nullable<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<T> Nullable<Vec<T>> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Nullable<String> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A quantity: a string, or a number whose digits are taken as they stand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Amount(pub(crate) Quantity);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = match raw.get().as_bytes() {
            [b'"', ..] => serde_json::from_str(raw.get()).map_err(D::Error::custom)?,
            [b'-' | b'0'..=b'9', ..] => raw.get().to_owned(),
            _ => return Err(D::Error::custom("expected a quantity, as in 500m or 2Gi")),
        };
        Quantity::parse(text.trim()).map(Self).map_err(D::Error::custom)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// An instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Instant(pub(crate) Timestamp);

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_time(&text).map(Self).map_err(D::Error::custom)
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_time(self.0))
    }
}

/// JSON without a schema here, kept byte for byte.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(pub(crate) Box<RawValue>);
