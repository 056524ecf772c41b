//! Which requests a policy or a binding is about.

use lazaret_json::Value;

use super::{Attributes, Operation};
use crate::{
    check::selects,
    value::{list, some, text},
};

/// A match on resources, as policies and bindings have it.
#[derive(Debug, Default)]
pub(super) struct Match {
    rules: Vec<ResourceRule>,
    excluded: Vec<ResourceRule>,
    namespaces: Option<Value>,
    objects: Option<Value>,
    exact: bool,
}

#[derive(Debug)]
struct ResourceRule {
    groups: Vec<String>,
    versions: Vec<String>,
    operations: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

/// The labels and objects that selectors are matched against.
pub(super) struct Selected<'a> {
    /// The labels of the namespace that the request is about, or that it is in; `None` for cluster-scoped objects.
    pub(super) namespace_labels: Option<&'a Value>,
    /// The object, and what it was before; null where there is none.
    pub(super) objects: [&'a Value; 2],
}

impl Match {
    pub(super) fn of(said: &Value) -> Self {
        Self::with_rules(said, "resourceRules")
    }

    /// A match as webhooks have it: one without rules is about nothing.
    pub(super) fn of_webhook(said: &Value) -> Option<Self> {
        Some(Self::with_rules(said, "rules")).filter(|made| !made.rules.is_empty())
    }

    fn with_rules(said: &Value, field: &str) -> Self {
        let rules = |field: &str| list(said, field).iter().map(ResourceRule::of).collect();
        // One that selects everything need not be asked.
        let selector = |field: &str| {
            let filled = |selector: &&Value| {
                !list(selector, "matchExpressions").is_empty() || some(selector, "matchLabels").is_some()
            };
            some(said, field).filter(filled).cloned()
        };
        Self {
            rules: rules(field),
            excluded: rules("excludeResourceRules"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            exact: text(said, "matchPolicy") == "Exact",
        }
    }

    /// The version in which it is about the request, if it is.
    pub(super) fn version<'a>(&self, request: &Attributes<'a>) -> Option<&'a str> {
        if self.find(&self.excluded, request).is_some() {
            return None;
        }
        if self.rules.is_empty() { Some(request.version) } else { self.find(&self.rules, request) }
    }

    fn find<'a>(&self, rules: &[ResourceRule], request: &Attributes<'a>) -> Option<&'a str> {
        let meant = |version: &str| rules.iter().any(|rule| rule.matches(request, version));
        if meant(request.version) {
            return Some(request.version);
        }
        let others = request.versions.iter().copied().filter(|_| !self.exact);
        others.into_iter().find(|version| meant(version))
    }

    /// Whether the selectors select.
    pub(super) fn selects(&self, selected: &Selected<'_>) -> bool {
        let namespaces = match (&self.namespaces, selected.namespace_labels) {
            (Some(selector), Some(labels)) => selects(selector, labels),
            (None, _) | (_, None) => true,
        };
        // An object that does not exist is not selected by what it lacks.
        let existing = selected.objects.iter().filter(|object| !object.is_null());
        let labels: Vec<&Value> = existing.map(|object| &object["metadata"]["labels"]).collect();
        let objects = |selector: &Value| labels.iter().any(|labels| selects(selector, labels));
        namespaces && self.objects.as_ref().is_none_or(objects)
    }
}

impl ResourceRule {
    fn of(said: &Value) -> Self {
        let texts = |field: &str| {
            list(said, field).iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        Self {
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            operations: texts("operations"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            scope: text(said, "scope").to_owned(),
        }
    }

    fn matches(&self, request: &Attributes<'_>, version: &str) -> bool {
        let any = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        // A request about a namespace is about the cluster.
        let cluster = request.namespace.is_empty() || (request.group, request.resource) == ("", "namespaces");
        let scope = match self.scope.as_str() {
            "Namespaced" => !cluster,
            "Cluster" => cluster,
            _ => true,
        };
        let resource = |said: &String| {
            let (resource, subresource) = said.split_once('/').unwrap_or((said, ""));
            (resource == "*" || resource == request.resource)
                && (subresource == "*" || subresource == request.subresource)
        };
        scope
            && any(&self.operations, request.operation.as_str())
            && any(&self.groups, request.group)
            && any(&self.versions, version)
            && self.resources.iter().any(resource)
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }
}

/// Whether a word means an operation.
pub(super) fn is_operation(word: &str) -> bool {
    let known =
        [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect].map(Operation::as_str);
    word == "*" || known.contains(&word)
}
