//! Jobs at set times.

use lazaret_json::Value;
use lazaret_model::Schedule;

use super::{cells::containers, failure_policy, job, template};
use crate::{
    Column, Context, Errors,
    FieldProblem::NotSupported,
    Rules,
    check::{one_of, template_metadata},
    gate::{Gate, drop_disabled},
    kind::{age, since},
    path::Path,
    rules::keep_status,
    value::{field_mut, fill, has, is_true, list, number, remove, text},
};

const POLICIES: &[&str] = &["Allow", "Forbid", "Replace"];
/// The way to the spec of the pods.
const PODS: &[&str] = &["spec", "jobTemplate", "spec", "template", "spec"];
const UNIVERSAL: &[&str] = &["UTC", "Etc/UTC", "GMT", "Etc/GMT"];
const GATES: &[Gate] = &[Gate {
    features: &["WorkloadWithJob"],
    in_use: |object| has(&object["spec"]["jobTemplate"]["spec"], "scheduling"),
    clear: |object| {
        if let Some(spec) =
            object.pointer_mut("/spec/jobTemplate/spec").filter(|spec| has(spec, "scheduling"))
        {
            remove(spec, "scheduling");
        }
    },
}];
/// A job is named after its cron job, with a number of eleven characters.
const NAME_BYTES_MAX: usize = 52;

/// Jobs at set times.
#[derive(Debug)]
pub(crate) struct CronJob;

impl Rules for CronJob {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        fill(spec, "concurrencyPolicy", "Allow");
        fill(spec, "suspend", false);
        fill(spec, "successfulJobsHistoryLimit", 3);
        fill(spec, "failedJobsHistoryLimit", 1);
        let inner = field_mut(field_mut(spec, "jobTemplate"), "spec");
        template::default(inner);
        failure_policy::default(inner);
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        template::drop_fields(object, None, PODS, context.features);
        drop_disabled(GATES, object, None, context.features);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        template::drop_fields(new, Some(old), PODS, context.features);
        drop_disabled(GATES, new, Some(old), context.features);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validate(object, None, errors);
        let name = text(&object["metadata"], "name");
        if name.len() > NAME_BYTES_MAX {
            let why = format!("must be no more than {NAME_BYTES_MAX} characters");
            errors.invalid("metadata.name", name, why);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validate(new, Some(old), errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Schedule"),
            Column::text("Timezone"),
            Column { name: "Suspend", kind: "boolean", priority: 0 },
            Column::number("Active"),
            Column::text("Last Schedule"),
            Column::AGE,
            Column::wide("Containers"),
            Column::wide("Images"),
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let or_none = |text: &str| if text.is_empty() { "<none>".to_owned() } else { text.to_owned() };
        let last = match text(status, "lastScheduleTime") {
            "" => "<none>".to_owned(),
            time => since(Some(time), context),
        };
        let mut cells = vec![
            text(spec, "schedule").into(),
            or_none(text(spec, "timeZone")).into(),
            is_true(spec, "suspend").into(),
            list(status, "active").len().into(),
            last.into(),
            age(object, context),
        ];
        cells.extend(containers(&spec["jobTemplate"]["spec"]["template"]["spec"]));
        cells
    }
}

/// Checks a cron job. A zone that an earlier version stored may stay.
fn validate(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = &object["spec"];
    let path = Path::root("spec");
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        errors.required(path.field("schedule"), "");
    } else if schedule.contains("TZ") {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid(path.field("schedule"), schedule, why);
    } else if let Err(why) = Schedule::parse(schedule) {
        errors.invalid(path.field("schedule"), schedule, why);
    }
    if has(spec, "timeZone") && old.is_none_or(|old| old["spec"]["timeZone"] != spec["timeZone"]) {
        let zone = text(spec, "timeZone");
        if let Some(why) = wrong_zone(zone) {
            errors.invalid(path.field("timeZone"), zone, why);
        }
    }
    for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        if number(spec, field) < 0 {
            errors.invalid(path.field(field), number(spec, field), "must be greater than or equal to 0");
        }
    }
    one_of(errors, &path.field("concurrencyPolicy"), text(spec, "concurrencyPolicy"), POLICIES);
    let path = path.field("jobTemplate");
    template_metadata(errors, &path.field("metadata"), &spec["jobTemplate"]["metadata"]);
    let (job, path) = (&spec["jobTemplate"]["spec"], path.field("spec"));
    template::pods(errors, &path, job, job::POLICIES);
    job::validate_spec(errors, &path, job);
    if has(job, "selector") {
        errors.invalid(path.field("selector"), job["selector"].clone(), "`selector` will be auto-generated");
    }
    if is_true(job, "manualSelector") {
        errors.push(
            path.field("manualSelector"),
            NotSupported(true.into(), vec!["nil".into(), "false".into()]),
        );
    }
}

/// Why a cron job cannot be in this time zone.
fn wrong_zone(zone: &str) -> Option<String> {
    if zone.is_empty() {
        return Some("timeZone must be nil or non-empty string".to_owned());
    }
    if zone.eq_ignore_ascii_case("Local") {
        return Some(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned(),
        );
    }
    if !lazaret_api::is_zone(zone) {
        return Some(format!("unknown time zone {zone}"));
    }
    // DEVIATION(cron-time-zones)
    let is_universal = UNIVERSAL.contains(&zone);
    (!is_universal).then(|| "times are universal here: must be Etc/UTC, or absent".to_owned())
}
