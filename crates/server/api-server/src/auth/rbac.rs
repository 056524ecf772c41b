//! Role-based access: who is bound to which role, and what the role allows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_json::{Value, json};
use lazaret_kinds::{Access, User};
use lazaret_storage::Item;

use super::{node::NodeAuthorizer, rule::Rule};
use crate::{Authorizer, ObjectStore, derived::Derived, object};

/// May do everything, whatever the roles say.
pub(super) const MASTERS: &str = "system:masters";

/// Paths that any client may read.
const PUBLIC_PATHS: &[&str] = &["/healthz", "/livez", "/readyz", "/version"];

/// Where roles and bindings are stored.
const PREFIX: &str = "/rbac.authorization.k8s.io/";

/// Authorization by roles and bindings in the store, and by what nodes may do.
#[derive(Debug)]
pub struct Rbac {
    compiled: Derived<Compiled>,
    nodes: NodeAuthorizer,
}

impl Default for Rbac {
    fn default() -> Self {
        Self { compiled: Derived::new(PREFIX, Compiled::new), nodes: NodeAuthorizer::default() }
    }
}

/// All roles, and all grants by who holds them.
#[derive(Debug, Default)]
struct Compiled {
    /// By `user:NAME`, `group:NAME`.
    grants: BTreeMap<String, Vec<Grant>>,
    /// By [`role_key`].
    roles: BTreeMap<String, Arc<Vec<Rule>>>,
}

#[derive(Clone, Debug)]
struct Grant {
    /// Empty: everywhere.
    namespace: String,
    rules: Arc<Vec<Rule>>,
}

impl Authorizer for Rbac {
    fn access(&self, stored: &ObjectStore, user: &User, access: Access<'_>) -> Result<(), String> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let Err(why) = self.nodes.access(stored, user, access) else { return Ok(()) };
        let compiled = self.compiled.get(stored.store());
        let granted = compiled.of(user).any(|grant| {
            let here = grant.namespace.is_empty() || grant.namespace == access.namespace;
            here && grant.rules.iter().any(|rule| rule.allows(access))
        });
        if granted { Ok(()) } else { Err(why) }
    }

    fn rules(&self, stored: &ObjectStore, user: &User, namespace: &str) -> Option<Vec<Value>> {
        let mut rules = Vec::new();
        if user.groups.iter().any(|group| group == MASTERS) {
            rules.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
            rules.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
        }
        let compiled = self.compiled.get(stored.store());
        for grant in
            compiled.of(user).filter(|grant| grant.namespace.is_empty() || grant.namespace == namespace)
        {
            rules.extend(grant.rules.iter().map(Rule::shown));
        }
        Some(rules)
    }

    fn role_rules(&self, stored: &ObjectStore, reference: &Value, namespace: &str) -> Option<Vec<Value>> {
        let key = role_key(reference, namespace)?;
        Some(self.compiled.get(stored.store()).roles.get(&key)?.iter().map(Rule::shown).collect())
    }

    fn path(&self, stored: &ObjectStore, user: &User, verb: &str, path: &str) -> Result<(), String> {
        let public = verb == "get"
            && PUBLIC_PATHS.iter().any(|known| path == *known || path.starts_with(&format!("{known}/")));
        if public || user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let compiled = self.compiled.get(stored.store());
        let granted = compiled.of(user).any(|grant| {
            grant.namespace.is_empty() && grant.rules.iter().any(|rule| rule.allows_path(verb, path))
        });
        if granted { Ok(()) } else { Err(String::new()) }
    }
}

impl Compiled {
    fn new(items: &[Arc<Item>]) -> Self {
        let of = |plural: &str| {
            let prefix = format!("{PREFIX}{plural}/");
            let items = items.iter().filter(|item| item.key.starts_with(prefix.as_bytes()));
            items.map(|item| object::decode(&item.value)).collect::<Vec<_>>()
        };
        let (cluster_roles, cluster_bindings) = (of("clusterroles"), of("clusterrolebindings"));
        let (roles, bindings) = (of("roles"), of("rolebindings"));
        let mut compiled = Self::default();
        for role in &cluster_roles {
            let key = format!("ClusterRole/{}", object::meta(role, "name"));
            compiled.roles.insert(key, Arc::new(effective(role, &cluster_roles)));
        }
        for role in &roles {
            let key = format!("Role/{}/{}", object::meta(role, "namespace"), object::meta(role, "name"));
            compiled.roles.insert(key, Arc::new(Rule::list(role)));
        }
        for binding in cluster_bindings.iter().chain(&bindings) {
            let namespace = object::meta(binding, "namespace");
            let rules = role_key(&binding["roleRef"], namespace).and_then(|key| compiled.roles.get(&key));
            let Some(rules) = rules else { continue };
            let grant = Grant { namespace: namespace.to_owned(), rules: rules.clone() };
            for subject in binding["subjects"].as_array().into_iter().flatten() {
                if let Some(holder) = holder(subject, namespace) {
                    compiled.grants.entry(holder).or_default().push(grant.clone());
                }
            }
        }
        compiled
    }

    fn of<'a>(&'a self, user: &'a User) -> impl Iterator<Item = &'a Grant> {
        let keys = std::iter::once(format!("user:{}", user.name))
            .chain(user.groups.iter().map(|group| format!("group:{group}")));
        keys.filter_map(|key| self.grants.get(&key)).flatten()
    }
}

/// Where the role is found that a binding in a namespace, or in the cluster, refers to.
fn role_key(reference: &Value, namespace: &str) -> Option<String> {
    let name = reference["name"].as_str()?;
    match reference["kind"].as_str()? {
        "Role" if !namespace.is_empty() => Some(format!("Role/{namespace}/{name}")),
        "ClusterRole" => Some(format!("ClusterRole/{name}")),
        _ => None,
    }
}

/// The holder that a subject of a binding in a namespace stands for. An account without a namespace is one of the binding's.
fn holder(subject: &Value, namespace: &str) -> Option<String> {
    let text = |name: &str| subject[name].as_str().unwrap_or_default();
    match (text("kind"), text("namespace")) {
        ("User", _) => Some(format!("user:{}", text("name"))),
        ("Group", _) => Some(format!("group:{}", text("name"))),
        ("ServiceAccount", "") if namespace.is_empty() => None,
        ("ServiceAccount", "") => Some(format!("user:system:serviceaccount:{namespace}:{}", text("name"))),
        ("ServiceAccount", of) => Some(format!("user:system:serviceaccount:{of}:{}", text("name"))),
        _ => None,
    }
}

// DEVIATION(role-aggregation): computed here, not written into the role.
/// The rules of a cluster role: its own, or those of all roles that its aggregation selects, through other aggregations too.
fn effective(role: &Value, all: &[Value]) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![role];
    while let Some(role) = open.pop() {
        if !seen.insert(object::meta(role, "name")) {
            continue;
        }
        let Some(selectors) = aggregation(role) else {
            for rule in Rule::list(role) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
            continue;
        };
        let selected = |candidate: &&Value| {
            selectors
                .iter()
                .any(|selector| lazaret_kinds::selects(selector, &candidate["metadata"]["labels"]))
        };
        // The last is taken first: by name.
        open.extend(all.iter().filter(selected).rev());
    }
    rules
}

/// The selectors of a role whose rules come from other roles.
pub(super) fn aggregation(role: &Value) -> Option<&[Value]> {
    role["aggregationRule"]["clusterRoleSelectors"]
        .as_array()
        .map(Vec::as_slice)
        .filter(|list| !list.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster_role(name: &str, labels: Value, verb: &str, selectors: Value) -> Value {
        let mut role = json!({"metadata": {"name": name, "labels": labels}, "rules": [{"apiGroups": [""], "resources": [name], "verbs": [verb]}]});
        if !selectors.is_null() {
            role["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
        }
        role
    }

    #[test]
    fn an_aggregation_gathers_what_it_selects_also_through_others_and_not_its_own_rules() {
        let all = [
            cluster_role("a", json!({"to": "x"}), "get", Value::Null),
            cluster_role("b", json!({"to": "y"}), "list", Value::Null),
            cluster_role("x", json!({"to": "y"}), "own", json!([{"matchLabels": {"to": "x"}}])),
            cluster_role(
                "y",
                json!({"to": "x"}),
                "own",
                json!([{"matchExpressions": [{"key": "to", "operator": "In", "values": ["y"]}]}]),
            ),
            cluster_role("z", json!({}), "own", json!([{"matchLabels": {"to": "nothing"}}])),
        ];
        let verbs = |name: &str| {
            let role = all.iter().find(|role| object::meta(role, "name") == name).unwrap();
            effective(role, &all).into_iter().flat_map(|rule| rule.verbs).collect::<Vec<_>>()
        };
        assert_eq!(verbs("a"), ["get"]);
        assert_eq!(verbs("x"), ["get", "list"], "each selects the other: they end");
        assert_eq!(verbs("y"), ["list", "get"]);
        assert!(verbs("z").is_empty());
        let everything = cluster_role("all", json!({}), "own", json!([{}]));
        assert_eq!(effective(&everything, &all).len(), 2);
    }

    #[test]
    fn subjects_are_users_groups_and_accounts_and_nothing_else() {
        for (subject, namespace, expected) in [
            (json!({"kind": "User", "name": "a"}), "", Some("user:a")),
            (json!({"kind": "Group", "name": "a"}), "n", Some("group:a")),
            (
                json!({"kind": "ServiceAccount", "name": "a", "namespace": "m"}),
                "n",
                Some("user:system:serviceaccount:m:a"),
            ),
            (json!({"kind": "ServiceAccount", "name": "a"}), "n", Some("user:system:serviceaccount:n:a")),
            (json!({"kind": "ServiceAccount", "name": "a"}), "", None),
            (json!({"kind": "Robot", "name": "a"}), "n", None),
            (json!({"name": "a"}), "n", None),
        ] {
            assert_eq!(holder(&subject, namespace).as_deref(), expected, "{subject} in {namespace:?}");
        }
    }
}
