//! Templates of pods and the selectors that find what was made from them.

use lazaret_json::Value;

use crate::{
    Errors, Features,
    check::{immutable, label_selector, selects, template_metadata},
    core::{pod_gates, pod_spec, pod_template},
    path::Path,
    value::{field_mut, is_filled, number, some, text},
};

/// The way to the spec of the pods of most kinds.
pub(super) const SPEC: &[&str] = &["spec", "template", "spec"];

/// Fills in the spec of the template in `spec.template`.
pub(super) fn default(spec: &mut Value) {
    let template = field_mut(spec, "template");
    pod_spec::default(field_mut(template, "spec"));
}

/// Drops what the pods of a template may not have because its feature is off, unless they have it already. `at`: the way to their spec.
pub(super) fn drop_fields(new: &mut Value, old: Option<&Value>, at: &[&str], features: &Features) {
    if pod_gates::is_gated(found_at(new, at)) {
        let spec = at.iter().fold(new, |found, step| field_mut(found, step));
        pod_gates::drop_fields(spec, old.map(|old| found_at(old, at)), features);
    }
}

fn found_at<'v>(object: &'v Value, at: &[&str]) -> &'v Value {
    at.iter().fold(object, |found, step| &found[*step])
}

/// A template and a selector that finds its pods. `policies`: how its pods may restart.
pub(super) fn validate(errors: &mut Errors, path: &Path<'_>, spec: &Value, policies: &[&str]) {
    let selector = &spec["selector"];
    if some(spec, "selector").is_none() {
        errors.required(path.field("selector"), "");
    } else {
        label_selector(errors, &path.field("selector"), selector);
        if !is_filled(selector, "matchLabels") && !is_filled(selector, "matchExpressions") {
            errors.invalid(
                path.field("selector"),
                selector.clone(),
                "empty selector is invalid: it selects every pod",
            );
        } else if !selects(selector, &spec["template"]["metadata"]["labels"]) {
            let path = path.field("template");
            let path = path.field("metadata");
            errors.invalid(
                path.field("labels"),
                spec["template"]["metadata"]["labels"].clone(),
                "`selector` does not match template `labels`",
            );
        }
    }
    pods(errors, path, spec, policies);
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        if number(spec, field) < 0 {
            errors.invalid(path.field(field), number(spec, field), "must be greater than or equal to 0");
        }
    }
}

/// A template alone.
pub(super) fn pods(errors: &mut Errors, path: &Path<'_>, spec: &Value, policies: &[&str]) {
    let path = path.field("template");
    let template = &spec["template"];
    template_metadata(errors, &path.field("metadata"), &template["metadata"]);
    let path = path.field("spec");
    pod_template(errors, &path, &template["spec"]);
    let policy = text(&template["spec"], "restartPolicy");
    if !policies.contains(&policy) {
        errors.push(path.field("restartPolicy"), crate::check::not_supported(policy, policies));
    }
}

/// A selector stays.
pub(super) fn same_selector(errors: &mut Errors, path: &Path<'_>, new: &Value, old: &Value) {
    immutable(errors, &path.field("selector"), new, old, "selector");
}
