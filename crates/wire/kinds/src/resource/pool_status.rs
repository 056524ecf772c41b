//! Requests for the status of resource pools. A controller answers each once.

use lazaret_json::Value;

use crate::{
    Column, Context, Errors, Rules,
    check::{IMMUTABLE, conditions, each_unique},
    gate::{Gate, drop_disabled},
    kind::since,
    limits,
    path::Path,
    rules::{SPEC_AND_METADATA, keep_status},
    value::{canonical_quantities, field_mut, fill, has, list, number, remove, same_field, some, text},
};

/// Without it the kind is not served.
pub(crate) const FEATURE: &str = "DRAResourcePoolStatus";

const SHAPE: &str = "resource/v1alpha3.ResourcePoolStatusRequest";
const LIMIT_BY_DEFAULT: i64 = 100;
const CONDITIONS_MAX: usize = 10;

const GATES: &[Gate] = &[Gate {
    features: &["DRAPartitionableDevicesType"],
    in_use: |spec| has(spec, "defaultPartitionTypeAttribute"),
    clear: |spec| remove(spec, "defaultPartitionTypeAttribute"),
}];

/// Requests for the status of resource pools.
#[derive(Debug)]
pub(crate) struct PoolStatusRequest;

impl Rules for PoolStatusRequest {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        fill(field_mut(object, "spec"), "limit", LIMIT_BY_DEFAULT);
        canonical_quantities(object, SHAPE);
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        remove(object, "status");
        drop_disabled(GATES, field_mut(object, "spec"), None, context.features);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let shape = "resource/v1alpha3.ResourcePoolStatusRequestSpec";
        limits::check(errors, &Path::root("spec"), shape, &object["spec"], None);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        drop_disabled(GATES, field_mut(new, "spec"), Some(&old["spec"]), context.features);
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        if !same_field(new, old, "spec") {
            errors.invalid(Path::root("spec"), Value::Null, IMMUTABLE);
        }
    }

    fn status_resets(&self) -> &'static [&'static str] {
        SPEC_AND_METADATA
    }

    fn validate_status(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let path = Path::root("status");
        if some(old, "status").is_some() {
            if !same_field(new, old, "status") {
                errors.invalid(path, new.get("status").cloned().unwrap_or_default(), IMMUTABLE);
            }
            return;
        }
        let Some(status) = some(new, "status") else { return };
        limits::check(errors, &path, "resource/v1alpha3.ResourcePoolStatusRequestStatus", status, None);
        for (at, pool) in list(status, "pools").iter().enumerate() {
            unique_partitions(errors, &path.field("pools").index(at), pool);
        }
        conditions(errors, &path.field("conditions"), list(status, "conditions"), CONDITIONS_MAX);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Driver"),
            Column::text("Total"),
            Column::text("Available"),
            Column::text("Allocated"),
            Column::text("Unavailable"),
            Column::text("Errors"),
            Column::number("Pools"),
            Column::text("Status"),
            Column::text("Completed"),
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let status = &object["status"];
        let pools = list(status, "pools");
        let pool_count = number(status, "poolCount");
        let progress = progress(status);
        let sums: [Value; 5] = match progress {
            Progress::Pending if some(object, "status").is_none() => ["-"; 5].map(Value::from),
            Progress::Failed => ["-"; 5].map(Value::from),
            Progress::Pending | Progress::Complete(_) => {
                let sum = |field: &str| pools.iter().map(|pool| number(pool, field)).sum::<i64>().to_string();
                let wrong = pools.iter().filter(|pool| has(pool, "validationError")).count();
                [
                    sum("totalDevices"),
                    sum("availableDevices"),
                    sum("allocatedDevices"),
                    sum("unavailableDevices"),
                    wrong.to_string(),
                ]
                .map(Value::from)
            }
        };
        let shown = i64::try_from(pools.len()).unwrap_or(i64::MAX);
        let (word, completed) = match progress {
            Progress::Pending => ("Pending".to_owned(), "<none>".to_owned()),
            Progress::Failed => ("Failed".to_owned(), "<none>".to_owned()),
            Progress::Complete(at) if pool_count > shown => {
                (format!("Complete ({shown}/{pool_count} pools)"), since(Some(at), context))
            }
            Progress::Complete(at) => ("Complete".to_owned(), since(Some(at), context)),
        };
        let driver = Value::from(text(&object["spec"], "driver"));
        let [total, available, allocated, unavailable, wrong] = sums;
        let (word, completed) = (word.into(), completed.into());
        vec![driver, total, available, allocated, unavailable, wrong, pool_count.into(), word, completed]
    }
}

enum Progress<'a> {
    Pending,
    /// Since when.
    Complete(&'a str),
    Failed,
}

fn progress(status: &Value) -> Progress<'_> {
    let conditions = list(status, "conditions").iter();
    let mut held = conditions.filter(|condition| text(condition, "status") == "True");
    let found = held.find_map(|condition| match text(condition, "type") {
        "Complete" => Some(Progress::Complete(text(condition, "lastTransitionTime"))),
        "Failed" => Some(Progress::Failed),
        _ => None,
    });
    found.unwrap_or(Progress::Pending)
}

/// DEVIATION(pool-generation-zero): a pool of generation 0 has a status as well.
fn unique_partitions(errors: &mut Errors, path: &Path<'_>, pool: &Value) {
    let partitions = list(pool, "partitionSummary");
    let key = |item: &Value| (text(item, "attribute").to_owned(), text(item, "type").to_owned());
    let path = path.field("partitionSummary");
    each_unique(errors, &path, partitions, usize::MAX, key, Value::clone, |_, _, _| {});
}
