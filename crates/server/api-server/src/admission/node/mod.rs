//! Writes that a node must not make although it may write objects of that kind: to objects of another node, and those that would give it
//! more than its pods need.

mod attempt;
mod claims;
mod nodes;
mod own;
mod pods;
#[cfg(test)]
mod tests;
mod tokens;

use lazaret_json::Value;
use lazaret_kinds::Kind;

use self::attempt::{Attempt, AttemptContext, Operation, Refusal, Verdict};
use crate::{ApiError, auth::node::node_name, call::Call};

/// The decision.
fn admit(attempt: &Attempt<'_>, context: &AttemptContext<'_>) -> Verdict {
    if attempt.node.is_empty() {
        return Err(Refusal::Forbidden(format!("could not determine node from user {:?}", attempt.user)));
    }
    match (attempt.group, attempt.resource, attempt.subresource) {
        ("", "pods", "") => pods::pod(attempt, context),
        ("", "pods", "status") => pods::status(attempt),
        ("", "pods", "eviction") => pods::eviction(attempt),
        ("", "pods", other) => Err(Refusal::Forbidden(format!(
            "unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"
        ))),
        ("", "nodes", _) => nodes::node(attempt),
        ("", "persistentvolumeclaims", "status") => claims::status(attempt),
        ("", "persistentvolumeclaims", _) => Err(Refusal::from("may only update PVC status")),
        ("", "serviceaccounts", "token") => tokens::token(attempt, context),
        ("certificates.k8s.io", "certificatesigningrequests", _) => own::certificate_request(attempt),
        ("coordination.k8s.io", "leases", _) => own::lease(attempt),
        ("storage.k8s.io", "csinodes", _) => own::csi_node(attempt),
        ("resource.k8s.io", "resourceslices", _) => own::slice(attempt, context),
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
    let context = AttemptContext {
        features: call.server.features(),
        stored: &stored,
        other_node_of_pool: &|pool, node| {
            call.server.slice_pools().other_node(call.server.stored(), pool, node)
        },
        may: &|access| call.server.may(call.user, access).is_ok(),
    };
    admit(&attempt, &context).map_err(|refusal| answer(&call.kind, name, &refusal))
}

fn answer(kind: &Kind, name: &str, refusal: &Refusal) -> ApiError {
    match refusal {
        Refusal::Forbidden(why) => ApiError::forbidden(kind, name, why),
        Refusal::NotFound(group, plural, missing) => {
            ApiError::not_found(lazaret_kinds::find(group, plural).unwrap_or(kind), missing)
        }
    }
}
