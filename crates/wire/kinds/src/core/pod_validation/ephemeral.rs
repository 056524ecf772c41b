//! Ephemeral containers: added to a pod that runs, never changed and never removed.

use std::collections::BTreeSet;

use lazaret_json::Value;

use super::{MIRROR, containers};
use crate::{
    Errors, FieldProblem,
    path::Path,
    value::{ByText, has, is_blank, list, same, some, text},
};

const FIELD: &str = "ephemeralContainers";
const NOT_HERE: &str = "cannot be set for an Ephemeral Container";
/// Fields of a container that an ephemeral one may not have: nothing may rely on it.
const FORBIDDEN: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// The ephemeral containers of a spec.
pub(super) fn check(
    errors: &mut Errors,
    path: &Path<'_>,
    spec: &Value,
    volumes: &ByText<'_>,
    claims: &ByText<'_>,
) {
    let others: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|field| list(spec, field))
        .map(|container| text(container, "name"))
        .collect();
    let mut names = others.clone();
    let path = path.field(FIELD);
    for (at, container) in list(spec, FIELD).iter().enumerate() {
        let path = path.index(at);
        containers::container(errors, &path, container, spec, volumes, claims);
        containers::image(errors, &path, container);
        let name = text(container, "name");
        if !names.insert(name) {
            errors.push(path.field("name"), FieldProblem::Duplicate(name.into()));
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(path.field("targetContainerName"), FieldProblem::NotFound(target.into()));
        }
        for field in FORBIDDEN {
            // An empty list or struct of resources is none; an empty probe is one.
            let counts = |value: &&Value| !value.is_array() && *field != "resources" || !is_blank(value);
            if some(container, field).filter(counts).is_some() {
                errors.forbidden(path.field(field), NOT_HERE);
            }
        }
        let mounts = path.field("volumeMounts");
        for (at, mount) in list(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    errors.forbidden(mounts.index(at).field(field), NOT_HERE);
                }
            }
        }
    }
}

/// A write to the subresource: whatever is there stays as it is.
pub(in crate::core) fn update(errors: &mut Errors, new: &Value, old: &Value) {
    if has(&old["metadata"]["annotations"], MIRROR) {
        errors.forbidden("", "static pods do not support ephemeral containers");
        return;
    }
    let (spec, before) = (&new["spec"], &old["spec"]);
    let path = Path::root("spec");
    super::spec(errors, &path, spec);
    containers::check_images(errors, &path, spec);
    let wanted = ByText::of(list(spec, FIELD), "name");
    for container in list(before, FIELD) {
        let name = text(container, "name");
        match wanted.get(name) {
            None => errors.forbidden(
                path.field(FIELD),
                format!("existing ephemeral containers {name:?} may not be removed\n"),
            ),
            Some(new) if !same(new, container) => errors.forbidden(
                path.field(FIELD),
                format!("existing ephemeral containers {name:?} may not be changed\n"),
            ),
            Some(_) => {}
        }
    }
}
