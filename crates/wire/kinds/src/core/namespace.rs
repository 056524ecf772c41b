//! Namespaces.

use lazaret_json::{Value, json};

use crate::{
    Column, Context, Errors, Rules,
    kind::age,
    pod_security::Policy,
    rules::keep_status,
    value::{field_mut, fill, list, put, put_or_remove, text},
};

/// Namespaces that cannot be deleted.
const ETERNAL: &[&str] = &["default", "kube-system", "kube-public"];
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Namespaces.
#[derive(Debug)]
pub(crate) struct Namespace;

impl Rules for Namespace {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        label_with_name(object);
        fill(field_mut(object, "status"), "phase", "Active");
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        // A generated name may have been tried again since.
        label_with_name(object);
        put(object, "spec", json!({"finalizers": ["kubernetes"]}));
        put(object, "status", json!({"phase": "Active"}));
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        // The finalizers of a namespace are changed through its own endpoint only.
        let kept = old["spec"].get("finalizers").cloned();
        put_or_remove(field_mut(new, "spec"), "finalizers", kept);
        keep_status(new, old);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let _ = Policy::of(&object["metadata"]["labels"], errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let labels = |namespace: &Value| namespace["metadata"]["labels"].clone();
        let mut known = Errors::new();
        let _ = Policy::of(&labels(old), &mut known);
        let mut found = Errors::new();
        let _ = Policy::of(&labels(new), &mut found);
        // An error that the old object already has does not prevent other changes.
        if found.list() != known.list() {
            let _ = Policy::of(&labels(new), errors);
        }
    }

    fn refuse_delete(&self, name: &str) -> Option<&'static str> {
        ETERNAL.contains(&name).then_some("this namespace may not be deleted")
    }

    fn begin_delete(&self, object: &mut Value, _context: &Context<'_>) {
        put(field_mut(object, "status"), "phase", "Terminating");
    }

    fn is_held(&self, object: &Value) -> bool {
        !list(&object["spec"], "finalizers").is_empty()
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

fn label_with_name(namespace: &mut Value) {
    let metadata = field_mut(namespace, "metadata");
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        put(field_mut(metadata, "labels"), NAME_LABEL, name);
    }
}
