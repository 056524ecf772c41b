//! Quotas of a namespace.

use std::collections::BTreeSet;

use lazaret_json::{Value, json};

use crate::{
    Ceiling, Column, Context, Errors, FieldProblem, Rules,
    check::IMMUTABLE,
    kind::age,
    path::Path,
    resource_names::{is_integer, is_standard_for_quota, quota_resource},
    value::{canonical_quantities, count, entries, is_filled, list, put, quantity, some, text, texts},
};

/// Quotas of a namespace.
#[derive(Debug)]
pub(crate) struct ResourceQuota;

// DEVIATION(quota-limits): each write in the namespace is held against all of them.
/// Resources that one quota names at most.
const RESOURCES_MAX: usize = 512;
/// Scopes that there are.
const SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
/// Of these two only one can be true of a pod.
const CONFLICTING: &[(&str, &str)] = &[("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];
/// Scopes without values.
const PLAIN_SCOPES: &[&str] =
    &["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
const COMPUTE: &[&str] =
    &["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory", "pods"];
const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist"];

impl Rules for ResourceQuota {
    fn ceiling(&self) -> Option<Ceiling> {
        Some(Ceiling::NamespaceRules)
    }

    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        canonical_quantities(object, "core/v1.ResourceQuota");
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        put(object, "status", json!({}));
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let path = Path::root("spec");
        amounts(errors, &path.field("hard"), &object["spec"], "hard");
        scopes(errors, &path, &object["spec"]);
        selector(errors, &path, &object["spec"]);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        let of = |quota: &Value| texts(&quota["spec"], "scopes").map(str::to_owned).collect::<BTreeSet<_>>();
        if of(new) != of(old) {
            errors.invalid("spec.scopes", new["spec"]["scopes"].clone(), IMMUTABLE);
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        for field in ["hard", "used"] {
            amounts(errors, &Path::root("status").field(field), &new["status"], field);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Request"), Column::text("Limit"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let status = &object["status"];
        let column = |limits: bool| {
            let parts: Vec<String> = entries(status, "hard")
                .filter(|(name, _)| name.starts_with("limits.") == limits)
                .map(|(name, hard)| {
                    let used = some(&status["used"], name).and_then(Value::as_str).unwrap_or("0");
                    format!("{name}: {used}/{}", hard.as_str().unwrap_or_default())
                })
                .collect();
            Value::from(parts.join(", "))
        };
        vec![column(false), column(true), age(object, context)]
    }
}

fn amounts(errors: &mut Errors, path: &Path<'_>, holder: &Value, field: &str) {
    if count(holder, field) > RESOURCES_MAX {
        errors.push(path, FieldProblem::TooMany(count(holder, field), RESOURCES_MAX));
        return;
    }
    for (name, said) in entries(holder, field) {
        let path = path.key(name);
        quota_resource(errors, &path, name);
        let Some(amount) = quantity(said) else { continue };
        if amount.is_negative() {
            errors.invalid(path, said.clone(), "must be greater than or equal to 0");
        }
        if is_integer(name) && !amount.is_integer() {
            errors.invalid(path, said.clone(), "must be an integer");
        }
    }
}

/// Whether a scope can select what counts against a resource.
fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => COMPUTE.contains(&resource),
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        _ => true,
    }
}

/// The resources of a quota that a scope cannot be about.
fn unfit(scope: &str, spec: &Value) -> usize {
    entries(spec, "hard").filter(|(name, _)| is_standard_for_quota(name) && !fits(scope, name)).count()
}

fn scopes(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let path = path.field("scopes");
    let invalid = |errors: &mut Errors, why: &str| errors.invalid(path, spec["scopes"].clone(), why);
    for scope in texts(spec, "scopes") {
        if !SCOPES.contains(&scope) {
            invalid(errors, "unsupported scope");
        }
        for _ in 0..unfit(scope, spec) {
            invalid(errors, "unsupported scope applied to resource");
        }
    }
    let all: BTreeSet<&str> = texts(spec, "scopes").collect();
    for _ in CONFLICTING.iter().filter(|(one, other)| all.contains(one) && all.contains(other)) {
        invalid(errors, "conflicting scopes");
    }
}

fn selector(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let Some(selector) = some(spec, "scopeSelector") else { return };
    let path = path.field("scopeSelector");
    let path = path.field("matchExpressions");
    for requirement in list(selector, "matchExpressions") {
        let (scope, operator) = (text(requirement, "scopeName"), text(requirement, "operator"));
        if !SCOPES.contains(&scope) {
            errors.invalid(path.field("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..unfit(scope, spec) {
            errors.invalid(path, selector.clone(), "unsupported scope applied to resource");
        }
        if PLAIN_SCOPES.contains(&scope) && operator != "Exists" {
            errors.invalid(
                path.field("operator"),
                operator,
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            );
        }
        match operator {
            "In" | "NotIn" if !is_filled(requirement, "values") => errors.required(
                path.field("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if is_filled(requirement, "values") => errors.invalid(
                path.field("values"),
                requirement["values"].clone(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            known if OPERATORS.contains(&known) => {}
            other => errors.invalid(path.field("operator"), other, "not a valid selector operator"),
        }
    }
    let all: BTreeSet<&str> =
        list(selector, "matchExpressions").iter().map(|requirement| text(requirement, "scopeName")).collect();
    for _ in CONFLICTING.iter().filter(|(one, other)| all.contains(one) && all.contains(other)) {
        errors.invalid(path, spec["scopes"].clone(), "conflicting scopes");
    }
}
