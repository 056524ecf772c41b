//! Fields of a pod that may change.

use std::collections::HashSet;

use lazaret_json::Value;

use crate::{
    Errors,
    path::Path,
    value::{
        entries, is_blank, list, list_mut, number, put, put_or_remove, remove, same, some, stripped, text,
    },
};

/// The mutable fields of a pod's spec, as refusals list them.
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// A changed pod: little of the spec may change.
pub(in crate::core) fn update(errors: &mut Errors, new: &Value, old: &Value) {
    let (spec, before) = (&new["spec"], &old["spec"]);
    if same(spec, before) {
        return;
    }
    let path = Path::root("spec");
    super::spec(errors, &path, spec);
    super::containers::check_images(errors, &path, spec);
    for field in ["containers", "initContainers"] {
        if list(spec, field).len() != list(before, field).len() {
            errors.forbidden(path.field(field), "pod updates may not add or remove containers");
            return;
        }
    }
    deadline(errors, &path, spec, before);
    // But for its seconds, a toleration stays as it is.
    let lasting = |toleration: &Value| {
        let mut lasting = toleration.clone();
        put_or_remove(&mut lasting, "tolerationSeconds", None);
        stripped(&lasting)
    };
    let there: HashSet<Value> = list(spec, "tolerations").iter().map(lasting).collect();
    let kept = |toleration: &Value| there.contains(&lasting(toleration));
    if !list(before, "tolerations").iter().all(kept) {
        errors.forbidden(
            path.field("tolerations"),
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    let gates: HashSet<Value> = list(before, "schedulingGates").iter().map(stripped).collect();
    for (at, gate) in list(spec, "schedulingGates").iter().enumerate() {
        if !gates.contains(&stripped(gate)) {
            let path = path.field("schedulingGates");
            let why =
                format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "name"));
            errors.forbidden(path.index(at).field("name"), why);
        }
    }
    let gated = !list(before, "schedulingGates").is_empty();
    if gated {
        let lost =
            entries(before, "nodeSelector").any(|(key, value)| spec["nodeSelector"].get(key) != Some(value));
        if lost {
            errors.invalid(
                path.field("nodeSelector"),
                Value::Null,
                "only additions to spec.nodeSelector are allowed",
            );
        }
    }
    if gated {
        node_affinity(errors, &path.field("affinity").field("nodeAffinity"), spec, before);
    }
    if !same(&unchangeable(spec, gated), &unchangeable(before, gated)) {
        errors.forbidden(path, format!("pod updates may not change fields other than {CHANGEABLE}"));
    }
}

fn deadline(errors: &mut Errors, path: &Path<'_>, spec: &Value, before: &Value) {
    const FIELD: &str = "activeDeadlineSeconds";
    let of = |spec: &Value| some(spec, FIELD).and_then(Value::as_i64);
    match (of(spec), of(before)) {
        (Some(new), Some(old)) if new > old => {
            errors.invalid(path.field(FIELD), new, "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            errors.invalid(
                path.field(FIELD),
                Value::Null,
                "must not update from a positive integer to nil value",
            );
        }
        _ => {}
    }
}

/// While a pod is held back, terms that choose its node may become narrower.
fn node_affinity(errors: &mut Errors, path: &Path<'_>, spec: &Value, before: &Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let of = |spec: &Value| {
        let terms = spec.pointer(&format!("/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms"));
        terms.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (terms, before) = (of(spec), of(before));
    let path = path.field(REQUIRED);
    let path = path.field("nodeSelectorTerms");
    if before.is_empty() {
        return;
    }
    if terms.len() != before.len() {
        errors.invalid(path, terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed");
        return;
    }
    for (at, (term, old)) in terms.iter().zip(&before).enumerate() {
        let starts_with = |field: &str| {
            let (new, old) = (list(term, field), list(old, field));
            new.len() >= old.len() && new.iter().zip(old).all(|(new, old)| same(new, old))
        };
        let was_empty = list(old, "matchExpressions").is_empty() && list(old, "matchFields").is_empty();
        let is_empty = list(term, "matchExpressions").is_empty() && list(term, "matchFields").is_empty();
        if !starts_with("matchExpressions") || !starts_with("matchFields") || was_empty != is_empty {
            errors.invalid(
                path.index(at),
                term.clone(),
                "only additions are allowed (no mutations or deletions)",
            );
        }
    }
}

/// A spec without what may change.
fn unchangeable(spec: &Value, gated: bool) -> Value {
    let mut spec = spec.clone();
    if number(&spec, "terminationGracePeriodSeconds") < 0 {
        // Such a one may be turned into the 1 that it stands for.
        put(&mut spec, "terminationGracePeriodSeconds", 1);
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        remove(&mut spec, field);
    }
    for field in ["containers", "initContainers"] {
        list_mut(&mut spec, field).iter_mut().for_each(|container| remove(container, "image"));
    }
    if gated {
        remove(&mut spec, "nodeSelector");
        if let Some(affinity) = spec.get_mut("affinity") {
            remove(affinity, "nodeAffinity");
        }
        if spec.get("affinity").is_some_and(is_blank) {
            remove(&mut spec, "affinity");
        }
    }
    spec
}
