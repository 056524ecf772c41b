//! Jobs at set times.

use lazaret_json::Value;
use lazaret_model::Schedule;

use super::{cells::containers, job, template};
use crate::{
    Column, Context, Errors, Rules,
    gate::{Gate, drop_disabled},
    kind::{age, since},
    path::Path,
    rules::keep_status,
    value::{field_mut, fill, has, is_true, list, number, remove, text},
};

const POLICIES: &[&str] = &["Allow", "Forbid", "Replace"];
/// The way to the spec of the pods.
const PODS: &[&str] = &["spec", "jobTemplate", "spec", "template", "spec"];
const UNIVERSAL: &[&str] = &["", "UTC", "Etc/UTC", "GMT", "Etc/GMT"];
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
        // DEVIATION(cron-time-zones)
        let zone = text(spec, "timeZone");
        if !UNIVERSAL.contains(&zone) {
            errors.invalid(
                path.field("timeZone"),
                zone,
                "times are universal here: must be Etc/UTC, or absent",
            );
        }
        for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
            if number(spec, field) < 0 {
                errors.invalid(path.field(field), number(spec, field), "must be greater than or equal to 0");
            }
        }
        let name = text(&object["metadata"], "name");
        if name.len() > NAME_BYTES_MAX {
            errors.invalid(
                "metadata.name",
                name,
                format!("must be no more than {NAME_BYTES_MAX} characters"),
            );
        }
        let policy = text(spec, "concurrencyPolicy");
        if !POLICIES.contains(&policy) {
            errors.push(path.field("concurrencyPolicy"), crate::check::not_supported(policy, POLICIES));
        }
        let path = path.field("jobTemplate");
        template::pods(errors, &path.field("spec"), &spec["jobTemplate"]["spec"], job::POLICIES);
    }

    fn validate_update(&self, new: &Value, _old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
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
