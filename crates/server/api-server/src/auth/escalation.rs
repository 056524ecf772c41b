//! The check against privilege escalation: a user may write a role or binding only if the user holds every permission that it grants, or
//! has the verb `escalate` on the role, or `bind` on the referenced role.

use lazaret_json::Value;
use lazaret_kinds::Access;

use super::{
    covers::{CoverError, compact, covers},
    rbac::{MASTERS, aggregation},
    rule::{Rule, quoted},
};
use crate::{
    ApiError,
    call::Call,
    object::{self, equal_but},
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Fields of metadata that grant nothing: those that the garbage collector writes, and those that the server maintains.
const HARMLESS: &[&str] = &["ownerReferences", "finalizers", "managedFields", "resourceVersion", "selfLink"];

/// Checks a role or binding, with its defaults, before it is written. Other kinds pass.
pub(crate) fn check(call: &Call<'_>, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    if *call.kind.group != *GROUP || call.user.groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    if old.is_some_and(|old| grants_the_same(new, old)) {
        return Ok(());
    }
    match &*call.kind.plural {
        "roles" | "clusterroles" => role(call, new, old),
        "rolebindings" | "clusterrolebindings" => binding(call, new),
        _ => Ok(()),
    }
}

fn role(call: &Call<'_>, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    if call.server.may(call.user, call.access("escalate", &call.target.name)).is_ok() {
        return Ok(());
    }
    let held = held(call);
    confirm(call, new, &held, &Rule::list(new))?;
    let aggregates = |role: &Value| &*call.kind.plural == "clusterroles" && aggregation(role).is_some();
    // An aggregation can gather any rule, and prevents tightening.
    if (aggregates(new) || old.is_some_and(aggregates)) && covers(&held, &everything()).is_err() {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        return Err(ApiError::forbidden(&call.kind, object::meta(new, "name"), why));
    }
    Ok(())
}

fn binding(call: &Call<'_>, new: &Value) -> Result<(), ApiError> {
    let reference = &new["roleRef"];
    let text = |name: &str| reference[name].as_str().unwrap_or_default();
    let (resource, kind) = match text("kind") {
        "Role" => ("roles", lazaret_kinds::find(GROUP, "roles")),
        "ClusterRole" => ("clusterroles", lazaret_kinds::find(GROUP, "clusterroles")),
        // No such role can be referred to: validation says so.
        _ => return Ok(()),
    };
    let namespace = &call.target.namespace;
    let (group, name) = (text("apiGroup"), text("name"));
    let bind = Access { verb: "bind", group, resource, subresource: "", namespace, name, fields: &[] };
    if call.server.may(call.user, bind).is_ok() {
        return Ok(());
    }
    let Some(rules) = call.server.role_rules(reference, namespace) else {
        let kind = kind.ok_or_else(|| ApiError::internal("no kind of role"))?;
        return Err(ApiError::not_found(kind, name));
    };
    confirm(call, new, &held(call), &rules.iter().map(Rule::parse).collect::<Vec<_>>())
}

/// The rules that the user holds in the namespace of the object, or in the cluster.
fn held(call: &Call<'_>) -> Vec<Rule> {
    let rules = call.server.rules_of(call.user, &call.target.namespace).unwrap_or_default();
    rules.iter().map(Rule::parse).collect()
}

fn confirm(call: &Call<'_>, new: &Value, held: &[Rule], wanted: &[Rule]) -> Result<(), ApiError> {
    let what = match covers(held, wanted) {
        Ok(()) => return Ok(()),
        Err(CoverError::Missing(missing)) => {
            let mut lines: Vec<String> = compact(missing).iter().map(Rule::to_string).collect();
            lines.sort_unstable();
            lines.dedup();
            format!("RBAC permissions not currently held:\n{}", lines.join("\n"))
        }
        Err(CoverError::TooMany) => {
            "more RBAC permissions than can be compared with those held; use fewer verbs, resources and names in a role".to_owned()
        }
    };
    let (user, groups) = (&call.user.name, quoted(&call.user.groups));
    let why = format!("user {user:?} (groups={groups}) is attempting to grant {what}");
    Err(ApiError::forbidden(&call.kind, object::meta(new, "name"), &why))
}

fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), paths: all(), ..Rule::default() },
    ]
}

/// Whether only [`HARMLESS`] metadata differs. Labels are not harmless: aggregations select by them.
fn grants_the_same(new: &Value, old: &Value) -> bool {
    equal_but(old, new, &["metadata"]) && equal_but(&old["metadata"], &new["metadata"], HARMLESS)
}
