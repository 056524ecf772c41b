//! The roles of controllers, as objects of this server.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_json::{Value, json};
use lazaret_kinds::{User, controller_user_name};

use super::table::{ControllerRole, controller_roles, rule_of};
use crate::auth::default_roles::AUTO_UPDATE;

const GROUP: &str = "rbac.authorization.k8s.io";
/// The namespace of leases, and of what controllers share.
const HERE: &str = "kube-system";

/// The user as which a controller of this server writes: `system:lazaret:NAME`. Without a name, the one that reads for all of them.
#[must_use]
pub fn controller_user(name: &str) -> User {
    User { name: controller_user_name(name), groups: vec!["system:authenticated".into()], ..User::default() }
}

/// A role or binding of a controller.
pub(in crate::auth) struct Granted {
    pub(in crate::auth) plural: &'static str,
    /// Empty for the whole cluster.
    pub(in crate::auth) namespace: &'static str,
    pub(in crate::auth) object: Value,
}

/// The roles and bindings of all controllers.
pub(in crate::auth) fn objects() -> Vec<Granted> {
    let mut objects = Vec::new();
    for role in controller_roles() {
        let user = controller_user_name(&role.name);
        let rules = if role.name.is_empty() { reader_rules(role) } else { role.may.clone() };
        objects.extend(granted(&user, "", rules));
        objects.extend(granted(&user, HERE, role.here.clone()));
    }
    objects
}

/// The first of all: it reads what the others follow.
fn reader_rules(reader: &ControllerRole) -> Vec<Value> {
    let mut followed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (group, plural) in controller_roles().iter().flat_map(|role| &role.follows) {
        followed.entry(group).or_default().insert(plural);
    }
    let reads = followed
        .iter()
        .map(|(group, plurals)| rule_of(group, plurals.iter().copied(), &["get", "list", "watch"]));
    reads.chain(reader.may.iter().cloned()).collect()
}

/// A role and its binding to a user; nothing where there are no rules.
fn granted(user: &str, namespace: &'static str, rules: Vec<Value>) -> Vec<Granted> {
    if rules.is_empty() {
        return Vec::new();
    }
    let (kind, plurals) = if namespace.is_empty() {
        ("ClusterRole", ["clusterroles", "clusterrolebindings"])
    } else {
        ("Role", ["roles", "rolebindings"])
    };
    let metadata = json!({
        "name": user,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {AUTO_UPDATE: "true"},
    });
    let role = json!({"metadata": metadata.clone(), "rules": rules});
    let binding = json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": user},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    });
    let granted = |(plural, object)| Granted { plural, namespace, object };
    plurals.into_iter().zip([role, binding]).map(granted).collect()
}
