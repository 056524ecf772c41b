//! When two slices say the same.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};

use k8s_openapi::{
    api::resource::v1::{
        Counter, CounterSet, Device, DeviceCapacity, DeviceTaint, ResourcePool, ResourceSliceSpec,
    },
    apimachinery::pkg::api::resource::Quantity as Amount,
};
use lazaret_model::Quantity;

/// Servers keep seconds, and clocks round differently.
const TIME_TOLERANCE_S: i64 = 1;

/// Whether the server has what the driver wants, whatever is said of the pool. A taint whose time the driver leaves open may
/// have any. Devices that are the same to the byte, nearly all of them nearly always, cost one comparison.
pub(crate) fn has_same_content(wanted: &ResourceSliceSpec, actual: &ResourceSliceSpec) -> bool {
    let list = |spec: &ResourceSliceSpec| spec.devices.as_ref().map_or(0, Vec::len);
    let devices = wanted.devices.iter().flatten().zip(actual.devices.iter().flatten());
    let is_same = |(wanted, actual): (&Device, &Device)| {
        wanted == actual || canonical_device(wanted.clone()) == canonical_device(actual.clone())
    };
    list(wanted) == list(actual)
        && canonical(&without_devices(wanted)) == canonical(&without_devices(actual))
        && devices.into_iter().all(is_same)
        && times_agree(wanted, actual)
}

/// All but the devices and the pool.
fn without_devices(spec: &ResourceSliceSpec) -> ResourceSliceSpec {
    ResourceSliceSpec {
        all_nodes: spec.all_nodes,
        devices: None,
        driver: spec.driver.clone(),
        node_name: spec.node_name.clone(),
        node_selector: spec.node_selector.clone(),
        partition_type_attribute: spec.partition_type_attribute.clone(),
        per_device_node_selection: spec.per_device_node_selection,
        pool: ResourcePool::default(),
        shared_counters: spec.shared_counters.clone(),
        skip_node_operations: spec.skip_node_operations.clone(),
    }
}

/// The same content in the form that two equal specs share: nothing empty, amounts as a server writes them, no times.
pub(crate) fn canonical(spec: &ResourceSliceSpec) -> ResourceSliceSpec {
    let mut spec = spec.clone();
    spec.all_nodes = spec.all_nodes.filter(|all| *all);
    spec.per_device_node_selection = spec.per_device_node_selection.filter(|each| *each);
    spec.node_name = spec.node_name.filter(|name| !name.is_empty());
    spec.devices = some(spec.devices.unwrap_or_default().into_iter().map(canonical_device).collect());
    spec.shared_counters =
        some(spec.shared_counters.unwrap_or_default().into_iter().map(canonical_set).collect());
    spec.skip_node_operations = spec.skip_node_operations.filter(|list| !list.is_empty());
    spec
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

fn canonical_device(mut device: Device) -> Device {
    device.all_nodes = device.all_nodes.filter(|all| *all);
    device.allow_multiple_allocations = device.allow_multiple_allocations.filter(|allow| *allow);
    device.binds_to_node = device.binds_to_node.filter(|binds| *binds);
    device.attributes = device.attributes.filter(|map| !map.is_empty());
    device.binding_conditions = device.binding_conditions.filter(|list| !list.is_empty());
    device.binding_failure_conditions = device.binding_failure_conditions.filter(|list| !list.is_empty());
    device.capacity = device.capacity.filter(|map| !map.is_empty());
    for capacity in device.capacity.iter_mut().flat_map(BTreeMap::values_mut) {
        canonical_capacity(capacity);
    }
    device.consumes_counters = device.consumes_counters.filter(|list| !list.is_empty());
    for consumption in device.consumes_counters.iter_mut().flatten() {
        consumption.compatibility_groups =
            consumption.compatibility_groups.take().filter(|list| !list.is_empty());
        canonical_counters(&mut consumption.counters);
    }
    device.taints = device.taints.filter(|list| !list.is_empty());
    for taint in device.taints.iter_mut().flatten() {
        taint.time_added = None;
        taint.value = taint.value.take().filter(|value| !value.is_empty());
    }
    device
}

fn canonical_capacity(capacity: &mut DeviceCapacity) {
    canonical_amount(&mut capacity.value);
    let Some(policy) = &mut capacity.request_policy else { return };
    policy.default.iter_mut().for_each(canonical_amount);
    policy.valid_values.iter_mut().flatten().for_each(canonical_amount);
    if let Some(range) = &mut policy.valid_range {
        canonical_amount(&mut range.min);
        range.max.iter_mut().for_each(canonical_amount);
        range.step.iter_mut().for_each(canonical_amount);
    }
}

fn canonical_set(mut set: CounterSet) -> CounterSet {
    canonical_counters(&mut set.counters);
    set
}

fn canonical_counters(counters: &mut BTreeMap<String, Counter>) {
    counters.values_mut().for_each(|counter| canonical_amount(&mut counter.value));
}

fn canonical_amount(amount: &mut Amount) {
    if let Ok(parsed) = Quantity::parse(&amount.0) {
        amount.0 = parsed.to_string();
    }
}

fn times_agree(wanted: &ResourceSliceSpec, actual: &ResourceSliceSpec) -> bool {
    // Both have the same taints in the same order, or this is not asked.
    taints(wanted).zip(taints(actual)).all(|(wanted, actual)| {
        match (&wanted.time_added, &actual.time_added) {
            (None, _) => true,
            (Some(wanted), Some(actual)) => {
                (wanted.0.as_second() - actual.0.as_second()).abs() <= TIME_TOLERANCE_S
            }
            (Some(_), None) => false,
        }
    })
}

fn taints(spec: &ResourceSliceSpec) -> impl Iterator<Item = &DeviceTaint> {
    spec.devices.iter().flatten().flat_map(|device| device.taints.iter().flatten())
}

/// Gives taints whose time is left open the time that the same taint of the same device has.
pub(crate) fn keep_times<'a>(
    wanted: &mut ResourceSliceSpec,
    actual: impl Iterator<Item = &'a ResourceSliceSpec>,
) {
    let mut known: BTreeMap<&str, &[DeviceTaint]> = BTreeMap::new();
    for device in actual.flat_map(|spec| spec.devices.iter().flatten()) {
        if let Some(taints) = &device.taints {
            known.entry(device.name.as_str()).or_insert(taints);
        }
    }
    let value = |taint: &DeviceTaint| taint.value.clone().unwrap_or_default();
    for device in wanted.devices.iter_mut().flatten() {
        let Some(before) = known.get(device.name.as_str()) else { continue };
        for taint in device.taints.iter_mut().flatten().filter(|taint| taint.time_added.is_none()) {
            let same = before
                .iter()
                .find(|old| old.key == taint.key && old.effect == taint.effect && value(old) == value(taint));
            taint.time_added = same.and_then(|old| old.time_added.clone());
        }
    }
}
