//! Validation of webhook configurations.

use std::collections::BTreeSet;

use lazaret_cel::Mode;
use lazaret_json::{Value, json};
use lazaret_model::{validate_dns_label, validate_dns_subdomain};

use super::{
    is_exempt_resource,
    policy::Program,
    rule_checks::resource_rule,
    rules::{CONDITIONS_MAX, FAILURE_POLICIES, MATCH_POLICIES},
    url::Url,
};
use crate::{
    Context, Errors, FieldProblem, Rules,
    check::{label_name, label_selector, not_supported},
    kind::{Column, age},
    path::Path,
    value::{fill, has, list, list_mut, number, some, text},
};

const REVIEW_VERSIONS: &str = "v1, v1beta1";
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];
const TIMEOUT_SECONDS: std::ops::RangeInclusive<i64> = 1..=30;
/// A name that ends so means a file on the server's machine to Kubernetes.
const STATIC_SUFFIX: &str = ".static.k8s.io";
const COLUMNS: &[Column] = &[Column::number("Webhooks"), Column::AGE];

/// Webhooks that may change objects.
#[derive(Debug)]
pub(crate) struct MutatingWebhookConfiguration;

/// Webhooks that may refuse requests.
#[derive(Debug)]
pub(crate) struct ValidatingWebhookConfiguration;

macro_rules! rules {
    ($kind:ident, $mutating:literal) => {
        impl Rules for $kind {
            fn default(&self, object: &mut Value, _context: &Context<'_>) {
                list_mut(object, "webhooks").iter_mut().for_each(|hook| default_webhook(hook, $mutating));
            }

            fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
                let name = text(&object["metadata"], "name");
                if name.ends_with(STATIC_SUFFIX) {
                    errors.invalid("metadata.name", name, static_suffix());
                }
                configuration(errors, object, $mutating);
            }

            fn validate_update(&self, new: &Value, _old: &Value, _: &Context<'_>, errors: &mut Errors) {
                if text(&new["metadata"], "name").ends_with(STATIC_SUFFIX) {
                    errors.warn(format!("metadata.name: {}", static_suffix()));
                }
                configuration(errors, new, $mutating);
            }

            fn columns(&self) -> &'static [Column] {
                COLUMNS
            }

            fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
                vec![list(object, "webhooks").len().into(), age(object, context)]
            }
        }
    };
}

rules!(MutatingWebhookConfiguration, true);
rules!(ValidatingWebhookConfiguration, false);

fn static_suffix() -> String {
    format!(
        "names ending with {STATIC_SUFFIX:?} are reserved for static manifest-based configurations and cannot be managed via the API"
    )
}

fn default_webhook(hook: &mut Value, mutating: bool) {
    fill(hook, "failurePolicy", "Fail");
    fill(hook, "matchPolicy", "Equivalent");
    fill(hook, "namespaceSelector", json!({}));
    fill(hook, "objectSelector", json!({}));
    fill(hook, "timeoutSeconds", 10);
    if mutating {
        fill(hook, "reinvocationPolicy", "Never");
    }
    list_mut(hook, "rules").iter_mut().for_each(|rule| fill(rule, "scope", "*"));
    if let Some(service) = hook.pointer_mut("/clientConfig/service").filter(|service| service.is_object()) {
        fill(service, "port", 443);
    }
}

fn configuration(errors: &mut Errors, object: &Value, mutating: bool) {
    let path = Path::root("webhooks");
    let mut names = BTreeSet::new();
    for (at, hook) in list(object, "webhooks").iter().enumerate() {
        let path = path.index(at);
        webhook(errors, &path, hook, mutating);
        review_versions(errors, &path.field("admissionReviewVersions"), &hook["admissionReviewVersions"]);
        let name = text(hook, "name");
        if !name.is_empty() && !names.insert(name) {
            errors.push(path.field("name"), FieldProblem::Duplicate(name.into()));
        }
        warn_of_exempt_rules(errors, &path.field("rules"), list(hook, "rules"));
    }
}

fn webhook(errors: &mut Errors, path: &Path<'_>, hook: &Value, mutating: bool) {
    qualified(errors, &path.field("name"), text(hook, "name"));
    for (at, rule) in list(hook, "rules").iter().enumerate() {
        let path = path.field("rules");
        resource_rule(errors, &path.index(at), rule);
    }
    let known = |errors: &mut Errors, field: &str, known: &[&str]| {
        let said = text(hook, field);
        if has(hook, field) && !known.contains(&said) {
            errors.push(path.field(field), not_supported(said, known));
        }
    };
    known(errors, "failurePolicy", FAILURE_POLICIES);
    known(errors, "matchPolicy", MATCH_POLICIES);
    if has(hook, "sideEffects") {
        known(errors, "sideEffects", SIDE_EFFECTS);
    } else {
        let why = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
        errors.required(path.field("sideEffects"), &why);
    }
    if has(hook, "timeoutSeconds") && !TIMEOUT_SECONDS.contains(&number(hook, "timeoutSeconds")) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(path.field("timeoutSeconds"), hook["timeoutSeconds"].clone(), why);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        label_selector(errors, &path.field(field), &hook[field]);
    }
    if mutating {
        known(errors, "reinvocationPolicy", REINVOCATION_POLICIES);
    }
    client(errors, &path.field("clientConfig"), &hook["clientConfig"]);
    conditions(errors, path, hook);
}

/// A name with at least three parts.
fn qualified(errors: &mut Errors, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        errors.required(*path, "");
    } else if let Err(why) = validate_dns_subdomain(name) {
        errors.invalid(*path, name, why.to_string());
    } else if name.split('.').count() < 3 {
        errors.invalid(*path, name, "should be a domain with at least three segments separated by dots");
    }
}

fn review_versions(errors: &mut Errors, path: &Path<'_>, said: &Value) {
    let versions: Vec<&str> =
        said.as_array().into_iter().flatten().map(|one| one.as_str().unwrap_or_default()).collect();
    if versions.is_empty() {
        errors.required(*path, &format!("must specify one of {REVIEW_VERSIONS}"));
        return;
    }
    let mut seen = BTreeSet::new();
    for (at, version) in versions.iter().enumerate() {
        if !seen.insert(version) {
            errors.invalid(path.index(at), *version, "duplicate version");
        } else if let Err(why) = service_label(version) {
            errors.invalid(path.index(at), *version, why);
        }
    }
    if !versions.iter().any(|version| ["v1", "v1beta1"].contains(version)) {
        errors.invalid(*path, said.clone(), format!("must include at least one of {REVIEW_VERSIONS}"));
    }
}

/// A label that begins with a letter.
fn service_label(text: &str) -> Result<(), String> {
    if text.starts_with(|first: char| first.is_ascii_lowercase()) && validate_dns_label(text).is_ok() {
        return Ok(());
    }
    let why = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    Err(why.to_owned())
}

fn client(errors: &mut Errors, path: &Path<'_>, client: &Value) {
    match (some(client, "url"), some(client, "service")) {
        (Some(url), None) => address(errors, &path.field("url"), url.as_str().unwrap_or_default()),
        (None, Some(said)) => service(errors, &path.field("service"), said),
        (Some(_), Some(_)) | (None, None) => {
            errors.required(*path, "exactly one of url or service is required");
        }
    }
}

fn address(errors: &mut Errors, path: &Path<'_>, said: &str) {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match Url::parse(said) {
        Ok(url) => url,
        Err(why) => {
            errors.required(*path, &format!("url must be a valid URL: {why}{FORM}"));
            return;
        }
    };
    if url.scheme != "https" {
        errors.invalid(*path, url.scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if url.host.is_empty() && url.port.is_none() {
        errors.invalid(*path, "", format!("host must be specified{FORM}"));
    }
    if let Some(user) = url.user {
        errors.invalid(*path, user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        errors.invalid(*path, url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        errors.invalid(*path, url.query, "query parameters are not permitted in the URL");
    }
}

fn service(errors: &mut Errors, path: &Path<'_>, said: &Value) {
    // Kubernetes mixes the two up when it names what is missing, and clients know it so.
    for (missing, named) in [("namespace", "name"), ("name", "namespace")] {
        if text(said, missing).is_empty() {
            errors.required(path.field(named), "");
        }
    }
    if !(1..=65_535).contains(&number(said, "port")) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(path.field("port"), said["port"].clone(), why);
    }
    let (path, whole) = (path.field("path"), text(said, "path"));
    if whole.is_empty() || whole == "/" {
        return;
    }
    if whole == "//" {
        errors.invalid(path, whole, "segment[0] may not be empty");
        return;
    }
    if !whole.starts_with('/') {
        errors.invalid(path, whole, "must start with a '/'");
    }
    let steps = whole.strip_prefix('/').unwrap_or(whole.get(1..).unwrap_or_default());
    for (at, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(path, whole, format!("segment[{at}] may not be empty"));
        } else if let Err(why) = validate_dns_subdomain(step) {
            errors.invalid(path, whole, format!("segment[{at}]: {why}"));
        }
    }
}

fn conditions(errors: &mut Errors, path: &Path<'_>, hook: &Value) {
    let (path, conditions) = (path.field("matchConditions"), list(hook, "matchConditions"));
    if conditions.len() > CONDITIONS_MAX {
        errors.push(path, FieldProblem::TooMany(conditions.len(), CONDITIONS_MAX));
    }
    let mut wrong: Vec<(String, FieldProblem)> = Vec::new();
    Program::of(&json!({"matchConditions": hook["matchConditions"]}), Mode::New, &mut |at, error, source| {
        let problem = if source.trim().is_empty() {
            FieldProblem::Required(String::new())
        } else {
            let why = format!("compilation failed: {}", error.render(source));
            FieldProblem::Invalid(source.trim().into(), why)
        };
        wrong.push((at, problem));
    });
    let mut names = BTreeSet::new();
    for (at, condition) in conditions.iter().enumerate() {
        let own = format!("matchConditions[{at}].expression");
        let path = path.index(at);
        for (_, problem) in wrong.iter().filter(|(found, _)| *found == own) {
            errors.push(path.field("expression"), problem.clone());
        }
        let name = text(condition, "name");
        if name.is_empty() {
            errors.required(path.field("name"), "");
            continue;
        }
        label_name(errors, &path.field("name"), name);
        if !names.insert(name) {
            errors.push(path.field("name"), FieldProblem::Duplicate(name.into()));
        }
    }
}

/// Rules that name what no webhook is called for.
fn warn_of_exempt_rules(errors: &mut Errors, path: &Path<'_>, rules: &[Value]) {
    for (at, rule) in rules.iter().enumerate() {
        let (groups, resources) = (list(rule, "apiGroups"), list(rule, "resources"));
        if groups.iter().chain(resources).any(|word| word == "*") {
            continue;
        }
        let mut seen = BTreeSet::new();
        for group in groups.iter().filter_map(Value::as_str) {
            for resource in resources.iter().filter_map(Value::as_str) {
                let reviews = ["authentication.k8s.io", "authorization.k8s.io"].contains(&group);
                if reviews && is_exempt_resource(group, resource) && seen.insert((group, resource)) {
                    errors.warn(format!(
                        "{}: {resource}.{group} is excluded from admission webhooks; this rule will have no effect",
                        path.index(at)
                    ));
                }
            }
        }
    }
}
