//! What CEL sees of the devices of a slice, as numbers.

use alloc::boxed::Box;
use core::hash::Hasher;

use once_cell::race::OnceBox;

use crate::{
    ShapeId,
    body::SliceBody,
    fingerprint::{Fingerprint, of_hash},
};

/// The shapes of a slice's devices, worked out when somebody asks for one: allocators do, but who only watches taints
/// never does.
#[derive(Debug, Default)]
pub(crate) struct Shapes(OnceBox<Box<[ShapeId]>>);

impl Shapes {
    /// The shapes of the devices of `body`, whose own these are.
    pub(crate) fn of(&self, body: &SliceBody) -> &[ShapeId] {
        self.0.get_or_init(|| Box::new(all(body)))
    }
}

fn all(body: &SliceBody) -> Box<[ShapeId]> {
    let mut prefix = Fingerprint::new();
    prefix.write_u128(of_hash(&body.driver));
    let shape = |device| {
        let mut hasher = prefix.clone();
        hasher.write_u64(u64::from(body.flags().allow_multiple.has(device)));
        feed(&mut hasher, body.attributes.prints(device));
        feed(&mut hasher, body.capacity.prints(device));
        ShapeId(hasher.finish128())
    };
    (0..body.len()).map(shape).collect()
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
