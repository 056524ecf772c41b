//! Slices: what drivers publish of their devices.

use std::sync::LazyLock;

use lazaret_json::{Map, Value};

use super::{
    common::{default_pace, default_time_added, paceless, skip_node_operations, taint, without_pace},
    device,
    superset::{self, Superset},
};
use crate::{
    Column, Context, Errors, Rules,
    check::{
        IMMUTABLE, dns_label, driver, each, each_named, fully_qualified_name, immutable, name, node_selector,
        pool,
    },
    gate::{Gate, drop_disabled},
    kind::age,
    path::Path,
    value::{
        canonical_quantities, entries, field_mut, has, is_filled, is_true, list, list_mut, number,
        quantity_or_zero, remove, same_field, some, text,
    },
};

const DEVICES_MAX: usize = 128;
/// When any device has taints, consumes counters or has a list for an attribute: those make slices large.
const LARGE_DEVICES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const COUNTERS_MAX: usize = 32;
/// Taints in a slice of their own.
const SLICE_TAINTS_MAX: usize = 32;
const LIST_ATTRIBUTES: &[&str] = &["bools", "ints", "strings", "versions"];

static SUPERSET: LazyLock<Superset> = LazyLock::new(|| Superset::of("ResourceSlice"));

/// Slices.
#[derive(Debug)]
pub(crate) struct Slice;

impl Rules for Slice {
    fn default(&self, object: &mut Value, context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        for device in list_mut(spec, "devices") {
            list_mut(device, "taints").iter_mut().for_each(|taint| default_time_added(taint, context));
        }
        for entry in list_mut(spec, "taints") {
            let taint = field_mut(entry, "taint");
            default_time_added(taint, context);
            default_pace(taint, context);
        }
        canonical_quantities(object, "resource/v1.ResourceSlice");
    }

    fn default_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        let stays = paceless(list(&new["spec"], "taints"), list(&old["spec"], "taints"), of_entry);
        self.default(new, context);
        for at in stays {
            without_pace(&mut new["spec"]["taints"][at]["taint"]);
        }
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        drop_disabled(GATES, field_mut(object, "spec"), None, context.features);
    }

    fn validate_create(&self, object: &Value, context: &Context<'_>, errors: &mut Errors) {
        superset::validate(errors, object);
        validate(errors, &object["spec"], None, context);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        drop_disabled(GATES, field_mut(new, "spec"), Some(&old["spec"]), context.features);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        superset::validate(errors, new);
        validate(errors, &new["spec"], Some(&old["spec"]), context);
    }

    fn to_version(&self, object: &mut Value, version: &str) {
        if version != "v1alpha3" {
            SUPERSET.hide(object);
        }
        if version == "v1beta1"
            && let Some(spec) = object.get_mut("spec")
        {
            list_mut(spec, "devices").iter_mut().for_each(nest);
        }
    }

    fn from_version(&self, object: &mut Value, version: &str, old: Option<&Value>) {
        let spec = field_mut(object, "spec");
        if version == "v1beta1" {
            list_mut(spec, "devices").iter_mut().for_each(flatten);
            // There, these two have no way to be absent but to be empty.
            if text(spec, "nodeName").is_empty() {
                remove(spec, "nodeName");
            }
            if !is_true(spec, "allNodes") {
                remove(spec, "allNodes");
            }
        }
        if version != "v1alpha3" {
            SUPERSET.restore(object, old);
        }
    }

    fn differs_in(&self, object: &Value, version: &str) -> bool {
        version == "v1beta1" || version != "v1alpha3" && (object.is_null() || SUPERSET.is_used(object))
    }

    fn differs_where(&self, version: &str) -> Option<&'static [&'static str]> {
        match version {
            "v1beta1" => None,
            "v1alpha3" => Some(&[]),
            _ => Some(&SUPERSET.fields),
        }
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        let spec = &object["spec"];
        match field {
            "spec.nodeName" => Some(text(spec, "nodeName").into()),
            "spec.driver" => Some(text(spec, "driver").into()),
            "spec.pool.name" => Some(text(&spec["pool"], "name").into()),
            _ => None,
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[Column::text("Node"), Column::text("Driver"), Column::text("Pool"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let spec = &object["spec"];
        vec![
            text(spec, "nodeName").into(),
            text(spec, "driver").into(),
            text(&spec["pool"], "name").into(),
            age(object, context),
        ]
    }
}

/// In v1beta1 all of a device but its name is in `basic`.
fn nest(device: &mut Value) {
    let Value::Object(map) = device else { return };
    let name = map.remove("name");
    let basic = std::mem::take(map);
    map.extend(name.map(|name| ("name".to_owned(), name)));
    map.insert("basic", Value::Object(basic));
}

fn flatten(device: &mut Value) {
    let Value::Object(map) = device else { return };
    if let Some(Value::Object(basic)) = map.remove("basic") {
        map.extend::<Map>(basic);
    }
}

/// The device and the taint of an entry of a slice of taints.
fn of_entry(entry: &Value) -> (&str, &Value) {
    (text(entry, "device"), &entry["taint"])
}

fn any_device(spec: &Value, test: impl Fn(&Value) -> bool) -> bool {
    list(spec, "devices").iter().any(test)
}

fn each_device(spec: &mut Value, change: impl FnMut(&mut Value)) {
    list_mut(spec, "devices").iter_mut().for_each(change);
}

fn has_list_attribute(device: &Value) -> bool {
    entries(device, "attributes").any(|(_, value)| LIST_ATTRIBUTES.iter().any(|field| has(value, field)))
}

const PER_DEVICE_NODE: &[&str] = &["nodeName", "nodeSelector", "allNodes"];
const BINDING: &[&str] = &["bindingConditions", "bindingFailureConditions", "bindsToNode"];

/// Fields of features, by feature.
const GATES: &[Gate] = &[
    Gate {
        features: &["DRADeviceTaints"],
        in_use: |spec| any_device(spec, |device| is_filled(device, "taints")) || is_filled(spec, "taints"),
        clear: |spec| {
            each_device(spec, |device| remove(device, "taints"));
            remove(spec, "taints");
        },
    },
    Gate {
        features: &["DRAPartitionableDevices"],
        in_use: |spec| {
            is_filled(spec, "sharedCounters")
                || has(spec, "perDeviceNodeSelection")
                || any_device(spec, |device| {
                    is_filled(device, "consumesCounters")
                        || PER_DEVICE_NODE.iter().any(|field| has(device, field))
                })
        },
        clear: |spec| {
            remove(spec, "sharedCounters");
            remove(spec, "perDeviceNodeSelection");
            each_device(spec, |device| {
                remove(device, "consumesCounters");
                PER_DEVICE_NODE.iter().for_each(|field| remove(device, field));
            });
        },
    },
    Gate {
        features: &["DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"],
        in_use: |spec| any_device(spec, |device| BINDING.iter().any(|field| is_filled(device, field))),
        clear: |spec| each_device(spec, |device| BINDING.iter().for_each(|field| remove(device, field))),
    },
    Gate {
        features: &["DRAConsumableCapacity"],
        in_use: |spec| {
            any_device(spec, |device| {
                has(device, "allowMultipleAllocations")
                    || entries(device, "capacity").any(|(_, capacity)| has(capacity, "requestPolicy"))
            })
        },
        clear: |spec| {
            each_device(spec, |device| {
                remove(device, "allowMultipleAllocations");
                if let Some(Value::Object(capacities)) = device.get_mut("capacity") {
                    capacities.iter_mut().for_each(|(_, capacity)| remove(capacity, "requestPolicy"));
                }
            });
        },
    },
    Gate {
        features: &["DRADeviceCompatibilityGroups"],
        in_use: |spec| {
            any_device(spec, |device| {
                list(device, "consumesCounters").iter().any(|entry| is_filled(entry, "compatibilityGroups"))
            })
        },
        clear: |spec| {
            each_device(spec, |device| {
                list_mut(device, "consumesCounters")
                    .iter_mut()
                    .for_each(|entry| remove(entry, "compatibilityGroups"));
            });
        },
    },
    Gate {
        features: &["DRANodeAllocatableResources"],
        in_use: |spec| any_device(spec, |device| is_filled(device, "nodeAllocatableResources")),
        clear: |spec| each_device(spec, |device| remove(device, "nodeAllocatableResources")),
    },
    Gate {
        features: &["DRAListTypeAttributes"],
        in_use: |spec| any_device(spec, has_list_attribute),
        clear: |spec| {
            each_device(spec, |device| {
                if let Some(Value::Object(attributes)) = device.get_mut("attributes") {
                    for (_, attribute) in attributes.iter_mut() {
                        LIST_ATTRIBUTES.iter().for_each(|field| remove(attribute, field));
                    }
                }
            });
        },
    },
    Gate {
        features: &["DRAPartitionableDevicesType"],
        in_use: |spec| has(spec, "partitionTypeAttribute"),
        clear: |spec| remove(spec, "partitionTypeAttribute"),
    },
    Gate {
        features: &["DRAOptionalNodeOperations"],
        in_use: |spec| is_filled(spec, "skipNodeOperations"),
        clear: |spec| remove(spec, "skipNodeOperations"),
    },
];

fn validate(errors: &mut Errors, spec: &Value, old: Option<&Value>, context: &Context<'_>) {
    let path = Path::root("spec");
    identity(errors, &path, spec, old);
    nodes(errors, &path, spec);
    let contents: Vec<&str> =
        ["devices", "sharedCounters", "taints"].into_iter().filter(|field| has(spec, field)).collect();
    if contents.len() > 1 {
        errors.invalid(path, "", "only one of `sharedCounters`, `devices` or `taints` is allowed");
    }
    devices(errors, &path.field("devices"), spec, old, context);
    let counters = list(spec, "sharedCounters");
    each_named(errors, &path.field("sharedCounters"), counters, COUNTER_SETS_MAX, "name", counter_set);
    if old.is_none_or(|old| !same_field(spec, old, "taints")) {
        let taints = list(spec, "taints");
        each(errors, &path.field("taints"), taints, SLICE_TAINTS_MAX, |errors, path, entry| {
            match text(entry, "device") {
                "" => errors.required(path.field("device"), ""),
                device => dns_label(errors, &path.field("device"), device),
            }
            taint(errors, &path.field("taint"), &entry["taint"], context);
        });
    }
    if has(spec, "partitionTypeAttribute") {
        partition_type(errors, &path, spec);
    }
    skip_node_operations(errors, &path, spec);
}

fn identity(errors: &mut Errors, path: &Path<'_>, spec: &Value, old: Option<&Value>) {
    let driver_name = text(spec, "driver");
    driver(errors, &path.field("driver"), driver_name);
    if driver_name.contains(|c: char| c.is_ascii_uppercase()) {
        errors.warn(format!(
            "spec.driver: driver names should be lowercase; {driver_name:?} contains uppercase characters"
        ));
    }
    let (its_pool, pool_path) = (&spec["pool"], path.field("pool"));
    pool(errors, &pool_path.field("name"), text(its_pool, "name"));
    let slices = number(its_pool, "resourceSliceCount");
    if slices <= 0 {
        errors.invalid(pool_path.field("resourceSliceCount"), slices, "must be greater than zero");
    }
    let generation = number(its_pool, "generation");
    if generation < 0 {
        errors.invalid(pool_path.field("generation"), generation, "must be greater than or equal to zero");
    }
    if let Some(old) = old {
        if text(its_pool, "name") != text(&old["pool"], "name") {
            errors.invalid(pool_path.field("name"), text(its_pool, "name"), IMMUTABLE);
        }
        immutable(errors, &path.field("driver"), spec, old, "driver");
        immutable(errors, &path.field("nodeName"), spec, old, "nodeName");
    }
}

fn nodes(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    const CHOICES: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut set = Vec::new();
    if let Some(node) = some(spec, "nodeName") {
        let (node, path) = (node.as_str().unwrap_or_default(), path.field("nodeName"));
        if node.is_empty() {
            errors.invalid(path, node, "must be either unset or set to a non-empty string");
        } else {
            set.push("`nodeName`");
            name(errors, &path, node, lazaret_model::validate_dns_subdomain);
        }
    }
    if let Some(selector) = some(spec, "nodeSelector") {
        set.push("`nodeSelector`");
        let path = path.field("nodeSelector");
        node_selector(errors, &path, selector);
        let terms = list(selector, "nodeSelectorTerms");
        if terms.len() != 1 {
            errors.invalid(
                path.field("nodeSelectorTerms"),
                Value::Array(terms.to_vec().into()),
                "must have exactly one node selector term",
            );
        }
    }
    for (field, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        match spec.get(field).and_then(Value::as_bool) {
            Some(true) => set.push(shown),
            Some(false) => errors.invalid(path.field(field), false, "must be either unset or set to true"),
            None => {}
        }
    }
    match set.len() {
        0 => errors.required(path, CHOICES),
        1 => {}
        _ => errors.invalid(
            path,
            format!("{{{}}}", set.join(", ")),
            format!("{CHOICES}, but multiple fields are set"),
        ),
    }
}

fn devices(errors: &mut Errors, path: &Path<'_>, spec: &Value, old: Option<&Value>, context: &Context<'_>) {
    let items = list(spec, "devices");
    let large = |device: &Value| {
        is_filled(device, "taints") || is_filled(device, "consumesCounters") || has_list_attribute(device)
    };
    let count_max = if items.iter().any(large) { LARGE_DEVICES_MAX } else { DEVICES_MAX };
    let per_device = is_true(spec, "perDeviceNodeSelection");
    each_named(errors, path, items, count_max, "name", |errors, path, item| {
        let before = old.and_then(|old| {
            list(old, "devices").iter().find(|device| text(device, "name") == text(item, "name"))
        });
        device::validate(errors, path, item, before, per_device, context);
    });
}

fn counter_set(errors: &mut Errors, path: &Path<'_>, set: &Value) {
    match text(set, "name") {
        "" => errors.required(path.field("name"), ""),
        name => dns_label(errors, &path.field("name"), name),
    }
    counters(errors, &path.field("counters"), set);
}

/// Counters of a set, or what a device consumes of one.
pub(super) fn counters(errors: &mut Errors, path: &Path<'_>, holder: &Value) {
    let found = crate::value::count(holder, "counters");
    if found == 0 {
        errors.required(path, "");
    } else if found > COUNTERS_MAX {
        errors.push(path, crate::FieldProblem::TooMany(found, COUNTERS_MAX));
    } else {
        for (name, counter) in entries(holder, "counters") {
            dns_label(errors, path, name);
            if quantity_or_zero(counter, "value").is_none() {
                let path = path.key(name);
                errors.invalid(path.field("value"), counter["value"].clone(), "must be a quantity");
            }
        }
    }
}

/// Every device that consumes counters says of which type it is.
fn partition_type(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let name = text(spec, "partitionTypeAttribute");
    let consumes = |device: &Value| is_filled(device, "consumesCounters");
    if !any_device(spec, consumes) {
        errors.invalid(
            path.field("partitionTypeAttribute"),
            name,
            "may only be set on a slice which declares devices that consume counters",
        );
        return;
    }
    let before = errors.len();
    fully_qualified_name(errors, &path.field("partitionTypeAttribute"), name);
    if errors.len() > before {
        return;
    }
    let own = name.strip_prefix(text(spec, "driver")).and_then(|rest| rest.strip_prefix('/'));
    let devices = path.field("devices");
    for (at, device) in list(spec, "devices").iter().enumerate().filter(|(_, device)| consumes(device)) {
        let attributes = &device["attributes"];
        let found = some(attributes, name).or_else(|| own.and_then(|own| some(attributes, own)));
        let path = devices.index(at);
        let path = path.field("attributes");
        match found {
            None => errors
                .required(path.key(name), "the device consumes counters, so it must say which type it is of"),
            Some(value) if !has(value, "string") => {
                errors.invalid(
                    path.key(name),
                    value.clone(),
                    "must be a string: it says of which type the device is",
                );
            }
            Some(_) => {}
        }
    }
}
