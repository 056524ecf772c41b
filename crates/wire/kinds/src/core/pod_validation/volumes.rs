//! Volumes of a pod: each has a name and exactly one source.

use lazaret_json::Value;

use super::{choice, projected};
use crate::{
    Errors, FieldProblem,
    check::{dns_label, driver, name},
    core::pod_validation::env,
    path::Path,
    value::{has, is_filled, list, number, quantity, some, text},
};
use lazaret_model::validate_dns_subdomain;

/// The sources in the order in which all but the first are refused.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Required fields of each source, for sources without other checks.
const REQUIRED: &[(&str, &[&str])] = &[
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("quobyte", &["registry", "volume"]),
    ("flexVolume", &["driver"]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("storageos", &["volumeName"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("image", &["reference"]),
];

const FILE_MODES: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const FILE_MODE_MAX: i64 = 0o777;

/// All volumes of a spec.
pub(super) fn check(errors: &mut Errors, path: &Path<'_>, volumes: &[Value]) {
    let mut names = std::collections::BTreeSet::new();
    for (at, volume) in volumes.iter().enumerate() {
        let path = path.index(at);
        source(errors, &path, volume);
        match text(volume, "name") {
            "" => errors.required(path.field("name"), ""),
            name => {
                dns_label(errors, &path.field("name"), name);
                if !names.insert(name) {
                    errors.push(path.field("name"), FieldProblem::Duplicate(name.into()));
                }
            }
        }
    }
}

fn source(errors: &mut Errors, path: &Path<'_>, volume: &Value) {
    let mut found = SOURCES.iter().copied().filter(|source| has(volume, source));
    let Some(first) = found.next() else {
        errors.required(path, "must specify a volume type");
        return;
    };
    of_type(errors, &path.field(first), first, &volume[first]);
    for further in found {
        errors.forbidden(path.field(further), "may not specify more than 1 volume type");
    }
}

fn of_type(errors: &mut Errors, path: &Path<'_>, kind: &str, source: &Value) {
    let needed = REQUIRED.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, fields)| *fields);
    for field in needed.iter().filter(|field| !is_filled(source, field)) {
        errors.required(path.field(field), "");
    }
    match kind {
        "emptyDir" => empty_dir(errors, path, source),
        "hostPath" => host_path(errors, path, source),
        "nfs" if !text(source, "path").starts_with('/') => {
            errors.invalid(path.field("path"), text(source, "path"), "must be an absolute path");
        }
        "secret" | "configMap" => {
            mode(errors, path, source, "defaultMode");
            for (at, item) in list(source, "items").iter().enumerate() {
                key_to_path(errors, &path.field("items").index(at), item);
            }
        }
        "downwardAPI" => {
            mode(errors, path, source, "defaultMode");
            // Kubernetes names the list and not the item.
            list(source, "items").iter().for_each(|item| downward_file(errors, path, item));
        }
        "projected" => projected::check(errors, path, source),
        "csi" => csi(errors, path, source),
        "image" => choice(errors, path, source, "pullPolicy", &["Always", "IfNotPresent", "Never"]),
        _ => {}
    }
}

fn empty_dir(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    if some(source, "sizeLimit").and_then(quantity).is_some_and(|size| size.is_negative()) {
        errors.forbidden(path.field("sizeLimit"), "must be a quantity that is not negative");
    }
}

fn host_path(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    if text(source, "path").is_empty() {
        errors.required(path.field("path"), "");
        return;
    }
    check_no_parent_steps(errors, &path.field("path"), text(source, "path"));
    choice(errors, path, source, "type", HOST_PATH_TYPES);
}

fn csi(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    driver(errors, &path.field("driver"), text(source, "driver"));
    if let Some(secret) = some(source, "nodePublishSecretRef") {
        match text(secret, "name") {
            "" => errors.required(path.field("nodePublishSecretRef").field("name"), ""),
            secret => name(errors, &path.field("name"), secret, validate_dns_subdomain),
        }
    }
}

pub(super) fn mode(errors: &mut Errors, path: &Path<'_>, holder: &Value, field: &str) {
    if !(0..=FILE_MODE_MAX).contains(&number(holder, field)) {
        errors.invalid(path.field(field), number(holder, field), FILE_MODES);
    }
}

pub(super) fn key_to_path(errors: &mut Errors, path: &Path<'_>, item: &Value) {
    for field in ["key", "path"] {
        if text(item, field).is_empty() {
            errors.required(path.field(field), "");
        }
    }
    local_path(errors, &path.field("path"), text(item, "path"));
    mode(errors, path, item, "mode");
}

pub(super) fn downward_file(errors: &mut Errors, path: &Path<'_>, file: &Value) {
    if text(file, "path").is_empty() {
        errors.required(path.field("path"), "");
    }
    local_path(errors, &path.field("path"), text(file, "path"));
    match (some(file, "fieldRef"), some(file, "resourceFieldRef")) {
        (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
        (Some(reference), other) => {
            env::field_reference(errors, &path.field("fieldRef"), reference, env::VOLUME_FIELDS);
            if other.is_some() {
                errors.invalid(
                    path,
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                );
            }
        }
        (None, Some(reference)) => {
            let path = path.field("resourceFieldRef");
            if text(reference, "containerName").is_empty() {
                errors.required(path.field("containerName"), "");
            } else {
                env::resource_reference(errors, &path, reference);
            }
        }
    }
    mode(errors, path, file, "mode");
}

/// A path that stays where it is put: relative, without `..`, and not one of those that the kubelet keeps for itself.
pub(super) fn local_path(errors: &mut Errors, path: &Path<'_>, text: &str) {
    descending(errors, path, text);
    if text.starts_with("..") && !text.starts_with("../") && text != ".." {
        errors.invalid(path, text, "must not start with '..'");
    }
}

/// A relative path without `..`.
pub(super) fn descending(errors: &mut Errors, path: &Path<'_>, text: &str) {
    if text.starts_with('/') {
        errors.invalid(path, text, "must be a relative path");
    }
    check_no_parent_steps(errors, path, text);
}

/// A path without `..`.
pub(super) fn check_no_parent_steps(errors: &mut Errors, path: &Path<'_>, text: &str) {
    if text.split('/').any(|part| part == "..") {
        errors.invalid(path, text, "must not contain '..'");
    }
}
