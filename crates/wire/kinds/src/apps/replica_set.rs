//! Replica sets, and the controllers that came before them.

use lazaret_json::{Value, json};

use super::{
    cells::{containers, wide},
    template,
};
use crate::{
    Column, Context, Errors, Rules,
    kind::age,
    path::Path,
    rules::keep_status,
    value::{canonical_quantities, entries, field_mut, fill, has, is_filled, number, put},
};

const COLUMNS: &[Column] = &[
    Column::number("Desired"),
    Column::number("Current"),
    Column::number("Ready"),
    Column::AGE,
    Column::wide("Containers"),
    Column::wide("Images"),
    Column::wide("Selector"),
];

/// Replica sets.
#[derive(Debug)]
pub(crate) struct ReplicaSet;

/// Replication controllers.
#[derive(Debug)]
pub(crate) struct ReplicationController;

impl Rules for ReplicaSet {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        template::default(spec);
        fill(spec, "replicas", 1);
        canonical_quantities(object, "apps/v1.ReplicaSet");
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        put(object, "status", json!({"replicas": 0}));
        template::drop_fields(object, None, template::SPEC, context.features);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        template::drop_fields(new, Some(old), template::SPEC, context.features);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        template::validate(errors, &Path::root("spec"), &object["spec"], &["Always"]);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        template::same_selector(errors, &Path::root("spec"), &new["spec"], &old["spec"]);
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        (field == "status.replicas").then(|| number(&object["status"], "replicas").to_string())
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let mut cells = counts(object, context);
        cells.extend(wide(&object["spec"]));
        cells
    }
}

impl Rules for ReplicationController {
    /// As in the first version, when clients deleted dependents.
    fn orphans_by_default(&self) -> bool {
        true
    }

    fn scale_labels<'a>(&self, object: &'a Value) -> &'a Value {
        &object["spec"]["selector"]
    }

    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        template::default(spec);
        fill(spec, "replicas", 1);
        let labels = spec["template"]["metadata"].get("labels").cloned().unwrap_or_default();
        if labels.is_object() {
            if !is_filled(spec, "selector") {
                put(spec, "selector", labels.clone());
            }
            let metadata = field_mut(object, "metadata");
            if !is_filled(metadata, "labels") {
                put(metadata, "labels", labels);
            }
        }
        canonical_quantities(object, "core/v1.ReplicationController");
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        put(object, "status", json!({"replicas": 0}));
        template::drop_fields(object, None, template::SPEC, context.features);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        template::drop_fields(new, Some(old), template::SPEC, context.features);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let (spec, path) = (&object["spec"], Path::root("spec"));
        for field in ["minReadySeconds", "replicas"] {
            if number(spec, field) < 0 {
                errors.invalid(path.field(field), number(spec, field), "must be greater than or equal to 0");
            }
        }
        if !is_filled(spec, "selector") {
            errors.required(path.field("selector"), "");
        }
        if !has(spec, "template") {
            return errors.required(path.field("template"), "");
        }
        let labels = &spec["template"]["metadata"]["labels"];
        if !entries(spec, "selector").all(|(key, value)| labels.get(key) == Some(value)) {
            let why = "`selector` does not match template `labels`";
            errors.invalid("spec.template.metadata.labels", labels.clone(), why);
        }
        template::pods(errors, &path, spec, &["Always"]);
        if has(&spec["template"]["spec"], "activeDeadlineSeconds") {
            let why = "activeDeadlineSeconds in ReplicationController is not Supported";
            errors.forbidden("spec.template.spec.activeDeadlineSeconds", why);
        }
    }

    fn validate_update(&self, new: &Value, _old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        (field == "status.replicas").then(|| number(&object["status"], "replicas").to_string())
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let selector: Vec<String> = entries(&object["spec"], "selector")
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        let mut cells = counts(object, context);
        cells.extend(containers(&object["spec"]["template"]["spec"]));
        cells.push(selector.join(",").into());
        cells
    }
}

fn counts(object: &Value, context: &Context<'_>) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    vec![
        number(spec, "replicas").into(),
        number(status, "replicas").into(),
        number(status, "readyReplicas").into(),
        age(object, context),
    ]
}
