//! Roles and who has them.

use lazaret_json::Value;

use crate::{
    Column, Context, Errors, Rules,
    check::{immutable, label_selector, not_supported},
    kind::age,
    names::path_segment,
    path::Path,
    value::{fill, is_filled, list, list_mut, put, text},
};

const GROUP: &str = "rbac.authorization.k8s.io";
const SUBJECTS: &[&str] = &["Group", "ServiceAccount", "User"];

/// Roles, in a namespace or in the cluster.
#[derive(Debug)]
pub(crate) struct Role;

/// Bindings of roles.
#[derive(Debug)]
pub(crate) struct RoleBinding;

/// Bindings of roles in the whole cluster.
#[derive(Debug)]
pub(crate) struct ClusterRoleBinding;

impl Rules for Role {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        if object.get("rules").is_none() {
            put(object, "rules", Value::Null);
        }
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let path = Path::root("rules");
        for (at, rule) in list(object, "rules").iter().enumerate() {
            let path = path.index(at);
            if !is_filled(rule, "verbs") {
                errors.required(path.field("verbs"), "verbs must contain at least one value");
            }
            if is_filled(rule, "nonResourceURLs") {
                if !text(&object["metadata"], "namespace").is_empty() {
                    errors.invalid(
                        path.field("nonResourceURLs"),
                        rule["nonResourceURLs"].clone(),
                        "namespaced rules cannot apply to non-resource URLs",
                    );
                }
                if is_filled(rule, "apiGroups")
                    || is_filled(rule, "resources")
                    || is_filled(rule, "resourceNames")
                {
                    errors.invalid(
                        path.field("nonResourceURLs"),
                        rule["nonResourceURLs"].clone(),
                        "rules cannot apply to both regular resources and non-resource URLs",
                    );
                }
                continue;
            }
            if list(rule, "apiGroups").is_empty() {
                errors.required(path.field("apiGroups"), "resource rules must supply at least one api group");
            }
            if !is_filled(rule, "resources") {
                errors.required(path.field("resources"), "resource rules must supply at least one resource");
            }
        }
        aggregation(errors, object);
    }

    fn validate_update(&self, new: &Value, _old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Created At")];
        COLUMNS
    }

    fn cells(&self, object: &Value, _context: &Context<'_>) -> Vec<Value> {
        vec![text(&object["metadata"], "creationTimestamp").into()]
    }
}

impl Rules for RoleBinding {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        default_binding(object);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        binding(errors, object, &["ClusterRole", "Role"], false);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        same_role(errors, new, old);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        cells(object, context)
    }
}

impl Rules for ClusterRoleBinding {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        default_binding(object);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        binding(errors, object, &["ClusterRole"], true);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        same_role(errors, new, old);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        cells(object, context)
    }
}

/// Which other roles' rules a role of the cluster has.
fn aggregation(errors: &mut Errors, role: &Value) {
    let Some(rule) = role.get("aggregationRule").filter(|rule| !rule.is_null()) else { return };
    let path = Path::root("aggregationRule.clusterRoleSelectors");
    let selectors = list(rule, "clusterRoleSelectors");
    if selectors.is_empty() {
        errors.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (at, selector) in selectors.iter().enumerate() {
        label_selector(errors, &path.index(at), selector);
    }
}

fn default_binding(object: &mut Value) {
    if let Some(role) = object.get_mut("roleRef").filter(|role| role.is_object()) {
        fill(role, "apiGroup", GROUP);
    }
    for subject in list_mut(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            fill(subject, "apiGroup", GROUP);
        }
    }
}

fn binding(errors: &mut Errors, object: &Value, kinds: &[&str], namespace_needed: bool) {
    let (role, path) = (&object["roleRef"], Path::root("roleRef"));
    if text(role, "apiGroup") != GROUP {
        errors.push(path.field("apiGroup"), not_supported(text(role, "apiGroup"), &[GROUP]));
    }
    if !kinds.contains(&text(role, "kind")) {
        errors.push(path.field("kind"), not_supported(text(role, "kind"), kinds));
    }
    if text(role, "name").is_empty() {
        errors.required(path.field("name"), "");
    } else if let Err(why) = path_segment(text(role, "name")) {
        errors.invalid(path.field("name"), text(role, "name"), why);
    }
    let path = Path::root("subjects");
    for (at, subject) in list(object, "subjects").iter().enumerate() {
        let path = path.index(at);
        if text(subject, "name").is_empty() {
            errors.required(path.field("name"), "");
        }
        match text(subject, "kind") {
            "ServiceAccount" if text(subject, "namespace").is_empty() && namespace_needed => {
                errors.required(path.field("namespace"), "");
            }
            "ServiceAccount" if !text(subject, "apiGroup").is_empty() => {
                errors.push(path.field("apiGroup"), not_supported(text(subject, "apiGroup"), &[""]));
            }
            "ServiceAccount" => {}
            "User" | "Group" if text(subject, "apiGroup") != GROUP => {
                errors.push(path.field("apiGroup"), not_supported(text(subject, "apiGroup"), &[GROUP]));
            }
            "User" | "Group" => {}
            other => errors.push(path.field("kind"), not_supported(other, SUBJECTS)),
        }
    }
}

fn same_role(errors: &mut Errors, new: &Value, old: &Value) {
    immutable(errors, &Path::root("roleRef"), new, old, "roleRef");
}

const COLUMNS: &[Column] = &[
    Column::text("Role"),
    Column::AGE,
    Column::wide("Users"),
    Column::wide("Groups"),
    Column::wide("ServiceAccounts"),
];

fn cells(object: &Value, context: &Context<'_>) -> Vec<Value> {
    let role = &object["roleRef"];
    let named = |kind: &str| {
        let of_kind = list(object, "subjects").iter().filter(|subject| text(subject, "kind") == kind);
        let shown = |subject: &Value| match text(subject, "namespace") {
            "" => text(subject, "name").to_owned(),
            namespace => format!("{namespace}/{}", text(subject, "name")),
        };
        Value::from(of_kind.map(shown).collect::<Vec<_>>().join(", "))
    };
    vec![
        format!("{}/{}", text(role, "kind"), text(role, "name")).into(),
        age(object, context),
        named("User"),
        named("Group"),
        named("ServiceAccount"),
    ]
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;
    use crate::testing::{World, kind};

    #[test]
    fn what_kubernetes_refuses_of_roles_and_bindings_is_refused() {
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        let path = json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]});
        let (role, account) =
            (json!({"kind": "Role", "name": "r"}), json!({"kind": "ServiceAccount", "name": "a"}));
        for (plural, namespace, fields, expected) in [
            ("roles", "n", json!({"rules": [rule]}), &[][..]),
            ("roles", "n", json!({"rules": [path]}), &["rules[0].nonResourceURLs Invalid"]),
            ("clusterroles", "", json!({"rules": [path]}), &[]),
            ("clusterroles", "", json!({"aggregationRule": {"clusterRoleSelectors": [{}]}}), &[]),
            (
                "clusterroles",
                "",
                json!({"aggregationRule": {}}),
                &["aggregationRule.clusterRoleSelectors Required"],
            ),
            (
                "clusterroles",
                "",
                json!({"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}}),
                &["aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator Invalid"],
            ),
            ("rolebindings", "n", json!({"roleRef": role, "subjects": [account]}), &[]),
            (
                "rolebindings",
                "n",
                json!({"roleRef": {"kind": "Role", "name": "../r"}}),
                &["roleRef.name Invalid"],
            ),
            (
                "rolebindings",
                "n",
                json!({"roleRef": role, "subjects": [{"kind": "ServiceAccount", "name": "a", "apiGroup": "x"}]}),
                &["subjects[0].apiGroup NotSupported"],
            ),
        ] {
            let mut object = fields.clone();
            object["metadata"] = json!({"name": "x"});
            if !namespace.is_empty() {
                object["metadata"]["namespace"] = namespace.into();
            }
            let found = World::new().create(kind(GROUP, plural), object).wrong();
            assert_eq!(found, expected, "{plural} {fields}");
        }
    }
}
