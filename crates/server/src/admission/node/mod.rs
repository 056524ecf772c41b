//! What a node must not write although it may write objects of that kind: what belongs to another node, and what would give it more than
//! its pods need.

mod claims;
mod nodes;
mod own;
mod pods;
#[cfg(test)]
mod tests;
mod tokens;

use std::fmt;

use lazaret_json::Value;
use lazaret_kinds::{Access, Features, Kind};

use crate::{ApiError, auth::node::node_name, call::Call};

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
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
struct Attempt<'a> {
    node: &'a str,
    user: &'a str,
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    operation: Operation,
    namespace: &'a str,
    name: &'a str,
    /// What was sent; null for a delete.
    object: &'a Value,
    /// The stored object that the request is about; null for a new object.
    old: &'a Value,
}

/// What can be looked up besides the objects of an attempt.
struct Surroundings<'a> {
    features: &'a Features,
    /// A stored object by group, plural, namespace and name.
    stored: &'a dyn Fn(&str, &str, &str, &str) -> Option<Value>,
    /// Whether roles permit the node this.
    may: &'a dyn Fn(Access<'_>) -> bool,
}

/// Why a write is refused.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    Forbidden(String),
    /// An object that the write depends on does not exist: group, plural and name.
    NotFound(&'static str, &'static str, String),
}

impl Refusal {
    fn from(why: &str) -> Self {
        Self::Forbidden(why.to_owned())
    }
}

type Verdict = Result<(), Refusal>;

/// The decision.
fn admit(attempt: &Attempt<'_>, around: &Surroundings<'_>) -> Verdict {
    if attempt.node.is_empty() {
        return Err(Refusal::Forbidden(format!("could not determine node from user {:?}", attempt.user)));
    }
    match (attempt.group, attempt.resource, attempt.subresource) {
        ("", "pods", "") => pods::pod(attempt, around),
        ("", "pods", "status") => pods::status(attempt),
        ("", "pods", "eviction") => pods::eviction(attempt),
        ("", "pods", other) => Err(Refusal::Forbidden(format!(
            "unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"
        ))),
        ("", "nodes", _) => nodes::node(attempt),
        ("", "persistentvolumeclaims", "status") => claims::status(attempt),
        ("", "persistentvolumeclaims", _) => Err(Refusal::from("may only update PVC status")),
        ("", "serviceaccounts", "token") => tokens::token(attempt, around),
        ("certificates.k8s.io", "certificatesigningrequests", _) => own::certificate_request(attempt),
        ("coordination.k8s.io", "leases", _) => own::lease(attempt),
        ("storage.k8s.io", "csinodes", _) => own::csi_node(attempt),
        ("resource.k8s.io", "resourceslices", _) => own::slice(attempt),
        _ => Ok(()),
    }
}

/// Before a new object is written.
pub(super) fn create(call: &Call<'_>, object: &Value, name: &str) -> Result<(), ApiError> {
    check(call, &call.target.subresource, Operation::Create, name, object, &Value::Null)
}

/// Before what was sent to a subresource of a stored object is acted on.
pub(super) fn create_subresource(call: &Call<'_>, sent: &Value, stored: &Value) -> Result<(), ApiError> {
    check(call, &call.target.subresource, Operation::Create, &call.target.name, sent, stored)
}

/// Before an object is changed; the new one is as the client wants it, not yet as it will be stored.
pub(super) fn update(call: &Call<'_>, new: &Value, old: &Value) -> Result<(), ApiError> {
    check(call, &call.target.subresource, Operation::Update, &call.target.name, new, old)
}

/// Before an object is deleted, each one of a collection by itself.
pub(super) fn delete(call: &Call<'_>, name: &str, old: &Value) -> Result<(), ApiError> {
    // An eviction deletes its pod, which may be another one by now than the one that was looked at first.
    let operation = if call.target.subresource == "eviction" { Operation::Create } else { Operation::Delete };
    check(call, &call.target.subresource, operation, name, &Value::Null, old)
}

fn check(
    call: &Call<'_>,
    subresource: &str,
    operation: Operation,
    name: &str,
    object: &Value,
    old: &Value,
) -> Result<(), ApiError> {
    let Some(node) = node_name(call.user) else { return Ok(()) };
    let attempt = Attempt {
        node,
        user: &call.user.name,
        group: &call.kind.group,
        resource: &call.kind.plural,
        subresource,
        operation,
        namespace: &call.target.namespace,
        name,
        object,
        old,
    };
    let stored = |group: &str, plural: &str, namespace: &str, name: &str| {
        call.server.get(lazaret_kinds::find(group, plural)?, namespace, name)
    };
    let around = Surroundings {
        features: call.server.features(),
        stored: &stored,
        may: &|access| call.server.may(call.user, access).is_ok(),
    };
    admit(&attempt, &around).map_err(|refusal| answer(&call.kind, name, &refusal))
}

fn answer(kind: &Kind, name: &str, refusal: &Refusal) -> ApiError {
    match refusal {
        Refusal::Forbidden(why) => ApiError::forbidden(kind, name, why),
        Refusal::NotFound(group, plural, missing) => {
            ApiError::not_found(lazaret_kinds::find(group, plural).unwrap_or(kind), missing)
        }
    }
}

/// Whether two values say the same; what is absent and what is empty do.
fn same(a: &Value, b: &Value) -> bool {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => false,
    };
    a == b || is_nothing(a) && is_nothing(b)
}
