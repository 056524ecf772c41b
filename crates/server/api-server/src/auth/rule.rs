//! One rule of a role.

use std::fmt;

use lazaret_json::{Value, json};
use lazaret_kinds::Access;

/// Stands for every verb, group, resource or path.
pub(super) const ALL: &str = "*";

/// The permissions of one rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) verbs: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) names: Vec<String>,
    pub(super) paths: Vec<String>,
}

impl Rule {
    pub(super) fn parse(rule: &Value) -> Self {
        Self {
            verbs: strings(&rule["verbs"]),
            groups: strings(&rule["apiGroups"]),
            resources: strings(&rule["resources"]),
            names: strings(&rule["resourceNames"]),
            paths: strings(&rule["nonResourceURLs"]),
        }
    }

    /// The rules that a role lists.
    pub(super) fn list(role: &Value) -> Vec<Self> {
        role["rules"].as_array().into_iter().flatten().map(Self::parse).collect()
    }

    /// As reviews show it.
    pub(super) fn shown(&self) -> Value {
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

    pub(super) fn allows(&self, access: Access<'_>) -> bool {
        has(&self.verbs, access.verb)
            && has(&self.groups, access.group)
            && self.resources.iter().any(|resource| fits_resource(resource, access))
            && (self.names.is_empty() || self.names.iter().any(|name| name == access.name))
    }

    pub(super) fn allows_path(&self, verb: &str, path: &str) -> bool {
        has(&self.verbs, verb) && self.paths.iter().any(|pattern| fits_path(pattern, path))
    }
}

/// As Kubernetes' refusals show it.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let parts: Vec<String> = lists
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{}", quoted(list)))
            .collect();
        write!(f, "{{{}}}", parts.join(", "))
    }
}

/// A list of texts as Go's `%q` writes it.
pub(super) fn quoted(list: &[String]) -> String {
    let parts: Vec<String> = list.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", parts.join(" "))
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == ALL || entry == wanted)
}

fn fits_resource(resource: &str, access: Access<'_>) -> bool {
    if resource == ALL {
        return true;
    }
    if access.subresource.is_empty() {
        return resource == access.resource;
    }
    let of = resource.strip_suffix(access.subresource).and_then(|rest| rest.strip_suffix('/'));
    of.is_some_and(|of| of == ALL || of == access.resource)
}

/// Whether a path, or all paths that another pattern stands for, are among those that `pattern` stands for.
pub(super) fn fits_path(pattern: &str, path: &str) -> bool {
    pattern == path || pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_shown_as_kubernetes_shows_it() {
        let rule = Rule::parse(
            &json!({"apiGroups": ["", "apps"], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get"]}),
        );
        assert_eq!(
            rule.to_string(),
            r#"{APIGroups:["" "apps"], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}"#
        );
        let rule = Rule::parse(&json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}));
        assert_eq!(rule.to_string(), r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#);
    }

    #[test]
    fn resources_fit_with_their_subresource() {
        for (resource, asked, subresource, expected) in [
            ("*", "pods", "", true),
            ("*", "pods", "log", true),
            ("pods", "pods", "", true),
            ("pods", "pods", "log", false),
            ("pods/log", "pods", "log", true),
            ("pods/log", "pods", "", false),
            ("*/log", "pods", "log", true),
            ("*/log", "pods", "", false),
            ("*/", "pods", "", false),
            ("pods/", "pods", "", false),
            ("pods/*", "pods", "log", false),
        ] {
            let access = Access {
                verb: "get",
                group: "",
                resource: asked,
                subresource,
                namespace: "",
                name: "",
                fields: &[],
            };
            assert_eq!(fits_resource(resource, access), expected, "{resource} {asked}/{subresource}");
        }
    }

    /// Kubernetes' TestNonResourceURLCovers.
    #[test]
    fn paths_fit_as_in_kubernetes() {
        for (pattern, path, expected) in [
            ("*", "", true),
            ("*", "/", true),
            ("*", "/api", true),
            ("/*", "", false),
            ("/*", "/", true),
            ("/*", "/foo", true),
            ("/api", "/api", true),
            ("/apis", "/api", false),
            ("/api/v1", "/api", false),
            ("/api/v1", "/api/v1", true),
            ("/api/*", "/api/v1", true),
            ("/api/*", "/api", false),
            ("/api/*/*", "/api/v1", false),
            ("/*/v1/*", "/api/v1", false),
        ] {
            assert_eq!(fits_path(pattern, path), expected, "{pattern} {path}");
        }
    }
}
