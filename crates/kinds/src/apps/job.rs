//! Jobs.

use lazaret_json::{Value, json};
use lazaret_model::human_duration;

use super::{cells::wide, template};
use crate::{
    Column, Context, Errors, Rules,
    check::immutable,
    kind::{age, since},
    path::Path,
    value::{canonical_quantities, field_mut, fill, has, is_filled, is_true, list, number, put, some, text},
};

const BACKOFF_LIMIT: i64 = 6;
const UID_LABELS: &[&str] = &["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: &[&str] = &["batch.kubernetes.io/job-name", "job-name"];
/// Fields that the controller of jobs does not know.
const UNHEEDED: &[&str] = &["backoffLimitPerIndex", "maxFailedIndexes"];
pub(super) const POLICIES: &[&str] = &["OnFailure", "Never"];

/// Jobs.
#[derive(Debug)]
pub(crate) struct Job;

impl Rules for Job {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        default_spec(spec);
        fill(spec, "manualSelector", false);
        canonical_quantities(object, "batch/v1.Job");
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        put(object, "status", json!({}));
        let (name, uid) = {
            let metadata = &object["metadata"];
            (text(metadata, "name").to_owned(), text(metadata, "uid").to_owned())
        };
        let spec = field_mut(object, "spec");
        let labelled = is_filled(&spec["template"]["metadata"], "labels");
        if !is_true(spec, "manualSelector") {
            let labels = field_mut(field_mut(field_mut(spec, "template"), "metadata"), "labels");
            UID_LABELS.iter().for_each(|label| put(labels, label, uid.clone()));
            NAME_LABELS.iter().for_each(|label| put(labels, label, name.clone()));
            put(spec, "selector", json!({"matchLabels": {(UID_LABELS[0]): uid}}));
        }
        // A job that has no labels has those of its pods, if these have any of their own.
        let labels = spec["template"]["metadata"]["labels"].clone();
        let metadata = field_mut(object, "metadata");
        if labelled && !is_filled(metadata, "labels") {
            put(metadata, "labels", labels);
        }
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let path = Path::root("spec");
        let spec = &object["spec"];
        template::validate(errors, &path, spec, POLICIES);
        for field in UNHEEDED {
            if some(spec, field).is_some() {
                errors.warn(format!("spec.{field} is stored and not looked at"));
            }
        }
        for field in
            ["parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"]
        {
            if number(spec, field) < 0 {
                errors.invalid(path.field(field), number(spec, field), "must be greater than or equal to 0");
            }
        }
        if text(spec, "completionMode") == "Indexed" && !has(spec, "completions") {
            errors.required(path.field("completions"), "when completion mode is Indexed");
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        let path = Path::root("spec");
        for field in ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"] {
            immutable(errors, &path.field(field), &new["spec"], &old["spec"], field);
        }
        let started = !is_true(&old["spec"], "suspend") || has(&old["status"], "startTime");
        if started {
            immutable(errors, &path.field("template"), &new["spec"], &old["spec"], "template");
        }
        let indexed = text(&old["spec"], "completionMode") == "Indexed";
        if !indexed {
            immutable(errors, &path.field("completions"), &new["spec"], &old["spec"], "completions");
        }
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        (field == "status.successful").then(|| number(&object["status"], "succeeded").to_string())
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Status"),
            Column::text("Completions"),
            Column::text("Duration"),
            Column::AGE,
            Column::wide("Containers"),
            Column::wide("Images"),
            Column::wide("Selector"),
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let mut cells = vec![
            state(object).into(),
            completions(object).into(),
            duration(object, context).into(),
            age(object, context),
        ];
        cells.extend(wide(&object["spec"]));
        cells
    }
}

/// What absent fields of a job stand for, also in the template of one.
pub(super) fn default_spec(spec: &mut Value) {
    template::default(spec);
    if !has(spec, "completions") && !has(spec, "parallelism") {
        put(spec, "completions", 1);
        put(spec, "parallelism", 1);
    }
    fill(spec, "parallelism", 1);
    fill(spec, "backoffLimit", BACKOFF_LIMIT);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let replacement = if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    fill(spec, "podReplacementPolicy", replacement);
}

fn state(job: &Value) -> &'static str {
    let holds = |kind: &str| {
        list(&job["status"], "conditions")
            .iter()
            .any(|known| text(known, "type") == kind && text(known, "status") == "True")
    };
    if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if has(&job["metadata"], "deletionTimestamp") {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else if holds("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(job: &Value) -> String {
    let (spec, succeeded) = (&job["spec"], number(&job["status"], "succeeded"));
    let parallelism = number(spec, "parallelism");
    match some(spec, "completions") {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn duration(job: &Value, context: &Context<'_>) -> String {
    let time = |field: &str| Some(text(&job["status"], field)).filter(|time| !time.is_empty());
    let parsed = |text: &str| text.parse::<jiff::Timestamp>().ok();
    match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), None) => since(Some(start), context),
        (Some(start), Some(end)) => match (parsed(start), parsed(end)) {
            (Some(start), Some(end)) => human_duration(end.as_second() - start.as_second()),
            _ => "<unknown>".into(),
        },
    }
}
