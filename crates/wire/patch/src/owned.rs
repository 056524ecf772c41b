//! The fields of one manager, kept as text until they are needed: most writes touch the fields of one manager alone, and
//! those of the others go from one revision to the next unchanged.

use std::{borrow::Cow, fmt};

use serde::{
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor},
    ser::{Serialize, SerializeMap, Serializer},
};
use serde_json::value::RawValue;

use crate::{FieldSet, PathElement};

/// A `fieldsV1`.
#[derive(Clone, Debug)]
pub(crate) enum Owned {
    /// As it was read.
    Text(Box<RawValue>),
    /// Looked into.
    Set(FieldSet),
}

impl Owned {
    pub(crate) fn set(&self) -> Cow<'_, FieldSet> {
        match self {
            Self::Text(text) => Cow::Owned(read(text.get())),
            Self::Set(set) => Cow::Borrowed(set),
        }
    }

    /// Whether a path stands both here and in `set`.
    pub(crate) fn touches(&self, set: &FieldSet) -> bool {
        match self {
            Self::Text(text) => {
                let mut json = serde_json::Deserializer::from_str(text.get());
                PathSearch(set).deserialize(&mut json).is_ok_and(|met| met.hit)
            }
            Self::Set(mine) => !mine.intersection(set).is_empty(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.get() == "{}",
            Self::Set(set) => set.is_empty(),
        }
    }
}

impl PartialEq for Owned {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(mine), Self::Text(theirs)) if mine.get() == theirs.get() => true,
            _ => self.set() == other.set(),
        }
    }
}

/// Parses a `fieldsV1`; one that cannot be parsed is empty.
fn read(text: &str) -> FieldSet {
    let mut json = serde_json::Deserializer::from_str(text);
    Whole.deserialize(&mut json).unwrap_or_default()
}

/// Whether a text is a `fieldsV1`: each step of it a field, a key, a value, an index, or the place itself.
pub(crate) fn is_field_set(text: &str) -> bool {
    let mut json = serde_json::Deserializer::from_str(text);
    Check.deserialize(&mut json).is_ok()
}

/// Reads a `fieldsV1`, and refuses what is none.
struct Check;

impl<'de> DeserializeSeed<'de> for Check {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Check {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(step) = map.next_key_seed(Step)? {
            if step != "." && PathElement::read(&step).is_none() {
                return Err(serde::de::Error::custom("not a step of a path"));
            }
            map.next_value_seed(Self)?;
        }
        Ok(())
    }
}

impl Serialize for Owned {
    fn serialize<S: Serializer>(&self, text: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(known) => known.serialize(text),
            Self::Set(set) => Subtree { set, own: false }.serialize(text),
        }
    }
}

/// The elements below a node, and the node itself if `own`.
struct Subtree<'a> {
    set: &'a FieldSet,
    own: bool,
}

impl Serialize for Subtree<'_> {
    fn serialize<S: Serializer>(&self, text: S) -> Result<S::Ok, S::Error> {
        let mut map = text.serialize_map(None)?;
        if self.own {
            map.serialize_entry(".", &EmptyObject {})?;
        }
        let mut put = |(element, child): (&PathElement, &FieldSet)| {
            // A leaf is a member without the entry `.`.
            let own = child.member && child.children.values().any(|below| !below.is_empty());
            map.serialize_entry(element.as_str(), &Subtree { set: child, own })
        };
        let children = self.set.children.iter().filter(|(_, child)| !child.is_empty());
        if self.set.children.first_key_value().is_some_and(|(element, _)| element.number().is_some()) {
            // By size, as everybody writes them: 80 before 443.
            let mut ordered: Vec<_> = children.collect();
            ordered.sort_by_key(|(element, _)| element.number());
            ordered.into_iter().try_for_each(&mut put)?;
        } else {
            children.into_iter().try_for_each(&mut put)?;
        }
        map.end()
    }
}

/// `{}`
#[derive(serde::Serialize)]
struct EmptyObject {}

/// Reads all of a `fieldsV1`.
struct Whole;

impl<'de> DeserializeSeed<'de> for Whole {
    type Value = FieldSet;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<FieldSet, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole {
    type Value = FieldSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldSet, A::Error> {
        let mut set = FieldSet::default();
        while let Some(step) = map.next_key_seed(Step)? {
            if step == "." {
                map.next_value::<IgnoredAny>()?;
                set.member = true;
                continue;
            }
            let mut child = map.next_value_seed(Self)?;
            child.member |= child.children.is_empty();
            if let Some(element) = PathElement::read(&step) {
                set.children.insert(element, child);
            }
        }
        Ok(set)
    }
}

/// Looks for paths of a set, and passes over all else.
struct PathSearch<'a>(&'a FieldSet);

struct PathMatch {
    hit: bool,
    empty: bool,
}

impl<'de> DeserializeSeed<'de> for PathSearch<'_> {
    type Value = PathMatch;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<PathMatch, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PathSearch<'_> {
    type Value = PathMatch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PathMatch, A::Error> {
        let mut met = PathMatch { hit: false, empty: true };
        while let Some(step) = map.next_key_seed(Step)? {
            met.empty = false;
            match self.0.children.get(&*step) {
                Some(child) => {
                    let below = map.next_value_seed(PathSearch(child))?;
                    met.hit |= below.hit || below.empty && child.member;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                    met.hit |= step == "." && self.0.member;
                }
            }
        }
        Ok(met)
    }
}

/// The name of a step, without a copy where it has no escapes.
struct Step;

impl<'de> DeserializeSeed<'de> for Step {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Step {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a step")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(set: &FieldSet) -> String {
        serde_json::to_string(&Owned::Set(set.clone())).unwrap()
    }

    #[test]
    fn a_set_is_written_as_it_was_read() {
        for fields in [
            r#"{}"#,
            r#"{"f:data":{"f:k":{}}}"#,
            r#"{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}}}}"#,
            r#"{"f:metadata":{"f:finalizers":{".":{},"v:\"a/b\"":{}}}}"#,
            r#"{"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{},"k:{\"port\":443,\"protocol\":\"TCP\"}":{}}}"#,
            r#"{"f:data":{"f:ünï\tx\\":{}}}"#,
        ] {
            assert_eq!(text(&read(fields)), fields);
        }
        assert!(read("[]").is_empty());
    }

    fn sets() -> impl Strategy<Value = FieldSet> {
        let path = prop::collection::vec(0..3u8, 1..4);
        prop::collection::vec(path, 0..6).prop_map(|paths| {
            let mut set = FieldSet::default();
            for path in paths {
                let path: Vec<PathElement> =
                    path.into_iter().map(|step| PathElement::field(&step.to_string())).collect();
                set.insert(&path);
            }
            set
        })
    }

    proptest! {
        #[test]
        fn text_and_set_agree(mine in sets(), theirs in sets()) {
            let (as_text, as_set) = (Owned::Text(RawValue::from_string(text(&mine)).unwrap()), Owned::Set(mine.clone()));
            prop_assert_eq!(as_text.set().into_owned(), mine);
            prop_assert_eq!(as_text.touches(&theirs), as_set.touches(&theirs));
            prop_assert_eq!(as_text.is_empty(), as_set.is_empty());
        }
    }
}
