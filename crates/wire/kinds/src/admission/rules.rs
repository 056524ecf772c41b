//! Validation of policies and bindings.

use lazaret_cel::Mode;
use lazaret_json::Value;

use super::{policy::Program, rule_checks::resource_rule};
use crate::{
    Context, Errors, FieldProblem, Rules,
    check::{label_selector, not_supported},
    path::Path,
    rules::SPEC_AND_METADATA,
    value::{field_mut, fill, has, list, put_or_remove, remove, some, text},
};

pub(super) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
const NOT_FOUND_ACTIONS: &[&str] = &["Allow", "Deny"];
pub(super) const CONDITIONS_MAX: usize = 64;
const ANNOTATIONS_MAX: usize = 20;
// DEVIATION(policy-variables): Kubernetes has no limit.
/// Each variable is checked against all before it, so that the time that takes grows with the square of their number.
const VARIABLES_MAX: usize = 500;

/// Policies.
#[derive(Debug)]
pub(crate) struct ValidatingAdmissionPolicy;

/// Bindings of policies.
#[derive(Debug)]
pub(crate) struct ValidatingAdmissionPolicyBinding;

impl Rules for ValidatingAdmissionPolicy {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        fill(spec, "failurePolicy", "Fail");
        if has(spec, "matchConstraints") {
            default_match(field_mut(spec, "matchConstraints"));
        }
    }

    fn status_resets(&self) -> &'static [&'static str] {
        SPEC_AND_METADATA
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        remove(object, "status");
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        put_or_remove(new, "status", some(old, "status").cloned());
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        policy(errors, &object["spec"]);
    }

    fn validate_update(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        policy(errors, &new["spec"]);
    }
}

impl Rules for ValidatingAdmissionPolicyBinding {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        if has(spec, "matchResources") {
            default_match(field_mut(spec, "matchResources"));
        }
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        binding(errors, &object["spec"]);
    }

    fn validate_update(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        binding(errors, &new["spec"]);
    }
}

fn default_match(said: &mut Value) {
    fill(said, "matchPolicy", "Equivalent");
    fill(said, "namespaceSelector", lazaret_json::json!({}));
    fill(said, "objectSelector", lazaret_json::json!({}));
    for field in ["resourceRules", "excludeResourceRules"] {
        if let Some(Value::Array(rules)) = said.get_mut(field) {
            rules.iter_mut().for_each(|rule| fill(rule, "scope", "*"));
        }
    }
}

fn policy(errors: &mut Errors, spec: &Value) {
    let path = Path::root("spec");
    one_of(errors, &path.field("failurePolicy"), text(spec, "failurePolicy"), FAILURE_POLICIES);
    if let Some(kind) = some(spec, "paramKind") {
        let path = path.field("paramKind");
        ["apiVersion", "kind"]
            .iter()
            .for_each(|field| required(errors, &path.field(field), text(kind, field)));
    }
    match some(spec, "matchConstraints") {
        None => errors.required(path.field("matchConstraints"), ""),
        Some(said) => {
            let path = path.field("matchConstraints");
            matched(errors, &path, said);
            if list(said, "resourceRules").is_empty() {
                errors.required(path.field("resourceRules"), "");
            }
        }
    }
    if list(spec, "validations").is_empty() && list(spec, "auditAnnotations").is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.required(path.field("validations"), why);
        errors.required(path.field("auditAnnotations"), why);
    }
    named(errors, &path.field("matchConditions"), list(spec, "matchConditions"), "name", CONDITIONS_MAX);
    named(errors, &path.field("auditAnnotations"), list(spec, "auditAnnotations"), "key", ANNOTATIONS_MAX);
    named(errors, &path.field("variables"), list(spec, "variables"), "name", VARIABLES_MAX);
    for (at, said) in list(spec, "validations").iter().enumerate() {
        let path = path.field("validations");
        validation(errors, &path.index(at), said);
    }
    Program::of(spec, Mode::New, &mut |path, error, source| {
        let problem = if source.trim().is_empty() {
            FieldProblem::Required("expression is not specified".to_owned())
        } else {
            FieldProblem::Invalid(source.into(), format!("compilation failed: {}", error.render(source)))
        };
        errors.push(format!("spec.{path}"), problem);
    });
}

fn validation(errors: &mut Errors, path: &Path<'_>, said: &Value) {
    let message = text(said, "message");
    if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(path.field("message"), message, "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        errors.invalid(path.field("message"), message, "must not contain line breaks");
    }
    if has(said, "reason") {
        one_of(errors, &path.field("reason"), text(said, "reason"), REASONS);
    }
}

/// Entries with a name each, none twice, and not too many.
fn named(errors: &mut Errors, path: &Path<'_>, entries: &[Value], field: &str, most: usize) {
    if entries.len() > most {
        errors.push(*path, FieldProblem::TooMany(entries.len(), most));
    }
    let mut seen = std::collections::BTreeSet::new();
    for (at, entry) in entries.iter().enumerate() {
        let (name, path) = (text(entry, field), path.index(at));
        required(errors, &path.field(field), name);
        if !name.is_empty() && !seen.insert(name) {
            errors.push(path.field(field), FieldProblem::Duplicate(name.into()));
        }
    }
}

fn binding(errors: &mut Errors, spec: &Value) {
    let path = Path::root("spec");
    required(errors, &path.field("policyName"), text(spec, "policyName"));
    if let Some(said) = some(spec, "matchResources") {
        matched(errors, &path.field("matchResources"), said);
    }
    if let Some(param) = some(spec, "paramRef") {
        let path = path.field("paramRef");
        match (!text(param, "name").is_empty(), some(param, "selector")) {
            (true, Some(_)) => {
                let why = "name and selector are mutually exclusive";
                errors.forbidden(path.field("name"), why);
                errors.forbidden(path.field("selector"), why);
            }
            (false, None) => errors.required(path, "one of name or selector must be specified"),
            (false, Some(selector)) => label_selector(errors, &path.field("selector"), selector),
            (true, None) => {}
        }
        let action = path.field("parameterNotFoundAction");
        one_of(errors, &action, text(param, "parameterNotFoundAction"), NOT_FOUND_ACTIONS);
    }
    let (path, actions) = (path.field("validationActions"), list(spec, "validationActions"));
    if actions.is_empty() {
        errors.required(path, "at least one validation action is required");
    }
    let mut seen = std::collections::BTreeSet::new();
    for (at, action) in actions.iter().enumerate() {
        let action = action.as_str().unwrap_or_default();
        one_of(errors, &path.index(at), action, ACTIONS);
        if !seen.insert(action) {
            errors.push(path.index(at), FieldProblem::Duplicate(action.into()));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(path, spec["validationActions"].clone(), why);
    }
}

fn matched(errors: &mut Errors, path: &Path<'_>, said: &Value) {
    one_of(errors, &path.field("matchPolicy"), text(said, "matchPolicy"), MATCH_POLICIES);
    for field in ["namespaceSelector", "objectSelector"] {
        label_selector(errors, &path.field(field), &said[field]);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let path = path.field(field);
        list(said, field)
            .iter()
            .enumerate()
            .for_each(|(at, rule)| resource_rule(errors, &path.index(at), rule));
    }
}

fn required(errors: &mut Errors, path: &Path<'_>, said: &str) {
    if said.trim().is_empty() {
        errors.required(*path, "");
    }
}

fn one_of(errors: &mut Errors, path: &Path<'_>, said: &str, known: &[&str]) {
    if said.is_empty() {
        errors.required(*path, "");
    } else if !known.contains(&said) {
        errors.push(*path, not_supported(said, known));
    }
}
