//! Attributes and capacities that patches set or take away.

use alloc::vec::Vec;

use lazaret_model::{AttrId, AttrValue, CapacityValue, DevicePatch, Text};

use crate::{bits::DeviceBits, vocabulary::Vocabulary};

/// A patch about to be applied to devices of a driver.
#[derive(Clone, Debug)]
pub(crate) struct Override<'a> {
    hits: DeviceBits,
    attributes: Values<'a, AttrValue>,
    capacity: Values<'a, CapacityValue>,
}

/// Keys as the patch has them, their numbers, and what they are set to. `None` takes away.
type Values<'a, T> = Vec<(&'a Text, AttrId, Option<&'a T>)>;

impl<'a> Override<'a> {
    pub(crate) fn new(
        patch: &'a DevicePatch,
        hits: DeviceBits,
        driver: &str,
        vocabulary: &mut Vocabulary,
    ) -> Self {
        Self {
            hits,
            attributes: numbered(&patch.attributes, driver, vocabulary),
            capacity: numbered(&patch.capacity, driver, vocabulary),
        }
    }

    pub(crate) fn hits(&self, device: usize) -> bool {
        self.hits.has(device)
    }

    pub(crate) fn attributes(&self) -> &[(&'a Text, AttrId, Option<&'a AttrValue>)] {
        &self.attributes
    }

    pub(crate) fn capacity(&self) -> &[(&'a Text, AttrId, Option<&'a CapacityValue>)] {
        &self.capacity
    }
}

fn numbered<'a, T>(
    patch: &'a [(Text, Option<T>)],
    driver: &str,
    vocabulary: &mut Vocabulary,
) -> Values<'a, T> {
    patch.iter().map(|(key, value)| (key, vocabulary.id(key, driver), value.as_ref())).collect()
}

/// Overrides what a device has. Keys are the same where their names with domain are: `driver/x` overrides `x`.
pub(crate) fn merge<T: Clone>(row: &mut Vec<(Text, AttrId, T)>, patch: &[(&Text, AttrId, Option<&T>)]) {
    for (key, id, value) in patch {
        let published = row.iter().find(|(_, other, _)| other == id).map(|(key, _, _)| key.clone());
        row.retain(|(_, other, _)| other != id);
        if let Some(value) = value {
            row.push((published.unwrap_or_else(|| (*key).clone()), *id, (*value).clone()));
        }
    }
}
