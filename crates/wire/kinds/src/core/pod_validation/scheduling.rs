//! Validation of a pod's affinity, spread and tolerations.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_json::Value;
use lazaret_model::{validate_dns_label, validate_dns_subdomain};

use super::choice;
use crate::{
    Errors, FieldProblem,
    check::{label_name, label_selector, label_value, name, node_preference, node_selector, not_supported},
    path::Path,
    value::{entries, has, is_filled, list, number, some, text, texts},
};

/// The effects of a node's taint.
pub(in crate::core) const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Labels that a node must have, and its taints that do not matter.
fn placement(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    for (key, value) in entries(spec, "nodeSelector") {
        label_name(errors, &path.field("nodeSelector"), key);
        label_value(errors, &path.field("nodeSelector"), value.as_str().unwrap_or_default());
    }
    for (at, toleration) in list(spec, "tolerations").iter().enumerate() {
        self::toleration(errors, &path.field("tolerations").index(at), toleration);
    }
}

/// Selectors, affinities, tolerations, gates and how evenly pods are spread.
pub(super) fn check(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    placement(errors, path, spec);
    let mut gates = BTreeSet::new();
    for (at, gate) in list(spec, "schedulingGates").iter().map(|gate| text(gate, "name")).enumerate() {
        let path = path.field("schedulingGates");
        if gates.insert(gate) {
            label_name(errors, &path.index(at), gate);
        } else {
            errors.push(path.index(at), FieldProblem::Duplicate(gate.into()));
        }
    }
    if let Some(group) = some(spec, "schedulingGroup") {
        let path = path.field("schedulingGroup");
        let path = path.field("podGroupName");
        if has(group, "podGroupName") {
            name(errors, &path, text(group, "podGroupName"), validate_dns_subdomain);
        } else {
            errors.invalid(path, Value::Null, "must specify one of: `podGroupName`");
        }
    }
    if let Some(affinity) = some(spec, "affinity") {
        let path = path.field("affinity");
        node_affinity(errors, &path.field("nodeAffinity"), &affinity["nodeAffinity"]);
        for field in ["podAffinity", "podAntiAffinity"] {
            pod_affinity(errors, &path.field(field), &affinity[field]);
        }
    }
    spread(errors, &path.field("topologySpreadConstraints"), list(spec, "topologySpreadConstraints"));
}

fn node_affinity(errors: &mut Errors, path: &Path<'_>, affinity: &Value) {
    if let Some(required) = some(affinity, REQUIRED) {
        node_selector(errors, &path.field(REQUIRED), required);
    }
    for (at, term) in list(affinity, PREFERRED).iter().enumerate() {
        let path = path.field(PREFERRED);
        let path = path.index(at);
        weight(errors, &path, term);
        node_preference(errors, &path.field("preference"), &term["preference"]);
    }
}

fn pod_affinity(errors: &mut Errors, path: &Path<'_>, affinity: &Value) {
    for (at, term) in list(affinity, REQUIRED).iter().enumerate() {
        pod_term(errors, &path.field(REQUIRED).index(at), term);
    }
    for (at, term) in list(affinity, PREFERRED).iter().enumerate() {
        let path = path.field(PREFERRED);
        let path = path.index(at);
        weight(errors, &path, term);
        pod_term(errors, &path.field("podAffinityTerm"), &term["podAffinityTerm"]);
    }
}

fn weight(errors: &mut Errors, path: &Path<'_>, term: &Value) {
    if !(1..=100).contains(&number(term, "weight")) {
        errors.invalid(path.field("weight"), number(term, "weight"), "must be in the range 1-100");
    }
}

fn pod_term(errors: &mut Errors, path: &Path<'_>, term: &Value) {
    for field in ["labelSelector", "namespaceSelector"] {
        label_selector(errors, &path.field(field), &term[field]);
    }
    for namespace in texts(term, "namespaces") {
        // Kubernetes names it in the singular.
        name(errors, &path.field("namespace"), namespace, validate_dns_label);
    }
    label_keys(errors, path, term);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.required(path.field("topologyKey"), "can not be empty");
    }
    label_name(errors, &path.field("topologyKey"), key);
}

/// Labels whose values the pod itself gives.
fn label_keys(errors: &mut Errors, path: &Path<'_>, holder: &Value) {
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        if is_filled(holder, field) && !has(holder, "labelSelector") {
            errors.forbidden(path.field(field), "must not be specified when labelSelector is not set");
            continue;
        }
        for (at, key) in texts(holder, field).enumerate() {
            label_name(errors, &path.field(field).index(at), key);
        }
    }
    let mismatched: BTreeSet<&str> = texts(holder, "mismatchLabelKeys").collect();
    let mut expressions: BTreeMap<&str, usize> = BTreeMap::new();
    for expression in list(&holder["labelSelector"], "matchExpressions") {
        *expressions.entry(text(expression, "key")).or_default() += 1;
    }
    for (at, key) in texts(holder, "matchLabelKeys").enumerate() {
        if mismatched.contains(key) {
            let path = path.field("matchLabelKeys");
            errors.invalid(path.index(at), key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
        let asked = holder["labelSelector"]["matchLabels"].get(key).is_some()
            || expressions.get(key).is_some_and(|count| *count > 1);
        if asked {
            errors.invalid(path.index(at), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

fn spread(errors: &mut Errors, path: &Path<'_>, constraints: &[Value]) {
    let pair = |constraint| (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
    let last: BTreeMap<_, usize> = constraints.iter().map(pair).zip(0..).collect();
    for (at, constraint) in constraints.iter().enumerate() {
        let path = path.index(at);
        if number(constraint, "maxSkew") <= 0 {
            errors.invalid(path.field("maxSkew"), number(constraint, "maxSkew"), "must be greater than zero");
        }
        let (key, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if key.is_empty() {
            errors.required(path.field("topologyKey"), "can not be empty");
        }
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            errors.push(
                path.field("whenUnsatisfiable"),
                not_supported(action, &["DoNotSchedule", "ScheduleAnyway"]),
            );
        }
        if last.get(&(key, action)).is_some_and(|last| *last > at) {
            let pair = format!("{{{key}, {action}}}");
            errors.push(path.field("{topologyKey, whenUnsatisfiable}"), FieldProblem::Duplicate(pair.into()));
        }
        if let Some(domains) = some(constraint, "minDomains").and_then(Value::as_i64) {
            if domains <= 0 {
                errors.invalid(path.field("minDomains"), domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(path.field("minDomains"), domains, why);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            choice(errors, &path, constraint, field, &["Honor", "Ignore"]);
        }
        label_keys(errors, &path, constraint);
        label_selector(errors, &path.field("labelSelector"), &constraint["labelSelector"]);
    }
}

pub(crate) fn toleration(errors: &mut Errors, path: &Path<'_>, toleration: &Value) {
    let (key, operator, effect) =
        (text(toleration, "key"), text(toleration, "operator"), text(toleration, "effect"));
    if !key.is_empty() {
        label_name(errors, &path.field("key"), key);
    } else if operator != "Exists" {
        errors.invalid(
            path.field("operator"),
            operator,
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    match operator {
        // Kubernetes blames the operator for the value.
        "" | "Equal" => label_value(errors, &path.field("operator"), text(toleration, "value")),
        "Exists" if is_filled(toleration, "value") => {
            errors.invalid(
                path.field("operator"),
                text(toleration, "value"),
                "value must be empty when `operator` is 'Exists'",
            );
        }
        "Exists" => {}
        // Known, and off unless a gate says otherwise that is not served here.
        "Lt" | "Gt" => {
            errors.push(path.field("operator"), not_supported(operator, &["Equal", "Exists", "Gt", "Lt"]));
        }
        other => errors.push(path.field("operator"), not_supported(other, &["Equal", "Exists"])),
    }
    if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
        errors.invalid(
            path.field("effect"),
            effect,
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        );
    }
    if !effect.is_empty() && !TAINT_EFFECTS.contains(&effect) {
        errors.push(path.field("effect"), not_supported(effect, TAINT_EFFECTS));
    }
}
