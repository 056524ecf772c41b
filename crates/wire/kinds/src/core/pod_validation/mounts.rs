//! Where containers find the volumes of their pod.

use std::collections::BTreeSet;

use lazaret_json::Value;

use super::{
    choice,
    volumes::{check_no_parent_steps, descending},
};
use crate::{
    Errors, FieldProblem,
    path::Path,
    value::{ByText, has, is_true, list, some, text},
};

/// Mounts and block devices of a container.
pub(super) fn check(errors: &mut Errors, path: &Path<'_>, container: &Value, volumes: &ByText<'_>) {
    let (mounts, devices) = (list(container, "volumeMounts"), list(container, "volumeDevices"));
    let privileged = some(container, "securityContext").is_some_and(|context| is_true(context, "privileged"));
    let mut seen = BTreeSet::new();
    let by_name = ByText::of(devices, "name");
    let by_place = ByText::of(devices, "devicePath");
    let list_path = path.field("volumeMounts");
    for (at, mount) in mounts.iter().enumerate() {
        let path = list_path.index(at);
        volume_name(errors, &path, mount, volumes);
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        if place.is_empty() {
            errors.required(path.field("mountPath"), "");
        }
        if !seen.insert(place) {
            errors.invalid(path.field("mountPath"), place, "must be unique");
        }
        if by_name.has(name) {
            errors.invalid(path.field("name"), name, "must not already exist in volumeDevices");
        }
        if by_place.has(place) {
            errors.invalid(
                path.field("mountPath"),
                place,
                "must not already exist as a path in volumeDevices",
            );
        }
        below(errors, &list_path, &path, mount);
        how(errors, &list_path, mount, privileged);
    }
    let (mut names, mut places) = (BTreeSet::new(), BTreeSet::new());
    for (at, device) in devices.iter().enumerate() {
        let path = path.field("volumeDevices");
        let first_of_name = names.insert(text(device, "name"));
        let first_of_place = places.insert(text(device, "devicePath"));
        self::device(errors, &path.index(at), device, (first_of_name, first_of_place), volumes);
    }
}

fn volume_name(errors: &mut Errors, path: &Path<'_>, holder: &Value, volumes: &ByText<'_>) {
    let name = text(holder, "name");
    if name.is_empty() {
        errors.required(path.field("name"), "");
    }
    if !volumes.has(name) {
        errors.push(path.field("name"), FieldProblem::NotFound(name.into()));
    }
}

/// Which part of the volume. Kubernetes names the list and not the item when such a path is bad.
fn below(errors: &mut Errors, list: &Path<'_>, path: &Path<'_>, mount: &Value) {
    let (part, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    descending(errors, &list.field("subPath"), part);
    if !part.is_empty() && !expression.is_empty() {
        errors.invalid(
            path.field("subPathExpr"),
            expression,
            "subPathExpr and subPath are mutually exclusive",
        );
    }
    descending(errors, &list.field("subPathExpr"), expression);
}

fn how(errors: &mut Errors, list: &Path<'_>, mount: &Value, privileged: bool) {
    choice(errors, list, mount, "mountPropagation", &["Bidirectional", "HostToContainer", "None"]);
    let propagation = text(mount, "mountPropagation");
    if propagation == "Bidirectional" && !privileged {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        errors.forbidden(list.field("mountPropagation"), why);
    }
    choice(errors, list, mount, "recursiveReadOnly", &["Disabled", "Enabled", "IfPossible"]);
    if ["Enabled", "IfPossible"].contains(&text(mount, "recursiveReadOnly")) {
        if !is_true(mount, "readOnly") {
            errors.forbidden(list.field("recursiveReadOnly"), "may only be specified when readOnly is true");
        }
        if !["", "None"].contains(&propagation) {
            let why = "may only be specified when mountPropagation is None or not specified";
            errors.forbidden(list.field("recursiveReadOnly"), why);
        }
    }
}

fn device(
    errors: &mut Errors,
    path: &Path<'_>,
    device: &Value,
    (first_of_name, first_of_place): (bool, bool),
    volumes: &ByText<'_>,
) {
    let (name, place) = (text(device, "name"), text(device, "devicePath"));
    volume_name(errors, path, device, volumes);
    if let Some(volume) = volumes.get(name)
        && !has(volume, "persistentVolumeClaim")
        && !has(volume, "ephemeral")
    {
        let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
        errors.invalid(path.field("name"), name, why);
    }
    if !first_of_name {
        errors.invalid(path.field("name"), name, "must be unique");
    }
    if place.is_empty() {
        errors.required(path.field("devicePath"), "");
    } else if !first_of_place {
        errors.invalid(path.field("devicePath"), place, "must be unique");
    }
    check_no_parent_steps(errors, &path.field("devicePath"), place);
}

/// The volume of a file with variables.
pub(super) fn file_volume(errors: &mut Errors, path: &Path<'_>, name: &str, volumes: &ByText<'_>) {
    match volumes.get(name) {
        None => errors.push(path, FieldProblem::NotFound(name.into())),
        Some(volume) if !has(volume, "emptyDir") => {
            errors.invalid(path, name, "referenced volume must be of type emptyDir");
        }
        Some(_) => {}
    }
}
