//! The inputs of a rule besides the object.

use std::collections::BTreeMap;

use lazaret_json::Value;

use crate::Features;

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The UID, if it has one.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further attributes from authentication, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The inputs of a rule besides the object.
pub struct Context<'a> {
    /// Now, to the second.
    pub now: jiff::Timestamp,
    /// Which features are on.
    pub features: &'a Features,
    /// The user of the request.
    pub user: &'a User,
    /// The verb of the request: `create`, `update`, `patch` and so on.
    pub verb: &'a str,
    /// The version of the endpoint, for rules that differ by it: `v1`, `v1alpha3`.
    pub version: &'a str,
    /// The namespace object that a namespaced object is in.
    pub namespace: &'a dyn Fn() -> Option<Value>,
    /// Another stored object, by plural resource, namespace and name: priority classes, pods, nodes.
    pub lookup: &'a dyn Fn(&str, &str, &str) -> Option<Value>,
    /// Whether the user may do `verb` on `resource/subresource` called `name`.
    pub may: &'a dyn Fn(Access<'_>) -> bool,
}

/// A question to the authorizer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Access<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The plural resource.
    pub resource: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty for the cluster.
    pub namespace: &'a str,
    /// The object's name, or empty.
    pub name: &'a str,
    /// The field selector of a list, watch or deletecollection; empty for everything else.
    pub fields: &'a [FieldRequirement],
}

/// One requirement of a field selector: `field=value`, or `field!=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field, as in `spec.nodeName`.
    pub field: String,
    /// The value that it is compared with.
    pub value: String,
    /// Whether the field must have the value, or must not.
    pub equal: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("now", &self.now)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// Now as the API writes it.
    #[must_use]
    pub fn timestamp(&self) -> String {
        let seconds = jiff::Timestamp::from_second(self.now.as_second()).unwrap_or(self.now);
        seconds.to_string()
    }
}
