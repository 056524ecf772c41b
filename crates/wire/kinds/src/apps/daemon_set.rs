//! Daemon sets.

use lazaret_json::{Value, json};

use super::{cells::wide, rolling, template};
use crate::{
    Column, Context, Errors, Rules,
    kind::age,
    path::Path,
    rules::keep_status,
    value::{canonical_quantities, entries, field_mut, fill, number, put, same, text},
};

/// Counts changes of the template. Clients see it, and cannot set it once there is an object.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Value) -> i64 {
    text(&object["metadata"]["annotations"], TEMPLATE_GENERATION).parse().unwrap_or_default()
}

fn set_template_generation(object: &mut Value, generation: i64) {
    put(field_mut(field_mut(object, "metadata"), "annotations"), TEMPLATE_GENERATION, generation.to_string());
}

/// Daemon sets.
#[derive(Debug)]
pub(crate) struct DaemonSet;

impl Rules for DaemonSet {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        template::default(spec);
        fill(spec, "revisionHistoryLimit", 10);
        let update = field_mut(spec, "updateStrategy");
        fill(update, "type", "RollingUpdate");
        if text(update, "type") == "RollingUpdate" {
            let rolling = field_mut(update, "rollingUpdate");
            fill(rolling, "maxUnavailable", 1);
            fill(rolling, "maxSurge", 0);
        }
        // The creator's field manager owns the annotation, so it is set before ownership is recorded.
        fill(field_mut(field_mut(object, "metadata"), "annotations"), TEMPLATE_GENERATION, "0");
        canonical_quantities(object, "apps/v1.DaemonSet");
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        template::drop_fields(object, None, template::SPEC, context.features);
        let none = json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0});
        put(object, "status", none);
        let said = template_generation(object).max(1);
        set_template_generation(object, said);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        template::drop_fields(new, Some(old), template::SPEC, context.features);
        let changed = !same(&new["spec"]["template"], &old["spec"]["template"]);
        set_template_generation(new, template_generation(old).max(1) + i64::from(changed));
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let (spec, path) = (&object["spec"], Path::root("spec"));
        template::validate(errors, &path, spec, &["Always"]);
        rolling::daemon_set(errors, &path.field("updateStrategy"), &spec["updateStrategy"]);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        template::same_selector(errors, &Path::root("spec"), &new["spec"], &old["spec"]);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::number("Desired"),
            Column::number("Current"),
            Column::number("Ready"),
            Column::number("Up-to-date"),
            Column::number("Available"),
            Column::text("Node Selector"),
            Column::AGE,
            Column::wide("Containers"),
            Column::wide("Images"),
            Column::wide("Selector"),
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let nodes: Vec<String> = entries(&spec["template"]["spec"], "nodeSelector")
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        let mut cells: Vec<Value> = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ]
        .iter()
        .map(|field| number(status, field).into())
        .collect();
        cells.push(if nodes.is_empty() { "<none>".into() } else { nodes.join(",").into() });
        cells.push(age(object, context));
        cells.extend(wide(spec));
        cells
    }
}
