//! The author and the approver of a rule or a patch, and the approver of a driver's taint. The server records them in annotations; values that a
//! client sends for them are ignored.

use lazaret_json::{Value, json};
use lazaret_model::{APPROVAL, APPROVED_BY, TAINT_APPROVALS, WRITTEN_BY};

use crate::{
    Kind, OWN_GROUP,
    controllers::{compiles_policies, makes_rules_for_policies},
    value::list,
};

/// Whether objects of a kind are signed: rules, policies that become rules, patches, which set taints as well, and health policies, for which a
/// controller makes rules.
#[must_use]
pub fn is_signed(kind: &Kind) -> bool {
    kind.is("resource.k8s.io", "devicetaintrules")
        || kind.is("resource.k8s.io", "resourceslicepatches")
        || kind.is(OWN_GROUP, "devicetaintpolicies")
        || kind.is(OWN_GROUP, "devicehealthpolicies")
}

/// The DeviceIncident that a controller makes an object for: the author of the object is that of the health policy which the incident names.
#[must_use]
pub fn incident_of<'a>(object: &'a Value, user: &str) -> Option<&'a str> {
    if !makes_rules_for_policies(user) {
        return None;
    }
    let owner = list(&object["metadata"], "ownerReferences").iter().find(|owner| {
        let group = owner["apiVersion"].as_str().and_then(|version| version.split('/').next());
        owner["kind"] == "DeviceIncident" && group == Some(OWN_GROUP)
    })?;
    owner["name"].as_str()
}

/// The health policy that an incident says to govern it.
#[must_use]
pub fn policy_of(incident: &Value) -> Option<&str> {
    let named = |part: &str| incident[part]["policy"].as_str().filter(|name| !name.is_empty());
    // One without a status is about the policy that opened it.
    named("status").or_else(|| named("spec"))
}

/// The author of an object, as the server recorded it.
#[must_use]
pub fn author_of(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][WRITTEN_BY].as_str().filter(|name| !name.is_empty())
}

/// Whether objects of a kind have approvals of drivers' taints.
#[must_use]
pub fn approves_taints(kind: &Kind) -> bool {
    kind.is(OWN_GROUP, "disruptionguards")
}

/// Names the user in each approval of a driver's taint that is new in a guard that is written.
pub fn sign_taint_approvals(guard: &mut Value, old: Option<&Value>, user: &str) {
    let said =
        |object: &Value| object["metadata"]["annotations"][TAINT_APPROVALS].as_str().map(str::to_owned);
    let Some(text) = said(guard) else { return };
    let before = old.and_then(said).unwrap_or_default();
    let signed = lazaret_api::sign_taint_approvals(&text, &before, user);
    if signed != text {
        guard["metadata"]["annotations"][TAINT_APPROVALS] = json!(signed);
    }
}

/// A user who writes, and whose wish the controller that it may be carries out.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The authenticated user.
    pub user: &'a str,
    /// The author of the object, where a controller writes it on behalf of a user.
    pub wished_by: Option<&'a str>,
}

/// Signs a rule that is written. `wanted`: some guard wants approval of rules that reach far; then the author of each spec is named.
pub fn sign(rule: &mut Value, old: Option<&Value>, writer: Writer<'_>, wanted: bool) {
    let Writer { user, wished_by } = writer;
    let is_new_spec = old.is_none_or(|old| old["spec"] != rule["spec"]);
    let said =
        |object: &Value, name: &str| object["metadata"]["annotations"][name].as_str().map(str::to_owned);
    let before = |name: &str| old.and_then(|old| said(old, name));
    let author = if !is_new_spec {
        before(WRITTEN_BY)
    } else if wanted && !(compiles_policies(user) && is_compiled(rule)) {
        Some(wished_by.unwrap_or(user).to_owned())
    } else {
        None
    };
    // A rule that did not exist cannot have been approved.
    let approval = old.and_then(|_| said(rule, APPROVAL));
    let approver = match &approval {
        None => None,
        same if *same == before(APPROVAL) => before(APPROVED_BY),
        Some(_) => Some(user.to_owned()),
    };
    for (name, value) in [(WRITTEN_BY, author), (APPROVAL, approval), (APPROVED_BY, approver)] {
        match value {
            Some(value) if said(rule, name).as_ref() != Some(&value) => {
                rule["metadata"]["annotations"][name] = json!(value);
            }
            None if said(rule, name).is_some() => {
                let annotations = &mut rule["metadata"]["annotations"];
                annotations.as_object_mut().map(|annotations| annotations.remove(name));
            }
            Some(_) | None => {}
        }
    }
}

/// Whether a guard wants approval of rules that reach far.
#[must_use]
pub fn wants_approval(guard: &Value) -> bool {
    guard["spec"]["confirmAbove"].is_object()
}

fn is_compiled(rule: &Value) -> bool {
    let is_policy = |owner: &&Value| {
        let group = owner["apiVersion"].as_str().and_then(|version| version.split('/').next());
        owner["controller"] == true && owner["kind"] == "DeviceTaintPolicy" && group == Some(OWN_GROUP)
    };
    list(&rule["metadata"], "ownerReferences").iter().find(is_policy).is_some()
}
