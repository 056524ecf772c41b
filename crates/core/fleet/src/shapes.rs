//! The values that CEL sees of the devices of a slice, as numbers.

use alloc::boxed::Box;
use core::hash::Hasher;

use once_cell::race::OnceBox;
use siphasher::sip128::{Hasher128, SipHasher13};

use lazaret_model::{AttrValue, CapacityValue, Text};

use crate::{
    bits::DeviceBits,
    fingerprint::{self, of_hash},
    table::Table,
};

/// Equal exactly where CEL sees the same: driver, attributes, capacities, and whether the device can be shared.
/// A fingerprint of that content: it means the same in every snapshot of every fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub u128);

/// The shapes of a slice's devices, worked out when one is first asked for: allocators do, controllers that only watch taints
/// never do.
#[derive(Debug, Default)]
pub(crate) struct Shapes(OnceBox<Box<[ShapeId]>>);

/// The values that CEL sees of the devices of a slice.
pub(crate) struct Seen<'a> {
    pub(crate) driver: &'a Text,
    /// How many devices there are.
    pub(crate) len: usize,
    pub(crate) allow_multiple: DeviceBits,
    pub(crate) attributes: &'a Table<AttrValue>,
    pub(crate) capacity: &'a Table<CapacityValue>,
}

impl Shapes {
    /// The shapes of the devices, whose own these are.
    pub(crate) fn of<'a>(&self, seen: impl FnOnce() -> Seen<'a>) -> &[ShapeId] {
        self.0.get_or_init(|| Box::new(all(&seen())))
    }
}

fn all(seen: &Seen<'_>) -> Box<[ShapeId]> {
    let mut prefix = fingerprint::hasher();
    prefix.write_u128(of_hash(seen.driver));
    let shape = |device| {
        let mut hasher = prefix;
        hasher.write_u64(u64::from(seen.allow_multiple.has(device)));
        feed(&mut hasher, seen.attributes.prints(device));
        feed(&mut hasher, seen.capacity.prints(device));
        ShapeId(hasher.finish128().as_u128())
    };
    (0..seen.len).map(shape).collect()
}

/// Names and values, and at the end how many: so no two lists of lists look alike.
fn feed(hasher: &mut SipHasher13, prints: impl Iterator<Item = (u128, u128)>) {
    let mut count = 0;
    for (name, value) in prints {
        hasher.write_u128(name);
        hasher.write_u128(value);
        count += 1;
    }
    hasher.write_u64(count);
}
