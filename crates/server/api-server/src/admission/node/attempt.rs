//! A write by a node, and why it is refused.

use std::fmt;

use lazaret_json::Value;
use lazaret_kinds::{Access, Features};

/// The operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        })
    }
}

/// A write by a node.
pub(super) struct Attempt<'a> {
    pub(super) node: &'a str,
    pub(super) user: &'a str,
    pub(super) group: &'a str,
    pub(super) resource: &'a str,
    pub(super) subresource: &'a str,
    pub(super) operation: Operation,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// The object that was sent; null for a delete.
    pub(super) object: &'a Value,
    /// The stored object that the request is about; null for a new object.
    pub(super) old: &'a Value,
}

/// By driver and pool, and a node: another node that has a slice there.
pub(super) type OtherNodeOfPool<'a> = dyn Fn((&str, &str), &str) -> Option<String> + 'a;

/// Inputs besides the objects of an attempt.
pub(super) struct AttemptContext<'a> {
    pub(super) features: &'a Features,
    /// A stored object by group, plural, namespace and name.
    pub(super) stored: &'a dyn Fn(&str, &str, &str, &str) -> Option<Value>,
    /// Another node than this one that has a slice in the pool of a driver.
    pub(super) other_node_of_pool: &'a OtherNodeOfPool<'a>,
    /// Whether roles permit the node this.
    pub(super) may: &'a dyn Fn(Access<'_>) -> bool,
}

/// Why a write is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Forbidden(String),
    /// An object that the write depends on does not exist: group, plural and name.
    NotFound(&'static str, &'static str, String),
}

impl Refusal {
    pub(super) fn from(why: &str) -> Self {
        Self::Forbidden(why.to_owned())
    }
}

pub(super) type Verdict = Result<(), Refusal>;

/// Whether two values say the same; what is absent and what is empty do.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => false,
    };
    a == b || is_nothing(a) && is_nothing(b)
}
