//! Deployments.

use lazaret_json::{Value, json};

use super::{cells::wide, rolling, template};
use crate::{
    Column, Context, Errors, Rules,
    check::not_supported,
    kind::age,
    path::Path,
    rules::keep_status,
    value::{canonical_quantities, field_mut, fill, is_filled, number, remove, text},
};

const STRATEGIES: &[&str] = &["Recreate", "RollingUpdate"];
const HISTORY: i64 = 10;
const PROGRESS_SECONDS: i64 = 600;

/// Deployments.
#[derive(Debug)]
pub(crate) struct Deployment;

impl Rules for Deployment {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        template::default(spec);
        fill(spec, "replicas", 1);
        fill(spec, "revisionHistoryLimit", HISTORY);
        fill(spec, "progressDeadlineSeconds", PROGRESS_SECONDS);
        let strategy = field_mut(spec, "strategy");
        fill(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate" {
            let rolling = field_mut(strategy, "rollingUpdate");
            fill(rolling, "maxUnavailable", "25%");
            fill(rolling, "maxSurge", "25%");
        }
        canonical_quantities(object, "apps/v1.Deployment");
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        remove(object, "status");
        fill(object, "status", json!({}));
        template::drop_fields(object, None, template::SPEC, context.features);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        template::drop_fields(new, Some(old), template::SPEC, context.features);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validate(errors, &object["spec"]);
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validate(errors, &new["spec"]);
        template::same_selector(errors, &Path::root("spec"), &new["spec"], &old["spec"]);
    }

    fn status_resets(&self) -> &'static [&'static str] {
        &["spec", "metadata.labels"]
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Ready"),
            Column::text("Up-to-date"),
            Column::text("Available"),
            Column::AGE,
            Column::wide("Containers"),
            Column::wide("Images"),
            Column::wide("Selector"),
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let mut cells = vec![
            format!("{}/{}", number(status, "readyReplicas"), number(spec, "replicas")).into(),
            number(status, "updatedReplicas").into(),
            number(status, "availableReplicas").into(),
            age(object, context),
        ];
        cells.extend(wide(spec));
        cells
    }
}

fn validate(errors: &mut Errors, spec: &Value) {
    let path = Path::root("spec");
    template::validate(errors, &path, spec, &["Always"]);
    let (strategy, path) = (&spec["strategy"], path.field("strategy"));
    let kind = text(strategy, "type");
    if !STRATEGIES.contains(&kind) {
        errors.push(path.field("type"), not_supported(kind, STRATEGIES));
    } else if kind == "Recreate" && is_filled(strategy, "rollingUpdate") {
        errors.forbidden(
            path.field("rollingUpdate"),
            "may not be specified when strategy `type` is 'Recreate'",
        );
    } else if kind == "RollingUpdate" {
        rolling::deployment(errors, &path.field("rollingUpdate"), &strategy["rollingUpdate"]);
    }
}
