//! The beginning of an object, up to the end of its metadata: half of its text, and for many readers all that they need.

use core::fmt;

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor},
};

/// The metadata of an object, and whether it says its kind.
#[derive(Debug)]
pub(crate) struct Beginning<M> {
    pub(crate) metadata: M,
    pub(crate) says_kind: bool,
}

/// Reads the metadata of an object. The text after it need not be whole.
///
/// # Errors
/// When it is no object, or has no such metadata.
pub fn read_metadata<'de, M: Deserialize<'de>>(json: &'de [u8]) -> Result<M, serde_json::Error> {
    let json = core::str::from_utf8(json).map_err(serde_json::Error::custom)?;
    Beginning::read(json).map(|beginning| beginning.metadata)
}

impl<'de, M: Deserialize<'de>> Beginning<M> {
    /// Reads on behind the metadata only where the kind does not stand before it, as it does in what servers send by themselves.
    pub(crate) fn read(json: &'de str) -> Result<Self, serde_json::Error> {
        let (mut metadata, mut says_kind) = (None, false);
        let fields = Fields { metadata: &mut metadata, says_kind: &mut says_kind };
        let read = fields.deserialize(&mut serde_json::Deserializer::from_str(json));
        match (metadata, read) {
            (Some(metadata), Ok(())) => Ok(Self { metadata, says_kind }),
            // The reader stops after both fields, and only there.
            (Some(metadata), Err(_)) if says_kind => Ok(Self { metadata, says_kind }),
            (_, Err(error)) => Err(error),
            (None, Ok(())) => Err(serde_json::Error::missing_field("metadata")),
        }
    }
}

struct Fields<'a, M> {
    metadata: &'a mut Option<M>,
    says_kind: &'a mut bool,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Kind,
    Metadata,
    #[serde(other)]
    Other,
}

impl<'de, M: Deserialize<'de>> DeserializeSeed<'de> for Fields<'_, M> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, M: Deserialize<'de>> Visitor<'de> for Fields<'_, M> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key::<Field>()? {
            match field {
                Field::Kind => *self.says_kind = map.next_value::<IgnoredAny>().map(|_| true)?,
                Field::Metadata => *self.metadata = Some(map.next_value()?),
                Field::Other => drop(map.next_value::<IgnoredAny>()?),
            }
            if self.metadata.is_some() && *self.says_kind {
                return Err(A::Error::custom("enough is read"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Metadata<'a> {
        name: &'a str,
    }

    fn read(json: &str) -> Result<(&str, bool), String> {
        Beginning::<Metadata<'_>>::read(json)
            .map(|beginning| (beginning.metadata.name, beginning.says_kind))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn metadata_is_found_wherever_it_stands() {
        for json in [
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"#,
            r#"{"kind":"Pod","spec":{"kind":1},"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":"a"},"spec":{},"kind":"Pod"}"#,
        ] {
            assert_eq!(read(json), Ok(("a", true)), "{json}");
        }
        assert_eq!(read(r#"{"metadata":{"name":"a"},"spec":{}}"#), Ok(("a", false)));
    }

    #[test]
    fn an_object_without_metadata_is_none() {
        for json in ["", "[]", "{}", r#"{"kind":"Pod"}"#, r#"{"kind":"Pod","metadata":{"name":"a""#] {
            assert!(read(json).is_err(), "{json}");
        }
        assert!(read_metadata::<Metadata<'_>>(b"{\"kind\":\"\xff\"}").is_err());
    }
}
