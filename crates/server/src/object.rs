//! Objects as they are stored: JSON without `apiVersion` and `kind`, beginning with the resource version, so that the bytes can be
//! shipped as they are and the version found without parsing.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use lazaret_kinds::{Kind, Scope, Served};
use lazaret_store::{Item, Value as StoreValue};
use memchr::memmem;
use serde_json::{Map, Value};

/// How every stored object begins.
const HEAD: &[u8] = br#"{"metadata":{"resourceVersion":""#;

/// The key of one object, or with an empty name the prefix of all in the namespace, or with both empty of all.
pub(crate) fn key(kind: &Kind, namespace: &str, name: &str) -> String {
    let (group, plural) = match (&*kind.group, &*kind.plural) {
        // One store under two names.
        ("events.k8s.io", "events") | ("", "events") => ("core", "events"),
        ("", plural) => ("core", plural),
        (group, plural) => (group, plural),
    };
    match kind.scope {
        Scope::Cluster => format!("/{group}/{plural}/{name}"),
        Scope::Namespaced if namespace.is_empty() => format!("/{group}/{plural}/"),
        Scope::Namespaced => format!("/{group}/{plural}/{namespace}/{name}"),
    }
}

/// An object's bytes, with a place for the revision that the store will give it.
pub(crate) fn encode(object: &Value) -> StoreValue {
    let empty = Map::new();
    let map = object.as_object().unwrap_or(&empty);
    let metadata = map.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut after = String::from("\"");
    push_fields(&mut after, metadata.iter().filter(|(key, _)| *key != "resourceVersion"), true);
    after.push('}');
    push_fields(
        &mut after,
        map.iter().filter(|(key, _)| !matches!(key.as_str(), "metadata" | "apiVersion" | "kind")),
        true,
    );
    after.push('}');
    StoreValue::Stamped { before: Bytes::from_static(HEAD), after: Bytes::from(after) }
}

fn push_fields<'a>(
    text: &mut String,
    fields: impl Iterator<Item = (&'a String, &'a Value)>,
    mut comma: bool,
) {
    for (key, value) in fields {
        if comma {
            text.push(',');
        }
        text.push_str(&Value::String(key.clone()).to_string());
        text.push(':');
        text.push_str(&value.to_string());
        comma = true;
    }
}

/// The object in stored bytes. They were written by [`encode`]: what does not parse is answered as null.
pub(crate) fn decode(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
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
        Some(_) | None => Cow::Owned(versioned(kind, served, decode(stored)).to_string().into_bytes()),
    }
}

/// An object in the form of a version, without its type.
pub(crate) fn versioned(kind: &Kind, served: &Served, mut object: Value) -> Value {
    kind.rules.to_version(&mut object, &served.version);
    object
}

/// Puts the type in front of an object's text.
pub(crate) fn typed(kind: &Kind, version: &str, bytes: &[u8]) -> Bytes {
    let head = format!(r#"{{"kind":"{}","apiVersion":"{}""#, kind.kind, kind.api_version(version));
    let rest = bytes.strip_prefix(b"{").unwrap_or(bytes);
    let mut text = BytesMut::with_capacity(head.len() + rest.len() + 1);
    text.extend_from_slice(head.as_bytes());
    if rest != b"}" {
        text.extend_from_slice(b",");
    }
    text.extend_from_slice(rest);
    text.freeze()
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
pub(crate) fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stored(object: &Value, revision: u64) -> Bytes {
        match encode(object) {
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
        assert_eq!(decode(&restamped(&bytes, 7))["metadata"]["resourceVersion"], "7");
        let pods = lazaret_kinds::find("", "pods").unwrap();
        let typed: Value = serde_json::from_slice(&typed(pods, "v1", &bytes)).unwrap();
        assert_eq!((typed["kind"].as_str(), typed["apiVersion"].as_str()), (Some("Pod"), Some("v1")));
        assert_eq!(decode(&stored(&json!({}), 1)), json!({"metadata": {"resourceVersion": "1"}}));
    }
}
