//! A device as its slice last published it.

use alloc::vec::Vec;

use crate::{AttrValue, CapacityValue, Device, DeviceId, Text};

/// Of a device that a claim holds and that no slice has any more: what selectors look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastPublished {
    /// The driver's name.
    pub driver: Text,
    /// The pool's name within the driver.
    pub pool: Text,
    /// Its name, attributes, capacities, and whether several may have it; everything else is empty.
    pub device: Device,
}

impl LastPublished {
    /// Bytes that a claim spends on all its devices together, as JSON. One device may take 7 KiB, most take half of one. The API permits
    /// 256 KiB in all annotations of an object.
    pub const BYTES_MAX: usize = 32 * 1024;

    /// The record of this device. Fields that selectors do not read are left out.
    #[must_use]
    pub fn new(
        id: &DeviceId,
        attributes: Vec<(Text, AttrValue)>,
        capacity: Vec<(Text, CapacityValue)>,
        shared: bool,
    ) -> Self {
        let bare = |(key, capacity): (Text, CapacityValue)| (key, CapacityValue { policy: None, ..capacity });
        let device = Device {
            name: id.device.clone(),
            attributes,
            capacity: capacity.into_iter().map(bare).collect(),
            allow_multiple_allocations: shared.then_some(true),
            ..Device::default()
        };
        Self { driver: id.driver.clone(), pool: id.pool.clone(), device }
    }

    /// Whether it speaks of this device.
    #[must_use]
    pub fn is_of(&self, id: &DeviceId) -> bool {
        self.driver == id.driver && self.pool == id.pool && self.device.name == id.device
    }

    /// As JSON it takes no more bytes than this.
    #[must_use]
    pub fn json_bytes(&self) -> usize {
        let names = [&self.driver, &self.pool, &self.device.name].map(|name| escaped(name));
        let attributes =
            self.device.attributes.iter().map(|(key, value)| 32 + escaped(key) + of_value(value));
        // A quantity's text is bounded by its digits; what CEL compares has few.
        let capacity = self
            .device
            .capacity
            .iter()
            .map(|(key, capacity)| 32 + escaped(key) + alloc::format!("{}", capacity.value).len());
        128 + names.iter().sum::<usize>() + attributes.chain(capacity).sum::<usize>()
    }
}

/// An integer has 20 digits at most.
const NUMBER_BYTES: usize = 21;

fn of_value(value: &AttrValue) -> usize {
    match value {
        AttrValue::Int(_) | AttrValue::Bool(_) | AttrValue::Unsupported => NUMBER_BYTES,
        AttrValue::String(text) => escaped(text),
        AttrValue::Version(version) => escaped(&version.text),
        AttrValue::Ints(list) => list.len() * NUMBER_BYTES,
        AttrValue::Bools(list) => list.len() * NUMBER_BYTES,
        AttrValue::Strings(list) => list.iter().map(|text| escaped(text)).sum(),
        AttrValue::Versions(list) => list.iter().map(|version| escaped(&version.text)).sum(),
    }
}

/// A text between quotes, with a comma.
fn escaped(text: &str) -> usize {
    let of = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    3 + text.bytes().map(of).sum::<usize>()
}
