//! Rules that taint devices.

use lazaret_api::window;
use lazaret_json::{Value, json};
use lazaret_model::{CapacityMode, EvictionMode, EvictionSpec, GroupMode, WindowError};

use super::{
    cel,
    common::{default_pace, default_time_added, device_selector, taint},
    superset::{self, Superset},
};
use crate::{
    Column, Context, Errors, FieldProblem, Rules,
    check::{conditions, one_of},
    kind::{age, since},
    path::Path,
    rules::{SPEC_AND_METADATA, keep_status},
    value::{field_mut, list, put, remove, same_field, some, text},
};

const CONDITIONS_MAX: usize = 8;
const WINDOWS_MAX: usize = 16;
const CONCURRENT_MAX: i64 = u32::MAX as i64;

const SUPERSET: Superset = Superset {
    shape: "resource/v1alpha3.DeviceTaintRule",
    parts: &[
        ("deviceSelector", &["deviceClassName", "selectors"]),
        ("taint", &["description", "data", "evictionsPerSecond"]),
        ("", &["eviction", "expiresAt"]),
    ],
    fields: &[
        "deviceClassName",
        "selectors",
        "description",
        "data",
        "evictionsPerSecond",
        "eviction",
        "expiresAt",
        "evictions",
    ],
};

/// Rules that taint devices.
#[derive(Debug)]
pub(crate) struct Rule;

impl Rules for Rule {
    fn predates_conventions(&self, version: &str) -> bool {
        version != "v1"
    }

    fn default(&self, object: &mut Value, context: &Context<'_>) {
        let taint = field_mut(field_mut(object, "spec"), "taint");
        default_time_added(taint, context);
        default_pace(taint, context);
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        put(object, "status", json!({}));
    }

    fn validate_create(&self, object: &Value, context: &Context<'_>, errors: &mut Errors) {
        superset::validate(errors, object);
        validate(errors, &object["spec"], None, context);
    }

    fn status_resets(&self) -> &'static [&'static str] {
        SPEC_AND_METADATA
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        // The time says since when there is this effect: a client that changes the effect and not the time means now.
        let before = &old["spec"]["taint"];
        let taint = field_mut(field_mut(new, "spec"), "taint");
        if text(taint, "effect") != text(before, "effect")
            && text(taint, "timeAdded") == text(before, "timeAdded")
        {
            put(taint, "timeAdded", context.timestamp());
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        superset::validate(errors, new);
        validate(errors, &new["spec"], Some(&old["spec"]), context);
    }

    fn validate_status(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let path = Path::root("status");
        conditions(errors, &path.field("conditions"), list(&new["status"], "conditions"), CONDITIONS_MAX);
        if let Some(pods) =
            some(&new["status"]["evictions"], "pods").filter(|pods| pods.as_i64().is_none_or(|n| n < 0))
        {
            let path = path.field("evictions");
            errors.invalid(path.field("pods"), pods.clone(), "must be greater than or equal to 0");
        }
    }

    fn to_version(&self, object: &mut Value, version: &str) {
        if version != "v1alpha3" {
            SUPERSET.hide(object);
            if let Some(status) = object.get_mut("status") {
                remove(status, "evictions");
            }
        }
    }

    fn from_version(&self, object: &mut Value, version: &str, old: Option<&Value>) {
        if version != "v1alpha3" {
            SUPERSET.restore(object, old);
            if let (Some(status), Some(kept)) =
                (object.get_mut("status"), old.and_then(|old| some(&old["status"], "evictions")))
            {
                put(status, "evictions", kept.clone());
            }
        }
    }

    fn differs_in(&self, object: &Value, version: &str) -> bool {
        let counts = |object: &Value| some(&object["status"], "evictions").is_some();
        version != "v1alpha3" && (object.is_null() || SUPERSET.is_used(object) || counts(object))
    }

    fn differs_where(&self, version: &str) -> Option<&'static [&'static str]> {
        match version {
            "v1alpha3" => Some(&[]),
            _ => Some(SUPERSET.fields),
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Key"),
            Column::text("Value"),
            Column::text("Effect"),
            Column::text("TimeAdded"),
            Column::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let taint = &object["spec"]["taint"];
        let added = Some(text(taint, "timeAdded")).filter(|time| !time.is_empty());
        vec![
            text(taint, "key").into(),
            text(taint, "value").into(),
            text(taint, "effect").into(),
            added.map_or_else(String::new, |time| since(Some(time), context)).into(),
            age(object, context),
        ]
    }
}

fn validate(errors: &mut Errors, spec: &Value, old: Option<&Value>, context: &Context<'_>) {
    let path = Path::root("spec");
    if let Some(selector) = some(spec, "deviceSelector") {
        let path = path.field("deviceSelector");
        device_selector(errors, &path, selector);
        let stored = old.is_some_and(|old| same_field(selector, &old["deviceSelector"], "selectors"));
        cel::selectors(errors, &path.field("selectors"), list(selector, "selectors"), stored, context);
        let evicts_all = |spec: &Value| {
            spec["deviceSelector"] == json!({}) && text(&spec["taint"], "effect") == "NoExecute"
        };
        if evicts_all(spec) && !old.is_some_and(evicts_all) {
            errors.warn(
                "spec.deviceSelector: an empty selector selects every device in the cluster, and effect NoExecute evicts every pod that uses one and does not tolerate the taint",
            );
        }
    }
    taint(errors, &path.field("taint"), &spec["taint"], old.map(|old| &old["taint"]));
    if let Some(said) = some(spec, "eviction") {
        eviction(errors, &path.field("eviction"), said);
    }
}

/// How pods leave.
fn eviction(errors: &mut Errors, path: &Path<'_>, eviction: &Value) {
    let mode = text(eviction, "mode");
    if !mode.is_empty() {
        one_of(errors, &path.field("mode"), mode, &EvictionMode::ALL.map(EvictionMode::name));
    }
    let groups = text(eviction, "groups");
    if !groups.is_empty() {
        one_of(errors, &path.field("groups"), groups, &GroupMode::ALL.map(GroupMode::name));
    }
    capacity(errors, path, eviction);
    let deadline = some(eviction, "deadlineSeconds");
    let path_of_deadline = path.field("deadlineSeconds");
    if deadline.is_none() && mode == EvictionMode::EvictThenDelete.name() {
        errors.required(path_of_deadline, "with mode EvictThenDelete");
    } else if let Some(seconds) =
        deadline.filter(|value| value.as_i64().is_none_or(|n| !(0..=EvictionSpec::SECONDS_MAX).contains(&n)))
    {
        let message = format!("must be between 0 and {}, inclusive", EvictionSpec::SECONDS_MAX);
        errors.invalid(path_of_deadline, seconds.clone(), message);
    }
    let too_few = |value: &&Value| value.as_i64().is_none_or(|n| !(1..=CONCURRENT_MAX).contains(&n));
    if let Some(most) = some(eviction, "maxConcurrent").filter(too_few) {
        let message = format!("must be between 1 and {CONCURRENT_MAX}, inclusive");
        errors.invalid(path.field("maxConcurrent"), most.clone(), message);
    }
    windows(errors, &path.field("windows"), list(eviction, "windows"));
}

/// Whether pods wait for room.
fn capacity(errors: &mut Errors, path: &Path<'_>, eviction: &Value) {
    let capacity = text(eviction, "capacity");
    if !capacity.is_empty() {
        one_of(errors, &path.field("capacity"), capacity, &CapacityMode::ALL.map(CapacityMode::name));
    }
    let Some(timeout) = some(eviction, "capacityTimeoutSeconds") else { return };
    let path = path.field("capacityTimeoutSeconds");
    if timeout.as_i64().is_none_or(|n| !(0..=EvictionSpec::SECONDS_MAX).contains(&n)) {
        let message = format!("must be between 0 and {}, inclusive", EvictionSpec::SECONDS_MAX);
        errors.invalid(path, timeout.clone(), message);
    } else if capacity != CapacityMode::Wait.name() {
        errors.invalid(path, timeout.clone(), "needs capacity Wait");
    }
}

/// When evictions may begin.
pub(crate) fn windows(errors: &mut Errors, path: &Path<'_>, windows: &[Value]) {
    if windows.len() > WINDOWS_MAX {
        errors.push(path, FieldProblem::TooMany(windows.len(), WINDOWS_MAX));
    }
    for (at, said) in windows.iter().enumerate() {
        let path = path.index(at);
        let field = |name: &str| text(said, name);
        let (field, why) = match window(field("start"), field("duration"), field("timeZone")) {
            Ok(_) => continue,
            Err(WindowError::Start) => ("start", "must be a time as in 02:00 or Sat 02:00"),
            Err(WindowError::Duration) => {
                ("duration", "must be a time as in 4h or 1h30m, not longer than until the next start")
            }
            Err(WindowError::Zone) => {
                ("timeZone", "must be UTC, an offset as in +02:00 or a name as in Europe/Zurich")
            }
        };
        errors.invalid(path.field(field), text(said, field), why);
    }
}
