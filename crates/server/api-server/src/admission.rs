//! Admission: checks beyond the object itself before it is written.
//!
//! The order is that of Kubernetes. The object has its defaults; then
//!
//! 1. built-in plugins change and refuse: [`before_create`], [`before_update`];
//! 2. mutating webhooks change and refuse: [`mutate`]. An object that they changed gets its defaults and goes through 1 once more;
//! 3. the rules of the kind prepare and validate the object;
//! 4. policies and validating webhooks refuse: [`validate`].
//!
//! A delete has 1 and 4 with a mutating webhook between, in [`may_delete`]; an object posted to a subresource has all of them in
//! [`create_subresource`].

mod ask;
mod attributes;
pub(crate) mod certificates;
mod commit;
mod connect;
pub(crate) mod device_classes;
mod device_facts;
pub(crate) mod device_holdings;
mod devices;
pub(crate) mod guards;
mod health_policies;
mod limit_ranges;
mod node;
pub(crate) mod plugins;
mod pod_resize;
mod pod_security;
mod pods;
mod policies;
pub(crate) mod priority;
mod quota;
pub(crate) mod quota_locks;
mod reserved;
pub(crate) mod rules;
mod runtime_class;
mod signatures;
pub(crate) mod slice_pools;
pub(crate) mod webhooks;

use lazaret_json::{Value, json};
use lazaret_kinds::{Scope, admission::Operation};
use lazaret_storage::{Expect, Op};

use crate::{ApiError, auth::escalation, call::Call, object};

pub(crate) use ask::{mutate, validate};
pub(crate) use attributes::{DeleteAttributes, Subject};
pub(crate) use commit::{check_commit, commit};
pub(crate) use connect::may_connect;
pub use plugins::AdmissionPlugin;
pub(crate) use pods::copy_topology;
pub(crate) use quota::Refused;
pub(crate) use signatures::sign;
pub(crate) use webhooks::Mutated;

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

/// Built-in admission of a new object before it is prepared; its defaults are there.
pub(crate) fn before_create(call: &Call<'_>, object: &mut Value, name: &str) -> Result<(), ApiError> {
    escalation::check(call, object, None)?;
    node::create(call, object, name)?;
    if call.kind.is("", "pods") { pods::before_create(call, object, name) } else { Ok(()) }
}

/// Refuses a change that would grant rights which its user does not hold; this comes before all other checks.
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
pub(crate) async fn may_delete(
    call: &Call<'_>,
    name: &str,
    old: &Value,
    attributes: impl FnOnce() -> DeleteAttributes,
) -> Result<Vec<String>, ApiError> {
    node::delete(call, name, old)?;
    if let Some(why) = call.kind.rules.refuse_delete(name) {
        return Err(ApiError::forbidden(&call.kind, name, why));
    }
    let rules = call.server.admission_rules();
    // An eviction was asked about as one.
    if !rules.may_apply_to(call.user) || !call.target.subresource.is_empty() {
        return Ok(Vec::new());
    }
    let (new, delete) = (Value::Null, attributes());
    let subject = Subject {
        operation: Operation::Delete,
        name,
        generated: false,
        new: &new,
        old,
        delete: Some(&delete),
    };
    let Mutated { mut warnings, .. } = mutate(call, subject, |_| Ok(())).await?;
    let validated = validate(call, subject).await;
    warnings.extend(validated.map_err(|error| error.after_warnings(&warnings))?);
    Ok(warnings)
}

/// Fields that the server sets on a new object.
pub(crate) fn create(call: &Call<'_>, object: &mut Value) {
    sign(call, object, None);
    if call.kind.is("", "nodes") && call.server.runs_plugin(AdmissionPlugin::TaintNodesByCondition) {
        taint_not_ready(object);
    }
}

/// A new node is not ready until its condition says otherwise; the controller that watches conditions takes the taint away.
fn taint_not_ready(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let is_same = |known: &Value| known["key"] == taint["key"] && known["effect"] == taint["effect"];
    let taints = &mut node["spec"]["taints"];
    if let Value::Array(known) = taints {
        if !known.iter().any(is_same) {
            known.push(taint);
        }
    } else {
        *taints = json!([taint]);
    }
}

/// Refuses a change that a node may not make. The new object is as the client wants it.
pub(crate) fn before_update(call: &Call<'_>, new: &Value, old: &Value) -> Result<(), ApiError> {
    node::update(call, new, old)
}

/// Checks of a valid object against its surroundings. Policies, webhooks and quotas come after this. Returns the
/// warnings.
pub(crate) fn check_surroundings(
    call: &Call<'_>,
    name: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<Vec<String>, ApiError> {
    limit_ranges::validate(call, name, new, old)?;
    pod_resize::validate(call, name, new, old)?;
    health_policies::validate(call, name, new, old)?;
    reserved::validate(call, name, new, old)?;
    let warnings = pod_security::validate(call, name, new, old)?;
    if call.kind.is("", "pods") && old.is_none() {
        runtime_class::validate(call, new, name)?;
    }
    Ok(warnings)
}

/// Admission of an object sent to a subresource: rules for nodes, policies and webhooks. A webhook may change
/// the object. Returns the warnings.
pub(crate) async fn create_subresource(
    call: &Call<'_>,
    sent: &mut Value,
    stored: &Value,
) -> Result<Vec<String>, ApiError> {
    node::create_subresource(call, sent, stored)?;
    if !call.server.admission_rules().may_apply_to(call.user) {
        return Ok(Vec::new());
    }
    let again = |sent: &mut Value| node::create_subresource(call, sent, stored);
    let mutated = mutate(call, posted(call, sent), again).await?;
    if mutated.changed {
        *sent = mutated.object;
    }
    let mut warnings = mutated.warnings;
    let validated = validate(call, posted(call, sent)).await;
    warnings.extend(validated.map_err(|error| error.after_warnings(&warnings))?);
    Ok(warnings)
}

fn posted<'a>(call: &'a Call<'_>, new: &'a Value) -> Subject<'a> {
    let (operation, name) = (Operation::Create, call.target.name.as_str());
    Subject { operation, name, generated: false, new, old: &Value::Null, delete: None }
}

/// Refuses an object that a node may not send to a subresource; repeated when the stored object changed in between.
pub(crate) fn check_subresource(call: &Call<'_>, sent: &Value, stored: &Value) -> Result<(), ApiError> {
    node::create_subresource(call, sent, stored)
}
