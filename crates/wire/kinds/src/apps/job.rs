//! Jobs.

use lazaret_json::{Value, json};
use lazaret_model::human_duration;

use super::{cells::wide, failure_policy, success_policy, template};
use crate::{
    Column, Context, Errors, FieldProblem, Rules,
    check::{domain_prefixed_path, immutable, not_supported},
    gate::{Gate, drop_disabled},
    kind::{age, since},
    path::Path,
    rules::keep_status,
    value::{
        canonical_quantities, field_mut, fill, has, is_filled, is_true, list, number, put, remove, some, text,
    },
};

const BACKOFF_LIMIT: i64 = 6;
const GATES: &[Gate] = &[Gate {
    features: &["WorkloadWithJob"],
    in_use: |job| has(&job["spec"], "scheduling"),
    clear: |job| {
        if has(&job["spec"], "scheduling")
            && let Some(spec) = job.get_mut("spec")
        {
            remove(spec, "scheduling");
        }
    },
}];
const UID_LABELS: &[&str] = &["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: &[&str] = &["batch.kubernetes.io/job-name", "job-name"];
/// Pods that may run at once, and indexes that may fail, of a job with indexes.
const INDEXES_MAX: i64 = 100_000;
/// A job with a limit for each index and more completions than this has lower limits: its status lists every index that failed.
const COMPLETIONS_SOFT_MAX: i64 = 100_000;
/// Those lower limits.
const INDEXES_OF_MANY_MAX: i64 = 10_000;
/// The name of another controller of a job.
const MANAGER_BYTES_MAX: usize = 63;
const NOT_NEGATIVE: &[&str] = &[
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];
/// When a pod is replaced.
const REPLACEMENTS: &[&str] = &["Failed", "TerminatingOrFailed"];
pub(super) const POLICIES: &[&str] = &["OnFailure", "Never"];

/// Jobs.
#[derive(Debug)]
pub(crate) struct Job;

impl Rules for Job {
    /// As in the first version, when clients deleted dependents.
    fn orphans_by_default(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        default_spec(spec);
        fill(spec, "manualSelector", false);
        canonical_quantities(object, "batch/v1.Job");
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        template::drop_fields(object, None, template::SPEC, context.features);
        drop_disabled(GATES, object, None, context.features);
        put(object, "status", json!({}));
        let (name, uid) = {
            let metadata = &object["metadata"];
            (text(metadata, "name").to_owned(), text(metadata, "uid").to_owned())
        };
        let spec = field_mut(object, "spec");
        if !is_true(spec, "manualSelector") {
            let labels = field_mut(field_mut(field_mut(spec, "template"), "metadata"), "labels");
            UID_LABELS.iter().for_each(|label| put(labels, label, uid.clone()));
            NAME_LABELS.iter().for_each(|label| put(labels, label, name.clone()));
            put(spec, "selector", json!({"matchLabels": {(UID_LABELS[0]): uid}}));
        }
        // A job that has no labels has those of its pods.
        let labels = spec["template"]["metadata"]["labels"].clone();
        let metadata = field_mut(object, "metadata");
        if !labels.is_null() && !is_filled(metadata, "labels") {
            put(metadata, "labels", labels);
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        template::drop_fields(new, Some(old), template::SPEC, context.features);
        drop_disabled(GATES, new, Some(old), context.features);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let path = Path::root("spec");
        let spec = &object["spec"];
        template::validate(errors, &path, spec, POLICIES);
        validate_spec(errors, &path, spec);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        let path = Path::root("spec");
        for field in [
            "selector",
            "completionMode",
            "podFailurePolicy",
            "successPolicy",
            "backoffLimitPerIndex",
            "managedBy",
        ] {
            immutable(errors, &path.field(field), &new["spec"], &old["spec"], field);
        }
        let started = !is_true(&old["spec"], "suspend") || has(&old["status"], "startTime");
        if started {
            immutable(errors, &path.field("template"), &new["spec"], &old["spec"], "template");
        }
        let indexed = text(&old["spec"], "completionMode") == "Indexed";
        if !indexed {
            immutable(errors, &path.field("completions"), &new["spec"], &old["spec"], "completions");
        } else if has(&new["spec"], "completions") {
            let (completions, before) =
                (number(&new["spec"], "completions"), number(&old["spec"], "completions"));
            if completions != before && completions != number(&new["spec"], "parallelism") {
                let why = "can only be modified in tandem with spec.parallelism";
                errors.invalid(path.field("completions"), completions, why);
            }
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

/// Checks the spec of a job beside its pods and their selector, also in the template of a job.
pub(super) fn validate_spec(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    for field in NOT_NEGATIVE {
        if number(spec, field) < 0 {
            errors.invalid(path.field(field), number(spec, field), "must be greater than or equal to 0");
        }
    }
    if has(spec, "managedBy") {
        let (path, manager) = (path.field("managedBy"), text(spec, "managedBy"));
        domain_prefixed_path(errors, &path, manager);
        if manager.len() > MANAGER_BYTES_MAX {
            errors.push(path, FieldProblem::TooLong(MANAGER_BYTES_MAX));
        }
    }
    let replacement = text(spec, "podReplacementPolicy");
    if has(spec, "podReplacementPolicy")
        && !has(spec, "podFailurePolicy")
        && !REPLACEMENTS.contains(&replacement)
    {
        errors.push(path.field("podReplacementPolicy"), not_supported(replacement, REPLACEMENTS));
    }
    validate_indexes(spec, path, errors);
    failure_policy::validate(errors, path, spec);
    success_policy::validate(errors, path, spec);
}

/// Fields that have to do with indexes.
fn validate_indexes(spec: &Value, path: &Path, errors: &mut Errors) {
    let (mode, modes) = (text(spec, "completionMode"), &["NonIndexed", "Indexed"]);
    if has(spec, "completionMode") && !modes.contains(&mode) {
        errors.push(path.field("completionMode"), not_supported(mode, modes));
    }
    if has(spec, "maxFailedIndexes") && !has(spec, "backoffLimitPerIndex") {
        errors.required(path.field("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if mode != "Indexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if has(spec, field) {
                errors.invalid(path.field(field), number(spec, field), "requires indexed completion mode");
            }
        }
        return;
    }
    let (completions, failed_max) = (number(spec, "completions"), number(spec, "maxFailedIndexes"));
    let mut limit = |field: &str, most: i64, suffix: &str| {
        if number(spec, field) > most {
            let message = format!("must be less than or equal to {most}{suffix}");
            errors.invalid(path.field(field), number(spec, field), message);
        }
    };
    limit("parallelism", INDEXES_MAX, " when completion mode is Indexed");
    limit("maxFailedIndexes", INDEXES_MAX, "");
    let many = completions > COMPLETIONS_SOFT_MAX && has(spec, "backoffLimitPerIndex");
    if many {
        let suffix = format!(
            " when completions are above {COMPLETIONS_SOFT_MAX} and used with backoff limit per index"
        );
        limit("parallelism", INDEXES_OF_MANY_MAX, &suffix);
        limit("maxFailedIndexes", INDEXES_OF_MANY_MAX, &suffix);
    }
    if !has(spec, "completions") {
        errors.required(path.field("completions"), "when completion mode is Indexed");
    } else if failed_max > completions {
        errors.invalid(
            path.field("maxFailedIndexes"),
            failed_max,
            "must be less than or equal to completions",
        );
    }
    if many && !has(spec, "maxFailedIndexes") {
        let why = format!("must be specified when completions is above {COMPLETIONS_SOFT_MAX}");
        errors.required(path.field("maxFailedIndexes"), &why);
    }
}

/// Defaults of a job's spec, also in a job template.
pub(super) fn default_spec(spec: &mut Value) {
    template::default(spec);
    if !has(spec, "completions") && !has(spec, "parallelism") {
        put(spec, "completions", 1);
        put(spec, "parallelism", 1);
    }
    fill(spec, "parallelism", 1);
    fill(
        spec,
        "backoffLimit",
        if has(spec, "backoffLimitPerIndex") { i64::from(i32::MAX) } else { BACKOFF_LIMIT },
    );
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    failure_policy::default(spec);
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
