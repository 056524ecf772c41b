//! Values by key and device, in columns: what all devices of a slice have in common is kept once.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::hash::{Hash, Hasher};

use lazaret_model::{AttrId, AttrValue, CapacityValue, Quantity, RequestPolicy, Text};

use crate::vocabulary::{Schema, Vocabulary};

/// The attributes, or the capacities, of the devices of one slice.
#[derive(Debug)]
pub(crate) struct Table<T> {
    pub(crate) schema: Arc<Schema>,
    columns: Box<[Column<T>]>,
}

#[derive(Debug)]
enum Column<T> {
    /// Every device has it, all the same.
    Same(T),
    Each(Box<[Option<T>]>),
}

/// A value that a [`Table`] can hold.
pub(crate) trait Value: Clone {
    /// Nothing that anybody can ask tells the two apart.
    fn same(&self, other: &Self) -> bool;
    /// The same value, sharing what others have already.
    fn shared(&self, vocabulary: &mut Vocabulary) -> Self;
    /// Feeds what CEL sees of it.
    fn fingerprint(&self, hasher: &mut impl Hasher);
}

impl<T: Value> Table<T> {
    /// The table of these devices, each a list of keys and values. A key that occurs twice counts once.
    pub(crate) fn build<'a>(driver: &Text, devices: &[&'a [(Text, T)]], vocabulary: &mut Vocabulary) -> Self
    where
        T: 'a,
    {
        let mut keys: Vec<&Text> =
            devices.first().map_or(&[][..], |d| d).iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        for device in devices.iter().skip(1) {
            for (key, _) in *device {
                if let Err(at) = keys.binary_search(&key) {
                    keys.insert(at, key);
                }
            }
        }
        let columns = keys.iter().enumerate().map(|(at, key)| column(devices, at, key, vocabulary)).collect();
        Self { schema: vocabulary.schema(driver, &keys), columns }
    }

    /// What a device has in a column.
    pub(crate) fn cell(&self, column: usize, device: usize) -> Option<&T> {
        match &self.columns[column] {
            Column::Same(value) => Some(value),
            Column::Each(values) => values[device].as_ref(),
        }
    }

    /// What a device has under a number.
    pub(crate) fn get(&self, id: AttrId, device: usize) -> Option<&T> {
        self.schema.columns_of(id).find_map(|column| self.cell(column, device))
    }

    /// Everything a device has, by key.
    pub(crate) fn row(&self, device: usize) -> impl Iterator<Item = (&Text, AttrId, &T)> {
        (0..self.columns.len()).filter_map(move |column| {
            Some((&self.schema.keys[column], self.schema.ids[column], self.cell(column, device)?))
        })
    }

    /// Everything a device has, by number, each number once.
    pub(crate) fn row_by_id(&self, device: usize) -> impl Iterator<Item = (AttrId, &T)> {
        let mut last = None;
        self.schema.by_id().iter().filter_map(move |&(id, column)| {
            let value = self.cell(column as usize, device)?;
            (last.replace(id) != Some(id)).then_some((id, value))
        })
    }

    /// Everything a device has, by name, each name once: fingerprint of the name, and value.
    pub(crate) fn row_by_name(&self, device: usize) -> impl Iterator<Item = (u128, &T)> {
        let mut last = None;
        self.schema.by_name().iter().filter_map(move |&(name, column)| {
            let value = self.cell(column as usize, device)?;
            (last.replace(name) != Some(name)).then_some((name, value))
        })
    }

    /// Whether a device has exactly these values.
    pub(crate) fn row_is(&self, device: usize, values: &[(Text, T)]) -> bool {
        let mut row = self.row(device);
        let mut rest = values.iter();
        loop {
            match (row.next(), rest.next()) {
                (None, None) => return true,
                (Some((key, _, mine)), Some((other, theirs))) if key == other && mine.same(theirs) => {}
                (None | Some(_), None | Some(_)) => return false,
            }
        }
    }
}

fn column<'a, T: Value + 'a>(
    devices: &[&'a [(Text, T)]],
    at: usize,
    key: &Text,
    vocabulary: &mut Vocabulary,
) -> Column<T> {
    let find = |device: &&'a [(Text, T)]| {
        // Devices of a slice mostly have the same keys in the same order.
        let found =
            device.get(at).filter(|(k, _)| k == key).or_else(|| device.iter().find(|(k, _)| k == key));
        found.map(|(_, value)| value)
    };
    let first = devices.first().and_then(find);
    match first {
        Some(value) if devices.iter().skip(1).all(|d| find(d).is_some_and(|v| v.same(value))) => {
            Column::Same(value.shared(vocabulary))
        }
        Some(_) | None => {
            Column::Each(devices.iter().map(|d| find(d).map(|v| v.shared(vocabulary))).collect())
        }
    }
}

impl Value for AttrValue {
    fn same(&self, other: &Self) -> bool {
        self == other
    }

    fn shared(&self, vocabulary: &mut Vocabulary) -> Self {
        vocabulary.value(self)
    }

    fn fingerprint(&self, hasher: &mut impl Hasher) {
        self.hash(hasher);
    }
}

impl Value for CapacityValue {
    fn same(&self, other: &Self) -> bool {
        self.value.is_identical(&other.value)
            && match (&self.policy, &other.policy) {
                (None, None) => true,
                (Some(mine), Some(theirs)) => same_policy(mine, theirs),
                (None, Some(_)) | (Some(_), None) => false,
            }
    }

    fn shared(&self, _: &mut Vocabulary) -> Self {
        self.clone()
    }

    fn fingerprint(&self, hasher: &mut impl Hasher) {
        self.value.hash(hasher);
        // CEL can tell 1000m from 1: see `isInteger`.
        self.value.as_i64_if_held_so().hash(hasher);
        self.value.approximate_f64().to_bits().hash(hasher);
    }
}

fn same_policy(left: &RequestPolicy, right: &RequestPolicy) -> bool {
    let same = |a: &Option<Quantity>, b: &Option<Quantity>| match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.is_identical(b),
        (None, Some(_)) | (Some(_), None) => false,
    };
    same(&left.default, &right.default)
        && left.valid_values.len() == right.valid_values.len()
        && left.valid_values.iter().zip(&right.valid_values).all(|(a, b)| a.is_identical(b))
        && match (&left.valid_range, &right.valid_range) {
            (None, None) => true,
            (Some(a), Some(b)) => same(&a.min, &b.min) && same(&a.max, &b.max) && same(&a.step, &b.step),
            (None, Some(_)) | (Some(_), None) => false,
        }
}
