//! One device of a slice.

use lazaret_json::Value;
use lazaret_model::{Version, validate_dns_subdomain};

use super::{
    capacity,
    common::{binding_conditions, taint},
    slice::counters,
};
use crate::{
    Context, Errors, FieldProblem,
    check::{dns_label, each, each_named, each_text, name, node_selector, qualified_name, set_fields},
    path::Path,
    value::{count, entries, has, is_filled, is_true, list, quantity, same_field, some, text},
};

const TAINTS_MAX: usize = 16;
const ATTRIBUTES_AND_CAPACITIES_MAX: usize = 32;
const ATTRIBUTE_VALUES_MAX: usize = 48;
const ATTRIBUTE_VALUE_BYTES_MAX: usize = 64;
const CONSUMPTIONS_MAX: usize = 2;
const COMPATIBILITY_GROUPS_MAX: usize = 2;
const SCALAR_FIELDS: &[&str] = &["bool", "int", "string", "version"];
const LIST_FIELDS: &[&str] = &["bools", "ints", "strings", "versions"];
const NODE_FIELDS: &[&str] = &["nodeName", "nodeSelector", "allNodes"];

/// A device. Taints and capacity that the same device had before are not looked at again.
pub(super) fn validate(
    errors: &mut Errors,
    path: &Path<'_>,
    device: &Value,
    old: Option<&Value>,
    per_device_nodes: bool,
    context: &Context<'_>,
) {
    dns_label(errors, &path.field("name"), text(device, "name"));
    attributes(errors, path, device);
    let unchanged = |field: &str| old.is_some_and(|old| same_field(device, old, field));
    if !unchanged("capacity") {
        capacity::validate(errors, &path.field("capacity"), device, context);
    }
    if !unchanged("taints") {
        each(errors, &path.field("taints"), list(device, "taints"), TAINTS_MAX, |errors, path, item| {
            taint(errors, path, item, context);
        });
    }
    let consumptions = list(device, "consumesCounters");
    let consumes = path.field("consumesCounters");
    each_named(errors, &consumes, consumptions, CONSUMPTIONS_MAX, "counterSet", consumption);
    if per_device_nodes {
        nodes(errors, path, device);
    } else if !set_fields(device, NODE_FIELDS).is_empty() {
        errors.invalid(
            path,
            Value::Null,
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
        );
    }
    binding_conditions(errors, path, device);
    node_allocatable(errors, &path.field("nodeAllocatableResources"), device);
}

fn attributes(errors: &mut Errors, path: &Path<'_>, device: &Value) {
    let named = count(device, "attributes") + count(device, "capacity");
    if named > ATTRIBUTES_AND_CAPACITIES_MAX {
        let why = format!(
            "the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES_MAX}"
        );
        errors.invalid(path, named, why);
    }
    let items =
        |value: &Value| LIST_FIELDS.iter().map(|field| list(value, field).len()).sum::<usize>().max(1);
    let values: usize = entries(device, "attributes").map(|(_, value)| items(value)).sum();
    if values > ATTRIBUTE_VALUES_MAX {
        let why = format!("the total number of attribute values must not exceed {ATTRIBUTE_VALUES_MAX}");
        errors.invalid(path, values, why);
    }
    let path = path.field("attributes");
    for (key, value) in entries(device, "attributes") {
        qualified_name(errors, &path, key);
        attribute(errors, &path.key(key), value);
    }
}

/// One value of just one type.
pub(super) fn attribute(errors: &mut Errors, path: &Path<'_>, value: &Value) {
    let listed = LIST_FIELDS.iter().filter(|field| is_filled(value, field)).count();
    if set_fields(value, SCALAR_FIELDS).len() + listed != 1 {
        errors.invalid(path, value.clone(), "exactly one value must be specified");
    }
    if has(value, "string") {
        string(errors, &path.field("string"), text(value, "string"));
    }
    if has(value, "version") {
        version(errors, &path.field("version"), text(value, "version"));
    }
    for field in LIST_FIELDS.iter().filter(|field| has(value, field)) {
        let path = path.field(field);
        let items = list(value, field);
        if items.is_empty() {
            errors.invalid(path, Value::Array(Vec::new().into()), "must not be empty if specified");
        }
        for (at, item) in items.iter().enumerate() {
            match *field {
                "strings" => string(errors, &path.index(at), item.as_str().unwrap_or_default()),
                "versions" => version(errors, &path.index(at), item.as_str().unwrap_or_default()),
                _ => {}
            }
        }
    }
}

fn string(errors: &mut Errors, path: &Path<'_>, text: &str) {
    if text.len() > ATTRIBUTE_VALUE_BYTES_MAX {
        errors.push(path, FieldProblem::TooLong(ATTRIBUTE_VALUE_BYTES_MAX));
    }
}

fn version(errors: &mut Errors, path: &Path<'_>, text: &str) {
    if Version::parse(text).is_err() {
        errors.invalid(path, text, "must be a string compatible with semver.org spec 2.0.0");
    }
    string(errors, path, text);
}

fn consumption(errors: &mut Errors, path: &Path<'_>, item: &Value) {
    match text(item, "counterSet") {
        "" => errors.required(path.field("counterSet"), ""),
        set => dns_label(errors, &path.field("counterSet"), set),
    }
    counters(errors, &path.field("counters"), item);
    let groups = list(item, "compatibilityGroups");
    each_text(errors, &path.field("compatibilityGroups"), groups, COMPATIBILITY_GROUPS_MAX, dns_label);
}

fn nodes(errors: &mut Errors, path: &Path<'_>, device: &Value) {
    const WHY: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let mut set = Vec::new();
    if has(device, "nodeName") {
        let (node, path) = (text(device, "nodeName"), path.field("nodeName"));
        if node.is_empty() {
            errors.invalid(path, node, "must not be empty");
        } else {
            set.push("`nodeName`");
            name(errors, &path, node, validate_dns_subdomain);
        }
    }
    if let Some(selector) = some(device, "nodeSelector") {
        set.push("`nodeSelector`");
        node_selector(errors, &path.field("nodeSelector"), selector);
    }
    if is_true(device, "allNodes") {
        set.push("`allNodes`");
    } else if has(device, "allNodes") {
        errors.invalid(path.field("allNodes"), false, "must be either unset or set to true");
    }
    match set.len() {
        0 => errors.required(path, WHY),
        1 => {}
        _ => errors.invalid(path, format!("{{{}}}", set.join(", ")), WHY),
    }
}

/// The amounts of a node's cpu, memory and huge pages that a device stands for.
fn node_allocatable(errors: &mut Errors, path: &Path<'_>, device: &Value) {
    for (resource, entry) in entries(device, "nodeAllocatableResources") {
        let path = path.key(resource);
        if !matches!(resource.as_str(), "cpu" | "memory") && !resource.starts_with("hugepages-") {
            errors.invalid(path, resource.as_str(), "must be a node allocatable resource name");
        }
        if set_fields(entry, &["mapping", "overhead"]).is_empty() {
            errors.required(path, "at least one of mapping or overhead must be set");
        }
        if let Some(mapping) = some(entry, "mapping") {
            allocatable_mapping(errors, &path.field("mapping"), mapping, &device["capacity"]);
        }
        if let Some(overhead) = some(entry, "overhead") {
            let path = path.field("overhead");
            let fields = set_fields(overhead, &["perPod", "perContainer"]);
            if fields.is_empty() {
                errors.invalid(path, "", "at least one of perPod or perContainer must be set");
            }
            for field in fields {
                sign(errors, &path.field(field), &overhead[field], 0, "must be non-negative");
            }
        }
    }
}

fn allocatable_mapping(errors: &mut Errors, path: &Path<'_>, mapping: &Value, capacities: &Value) {
    if set_fields(mapping, &["capacityKey", "capacityMultiplier", "deviceMultiplier"]).is_empty() {
        errors.invalid(path, "", "must specify one of: `capacityKey`, `deviceMultiplier`");
    }
    if has(mapping, "capacityKey") {
        let key = text(mapping, "capacityKey");
        if key.is_empty() {
            errors.invalid(path.field("capacityKey"), "", "capacityKey must not be an empty string");
        } else if !has(capacities, key) {
            errors.push(path.field("capacityKey"), FieldProblem::NotFound(key.into()));
        }
        match some(mapping, "capacityMultiplier") {
            None => errors.required(path.field("capacityMultiplier"), "required when capacityKey is set"),
            Some(by) => sign(errors, &path.field("capacityMultiplier"), by, 1, "must be positive"),
        }
    } else if has(mapping, "capacityMultiplier") {
        errors.required(path.field("capacityKey"), "required when capacityMultiplier is set");
    }
    if let Some(by) = some(mapping, "deviceMultiplier") {
        sign(errors, &path.field("deviceMultiplier"), by, 1, "must be positive");
    }
}

/// A quantity whose sign is at least this: 0 for none below zero, 1 for all above.
fn sign(errors: &mut Errors, path: &Path<'_>, value: &Value, least: i32, why: &str) {
    if quantity(value).is_none_or(|quantity| quantity.sign() < least) {
        errors.invalid(path, value.clone(), why);
    }
}
