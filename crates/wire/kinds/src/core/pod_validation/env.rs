//! Validation of environment variables of containers.

use lazaret_json::Value;
use lazaret_model::{validate_dns_subdomain, validate_label_name};

use super::volumes::check_no_parent_steps;
use crate::{
    Errors,
    check::{dns_label, name, not_supported},
    path::Path,
    value::{has, list, some, text},
};

/// Fields of a pod that a variable can have.
const VARIABLE_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields of a pod that a file can have.
pub(super) const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: &[&str] = &["limits.hugepages-", "requests.hugepages-"];

const SOURCES: &[&str] = &["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
const KEY_BYTES_MAX: usize = 253;

/// `env` of a container.
pub(super) fn variables(errors: &mut Errors, path: &Path<'_>, variables: &[Value]) {
    for (at, variable) in variables.iter().enumerate() {
        let path = path.index(at);
        match text(variable, "name") {
            "" => errors.required(path.field("name"), ""),
            name => variable_name(errors, &path.field("name"), name),
        }
        if let Some(from) = some(variable, "valueFrom") {
            value_from(errors, &path.field("valueFrom"), from, text(variable, "value"));
        }
    }
}

/// `envFrom` of a container.
pub(super) fn sources(errors: &mut Errors, path: &Path<'_>, sources: &[Value]) {
    for (at, source) in sources.iter().enumerate() {
        let item = path.index(at);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            variable_name(errors, &item.field("prefix"), prefix);
        }
        let found: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|kind| has(source, kind)).collect();
        for kind in &found {
            match text(&source[*kind], "name") {
                "" => errors.required(item.field(kind).field("name"), ""),
                text => name(errors, &item.field(kind).field("name"), text, validate_dns_subdomain),
            }
        }
        match found.len() {
            // Kubernetes names the list and not the item.
            0 => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
        }
    }
}

fn variable_name(errors: &mut Errors, path: &Path<'_>, name: &str) {
    if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        errors.invalid(path, name, "must have printable ASCII characters other than '=' only");
    }
}

fn value_from(errors: &mut Errors, path: &Path<'_>, from: &Value, value: &str) {
    let found: Vec<&str> = SOURCES.iter().copied().filter(|source| has(from, source)).collect();
    for source in &found {
        reference(errors, &path.field(source), source, &from[*source]);
    }
    match found.len() {
        0 => errors.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if !value.is_empty() => errors.invalid(path, "", "may not be specified when `value` is not empty"),
        1 => {}
        _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
    }
}

fn reference(errors: &mut Errors, path: &Path<'_>, kind: &str, source: &Value) {
    match kind {
        "fieldRef" => field_reference(errors, path, source, VARIABLE_FIELDS),
        "resourceFieldRef" => resource_reference(errors, path, source),
        "fileKeyRef" => file_key(errors, path, source),
        _ => {
            name(errors, &path.field("name"), text(source, "name"), validate_dns_subdomain);
            match text(source, "key") {
                "" => errors.required(path.field("key"), ""),
                text => key(errors, &path.field("key"), text),
            }
        }
    }
}

/// The key of a config map or secret.
fn key(errors: &mut Errors, path: &Path<'_>, text: &str) {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.len() > KEY_BYTES_MAX || !text.bytes().all(known) || text == "." || text.starts_with("..") {
        errors.invalid(
            path,
            text,
            "must have at most 253 letters, digits, '-', '_' and '.', and be neither '.' nor start with '..'",
        );
    }
}

fn file_key(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    match text(source, "key") {
        "" => errors.required(path.field("key"), ""),
        key => variable_name(errors, &path.field("key"), key),
    }
    match text(source, "volumeName") {
        "" => errors.required(path.field("volumeName"), ""),
        volume => dns_label(errors, &path.field("volumeName"), volume),
    }
    match text(source, "path") {
        "" => errors.required(path.field("path"), ""),
        file => check_no_parent_steps(errors, &path.field("path"), file),
    }
}

/// A field of the pod: one of `known`, or a label or annotation of it by key.
pub(super) fn field_reference(errors: &mut Errors, path: &Path<'_>, reference: &Value, known: &[&str]) {
    if text(reference, "apiVersion").is_empty() {
        errors.required(path.field("apiVersion"), "");
        return;
    }
    let field = text(reference, "fieldPath");
    if field.is_empty() {
        errors.required(path.field("fieldPath"), "");
        return;
    }
    let convertible =
        known.contains(&field) || VARIABLE_FIELDS.contains(&field) || VOLUME_FIELDS.contains(&field);
    let subscript = field.strip_suffix("']").and_then(|start| start.split_once("['"));
    match subscript {
        Some(("metadata.labels", key)) => name(errors, path, key, validate_label_name),
        Some(("metadata.annotations", key)) => {
            name(errors, path, &key.to_ascii_lowercase(), validate_label_name)
        }
        _ if !convertible => {
            errors.invalid(path.field("fieldPath"), field, "is not a field of a pod that can be had here");
        }
        _ if !known.contains(&field) => errors.push(path.field("fieldPath"), not_supported(field, known)),
        _ => {}
    }
}

/// A limit or request of a container.
pub(super) fn resource_reference(errors: &mut Errors, path: &Path<'_>, reference: &Value) {
    let resource = text(reference, "resource");
    if resource.is_empty() {
        errors.required(path.field("resource"), "");
    } else if !is_known(resource) {
        errors.push(path.field("resource"), not_supported(resource, RESOURCES));
    }
    divisor(errors, path, resource, reference);
}

fn is_known(resource: &str) -> bool {
    RESOURCES.contains(&resource) || HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix))
}

fn divisor(errors: &mut Errors, path: &Path<'_>, resource: &str, reference: &Value) {
    const BYTES: &[&str] =
        &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let known: &[&str] = if resource.ends_with(".cpu") { &["1m", "1"] } else { BYTES };
    let divisor = text(reference, "divisor");
    if is_known(resource) && !["", "0"].contains(&divisor) && !known.contains(&divisor) {
        errors.invalid(
            path.field("divisor"),
            divisor,
            format!("of {resource} must be one of {}", known.join(", ")),
        );
    }
}

/// The names of volumes that variables are read from.
pub(super) fn file_volumes(container: &Value) -> impl Iterator<Item = (usize, &str)> {
    let of = |variable: &'_ Value| variable.pointer("/valueFrom/fileKeyRef").is_some();
    list(container, "env").iter().enumerate().filter(move |(_, variable)| of(variable)).map(
        |(at, variable)| {
            (
                at,
                variable
                    .pointer("/valueFrom/fileKeyRef/volumeName")
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
            )
        },
    )
}
