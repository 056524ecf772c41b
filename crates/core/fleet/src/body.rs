//! The devices of a slice without what changes often: names, attributes, capacities, counters, conditions.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::ops::Range;

use lazaret_model::{
    AttrId, AttrValue, CapacityValue, CounterConsumption, Device, NodeScope, ResourceSlice, Text,
};

use crate::{
    DEVICES_PER_SLICE_MAX,
    bits::DeviceBits,
    overrides::{Override, merge},
    rows::Rows,
    shapes::{Seen, ShapeId, Shapes},
    table::Table,
    value::Value,
    vocabulary::Vocabulary,
};

/// Immutable: a slice that changes gets a new one.
#[derive(Debug)]
pub(crate) struct SliceBody {
    pub(crate) driver: Text,
    /// Shared: nodes that are alike have devices of the same names.
    pub(crate) names: Arc<[Text]>,
    pub(crate) attributes: Table<AttrValue>,
    pub(crate) capacity: Table<CapacityValue>,
    shapes: Shapes,
    /// `None` where none is set.
    flags: Option<Box<Flags>>,
    /// Empty where no device has any.
    extras: Box<[Option<Arc<Extra>>]>,
}

/// Properties that only some devices have.
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

/// Fields that most devices do not have.
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
        let attributes = Rows { len: devices.len(), of: |at: usize| devices[at].attributes.as_slice() };
        let capacity = Rows { len: devices.len(), of: |at: usize| devices[at].capacity.as_slice() };
        let parts = Parts {
            driver: vocabulary.text(&slice.driver),
            names: vocabulary.texts(devices.iter().map(|d| &d.name)),
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
            names: vocabulary.texts([name].into_iter()),
            attributes: Table::build(driver, &Rows { len: 1, of: |_| &[][..] }, vocabulary),
            capacity: Table::build(driver, &Rows { len: 1, of: |_| &[][..] }, vocabulary),
            allow_multiple: DeviceBits::EMPTY,
            binds_to_node: DeviceBits::EMPTY,
            extras: Box::new([]),
        };
        parts.assemble()
    }

    /// One of the devices alone.
    pub(crate) fn alone(&self, device: usize, vocabulary: &mut Vocabulary) -> Self {
        self.rebuilt(device..device + 1, &[], vocabulary)
    }

    /// The same devices with attributes and capacities overridden, by rising precedence.
    pub(crate) fn overridden(&self, overrides: &[Override<'_>], vocabulary: &mut Vocabulary) -> Self {
        self.rebuilt(0..self.len(), overrides, vocabulary)
    }

    fn rebuilt(
        &self,
        devices: Range<usize>,
        overrides: &[Override<'_>],
        vocabulary: &mut Vocabulary,
    ) -> Self {
        let of = |device| overrides.iter().filter(move |patch| patch.hits(device));
        let whole = devices.len() == self.len();
        let attributes = if whole && overrides.iter().all(|patch| patch.attributes().is_empty()) {
            self.attributes.clone()
        } else {
            let row = |at| overridden_row(&self.attributes, at, of(at).map(Override::attributes));
            Table::of_rows(&self.driver, devices.clone().map(row).collect(), vocabulary)
        };
        let capacity = if whole && overrides.iter().all(|patch| patch.capacity().is_empty()) {
            self.capacity.clone()
        } else {
            let row = |at| overridden_row(&self.capacity, at, of(at).map(Override::capacity));
            Table::of_rows(&self.driver, devices.clone().map(row).collect(), vocabulary)
        };
        let extras: Box<[_]> = match self.extras.len() {
            0 => Box::new([]),
            _ => self.extras[devices.clone()].into(),
        };
        let parts = Parts {
            driver: self.driver.clone(),
            names: match whole {
                true => self.names.clone(),
                false => vocabulary.texts(self.names[devices.clone()].iter()),
            },
            attributes,
            capacity,
            allow_multiple: devices.clone().map(|d| self.flags().allow_multiple.has(d)).collect(),
            binds_to_node: devices.map(|d| self.flags().binds_to_node.has(d)).collect(),
            extras,
        };
        parts.assemble()
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn flags(&self) -> &Flags {
        self.flags.as_deref().unwrap_or(&NO_FLAGS)
    }

    pub(crate) fn has_flags(&self) -> bool {
        self.flags.is_some()
    }

    pub(crate) fn all(&self) -> DeviceBits {
        DeviceBits::first(self.len())
    }

    /// The number of the values that CEL sees of a device.
    pub(crate) fn shape(&self, device: usize) -> ShapeId {
        self.shapes()[device]
    }

    /// Whether the devices of both, in order, look the same to CEL.
    pub(crate) fn same_shapes(&self, other: &Self) -> bool {
        self.shapes() == other.shapes()
    }

    #[inline]
    fn shapes(&self) -> &[ShapeId] {
        self.shapes.of(|| Seen {
            driver: &self.driver,
            len: self.len(),
            allow_multiple: self.flags().allow_multiple,
            attributes: &self.attributes,
            capacity: &self.capacity,
        })
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
        let devices = &slice.devices[..slice.devices.len().min(DEVICES_PER_SLICE_MAX)];
        let flags = self.flags();
        self.driver == slice.driver
            && self.len() == devices.len()
            && flags.allow_multiple == devices.iter().map(allows_multiple).collect()
            && flags.binds_to_node == devices.iter().map(|device| device.binds_to_node).collect()
            && devices.iter().enumerate().all(|(at, device)| {
                self.names[at] == device.name
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
    names: Arc<[Text]>,
    attributes: Table<AttrValue>,
    capacity: Table<CapacityValue>,
    allow_multiple: DeviceBits,
    binds_to_node: DeviceBits,
    extras: Box<[Option<Arc<Extra>>]>,
}

impl Parts {
    fn assemble(self) -> SliceBody {
        let Self { driver, names, attributes, capacity, allow_multiple, binds_to_node, extras } = self;
        let unsupported = attributes.devices_with(names.len(), is_unsupported);
        let flags = Flags { allow_multiple, binds_to_node, unsupported };
        let flags = (flags != NO_FLAGS).then(|| Box::new(flags));
        SliceBody { driver, names, attributes, capacity, shapes: Shapes::default(), flags, extras }
    }
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

/// The values of a device, by key, after these patches.
fn overridden_row<'p, T: Value + 'p>(
    table: &Table<T>,
    device: usize,
    patches: impl Iterator<Item = &'p [(&'p Text, AttrId, Option<&'p T>)]>,
) -> Vec<(Text, T)> {
    let mut patches = patches.peekable();
    if patches.peek().is_none() {
        return table.row(device).map(|(key, _, value)| (key.clone(), value.clone())).collect();
    }
    let mut row = table.row(device).map(|(key, id, value)| (key.clone(), id, value.clone())).collect();
    patches.for_each(|patch| merge(&mut row, patch));
    let mut row: Vec<_> = row.into_iter().map(|(key, _, value)| (key, value)).collect();
    row.sort_by(|a, b| a.0.cmp(&b.0));
    row
}
