//! Requests for the status of resource pools. A controller answers each once.

use lazaret_json::Value;
use lazaret_model::{validate_dns_subdomain, validate_pool_name};

use crate::{
    Column, Context, Errors, FieldProblem, Rules,
    check::{IMMUTABLE, conditions, each, each_unique, fully_qualified_name, name},
    gate::{Gate, drop_disabled},
    kind::since,
    path::Path,
    rules::{SPEC_AND_METADATA, keep_status},
    value::{
        canonical_quantities, field_mut, fill, has, list, number, quantity, remove, same_field, some, text,
    },
};

/// Without it the kind is not served.
pub(crate) const FEATURE: &str = "DRAResourcePoolStatus";

const SHAPE: &str = "resource/v1alpha3.ResourcePoolStatusRequest";
const LIMIT_BY_DEFAULT: i64 = 100;
const LIMIT_MAX: i64 = 1_000;
const POOLS_MAX: usize = 1_000;
const CONDITIONS_MAX: usize = 10;
const SUMMARY_MAX: usize = 32;
const POOL_BYTES_MAX: usize = 253;
const ERROR_BYTES_MAX: usize = 256;

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
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        driver(errors, &path.field("driver"), text(spec, "driver"));
        if some(spec, "poolName").is_some() {
            pool(errors, &path.field("poolName"), text(spec, "poolName"));
        }
        let limit = number(spec, "limit");
        if limit > LIMIT_MAX {
            errors.invalid(path.field("limit"), limit, format!("must be less than or equal to {LIMIT_MAX}"));
        }
        at_least(errors, &path, spec, "limit", 1);
        if some(spec, "defaultPartitionTypeAttribute").is_some() {
            let attribute = text(spec, "defaultPartitionTypeAttribute");
            fully_qualified_name(errors, &path.field("defaultPartitionTypeAttribute"), attribute);
        }
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
        required_count(errors, &path, status, "poolCount");
        each(errors, &path.field("pools"), list(status, "pools"), POOLS_MAX, validate_pool);
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

/// A driver, by any name of up to 253 bytes: it need not be one that can publish slices.
fn driver(errors: &mut Errors, path: &Path<'_>, text: &str) {
    if text.is_empty() {
        errors.required(path, "");
    } else {
        name(errors, path, text, |text| validate_dns_subdomain(&text.to_ascii_lowercase()));
    }
}

fn pool(errors: &mut Errors, path: &Path<'_>, text: &str) {
    if text.len() > POOL_BYTES_MAX {
        errors.push(path, FieldProblem::TooLong(POOL_BYTES_MAX));
    } else {
        name(errors, path, text, validate_pool_name);
    }
}

fn at_least(errors: &mut Errors, path: &Path<'_>, holder: &Value, field: &'static str, min: i64) {
    if let Some(value) = some(holder, field).filter(|value| value.as_i64().is_some_and(|value| value < min)) {
        errors.invalid(path.field(field), value.clone(), format!("must be greater than or equal to {min}"));
    }
}

fn required_count(errors: &mut Errors, path: &Path<'_>, holder: &Value, field: &'static str) {
    if has(holder, field) {
        at_least(errors, path, holder, field, 0);
    } else {
        errors.required(path.field(field), "");
    }
}

fn required_text(errors: &mut Errors, path: &Path<'_>, holder: &Value, field: &'static str) {
    if text(holder, field).is_empty() {
        errors.required(path.field(field), "");
    }
}

/// DEVIATION(pool-generation-zero): a pool of generation 0 has a status as well.
fn validate_pool(errors: &mut Errors, path: &Path<'_>, status: &Value) {
    driver(errors, &path.field("driver"), text(status, "driver"));
    match text(status, "poolName") {
        "" => errors.required(path.field("poolName"), ""),
        name => pool(errors, &path.field("poolName"), name),
    }
    at_least(errors, path, status, "generation", 0);
    at_least(errors, path, status, "resourceSliceCount", 1);
    for count in ["totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices"] {
        at_least(errors, path, status, count, 0);
    }
    if has(status, "nodeName") {
        name(errors, &path.field("nodeName"), text(status, "nodeName"), validate_dns_subdomain);
    }
    if text(status, "validationError").len() > ERROR_BYTES_MAX {
        errors.push(path.field("validationError"), FieldProblem::TooLong(ERROR_BYTES_MAX));
    }
    let partitions = list(status, "partitionSummary");
    let key = |item: &Value| (text(item, "attribute").to_owned(), text(item, "type").to_owned());
    let path_of = path.field("partitionSummary");
    each_unique(errors, &path_of, partitions, SUMMARY_MAX, key, Value::clone, |errors, path, item| {
        required_text(errors, path, item, "attribute");
        required_text(errors, path, item, "type");
        required_count(errors, path, item, "total");
        required_count(errors, path, item, "allocatable");
    });
    if let Some(summary) = some(status, "shareableSummary") {
        let path = path.field("shareableSummary");
        required_count(errors, &path, summary, "fullyAvailableDevices");
        required_count(errors, &path, summary, "partiallyAvailableDevices");
        each(
            errors,
            &path.field("capacity"),
            list(summary, "capacity"),
            SUMMARY_MAX,
            |errors, path, item| {
                required_text(errors, path, item, "name");
                for amount in ["total", "consumed", "available"] {
                    if some(item, amount).and_then(quantity).is_none() {
                        errors.required(path.field(amount), "");
                    }
                }
            },
        );
    }
}
