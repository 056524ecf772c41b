//! The resize subresource: cpu and memory of a pod that runs.

use lazaret_json::Value;

use super::{MIRROR, containers};
use crate::{
    Errors,
    core::pod_spec,
    path::Path,
    value::{entries, field_mut, has, is_filled, list, list_mut, put_or_remove, remove, same, some, text},
};

/// Lists of containers that can be resized.
const LISTS: [&str; 2] = ["containers", "initContainers"];
/// Fields of a container that a resize may change, as far as they speak of cpu and memory.
const FIELDS: [&str; 2] = ["resources", "resizePolicy"];
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// The old spec with what a resize may change taken from the new one. Containers that do not match are left for the check to refuse.
pub(in crate::core) fn prepare(spec: &mut Value, old: &Value) {
    if LISTS.iter().any(|field| list(spec, field).len() != list(old, field).len()) {
        return;
    }
    let mut kept = old.clone();
    put_or_remove(&mut kept, "resources", spec.get("resources").or_else(|| old.get("resources")).cloned());
    for field in LISTS {
        if !names(spec, field).eq(names(old, field)) {
            put_or_remove(&mut kept, field, spec.get(field).cloned());
            continue;
        }
        for (container, wanted) in list_mut(&mut kept, field).iter_mut().zip(list(spec, field)) {
            for part in FIELDS {
                put_or_remove(container, part, wanted.get(part).cloned());
            }
        }
    }
    *spec = kept;
}

fn names<'a>(spec: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    list(spec, field).iter().map(|container| text(container, "name"))
}

/// Validates a resize.
pub(in crate::core) fn check(errors: &mut Errors, new: &Value, old: &Value) {
    if has(&old["metadata"]["annotations"], MIRROR) {
        return errors.forbidden("", "static pods cannot be resized");
    }
    let (spec, before, path) = (&new["spec"], &old["spec"], Path::root("spec"));
    if text(&before["os"], "name") == "windows" {
        return errors.forbidden("", "windows pods cannot be resized");
    }
    super::spec(errors, &path, spec);
    containers::check_images(errors, &path, spec);
    let quality = match text(&old["status"], "qosClass") {
        "" => pod_spec::quality(before),
        known => known,
    };
    if quality != pod_spec::quality(spec) {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(path, text(&new["status"], "qosClass"), why);
    }
    if !node_can_resize(&old["status"]) {
        errors.forbidden(path, "Pod running on node without support for resize");
    }
    if !same_containers(errors, &path, spec, before) {
        return;
    }
    if is_filled(&before["resources"], "requests") || is_filled(&before["resources"], "limits") {
        removals(
            errors,
            &path.field("resources"),
            &spec["resources"],
            &before["resources"],
            "pod-level resource",
        );
    }
    for field in LISTS {
        let path = path.field(field);
        for (at, (new, old)) in list(spec, field).iter().zip(list(before, field)).enumerate() {
            removals(
                errors,
                &path.index(at).field("resources"),
                &new["resources"],
                &old["resources"],
                "resource",
            );
            if field == "initContainers" && text(new, "restartPolicy") != "Always" && !same(new, old) {
                restarting(errors, &path.index(at), new);
            }
        }
    }
    if errors.is_empty() && !same(&fixed(spec), &fixed(before)) {
        errors.forbidden(path, "only cpu and memory resources are mutable");
    }
}

/// A node that can resize reports the resources of containers. Before a container runs, there is no report.
fn node_can_resize(status: &Value) -> bool {
    let running = |status: &&Value| some(&status["state"], "running").is_some();
    list(status, "containerStatuses").iter().find(running).is_none_or(|status| has(status, "resources"))
}

fn same_containers(errors: &mut Errors, path: &Path<'_>, spec: &Value, before: &Value) -> bool {
    let mut same = true;
    for field in LISTS {
        let path = path.field(field);
        let (new, old) = (list(spec, field), list(before, field));
        if new.len() != old.len() {
            errors.forbidden(path, format!("{field} may not be added or removed on resize"));
            same = false;
            continue;
        }
        for (at, (new, old)) in new.iter().zip(old).enumerate() {
            if text(new, "name") != text(old, "name") {
                let why = format!("{field} may not be renamed or reordered on resize");
                errors.forbidden(path.index(at).field("name"), why);
                same = false;
            }
        }
    }
    same
}

fn removals(errors: &mut Errors, path: &Path<'_>, new: &Value, old: &Value, what: &str) {
    for field in ["requests", "limits"] {
        if entries(old, field).any(|(resource, _)| !has(&new[field], resource)) {
            errors.forbidden(path.field(field), format!("{what} {field} cannot be removed"));
        }
    }
}

fn restarting(errors: &mut Errors, path: &Path<'_>, container: &Value) {
    for policy in list(container, "resizePolicy") {
        if text(policy, "restartPolicy") == "RestartContainer" {
            errors.forbidden(
                path,
                "non-sidecar init containers with a resize policy of RestartContainer cannot be resized",
            );
        }
    }
}

/// A spec without what a resize may change.
fn fixed(spec: &Value) -> Value {
    let mut spec = spec.clone();
    drop_resizable(&mut spec);
    for field in LISTS {
        list_mut(&mut spec, field).iter_mut().for_each(drop_resizable);
    }
    spec
}

fn drop_resizable(holder: &mut Value) {
    if !has(holder, "resources") {
        return;
    }
    for field in ["requests", "limits"] {
        let amounts = field_mut(field_mut(holder, "resources"), field);
        RESIZABLE.iter().for_each(|resource| remove(amounts, resource));
    }
}
