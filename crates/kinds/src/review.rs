//! The author and the approver of a rule. The server records both in annotations; values that a client sends for them are ignored.

use lazaret_json::{Value, json};
use lazaret_model::{APPROVAL, APPROVED_BY, WRITTEN_BY};

use crate::{Kind, OWN_GROUP, value::list};

/// As who the controllers of a server that holds its own write: rules that they compile policies to have no other author.
pub(crate) const CONTROL_PLANE: &str = "system:lazaret";

/// Whether objects of a kind are signed: rules, and policies that become rules.
#[must_use]
pub fn is_signed(kind: &Kind) -> bool {
    kind.is("resource.k8s.io", "devicetaintrules") || kind.is(OWN_GROUP, "devicetaintpolicies")
}

/// Signs a rule that is written. `wanted`: some guard wants approval of rules that reach far; then the author of each spec is named.
pub fn sign(rule: &mut Value, old: Option<&Value>, user: &str, wanted: bool) {
    let is_new_spec = old.is_none_or(|old| old["spec"] != rule["spec"]);
    let said =
        |object: &Value, name: &str| object["metadata"]["annotations"][name].as_str().map(str::to_owned);
    let before = |name: &str| old.and_then(|old| said(old, name));
    let author = if !is_new_spec {
        before(WRITTEN_BY)
    } else if wanted && !(user == CONTROL_PLANE && is_compiled(rule)) {
        Some(user.to_owned())
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
