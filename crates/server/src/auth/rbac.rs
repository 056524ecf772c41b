//! Role-based access: who is bound to which role, and what the role allows.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_json::{Value, json};
use lazaret_kinds::{Access, User};
use lazaret_store::Item;

use super::node::NodeAuthorizer;
use crate::{Authorizer, Server, derived::Derived, object};

/// May do everything, whatever the roles say.
const MASTERS: &str = "system:masters";

/// Paths that anybody may look at.
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

/// All grants, by who holds them.
#[derive(Debug, Default)]
struct Compiled {
    /// By `user:NAME`, `group:NAME`.
    grants: BTreeMap<String, Vec<Grant>>,
}

#[derive(Clone, Debug)]
struct Grant {
    /// Empty: everywhere.
    namespace: String,
    rules: Arc<Vec<Rule>>,
}

#[derive(Debug, Default)]
struct Rule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    paths: Vec<String>,
}

impl Authorizer for Rbac {
    fn access(&self, server: &Server, user: &User, access: Access<'_>) -> Result<(), String> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let Err(why) = self.nodes.access(server, user, access) else { return Ok(()) };
        let compiled = self.compiled.get(server.store());
        let granted = compiled.of(user).any(|grant| {
            let here = grant.namespace.is_empty() || grant.namespace == access.namespace;
            here && grant.rules.iter().any(|rule| rule.allows(access))
        });
        if granted { Ok(()) } else { Err(why) }
    }

    fn rules(&self, server: &Server, user: &User, namespace: &str) -> Option<Vec<Value>> {
        let mut rules = Vec::new();
        if user.groups.iter().any(|group| group == MASTERS) {
            rules.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
            rules.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
        }
        let compiled = self.compiled.get(server.store());
        for grant in
            compiled.of(user).filter(|grant| grant.namespace.is_empty() || grant.namespace == namespace)
        {
            rules.extend(grant.rules.iter().map(Rule::shown));
        }
        Some(rules)
    }

    fn path(&self, server: &Server, user: &User, verb: &str, path: &str) -> Result<(), String> {
        let public = verb == "get"
            && PUBLIC_PATHS.iter().any(|known| path == *known || path.starts_with(&format!("{known}/")));
        if public || user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let compiled = self.compiled.get(server.store());
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
        let mut rules: BTreeMap<String, Arc<Vec<Rule>>> = BTreeMap::new();
        for role in &cluster_roles {
            rules.insert(
                format!("ClusterRole/{}", object::meta(role, "name")),
                Arc::new(aggregated(role, &cluster_roles)),
            );
        }
        for role in &roles {
            let key = format!("Role/{}/{}", object::meta(role, "namespace"), object::meta(role, "name"));
            rules.insert(key, Arc::new(rules_of(role)));
        }
        let mut compiled = Self::default();
        for binding in cluster_bindings.iter().chain(&bindings) {
            let namespace = object::meta(binding, "namespace");
            let name = binding["roleRef"]["name"].as_str().unwrap_or_default();
            let key = match binding["roleRef"]["kind"].as_str() {
                Some("Role") => format!("Role/{namespace}/{name}"),
                _ => format!("ClusterRole/{name}"),
            };
            let Some(rules) = rules.get(&key) else { continue };
            for subject in binding["subjects"].as_array().into_iter().flatten() {
                let grant = Grant { namespace: namespace.to_owned(), rules: rules.clone() };
                compiled.grants.entry(holder(subject)).or_default().push(grant);
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

fn holder(subject: &Value) -> String {
    let text = |name: &str| subject[name].as_str().unwrap_or_default();
    match text("kind") {
        "Group" => format!("group:{}", text("name")),
        "ServiceAccount" => format!("user:system:serviceaccount:{}:{}", text("namespace"), text("name")),
        _ => format!("user:{}", text("name")),
    }
}

/// A role's own rules, or those of every role that its aggregation selects.
fn aggregated(role: &Value, all: &[Value]) -> Vec<Rule> {
    let mut rules = rules_of(role);
    for selector in role["aggregationRule"]["clusterRoleSelectors"].as_array().into_iter().flatten() {
        let wanted = selector["matchLabels"].as_object();
        let selected = |candidate: &&Value| {
            wanted.is_some_and(|labels| {
                !labels.is_empty()
                    && labels
                        .iter()
                        .all(|(key, value)| candidate["metadata"]["labels"].get(key) == Some(value))
            })
        };
        all.iter().filter(selected).for_each(|candidate| rules.extend(rules_of(candidate)));
    }
    rules
}

fn rules_of(role: &Value) -> Vec<Rule> {
    let strings = |value: &Value| {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let rules = role["rules"].as_array().into_iter().flatten();
    rules
        .map(|rule| Rule {
            verbs: strings(&rule["verbs"]),
            groups: strings(&rule["apiGroups"]),
            resources: strings(&rule["resources"]),
            names: strings(&rule["resourceNames"]),
            paths: strings(&rule["nonResourceURLs"]),
        })
        .collect()
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == "*" || entry == wanted)
}

impl Rule {
    /// As reviews show it.
    fn shown(&self) -> Value {
        let mut rule = json!({"verbs": self.verbs});
        for (name, list) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ] {
            if !list.is_empty() {
                rule[name] = json!(list);
            }
        }
        rule
    }

    fn allows(&self, access: Access<'_>) -> bool {
        let resource = if access.subresource.is_empty() {
            access.resource.to_owned()
        } else {
            format!("{}/{}", access.resource, access.subresource)
        };
        let any_with_subresource = format!("*/{}", access.subresource);
        has(&self.verbs, access.verb)
            && has(&self.groups, access.group)
            && (has(&self.resources, &resource)
                || !access.subresource.is_empty() && self.resources.contains(&any_with_subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name == access.name))
    }

    fn allows_path(&self, verb: &str, path: &str) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => pattern == path,
        };
        has(&self.verbs, verb) && self.paths.iter().any(fits)
    }
}
