//! Namespaces.

use lazaret_json::{Value, json};

use crate::{
    Column, Context, Errors, Rules,
    kind::age,
    rules::keep_status,
    value::{entries, field_mut, fill, put, put_or_remove, text},
};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

const POD_SECURITY: &[&str] = &[
    "pod-security.kubernetes.io/enforce",
    "pod-security.kubernetes.io/audit",
    "pod-security.kubernetes.io/warn",
];

/// Namespaces.
#[derive(Debug)]
pub(crate) struct Namespace;

impl Rules for Namespace {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let metadata = field_mut(object, "metadata");
        let name = text(metadata, "name").to_owned();
        if !name.is_empty() {
            put(field_mut(metadata, "labels"), NAME_LABEL, name);
        }
        fill(field_mut(object, "status"), "phase", "Active");
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        put(object, "spec", json!({"finalizers": ["kubernetes"]}));
        put(object, "status", json!({"phase": "Active"}));
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        // What keeps a namespace from going is changed through its own endpoint only.
        let kept = old["spec"].get("finalizers").cloned();
        put_or_remove(field_mut(new, "spec"), "finalizers", kept);
        keep_status(new, old);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        warn_of_pod_security(object, errors);
    }

    fn validate_update(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        warn_of_pod_security(new, errors);
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        (field == "status.phase").then(|| text(&object["status"], "phase").into())
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Status"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        vec![text(&object["status"], "phase").into(), age(object, context)]
    }
}

/// Labels that ask for pods to be checked, which nothing does here.
fn warn_of_pod_security(namespace: &Value, errors: &mut Errors) {
    for (label, level) in entries(&namespace["metadata"], "labels") {
        let asks = POD_SECURITY.contains(&label.as_str()) && level.as_str() != Some("privileged");
        if asks {
            errors.warn(format!("label {label} is stored and not enforced"));
        }
    }
}
