//! Parts of several kinds of the group: taints, tolerations, configuration, binding conditions, references to requests.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_json::Value;
use lazaret_model::Taint;

use crate::{
    Context, Errors, Release,
    check::{
        dns_label, driver, each, each_text, fully_qualified_name, label_name, label_value, not_supported,
        one_of, raw_object,
    },
    features::DEFAULT_PACE,
    limits,
    path::Path,
    value::{fill, has, list, list_mut, remove, some, text, texts},
};

pub(super) const SELECTORS_MAX: usize = 32;
pub(super) const REQUESTS_MAX: usize = 32;
pub(super) const CONFIG_MAX: usize = 32;
/// DEVIATION(toleration-limits).
pub(super) const TOLERATIONS_MAX: usize = 16;
const BINDING_CONDITIONS_MAX: usize = 4;
const PARAMETERS_BYTES_MAX: usize = 10 * 1024;

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];
const OPERATORS: &[&str] = &["Equal", "Exists"];
const NODE_OPERATIONS: &[&str] = &["*", "NodePrepareResources", "NodeUnprepareResources"];

/// When a taint was added, if it does not say.
pub(super) fn default_time_added(taint: &mut Value, context: &Context<'_>) {
    if taint.is_object() {
        fill(taint, "timeAdded", context.timestamp());
    }
}

/// The pace of a taint that is written in v1alpha3 and names none. Other versions know no pace: what is written there goes at once.
pub(super) fn default_pace(taint: &mut Value, context: &Context<'_>) {
    if context.version == "v1alpha3" && taint.is_object() && context.features.is_on(DEFAULT_PACE) {
        fill(taint, PACE, Taint::EVICTIONS_PER_SECOND_DEFAULT);
    }
}

const PACE: &str = "evictionsPerSecond";

/// The taints in a list that have no pace and were stored without one: who reads them in v1alpha3 and writes them back has not asked for
/// another pace. `taint` finds the device, if there is one, and the taint in an entry.
pub(super) fn paceless(new: &[Value], old: &[Value], taint: fn(&Value) -> (&str, &Value)) -> Vec<usize> {
    let before: BTreeSet<_> = old.iter().filter_map(|entry| bare(taint(entry))).collect();
    let stays = |entry: &Value| bare(taint(entry)).is_some_and(|said| before.contains(&said));
    new.iter().enumerate().filter(|(_, entry)| stays(entry)).map(|(at, _)| at).collect()
}

/// The device, key, value and effect of a taint that has no pace.
fn bare<'a>((device, taint): (&'a str, &'a Value)) -> Option<[&'a str; 4]> {
    (!has(taint, PACE)).then(|| [device, text(taint, "key"), text(taint, "value"), text(taint, "effect")])
}

/// Takes the pace that was filled in away again.
pub(super) fn without_pace(taint: &mut Value) {
    remove(taint, PACE);
}

/// A taint of a slice or a patch.
pub(super) fn taint(errors: &mut Errors, path: &Path<'_>, taint: &Value, context: &Context<'_>) {
    limits::check(errors, path, "resource/v1alpha3.DeviceTaint", taint, None);
    effect_of_release(errors, path, taint, context);
}

/// The effect that only shows what a taint would do came with taints by rules' own gate, in 1.35.
pub(super) fn effect_of_release(errors: &mut Errors, taint: &Path<'_>, said: &Value, context: &Context<'_>) {
    if text(said, "effect") == "None" && context.features.release() < Release::V1_35 {
        errors.push(taint.field("effect"), not_supported("None", &["NoExecute", "NoSchedule"]));
    }
}

/// `Equal` is what a toleration does if it does not say.
pub(super) fn default_tolerations(holder: &mut Value) {
    for toleration in list_mut(holder, "tolerations") {
        fill(toleration, "operator", "Equal");
    }
}

/// Tolerations of a new request, or with `copied` of a result. Kubernetes documents the limit and that no key needs `Exists`, and checks
/// neither; so what may have been stored elsewhere is not held to it.
pub(super) fn tolerations(errors: &mut Errors, path: &Path<'_>, items: &[Value], copied: bool) {
    let count_max = if copied { usize::MAX } else { TOLERATIONS_MAX };
    each(errors, path, items, count_max, |errors, path, item| {
        let (key, operator, value) = (text(item, "key"), text(item, "operator"), text(item, "value"));
        if !key.is_empty() {
            label_name(errors, &path.field("key"), key);
        } else if operator == "Equal" && !copied {
            errors.invalid(
                path.field("operator"),
                operator,
                "must be Exists when key is empty: no key means every key",
            );
        }
        match operator {
            "Exists" if !value.is_empty() => {
                errors.invalid(path.field("value"), value, "must be empty for operator `Exists`");
            }
            "Exists" => {}
            "Equal" => label_value(errors, &path.field("value"), value),
            other => one_of(errors, &path.field("operator"), other, OPERATORS),
        }
        let effect = text(item, "effect");
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            errors.push(path.field("effect"), not_supported(effect, EFFECTS));
        }
    });
}

/// Configuration for a driver.
pub(super) fn configuration(errors: &mut Errors, path: &Path<'_>, config: &Value, stored: bool) {
    let path = path.field("opaque");
    let Some(opaque) = some(config, "opaque") else {
        errors.required(path, "");
        return;
    };
    driver(errors, &path.field("driver"), text(opaque, "driver"));
    let bytes_max = if stored { usize::MAX } else { PARAMETERS_BYTES_MAX };
    raw_object(errors, &path.field("parameters"), opaque.get("parameters"), bytes_max);
}

/// Conditions that must, and that must not, hold before a pod is bound.
pub(super) fn binding_conditions(errors: &mut Errors, path: &Path<'_>, holder: &Value) {
    const WANTED: &str = "bindingConditions";
    const UNWANTED: &str = "bindingFailureConditions";
    for field in [WANTED, UNWANTED] {
        each_text(errors, &path.field(field), list(holder, field), BINDING_CONDITIONS_MAX, label_name);
    }
    let wanted: BTreeSet<&str> = texts(holder, WANTED).collect();
    for (at, condition) in texts(holder, UNWANTED).enumerate() {
        if wanted.contains(condition) {
            errors.invalid(
                path.field(UNWANTED).index(at),
                condition,
                "bindingFailureConditions must not overlap with bindingConditions",
            );
        }
    }
    for (missing, present) in [(WANTED, UNWANTED), (UNWANTED, WANTED)] {
        if list(holder, missing).is_empty() && !list(holder, present).is_empty() {
            errors.invalid(
                path.field(missing),
                Value::Null,
                format!("{missing} are required to use {present}"),
            );
        }
    }
}

/// Operations on nodes that a driver does not need.
pub(super) fn skip_node_operations(errors: &mut Errors, path: &Path<'_>, holder: &Value) {
    let path = path.field("skipNodeOperations");
    let items = list(holder, "skipNodeOperations");
    each_text(errors, &path, items, usize::MAX, |errors, path, operation| {
        if !NODE_OPERATIONS.contains(&operation) {
            errors.push(path, not_supported(operation, NODE_OPERATIONS));
        }
    });
    let skips = |operation: &str| items.iter().any(|item| item == operation);
    if skips("NodePrepareResources") && !skips("NodeUnprepareResources") && !skips("*") {
        errors.invalid(
            path,
            Value::Array(items.to_vec().into()),
            "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped",
        );
    }
}

/// The requests of a claim and the alternatives of each.
pub(super) struct RequestNames<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> RequestNames<'a> {
    pub(super) fn of(devices: &'a Value) -> Self {
        let named = |request: &'a Value| {
            let alternatives = list(request, "firstAvailable").iter().map(|sub| text(sub, "name")).collect();
            (text(request, "name"), alternatives)
        };
        Self(list(devices, "requests").iter().map(named).collect())
    }

    fn has(&self, name: &str) -> bool {
        match name.split_once('/') {
            None => self.0.contains_key(name),
            Some((request, alternative)) => {
                self.0.get(request).is_some_and(|alternatives| alternatives.contains(alternative))
            }
        }
    }

    /// A reference to a request, `request`, or to one of its alternatives, `request/alternative`.
    pub(super) fn check(&self, errors: &mut Errors, path: &Path<'_>, name: &str) {
        const WHY: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        if name.matches('/').count() > 1 {
            errors.invalid(path, name, WHY);
            return;
        }
        for part in name.split('/') {
            dns_label(errors, path, part);
        }
        if !self.has(name) {
            errors.invalid(path, name, WHY);
        }
    }

    /// References to requests.
    pub(super) fn check_all(&self, errors: &mut Errors, path: &Path<'_>, holder: &Value) {
        each_text(
            errors,
            &path.field("requests"),
            list(holder, "requests"),
            REQUESTS_MAX,
            |errors, path, name| {
                self.check(errors, path, name);
            },
        );
    }
}

/// A fully qualified name if the field is there.
pub(super) fn attribute_name(errors: &mut Errors, path: &Path<'_>, holder: &Value, field: &str) {
    if some(holder, field).is_some() {
        fully_qualified_name(errors, &path.field(field), text(holder, field));
    }
}
