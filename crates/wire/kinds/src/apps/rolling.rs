//! How much of a workload an update may take down or add at once.

use lazaret_json::Value;

use crate::{
    Errors,
    path::Path,
    value::{number, text},
};

/// Deployments: one of the two must leave room, and nothing beyond all of them.
pub(super) fn deployment(errors: &mut Errors, path: &Path<'_>, rolling: &Value) {
    let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
    amount(errors, &path.field("maxUnavailable"), unavailable);
    amount(errors, &path.field("maxSurge"), surge);
    if size(unavailable) == 0 && size(surge) == 0 {
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.invalid(path.field("maxUnavailable"), unavailable.clone(), detail);
    }
    at_most_all(errors, &path.field("maxUnavailable"), unavailable);
}

/// Daemon sets: just one of the two.
pub(super) fn daemon_set(errors: &mut Errors, path: &Path<'_>, strategy: &Value) {
    match text(strategy, "type") {
        "OnDelete" => return,
        "RollingUpdate" => {}
        _ => {
            let known = crate::check::not_supported(text(strategy, "type"), &["RollingUpdate", "OnDelete"]);
            errors.push(path.field("type"), known);
            return;
        }
    }
    let (path, rolling) = (path.field("rollingUpdate"), &strategy["rollingUpdate"]);
    for field in ["maxUnavailable", "maxSurge"] {
        amount(errors, &path.field(field), &rolling[field]);
    }
    for field in ["maxUnavailable", "maxSurge"] {
        at_most_all(errors, &path.field(field), &rolling[field]);
    }
    match (size(&rolling["maxUnavailable"]) != 0, size(&rolling["maxSurge"]) != 0) {
        (true, true) => errors.invalid(
            path.field("maxSurge"),
            rolling["maxSurge"].clone(),
            "may not be set when maxUnavailable is non-zero",
        ),
        (false, false) => errors.required(path.field("maxUnavailable"), "cannot be 0 when maxSurge is 0"),
        (true, false) | (false, true) => {}
    }
}

/// Stateful sets: at least one at a time.
pub(super) fn stateful_set(errors: &mut Errors, path: &Path<'_>, strategy: &Value) {
    let (kind, rolling) = (text(strategy, "type"), &strategy["rollingUpdate"]);
    let path_of_rolling = path.field("rollingUpdate");
    match kind {
        "OnDelete" if !rolling.is_null() => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.invalid(path_of_rolling, rolling.clone(), detail);
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            if number(rolling, "partition") < 0 {
                let path = path_of_rolling.field("partition");
                errors.invalid(path, number(rolling, "partition"), "must be greater than or equal to 0");
            }
            let (path, unavailable) = (path_of_rolling.field("maxUnavailable"), &rolling["maxUnavailable"]);
            amount(errors, &path, unavailable);
            if !unavailable.is_null() && size(unavailable) == 0 {
                errors.invalid(path, unavailable.clone(), "cannot be 0");
            }
            at_most_all(errors, &path, unavailable);
        }
        _ => {
            errors.invalid(*path, strategy.clone(), "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn amount(errors: &mut Errors, path: &Path<'_>, value: &Value) {
    match value {
        Value::String(text) if percent(text).is_none() => errors.invalid(
            *path,
            value.clone(),
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        ),
        Value::Number(count) if count.as_i64().is_none_or(|count| count < 0) => {
            errors.invalid(*path, value.clone(), "must be greater than or equal to 0");
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)
        | Value::Encoded(_) => {}
    }
}

fn at_most_all(errors: &mut Errors, path: &Path<'_>, value: &Value) {
    if value.as_str().and_then(percent).is_some_and(|percent| percent > 100) {
        errors.invalid(*path, value.clone(), "must not be greater than 100%");
    }
}

/// The number, or of a percentage the number before the sign. Any other value is 0.
fn size(value: &Value) -> i64 {
    value.as_str().map_or_else(|| value.as_i64().unwrap_or(0), |text| percent(text).unwrap_or(0))
}

fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    // A number that is too long is more than all.
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().unwrap_or(i64::MAX))
}
