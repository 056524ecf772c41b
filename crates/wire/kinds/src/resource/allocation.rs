//! The status of a claim: its allocation, the consumers that reserve it, and the reports of drivers.

use std::collections::{BTreeSet, HashSet};

use lazaret_json::Value;

use super::{
    claim_spec::{uses_admin_access, uses_consumable_capacity},
    common::{
        CONFIG_MAX, RequestNames, binding_conditions, configuration, default_tolerations,
        skip_node_operations, tolerations,
    },
};
use crate::{
    Errors,
    check::{
        IMMUTABLE, conditions, dns_label, driver, each, each_text, each_unique, node_selector, one_of, pool,
        raw_object, uuid,
    },
    gate::Gate,
    limits,
    path::Path,
    value::{has, is_filled, list, list_mut, remove, same, some, stripped, text},
};

const RESULTS_MAX: usize = 32;
const CONSUMERS_MAX: usize = 256;
const DEVICE_CONDITIONS_MAX: usize = 8;
const DEVICE_DATA_BYTES_MAX: usize = 10 * 1024;
const IPS_MAX: usize = 16;

/// A device, or a share of one: driver, pool, device, share.
type DeviceKey<'a> = (&'a str, &'a str, &'a str, &'a str);

fn key(device: &Value) -> DeviceKey<'_> {
    (text(device, "driver"), text(device, "pool"), text(device, "device"), text(device, "shareID"))
}

/// The devices of a claim's allocation.
fn results(claim: &Value) -> &[Value] {
    list(&claim["status"]["allocation"]["devices"], "results")
}

fn each_result(claim: &mut Value, change: impl FnMut(&mut Value)) {
    if let Some(devices) = claim.pointer_mut("/status/allocation/devices") {
        list_mut(devices, "results").iter_mut().for_each(change);
    }
}

/// Fills in how copied tolerations compare.
pub(super) fn default(status: &mut Value) {
    if let Some(devices) = status.pointer_mut("/allocation/devices") {
        list_mut(devices, "results").iter_mut().for_each(default_tolerations);
    }
}

/// Fields of features, by feature; of the whole claim, because the spec counts as use.
pub(super) const GATES: &[Gate] = &[
    Gate {
        features: &["DRAResourceClaimDeviceStatus"],
        in_use: |claim| is_filled(&claim["status"], "devices"),
        clear: |claim| {
            if let Some(status) = claim.get_mut("status") {
                remove(status, "devices");
            }
        },
    },
    Gate {
        features: &["DRAAdminAccess"],
        in_use: |claim| {
            uses_admin_access(&claim["spec"])
                || results(claim).iter().any(|result| has(result, "adminAccess"))
        },
        clear: |claim| each_result(claim, |result| remove(result, "adminAccess")),
    },
    Gate {
        features: &["DRAConsumableCapacity"],
        in_use: |claim| {
            let shared = |result: &Value| has(result, "shareID") || has(result, "consumedCapacity");
            uses_consumable_capacity(&claim["spec"])
                || results(claim).iter().any(shared)
                || list(&claim["status"], "devices").iter().any(shared)
        },
        clear: |claim| {
            each_result(claim, |result| {
                remove(result, "shareID");
                remove(result, "consumedCapacity");
            });
            if let Some(status) = claim.get_mut("status") {
                list_mut(status, "devices").iter_mut().for_each(|device| remove(device, "shareID"));
            }
        },
    },
    Gate {
        features: &["DRADeviceBindingConditions"],
        in_use: |claim| {
            results(claim)
                .iter()
                .any(|result| has(result, "bindingConditions") || has(result, "bindingFailureConditions"))
        },
        clear: |claim| {
            each_result(claim, |result| {
                remove(result, "bindingConditions");
                remove(result, "bindingFailureConditions");
            });
        },
    },
    Gate {
        features: &["DRAOptionalNodeOperations"],
        in_use: |claim| results(claim).iter().any(|result| is_filled(result, "skipNodeOperations")),
        clear: |claim| each_result(claim, |result| remove(result, "skipNodeOperations")),
    },
];

/// Forgets what drivers said of devices that the claim no longer has.
pub(super) fn drop_deallocated(new: &mut Value, old: &Value) {
    let kept: BTreeSet<DeviceKey<'_>> = results(new).iter().map(key).collect();
    let gone: BTreeSet<DeviceKey<'_>> =
        results(old).iter().map(key).filter(|device| !kept.contains(device)).collect();
    let Some(Value::Object(status)) = new.get_mut("status") else { return };
    if let Some(Value::Array(devices)) = status.get_mut("devices") {
        devices.retain(|device| !gone.contains(&key(device)));
        if devices.is_empty() {
            status.remove("devices");
        }
    }
}

/// A changed status.
pub(super) fn validate(errors: &mut Errors, new: &Value, old: &Value) {
    let path = Path::root("status");
    let (status, before) = (&new["status"], &old["status"]);
    consumers(errors, &path.field("reservedFor"), new, old);
    let allocated: BTreeSet<DeviceKey<'_>> = results(new).iter().map(key).collect();
    each_unique(
        errors,
        &path.field("devices"),
        list(status, "devices"),
        usize::MAX,
        |device| {
            let (driver, pool, device, share) = key(device);
            [driver, pool, device, share].map(str::to_owned)
        },
        shown,
        |errors, path, device| device_status(errors, path, device, &allocated),
    );
    let path = path.field("allocation");
    match (some(status, "allocation"), some(before, "allocation")) {
        (Some(new), Some(old)) if !same(new, old) => errors.invalid(path, new.clone(), IMMUTABLE),
        (Some(_), Some(_)) | (None, _) => {}
        (Some(allocation), None) => {
            let names = RequestNames::of(&new["spec"]["devices"]);
            allocation_result(errors, &path, allocation, &names);
        }
    }
}

fn consumers(errors: &mut Errors, path: &Path<'_>, new: &Value, old: &Value) {
    let consumers = list(&new["status"], "reservedFor");
    each_unique(
        errors,
        path,
        consumers,
        CONSUMERS_MAX,
        |consumer| text(consumer, "uid").to_owned(),
        |consumer| text(consumer, "uid").into(),
        |errors, path, consumer| {
            for field in ["resource", "name", "uid"] {
                if text(consumer, field).is_empty() {
                    errors.required(path.field(field), "");
                }
            }
        },
    );
    if consumers.is_empty() {
        return;
    }
    if !has(&new["status"], "allocation") {
        errors.forbidden(path, "may not be specified when `allocated` is not set");
    } else if has(&new["metadata"], "deletionTimestamp") {
        let before: HashSet<Value> = list(&old["status"], "reservedFor").iter().map(stripped).collect();
        if consumers.iter().any(|consumer| !before.contains(&stripped(consumer))) {
            errors.forbidden(
                path,
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
            );
        }
    }
}

/// `driver/pool/device`, and the share if there is one.
fn shown(device: &Value) -> Value {
    let (driver, pool, device, share) = key(device);
    let slash = if share.is_empty() { "" } else { "/" };
    format!("{driver}/{pool}/{device}{slash}{share}").into()
}

fn device_status(errors: &mut Errors, path: &Path<'_>, device: &Value, allocated: &BTreeSet<DeviceKey<'_>>) {
    driver(errors, &path.field("driver"), text(device, "driver"));
    pool(errors, &path.field("pool"), text(device, "pool"));
    dns_label(errors, &path.field("device"), text(device, "device"));
    if has(device, "shareID") {
        uuid(errors, &path.field("shareID"), text(device, "shareID"));
    }
    if !allocated.contains(&key(device)) {
        errors.invalid(path, shown(device), "must be an allocated device in the claim");
    }
    conditions(errors, &path.field("conditions"), list(device, "conditions"), DEVICE_CONDITIONS_MAX);
    if has(device, "data") {
        raw_object(errors, &path.field("data"), device.get("data"), DEVICE_DATA_BYTES_MAX);
    }
    if let Some(network) = some(device, "networkData") {
        network_data(errors, &path.field("networkData"), network);
    }
}

fn network_data(errors: &mut Errors, path: &Path<'_>, network: &Value) {
    limits::check(errors, path, "resource/v1.NetworkDeviceData", network, None);
    each_text(errors, &path.field("ips"), list(network, "ips"), IPS_MAX, |errors, path, address| {
        if !is_interface_address(address) {
            errors.invalid(
                path,
                address,
                "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
            );
        }
    });
}

/// An address of an interface in the one form that has no alternatives.
fn is_interface_address(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else { return false };
    let Ok(bits) = prefix.parse::<u8>() else { return false };
    let Ok(parsed) = address.parse::<std::net::IpAddr>() else { return false };
    let bits_max = if parsed.is_ipv4() { 32 } else { 128 };
    bits <= bits_max && prefix == bits.to_string() && address == parsed.to_string()
}

fn allocation_result(errors: &mut Errors, path: &Path<'_>, allocation: &Value, names: &RequestNames<'_>) {
    let devices = &allocation["devices"];
    let inner = path.field("devices");
    each(errors, &inner.field("results"), list(devices, "results"), RESULTS_MAX, |errors, path, item| {
        result(errors, path, item, names);
    });
    each(errors, &inner.field("config"), list(devices, "config"), 2 * CONFIG_MAX, |errors, path, item| {
        one_of(errors, &path.field("source"), text(item, "source"), &["FromClaim", "FromClass"]);
        names.check_all(errors, path, item);
        configuration(errors, path, item, false);
    });
    if let Some(selector) = some(allocation, "nodeSelector") {
        node_selector(errors, &path.field("nodeSelector"), selector);
    }
}

fn result(errors: &mut Errors, path: &Path<'_>, item: &Value, names: &RequestNames<'_>) {
    names.check(errors, &path.field("request"), text(item, "request"));
    driver(errors, &path.field("driver"), text(item, "driver"));
    pool(errors, &path.field("pool"), text(item, "pool"));
    dns_label(errors, &path.field("device"), text(item, "device"));
    binding_conditions(errors, path, item);
    tolerations(errors, &path.field("tolerations"), list(item, "tolerations"), true);
    if has(item, "shareID") {
        uuid(errors, &path.field("shareID"), text(item, "shareID"));
    }
    skip_node_operations(errors, path, item);
}
