//! The devices of a slice without what changes often: names, attributes, capacities, counters, conditions.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::hash::Hasher;

use lazaret_model::{
    AttrId, AttrValue, CapacityValue, CounterConsumption, Device, NodeScope, ResourceSlice, Text,
};

use crate::{
    DEVICES_PER_SLICE_MAX, ShapeId,
    bits::DeviceBits,
    fingerprint::{Fingerprint, of_hash},
    patch::Override,
    table::{Table, Value},
    vocabulary::Vocabulary,
};

/// Immutable: a slice that changes gets a new one.
#[derive(Debug)]
pub(crate) struct SliceBody {
    pub(crate) driver: Text,
    pub(crate) names: Box<[Text]>,
    pub(crate) attributes: Table<AttrValue>,
    pub(crate) capacity: Table<CapacityValue>,
    pub(crate) shapes: Box<[ShapeId]>,
    /// `None` where none is set.
    flags: Option<Box<Flags>>,
    /// Empty where no device has any.
    extras: Box<[Option<Arc<Extra>>]>,
}

/// What is true of some devices only.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) allow_multiple: DeviceBits,
    pub(crate) binds_to_node: DeviceBits,
    /// Devices with a value that CEL cannot read.
    pub(crate) unsupported: DeviceBits,
}

static NO_FLAGS: Flags = Flags {
    allow_multiple: DeviceBits::EMPTY,
    binds_to_node: DeviceBits::EMPTY,
    unsupported: DeviceBits::EMPTY,
};

/// What most devices do not have.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Extra {
    pub(crate) consumes_counters: Vec<CounterConsumption>,
    pub(crate) nodes: Option<NodeScope>,
    pub(crate) binding_conditions: Option<Vec<Text>>,
    pub(crate) binding_failure_conditions: Option<Vec<Text>>,
}

impl SliceBody {
    pub(crate) fn of_slice(slice: &ResourceSlice, vocabulary: &mut Vocabulary) -> Self {
        let devices = &slice.devices[..slice.devices.len().min(DEVICES_PER_SLICE_MAX)];
        let attributes: Vec<_> = devices.iter().map(|d| d.attributes.as_slice()).collect();
        let capacity: Vec<_> = devices.iter().map(|d| d.capacity.as_slice()).collect();
        let parts = Parts {
            driver: vocabulary.text(&slice.driver),
            names: devices.iter().map(|d| vocabulary.text(&d.name)).collect(),
            attributes: Table::build(&slice.driver, &attributes, vocabulary),
            capacity: Table::build(&slice.driver, &capacity, vocabulary),
            allow_multiple: devices.iter().map(allows_multiple).collect(),
            binds_to_node: devices.iter().map(|d| d.binds_to_node).collect(),
            extras: extras_of(devices),
        };
        parts.assemble()
    }

    /// A device of which only the name is known.
    pub(crate) fn of_name(driver: &Text, name: &Text, vocabulary: &mut Vocabulary) -> Self {
        let parts = Parts {
            driver: vocabulary.text(driver),
            names: [vocabulary.text(name)].into(),
            attributes: Table::build(driver, &[&[]], vocabulary),
            capacity: Table::build(driver, &[&[]], vocabulary),
            allow_multiple: DeviceBits::EMPTY,
            binds_to_node: DeviceBits::EMPTY,
            extras: Box::new([]),
        };
        parts.assemble()
    }

    /// One of the devices alone.
    pub(crate) fn alone(&self, device: usize, vocabulary: &mut Vocabulary) -> Self {
        self.rebuilt(&[device], |_| &[], vocabulary)
    }

    /// The same devices with attributes and capacities overridden: for each device, by rising precedence.
    pub(crate) fn overridden<'p>(
        &self,
        overrides: impl Fn(usize) -> &'p [Override<'p>],
        vocabulary: &mut Vocabulary,
    ) -> Self {
        let all: Vec<usize> = (0..self.names.len()).collect();
        self.rebuilt(&all, overrides, vocabulary)
    }

    fn rebuilt<'p>(
        &self,
        devices: &[usize],
        overrides: impl Fn(usize) -> &'p [Override<'p>],
        vocabulary: &mut Vocabulary,
    ) -> Self {
        let mut attributes = Vec::new();
        let mut capacity = Vec::new();
        for &device in devices {
            let patches = overrides(device);
            let mut row = owned_row(&self.attributes, device);
            patches.iter().for_each(|p| p.attributes(&self.driver, &mut row, vocabulary));
            attributes.push(sorted(row));
            let mut row = owned_row(&self.capacity, device);
            patches.iter().for_each(|p| p.capacity(&self.driver, &mut row, vocabulary));
            capacity.push(sorted(row));
        }
        let attributes: Vec<_> = attributes.iter().map(Vec::as_slice).collect();
        let capacity: Vec<_> = capacity.iter().map(Vec::as_slice).collect();
        let extras: Box<[_]> = match self.extras.len() {
            0 => Box::new([]),
            _ => devices.iter().map(|&d| self.extras[d].clone()).collect(),
        };
        let parts = Parts {
            driver: self.driver.clone(),
            names: devices.iter().map(|&d| self.names[d].clone()).collect(),
            attributes: Table::build(&self.driver, &attributes, vocabulary),
            capacity: Table::build(&self.driver, &capacity, vocabulary),
            allow_multiple: devices.iter().map(|&d| self.flags().allow_multiple.has(d)).collect(),
            binds_to_node: devices.iter().map(|&d| self.flags().binds_to_node.has(d)).collect(),
            extras,
        };
        parts.assemble()
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// How many different names its devices have. Equal names are one allocation, for all come from the vocabulary.
    pub(crate) fn distinct_names(&self) -> usize {
        let mut places: Vec<usize> = self.names.iter().map(|name| name.as_ptr().addr()).collect();
        places.sort_unstable();
        places.dedup();
        places.len()
    }

    pub(crate) fn flags(&self) -> &Flags {
        self.flags.as_deref().unwrap_or(&NO_FLAGS)
    }

    pub(crate) fn all(&self) -> DeviceBits {
        DeviceBits::first(self.len())
    }

    pub(crate) fn extra(&self, device: usize) -> Option<&Extra> {
        self.extras.get(device)?.as_deref()
    }

    pub(crate) fn any_extra(&self, wanted: impl Fn(&Extra) -> bool) -> bool {
        self.extras.iter().flatten().any(|extra| wanted(extra))
    }

    pub(crate) fn has_extras(&self) -> bool {
        !self.extras.is_empty()
    }

    /// Whether the slice says of its devices what this says, taints aside.
    pub(crate) fn is_of(&self, slice: &ResourceSlice) -> bool {
        self.driver == slice.driver
            && self.len() == slice.devices.len().min(DEVICES_PER_SLICE_MAX)
            && slice.devices.iter().take(self.len()).enumerate().all(|(at, device)| {
                self.names[at] == device.name
                    && self.flags().allow_multiple.has(at) == allows_multiple(device)
                    && self.flags().binds_to_node.has(at) == device.binds_to_node
                    && self.attributes.row_is(at, &device.attributes)
                    && self.capacity.row_is(at, &device.capacity)
                    && match self.extra(at) {
                        None => has_no_extra(device),
                        Some(extra) => is_extra_of(extra, device),
                    }
            })
    }
}

struct Parts {
    driver: Text,
    names: Box<[Text]>,
    attributes: Table<AttrValue>,
    capacity: Table<CapacityValue>,
    allow_multiple: DeviceBits,
    binds_to_node: DeviceBits,
    extras: Box<[Option<Arc<Extra>>]>,
}

impl Parts {
    fn assemble(self) -> SliceBody {
        let Self { driver, names, attributes, capacity, allow_multiple, binds_to_node, extras } = self;
        let unsupported =
            (0..names.len()).map(|at| attributes.row(at).any(|(_, _, v)| is_unsupported(v))).collect();
        let mut prefix = Fingerprint::new();
        prefix.write_u128(of_hash(&driver));
        let shapes = (0..names.len())
            .map(|at| {
                let mut hasher = prefix.clone();
                hasher.write_u64(u64::from(allow_multiple.has(at)));
                feed(&mut hasher, attributes.prints(at));
                feed(&mut hasher, capacity.prints(at));
                ShapeId(hasher.finish128())
            })
            .collect();
        let flags = Flags { allow_multiple, binds_to_node, unsupported };
        let flags = (flags != NO_FLAGS).then(|| Box::new(flags));
        SliceBody { driver, names, attributes, capacity, shapes, flags, extras }
    }
}

/// Names and values, and at the end how many: so no two lists of lists look alike.
fn feed(hasher: &mut Fingerprint, prints: impl Iterator<Item = (u128, u128)>) {
    let mut count = 0;
    for (name, value) in prints {
        hasher.write_u128(name);
        hasher.write_u128(value);
        count += 1;
    }
    hasher.write_u64(count);
}

fn is_unsupported(value: &AttrValue) -> bool {
    match value {
        AttrValue::Unsupported => true,
        AttrValue::Version(version) => version.parsed.is_none(),
        AttrValue::Versions(versions) => versions.iter().any(|v| v.parsed.is_none()),
        AttrValue::Int(_)
        | AttrValue::Bool(_)
        | AttrValue::String(_)
        | AttrValue::Ints(_)
        | AttrValue::Bools(_)
        | AttrValue::Strings(_) => false,
    }
}

fn allows_multiple(device: &Device) -> bool {
    device.allow_multiple_allocations == Some(true)
}

fn has_no_extra(device: &Device) -> bool {
    device.consumes_counters.is_empty()
        && device.nodes.is_none()
        && device.binding_conditions.is_none()
        && device.binding_failure_conditions.is_none()
}

fn is_extra_of(extra: &Extra, device: &Device) -> bool {
    extra.nodes == device.nodes
        && extra.binding_conditions == device.binding_conditions
        && extra.binding_failure_conditions == device.binding_failure_conditions
        && extra.consumes_counters.len() == device.consumes_counters.len()
        && extra.consumes_counters.iter().zip(&device.consumes_counters).all(|(a, b)| same_consumption(a, b))
}

fn same_consumption(left: &CounterConsumption, right: &CounterConsumption) -> bool {
    left.counter_set == right.counter_set
        && left.compatibility_groups == right.compatibility_groups
        && left.counters.len() == right.counters.len()
        && left.counters.iter().zip(&right.counters).all(|(a, b)| a.0 == b.0 && a.1.is_identical(&b.1))
}

fn extras_of(devices: &[Device]) -> Box<[Option<Arc<Extra>>]> {
    if devices.iter().all(has_no_extra) {
        return Box::new([]);
    }
    let mut extras: Vec<Option<Arc<Extra>>> = Vec::with_capacity(devices.len());
    for device in devices {
        let before = extras.last().and_then(Option::as_ref);
        extras.push(match before {
            _ if has_no_extra(device) => None,
            // Neighbours are often alike: full devices without partitions, partitions of one size.
            Some(extra) if is_extra_of(extra, device) => Some(extra.clone()),
            Some(_) | None => Some(Arc::new(Extra {
                consumes_counters: device.consumes_counters.clone(),
                nodes: device.nodes.clone(),
                binding_conditions: device.binding_conditions.clone(),
                binding_failure_conditions: device.binding_failure_conditions.clone(),
            })),
        });
    }
    extras.into()
}

fn owned_row<T: Value>(table: &Table<T>, device: usize) -> Vec<(Text, AttrId, T)> {
    table.row(device).map(|(key, id, value)| (key.clone(), id, value.clone())).collect()
}

fn sorted<T>(row: Vec<(Text, AttrId, T)>) -> Vec<(Text, T)> {
    let mut row: Vec<_> = row.into_iter().map(|(key, _, value)| (key, value)).collect();
    row.sort_by(|a, b| a.0.cmp(&b.0));
    row
}
