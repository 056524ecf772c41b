//! Partitions by type, and devices that several claims may share.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};

use lazaret_model::{AttrValue, CounterConsumption, Device, Quantity, Text};

use crate::slice::{Slice, Usage};

/// Partition types, or capacities, that the API takes of one pool.
const ITEMS_MAX: usize = 32;

/// Partitions of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionStatus {
    /// The attribute that tells types apart.
    pub attribute: Text,
    /// Its value.
    pub kind: Text,
    /// Devices of the type.
    pub total: usize,
    /// Those that could still be allocated, if nothing else were.
    pub allocatable: usize,
}

/// Devices that several claims may share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareableStatus {
    /// Devices of which nothing is in use.
    pub untouched: usize,
    /// Devices of which something is in use.
    pub touched: usize,
    /// Amounts by name.
    pub capacity: Vec<CapacityStatus>,
}

/// An amount of all shareable devices of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityStatus {
    /// Its name.
    pub name: Text,
    /// How much there is.
    pub total: Quantity,
    /// How much of it is consumed.
    pub consumed: Quantity,
    /// How much is left, never less than nothing.
    pub available: Quantity,
}

/// The partitions and shared devices of a pool.
pub(crate) struct Views {
    pub(crate) partitions: Vec<PartitionStatus>,
    pub(crate) shareable: Option<ShareableStatus>,
    /// The first thing that is wrong; then there are no partitions.
    pub(crate) error: Option<String>,
}

/// Computes the views of a complete pool. `fallback` groups the partitions of a pool in which no slice names an attribute for that.
pub(crate) fn of(fallback: Option<&Text>, slices: &[&Slice], usage: &Usage<'_>) -> Views {
    let pool = slices.first().map_or_else(String::new, |first| first.slice.pool_id().to_string());
    // An attribute of a slice without devices groups nothing.
    let with_devices = || slices.iter().filter(|slice| !slice.slice.devices.is_empty());
    let declared = with_devices().any(|slice| slice.partition_attribute.is_some());
    let attribute_of = |slice: &'_ &Slice| {
        slice.partition_attribute.clone().or_else(|| fallback.filter(|_| !declared).cloned())
    };
    let grouped = with_devices().any(|slice| attribute_of(slice).is_some());
    let has_counters = slices.iter().any(|slice| !slice.slice.shared_counters.is_empty());
    let partitions = match (grouped, has_counters) {
        (false, _) => Ok(Vec::new()),
        (true, false) => Err(format!(
            "PartitionTypeMissing: pool {pool} declares partitionTypeAttribute but publishes no sharedCounters"
        )),
        (true, true) => partitions(&pool, slices, usage, attribute_of),
    };
    let shareable = shareable(&pool, slices, usage);
    let error = partitions.as_ref().err().or(shareable.as_ref().err()).cloned();
    Views {
        partitions: partitions.ok().filter(|_| error.is_none()).unwrap_or_default(),
        shareable: shareable.ok().flatten(),
        error,
    }
}

/// Devices of the same type that consume the same counters.
struct Group<'a> {
    cost: String,
    total: usize,
    unused: Vec<&'a Device>,
}

fn partitions<'a>(
    pool: &str,
    slices: &[&'a Slice],
    usage: &Usage<'_>,
    attribute_of: impl Fn(&&Slice) -> Option<Text>,
) -> Result<Vec<PartitionStatus>, String> {
    let mut groups: BTreeMap<(Text, Text), Group<'a>> = BTreeMap::new();
    for slice in slices {
        // The slice names no attribute, nor does the request.
        let Some(attribute) = attribute_of(slice) else { continue };
        let counted = slice.slice.devices.iter().filter(|device| !device.consumes_counters.is_empty());
        for device in counted {
            let kind = type_of(&slice.slice.driver, device, &attribute).ok_or_else(|| {
                let name = &device.name;
                format!("PartitionTypeMissing: device \"{name}\" in pool {pool} does not carry partition type attribute \"{attribute}\"")
            })?;
            let cost = cost_of(&device.consumes_counters);
            let group = groups.entry((attribute.clone(), kind.clone())).or_insert_with(|| Group {
                cost: cost.clone(),
                total: 0,
                unused: Vec::new(),
            });
            if group.cost != cost {
                return Err(format!(
                    "PartitionCostMismatch: devices of partition type \"{kind}\" in pool {pool} consume different counters"
                ));
            }
            group.total += 1;
            if !usage.devices.contains(&*device.name) {
                group.unused.push(device);
            }
        }
    }
    let left = counters_left(slices, usage);
    let status = |((attribute, kind), group): ((Text, Text), Group<'a>)| {
        // Each type is held against what is left by itself: what could be had if only this type were asked for.
        let mut left = left.clone();
        let allocatable = group.unused.iter().filter(|device| left.take(&device.consumes_counters)).count();
        PartitionStatus { attribute, kind, total: group.total, allocatable }
    };
    match groups.len() {
        count if count > ITEMS_MAX => Err(format!(
            "PartitionSummaryOverCap: pool {pool} has {count} partition types, exceeding the maximum of {ITEMS_MAX}"
        )),
        _ => Ok(groups.into_iter().map(status).collect()),
    }
}

/// The value of an attribute of a device. The domain of a name without one is the driver; a name with a domain counts more.
fn type_of(driver: &str, device: &Device, attribute: &str) -> Option<Text> {
    let find = |name: &str| device.attributes.iter().find(|(key, _)| &**key == name).map(|(_, value)| value);
    let bare = || attribute.strip_prefix(driver)?.strip_prefix('/').and_then(find);
    match find(attribute).or_else(bare)? {
        AttrValue::String(text) => Some(text.clone()),
        AttrValue::Int(_)
        | AttrValue::Bool(_)
        | AttrValue::Version(_)
        | AttrValue::Ints(_)
        | AttrValue::Bools(_)
        | AttrValue::Strings(_)
        | AttrValue::Versions(_)
        | AttrValue::Unsupported => None,
    }
}

/// The same text for devices that take the same of the same counters.
fn cost_of(consumption: &[CounterConsumption]) -> String {
    let one = |set: &CounterConsumption| {
        let name = set.counter_set.clone();
        set.counters
            .iter()
            .map(move |(counter, amount)| format!("{name}/{counter}={amount}"))
            .collect::<Vec<_>>()
    };
    let mut parts: Vec<String> = consumption.iter().flat_map(one).collect();
    parts.sort();
    parts.join(",")
}

/// The remaining counters of a pool.
#[derive(Clone, Default)]
struct Counters<'a>(BTreeMap<(&'a str, &'a str), Quantity>);

impl<'a> Counters<'a> {
    /// Takes what a device consumes, if there is enough of everything; whether there was.
    fn take(&mut self, consumption: &'a [CounterConsumption]) -> bool {
        let fits =
            pairs(consumption).all(|(key, amount)| self.0.get(&key).is_some_and(|left| left >= amount));
        if fits {
            self.deduct(consumption);
        }
        fits
    }

    fn deduct(&mut self, consumption: &'a [CounterConsumption]) {
        for (key, amount) in pairs(consumption) {
            if let Some(left) = self.0.get_mut(&key) {
                *left = left.sub(amount);
            }
        }
    }
}

fn pairs(consumption: &[CounterConsumption]) -> impl Iterator<Item = ((&str, &str), &Quantity)> {
    consumption.iter().flat_map(|set| {
        let name = &*set.counter_set;
        set.counters.iter().map(move |(counter, amount)| ((name, &**counter), amount))
    })
}

fn counters_left<'a>(slices: &[&'a Slice], usage: &Usage<'_>) -> Counters<'a> {
    let mut left = Counters::default();
    for set in slices.iter().flat_map(|slice| &slice.slice.shared_counters) {
        left.0.extend(set.counters.iter().map(|(name, amount)| ((&*set.name, &**name), amount.clone())));
    }
    for device in slices.iter().flat_map(|slice| &slice.slice.devices) {
        if usage.devices.contains(&*device.name) {
            left.deduct(&device.consumes_counters);
        }
    }
    left
}

fn shareable(pool: &str, slices: &[&Slice], usage: &Usage<'_>) -> Result<Option<ShareableStatus>, String> {
    let devices = || slices.iter().flat_map(|slice| &slice.slice.devices);
    let shared: Vec<&Device> =
        devices().filter(|device| device.allow_multiple_allocations == Some(true)).collect();
    if shared.is_empty() {
        return Ok(None);
    }
    let mut totals: BTreeMap<&Text, Quantity> = BTreeMap::new();
    for (name, capacity) in shared.iter().flat_map(|device| &device.capacity) {
        let sum = totals.entry(name).or_insert_with(|| Quantity::from_i64(0));
        *sum = sum.add(&capacity.value);
    }
    if totals.len() > ITEMS_MAX {
        return Err(format!(
            "ShareableSummaryOverCap: pool {pool} has {} shareable capacity keys, exceeding the maximum of {ITEMS_MAX}",
            totals.len()
        ));
    }
    let touched = shared.iter().filter(|device| usage.devices.contains(&*device.name)).count();
    let capacity = totals
        .into_iter()
        .map(|(name, total)| {
            let consumed = usage.consumed.get(&**name).cloned().unwrap_or_else(|| Quantity::from_i64(0));
            let rest = total.sub(&consumed);
            let available = if rest.is_negative() { Quantity::from_i64(0) } else { rest };
            CapacityStatus { name: name.clone(), total, consumed, available }
        })
        .collect();
    Ok(Some(ShareableStatus { untouched: shared.len() - touched, touched, capacity }))
}
