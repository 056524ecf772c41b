//! Objects as they are stored: JSON without `apiVersion` and `kind`, beginning with the resource version, so that the bytes can be
//! shipped as they are and the version found without parsing.

use std::{
    borrow::Cow,
    fmt,
    io::{self, Write},
};

use bytes::{Bytes, BytesMut};
use lazaret_json::{Encoded, Map, Spelled, Text, Value, WithVerbatim};
use lazaret_kinds::{Kind, Scope, Served};
use lazaret_storage::{Item, Value as StoreValue};
use memchr::memmem;
use serde::{
    Serialize,
    de::{DeserializeSeed, Deserializer, MapAccess, Visitor},
};
use serde_json::{Serializer, ser::Formatter, value::RawValue};

/// How every stored object begins.
const HEAD: &[u8] = br#"{"metadata":{"resourceVersion":""#;

// DEVIATION(object-size): refused as too large, not as an error of the server.
/// Larger objects are not stored: as much as etcd takes by default.
pub(crate) const OBJECT_BYTES_MAX: usize = 3 << 19;

/// Bytes that the server itself may add to an object of any size, so that one at the limit can still be deleted: marks of deletion,
/// conditions of a definition.
pub(crate) const OWN_BYTES_MAX: usize = 16 << 10;

/// Nothing longer is written. An object that was stored when there was no limit can be made smaller step by step.
const WRITTEN_BYTES_MAX: usize = 16 << 20;

/// How the text of an object ends in which some JSON stands as it was written: others need not be searched for it.
const WITH_VERBATIM: u8 = b' ';

/// The names of all fields in which such JSON stands.
const VERBATIM: WithVerbatim<'static> = WithVerbatim::of(&["data", "parameters"]);

/// Where in the metadata the record of owners stands.
const RECORD: &str = "managedFields";

/// The key of one object, or with an empty name the prefix of all in the namespace, or with both empty of all.
pub(crate) fn key(kind: &Kind, namespace: &str, name: &str) -> String {
    let (group, plural) = match (&*kind.group, &*kind.plural) {
        // One store under two names.
        ("events.k8s.io", "events") | ("", "events") => ("core", "events"),
        ("", plural) => ("core", plural),
        (group, plural) => (group, plural),
    };
    match kind.scope {
        Scope::Cluster => ["/", group, "/", plural, "/", name].concat(),
        Scope::Namespaced if namespace.is_empty() => ["/", group, "/", plural, "/"].concat(),
        Scope::Namespaced => ["/", group, "/", plural, "/", namespace, "/", name].concat(),
    }
}

/// An object's bytes, with a place for the revision that the store will give it.
///
/// # Errors
/// When it is larger than what is stored.
pub(crate) fn encode(object: &Value) -> Result<StoreValue, TooLarge> {
    let after = after_revision(object)?;
    Ok(StoreValue::Stamped { before: Bytes::from_static(HEAD), after: Bytes::from(after) })
}

/// The same with the revision that the object has, if it has one: what is shown of an object that is not stored.
pub(crate) fn text(object: &Value) -> Result<Bytes, TooLarge> {
    let after = after_revision(object)?;
    let revision = &object["metadata"]["resourceVersion"];
    if revision.as_str().is_none_or(str::is_empty) {
        let rest = after.strip_prefix(b"\",").or_else(|| after.strip_prefix(b"\"")).unwrap_or_default();
        return Ok([&br#"{"metadata":{"#[..], rest].concat().into());
    }
    // The encoder's quotes stand where those around the revision do.
    let revision = revision.to_string();
    let (head, rest) =
        (HEAD.strip_suffix(b"\"").unwrap_or(HEAD), after.strip_prefix(b"\"").unwrap_or(&after));
    Ok([head, revision.as_bytes(), rest].concat().into())
}

/// An object is larger than the store takes. Writing ends where the limit is passed: the size of the whole is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

fn after_revision(object: &Value) -> Result<Vec<u8>, TooLarge> {
    let empty = Map::new();
    let map = object.as_object().unwrap_or(&empty);
    let metadata = map.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut after = Bounded { text: Vec::with_capacity(2048), with_verbatim: false };
    after.text.push(b'"');
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        after.field(key, value)?;
    }
    after.text.push(b'}');
    for (key, value) in map {
        if !matches!(key.as_str(), "metadata" | "apiVersion" | "kind") {
            after.field(key, value)?;
        }
    }
    after.text.push(b'}');
    after.text.extend(after.with_verbatim.then_some(WITH_VERBATIM));
    Ok(after.text)
}

/// Text that is written up to a limit: a tree shares what it repeats, and its text does not.
struct Bounded {
    text: Vec<u8>,
    with_verbatim: bool,
}

impl Bounded {
    fn field(&mut self, key: &str, value: &Value) -> Result<(), TooLarge> {
        self.text.push(b',');
        self.json(key)?;
        self.text.push(b':');
        match value {
            // It is JSON by its type.
            Value::Encoded(record) => self.write_all(record.as_str().as_bytes()).map_err(|_| TooLarge),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => self.json(value),
        }
    }

    /// Values have string keys, so that the limit is all that can go wrong.
    fn json(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), TooLarge> {
        let mut with_verbatim = false;
        let mut json = Serializer::with_formatter(&mut *self, Compact { with_verbatim: &mut with_verbatim });
        value.serialize(&mut json).map_err(|_| TooLarge)?;
        self.with_verbatim |= with_verbatim;
        Ok(())
    }
}

/// Writes without any space, and notes whether some text was written as it had been read.
struct Compact<'a> {
    with_verbatim: &'a mut bool,
}

impl Formatter for Compact<'_> {
    fn write_raw_fragment<W: Write + ?Sized>(&mut self, text: &mut W, fragment: &str) -> io::Result<()> {
        *self.with_verbatim = true;
        text.write_all(fragment.as_bytes())
    }
}

impl Write for Bounded {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.write_all(text).map(|()| text.len())
    }

    #[inline]
    fn write_all(&mut self, text: &[u8]) -> io::Result<()> {
        if self.text.len() + text.len() > WRITTEN_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(text);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The object in stored bytes, for looking at and for changing: its record of owners stays encoded (see [`ManagedFields::put`]). The bytes
/// were written by [`encode`]: what does not parse is answered as null.
pub(crate) fn decode(bytes: &[u8]) -> Value {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = Read { of: Part::Object, with_verbatim: has_verbatim(bytes) };
    read.deserialize(&mut json).unwrap_or(Value::Null)
}

fn has_verbatim(bytes: &[u8]) -> bool {
    bytes.last() == Some(&WITH_VERBATIM)
}

/// The object in stored bytes as clients know it.
pub(crate) fn decode_whole(bytes: &[u8]) -> Value {
    if has_verbatim(bytes) {
        let mut json = serde_json::Deserializer::from_slice(bytes);
        return VERBATIM.deserialize(&mut json).unwrap_or(Value::Null);
    }
    serde_json::from_slice::<Spelled>(bytes).map_or(Value::Null, |object| object.0)
}

/// Reads an object, and of its metadata the record of owners as it is encoded.
#[derive(Clone, Copy)]
struct Read {
    of: Part,
    with_verbatim: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Object,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for Read {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Read {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Vec::with_capacity(8);
        while let Some(key) = map.next_key::<Text>()? {
            let value = match (self.of, key.as_str()) {
                (Part::Object, "metadata") => map.next_value_seed(Self { of: Part::Metadata, ..self })?,
                (Part::Metadata, RECORD) => Value::Encoded(Encoded::from(map.next_value::<&RawValue>()?)),
                (Part::Object, name) if self.with_verbatim => map.next_value_seed(VERBATIM.of_field(name))?,
                // Stored fields are in order of their names, except in opaque JSON, which keeps its own order.
                (Part::Object | Part::Metadata, _) => map.next_value::<Spelled>()?.0,
            };
            fields.push((key, value));
        }
        Ok(Value::Object(fields.into()))
    }
}

/// A stored object in the form of a version, as JSON text with its type.
pub(crate) fn present(kind: &Kind, served: &Served, item: &Item) -> Bytes {
    typed(kind, &served.version, &in_version(kind, served, &item.value))
}

/// Stored bytes in the form of a version: the very same where they need not be looked into.
pub(crate) fn in_version<'a>(kind: &Kind, served: &Served, stored: &'a [u8]) -> Cow<'a, [u8]> {
    let says = |field: &&str| memmem::find(stored, format!("\"{field}\":").as_bytes()).is_some();
    match kind.rules.differs_where(&served.version) {
        Some(fields) if !fields.iter().any(says) => Cow::Borrowed(stored),
        Some(_) | None => Cow::Owned(versioned(kind, served, decode_whole(stored)).to_string().into_bytes()),
    }
}

/// An object in the form of a version, without its type.
pub(crate) fn versioned(kind: &Kind, served: &Served, mut object: Value) -> Value {
    kind.rules.to_version(&mut object, &served.version);
    object
}

/// Puts the type in front of a stored object's text.
pub(crate) fn typed(kind: &Kind, version: &str, bytes: &[u8]) -> Bytes {
    let head = head(kind, version);
    let mut text = BytesMut::with_capacity(head.len() + bytes.len());
    text.extend_from_slice(head.as_bytes());
    text.extend_from_slice(bytes.get(1..).unwrap_or_default());
    text.freeze()
}

/// How the text of an object with its type begins. A stored object has metadata at least, so that a comma is right.
pub(crate) fn head(kind: &Kind, version: &str) -> String {
    format!(r#"{{"kind":{},"apiVersion":{},"#, quoted(&kind.kind), quoted(&kind.api_version(version)))
}

/// A text as JSON writes it.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// The same object with another resource version: what a delete event carries.
pub(crate) fn restamped(bytes: &[u8], revision: u64) -> Bytes {
    let Some(rest) = bytes.strip_prefix(HEAD) else { return Bytes::copy_from_slice(bytes) };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    [HEAD, revision.to_string().as_bytes(), &rest[digits..]].concat().into()
}

/// A value of the metadata as text, empty if absent.
pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The metadata, made if need be.
pub(crate) fn meta_mut(object: &mut Value) -> &mut Map {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    #[allow(clippy::unwrap_used, reason = "made an object just above")]
    metadata.as_object_mut().unwrap()
}

/// Whether the object is on its way out.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !meta(object, "deletionTimestamp").is_empty()
}

/// The finalizers.
pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Whether two objects have the same fields, these left out.
pub(crate) fn equal_but(old: &Value, new: &Value, but: &[&str]) -> bool {
    fn fields<'a>(object: &'a Value, but: &[&str]) -> impl Iterator<Item = (&'a Text, &'a Value)> {
        object.as_object().into_iter().flatten().filter(|(name, _)| !but.contains(&name.as_str()))
    }
    fields(old, but).eq(fields(new, but))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_json::json;

    fn stored(object: &Value, revision: u64) -> Bytes {
        match encode(object).unwrap() {
            StoreValue::Stamped { before, after } => {
                [&before[..], revision.to_string().as_bytes(), &after[..]].concat().into()
            }
            StoreValue::Plain(bytes) => bytes,
        }
    }

    #[test]
    fn an_object_survives_being_stored_and_carries_its_revision() {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "resourceVersion": "old", "labels": {"x": "\"é"}}, "spec": {"n": 1}});
        let bytes = stored(&object, 42);
        let expected = json!({"metadata": {"name": "a", "resourceVersion": "42", "labels": {"x": "\"é"}}, "spec": {"n": 1}});
        assert_eq!(decode(&bytes), expected);
        assert_eq!(decode_whole(&bytes), expected);
        assert_eq!(decode(&restamped(&bytes, 7))["metadata"]["resourceVersion"], "7");
        let pods = lazaret_kinds::find("", "pods").unwrap();
        let typed: Value = serde_json::from_slice(&typed(pods, "v1", &bytes)).unwrap();
        assert_eq!((typed["kind"].as_str(), typed["apiVersion"].as_str()), (Some("Pod"), Some("v1")));
        assert_eq!(decode(&stored(&json!({}), 1)), json!({"metadata": {"resourceVersion": "1"}}));
    }

    #[test]
    fn what_is_not_stored_is_shown_with_the_revision_that_it_has() {
        let with = json!({"kind": "Pod", "metadata": {"name": "a", "resourceVersion": "7"}, "spec": {}});
        assert_eq!(text(&with).unwrap(), r#"{"metadata":{"resourceVersion":"7","name":"a"},"spec":{}}"#);
        let without = json!({"metadata": {"name": "a"}, "spec": {}});
        assert_eq!(text(&without).unwrap(), r#"{"metadata":{"name":"a"},"spec":{}}"#);
        assert_eq!(text(&json!({})).unwrap(), r#"{"metadata":{}}"#);
    }

    #[test]
    fn a_record_of_owners_is_encoded_inside_and_a_list_outside() {
        let record = json!([{"manager": "a", "fieldsV1": {"f:data": {"k:{\"x\":\"\\n\"}": {}}}}]);
        let bytes = stored(&json!({"metadata": {"managedFields": record}}), 1);
        let inside = decode(&bytes);
        let encoded = Encoded::read(&record.to_string()).unwrap();
        assert_eq!(inside["metadata"]["managedFields"], Value::Encoded(encoded));
        assert_eq!(stored(&inside, 1), bytes);
        assert_eq!(decode_whole(&bytes)["metadata"]["managedFields"], record);
        assert_eq!(text(&inside).unwrap(), bytes);
    }

    #[test]
    fn json_that_is_kept_as_it_was_written_survives_being_stored() {
        let text = r#"{"b": 1e3, "a": { }}"#;
        let kept = || lazaret_json::verbatim(serde_json::from_str(text).unwrap()).unwrap();
        let objects = [
            json!({"metadata": {}, "data": kept()}),
            json!({"metadata": {}, "spec": {"config": [{"opaque": {"parameters": kept()}}], "data": {"a": "b"}}}),
        ];
        for object in objects {
            let bytes = stored(&object, 1);
            assert!(bytes.ends_with(b"} "), "it is marked");
            for read in [decode(&bytes), decode_whole(&bytes)] {
                assert_eq!(stored(&read, 1), bytes);
                assert!(read.to_string().contains(text), "{read}");
            }
        }
        let plain = stored(&json!({"metadata": {}, "data": {"a": "b"}}), 1);
        assert!(plain.ends_with(b"}"), "others are not marked");
    }

    /// Stored objects are read without their schema.
    #[test]
    fn every_field_in_which_json_is_kept_is_known_by_its_name() {
        let schema = lazaret_schema::builtin();
        let is_raw = |ty| schema.get(ty) == &lazaret_schema::Type::Any(lazaret_schema::Holder::Raw);
        let leading = lazaret_schema::builtin_with_raw().iter().filter_map(|ty| schema.get_struct(*ty));
        let fields = leading.flat_map(|found| found.fields.iter().filter(|(_, field)| is_raw(field.ty)));
        let names: std::collections::BTreeSet<&str> = fields.map(|(name, _)| name.as_str()).collect();
        assert_eq!(Vec::from_iter(names), VERBATIM.names());
    }

    #[test]
    fn no_text_of_a_client_is_taken_for_json() {
        let forged = r#""x"},{"kind":"Secret""#;
        let object = json!({"metadata": {"name": "a", "resourceVersion": forged, "managedFields": forged}, "managedFields": forged, forged: {"managedFields": forged}});
        let mut expected = object.clone();
        assert_eq!(decode_whole(&text(&object).unwrap()), expected);
        expected["metadata"]["resourceVersion"] = "7".into();
        assert_eq!(decode_whole(&stored(&object, 7)), expected);
    }

    #[test]
    fn what_is_repeated_is_not_written_without_end() {
        let long = Value::from("x".repeat(1 << 20));
        let object = json!({"metadata": {}, "spec": {"list": vec![long; 100]}});
        assert_eq!(encode(&object).unwrap_err(), TooLarge);
        assert_eq!(text(&object).unwrap_err(), TooLarge);
    }
}
