//! What is looked at beyond the object itself before it is written.

mod limit_ranges;
mod node;
mod pod_security;
mod pods;
mod policies;
mod quota;
mod runtime_class;

use lazaret_json::{Value, json};
use lazaret_kinds::{Scope, admission::Operation};
use lazaret_store::{Expect, Op};

use crate::{ApiError, auth::escalation, object, server::Call};

pub(crate) use pods::{DefaultPriority, copy_topology, find_default_priority};
pub(crate) use policies::{POLICIES, ask as ask_policies, compile as compile_policies};
pub(crate) use quota::{
    DEVICE_CLASSES, Refused, Turns as QuotaTurns, Write, check as check_quota, commit as commit_charged,
    read_classes as read_device_classes,
};

/// Namespaces that cannot be deleted.
const ETERNAL: &[&str] = &["default", "kube-system", "kube-public"];

/// A namespaced object needs a namespace that is not on its way out.
pub(crate) fn may_create(call: &Call<'_>, name: &str) -> Result<(), ApiError> {
    if call.kind.scope == Scope::Cluster {
        return Ok(());
    }
    let Some(namespaces) = lazaret_kinds::find("", "namespaces") else { return Ok(()) };
    let namespace = &call.target.namespace;
    let Some(found) = call.server.get(namespaces, "", namespace) else {
        return Err(ApiError::not_found(namespaces, namespace));
    };
    if object::is_deleting(&found) {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        return Err(ApiError::forbidden(&call.kind, name, &why).with_cause(
            "NamespaceTerminating",
            &format!("namespace {namespace} is being terminated"),
            "metadata.namespace",
        ));
    }
    Ok(())
}

/// What a new object gets from its surroundings before it is prepared; its defaults are there.
pub(crate) fn before_create(call: &Call<'_>, object: &mut Value, name: &str) -> Result<(), ApiError> {
    escalation::check(call, object, None)?;
    node::create(call, object, name)?;
    if call.kind.is("", "pods") { pods::before_create(call, object, name) } else { Ok(()) }
}

/// What a changed object may not become because of who asks, whatever else is wrong with it.
pub(crate) fn may_update(call: &Call<'_>, new: &Value, old: &Value) -> Result<(), ApiError> {
    escalation::check(call, new, Some(old))
}

/// The namespace must still be there when the object is written.
pub(crate) fn namespace_guard(call: &Call<'_>) -> Option<Op> {
    if call.kind.scope == Scope::Cluster {
        return None;
    }
    let namespaces = lazaret_kinds::find("", "namespaces")?;
    Some(Op::check(object::key(namespaces, "", &call.target.namespace).as_str(), Expect::Present))
}

/// Some things stay. Says what to warn of.
pub(crate) fn may_delete(call: &Call<'_>, name: &str, old: &Value) -> Result<Vec<String>, ApiError> {
    node::delete(call, name, old)?;
    if call.kind.is("", "namespaces") && ETERNAL.contains(&name) {
        return Err(ApiError::forbidden(&call.kind, name, "this namespace may not be deleted"));
    }
    // An eviction was asked about as one.
    if call.target.subresource.is_empty() {
        ask_policies(call, Operation::Delete, name, (&Value::Null, old))
    } else {
        Ok(Vec::new())
    }
}

/// What a new object gets from its surroundings.
pub(crate) fn create(call: &Call<'_>, object: &mut Value) {
    if call.kind.is("", "namespaces") {
        let name = object::meta(object, "name").to_owned();
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
        object["spec"]["finalizers"] = json!(["kubernetes"]);
        object["status"] = json!({"phase": "Active"});
    }
}

/// What may not change because of who asks. The new object is as the client wants it.
pub(crate) fn before_update(call: &Call<'_>, new: &Value, old: &Value) -> Result<(), ApiError> {
    node::update(call, new, old)
}

/// What may not be stored because of its surroundings, although it is valid. Policies, webhooks and quotas come after this. Says what to
/// warn of.
pub(crate) fn validate(
    call: &Call<'_>,
    name: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<Vec<String>, ApiError> {
    limit_ranges::validate(call, name, new, old)?;
    let warnings = pod_security::validate(call, name, new, old)?;
    if call.kind.is("", "pods") && old.is_none() {
        runtime_class::validate(call, new, name)?;
    }
    Ok(warnings)
}

/// What may not be sent to a subresource of a stored object, because of who asks or because a policy says so. Says what to warn of.
pub(crate) fn create_subresource(
    call: &Call<'_>,
    sent: &Value,
    stored: &Value,
) -> Result<Vec<String>, ApiError> {
    node::create_subresource(call, sent, stored)?;
    ask_policies(call, Operation::Create, &call.target.name, (sent, &Value::Null))
}
