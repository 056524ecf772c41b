//! Objects that cannot be read, and what is kept for each.

use lazaret_api::{FieldError, Object, kept_in_words, what_is_known_of};
use serde::Deserialize;

/// An object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Its kind; empty where not even that is known.
    pub kind: String,
    /// Namespace and name.
    pub name: String,
    /// The field that is wrong.
    pub why: String,
    /// The devices and taints that stay in force while it cannot be read.
    pub kept: String,
}

/// Kind and name of an object, and nothing else.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Header {
    kind: String,
    metadata: Identity,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity {
    namespace: String,
    name: String,
}

impl Unread {
    /// An object that cannot be decoded, and what is known of it all the same.
    pub(super) fn of(json: &str, error: &FieldError) -> (Self, Option<(Object, bool)>) {
        let header: Header = serde_json::from_str(json).unwrap_or_default();
        let Identity { namespace, name } = header.metadata;
        let name = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
        let known = what_is_known_of(json);
        let kept = kept_in_words(&header.kind, &name, known.as_ref());
        let unread = Self { kind: header.kind, name, why: error.to_string(), kept };
        (unread, known.map(|known| (known.object, known.says_what_is_held)))
    }
}
