//! Values by key and device, in columns: what all devices of a slice have in common is kept once.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::hash::{Hash, Hasher};

use lazaret_model::{AttrId, AttrValue, CapacityValue, Quantity, RequestPolicy, Text};

use rustc_hash::FxHasher;

use crate::{
    fingerprint::{exact, of_hash},
    vocabulary::{SHARED_LEN_MAX, Schema, Sweeping, Vocabulary},
};

/// Kinds of content in prints.
const INT: u8 = 1;
const BOOL: u8 = 2;
const QUANTITY: u8 = 3;
/// Strings of less than 16 bytes, the length added.
const STRING: u8 = 0x40;
/// Below this every whole number is a float, however it is computed.
const FLOAT_EXACT: u64 = 1 << 53;

/// The attributes, or the capacities, of the devices of one slice.
#[derive(Debug)]
pub(crate) struct Table<T> {
    layout: Arc<Layout<T>>,
    /// For each device: what it has in the columns that are not the same for all.
    each: Box<[Option<T>]>,
}

/// What a slice's table has in common with those of other slices of the same kind of device; kept once.
#[derive(Debug)]
pub(crate) struct Layout<T> {
    schema: Arc<Schema>,
    slots: Box<[Slot<T>]>,
    /// How many columns are not the same for all.
    each_len: usize,
}

#[derive(Debug)]
enum Slot<T> {
    /// Every device has it, all the same: the value and its [print](Value::print).
    Same(T, u128),
    /// Each device has its own, or none: in this place of its part of `each`.
    Each(u32),
}

/// A value that a [`Table`] can hold.
pub(crate) trait Value: Clone {
    /// Nothing that anybody can ask tells the two apart.
    fn same(&self, other: &Self) -> bool;
    /// Whether devices of other slices may well have the same.
    fn is_common(&self) -> bool;
    /// The same value, sharing what others have already.
    fn shared(&self, vocabulary: &mut Vocabulary) -> Self;
    /// What CEL sees of it, as a number: equal for two values exactly where CEL cannot tell them apart.
    fn print(&self) -> u128;
    /// Where layouts of tables of such values are kept.
    fn layouts(vocabulary: &mut Vocabulary) -> &mut Sweeping<Arc<Layout<Self>>>;
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
        let schema = vocabulary.schema(driver, &keys);
        let mut varying = Vec::new();
        let mut slots = Vec::with_capacity(keys.len());
        for (at, key) in keys.iter().enumerate() {
            slots.push(match common(devices, at, key) {
                Some(value) => Slot::Same(value.shared(vocabulary), value.print()),
                None => {
                    varying.push((at, *key));
                    Slot::Each(u32::try_from(varying.len() - 1).unwrap_or(u32::MAX))
                }
            });
        }
        let mut each = Vec::with_capacity(devices.len() * varying.len());
        for device in devices {
            let values = varying.iter().map(|(at, key)| find(device, *at, key));
            each.extend(values.map(|value| value.map(|value| value.shared(vocabulary))));
        }
        Self { layout: shared_layout(schema, slots, varying.len(), vocabulary), each: each.into() }
    }

    /// What a device has in a column.
    fn cell(&self, column: usize, device: usize) -> Option<&T> {
        match &self.layout.slots[column] {
            Slot::Same(value, _) => Some(value),
            Slot::Each(at) => self.each[device * self.layout.each_len + *at as usize].as_ref(),
        }
    }

    /// What a device has under a number.
    pub(crate) fn get(&self, id: AttrId, device: usize) -> Option<&T> {
        self.layout.schema.columns_of(id).find_map(|column| self.cell(column, device))
    }

    /// Everything a device has, by key.
    pub(crate) fn row(&self, device: usize) -> impl Iterator<Item = (&Text, AttrId, &T)> {
        let schema = &self.layout.schema;
        (0..self.layout.slots.len()).filter_map(move |column| {
            Some((&schema.keys[column], schema.ids[column], self.cell(column, device)?))
        })
    }

    /// Everything a device has, by number, each number once.
    pub(crate) fn row_by_id(&self, device: usize) -> impl Iterator<Item = (AttrId, &T)> {
        let mut last = None;
        self.layout.schema.by_id().iter().filter_map(move |&(id, column)| {
            let value = self.cell(column as usize, device)?;
            (last.replace(id) != Some(id)).then_some((id, value))
        })
    }

    /// Everything a device has, by name, each name once: fingerprint of the name, and print of the value.
    pub(crate) fn prints(&self, device: usize) -> impl Iterator<Item = (u128, u128)> {
        let mut last = None;
        self.layout.schema.by_name().iter().filter_map(move |&(name, column)| {
            let print = match &self.layout.slots[column as usize] {
                Slot::Same(_, print) => *print,
                Slot::Each(at) => self.each[device * self.layout.each_len + *at as usize].as_ref()?.print(),
            };
            (last.replace(name) != Some(name)).then_some((name, print))
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

/// What a device has under a key that others have in place `at`: mostly it has it there too.
fn find<'a, T>(device: &&'a [(Text, T)], at: usize, key: &Text) -> Option<&'a T> {
    let found = device.get(at).filter(|(k, _)| k == key).or_else(|| device.iter().find(|(k, _)| k == key));
    found.map(|(_, value)| value)
}

/// The value that all devices have under a key. A device that is alone in its slice has everything in common with
/// itself; what counts then is whether others may have it too.
fn common<'a, T: Value>(devices: &[&'a [(Text, T)]], at: usize, key: &Text) -> Option<&'a T> {
    let (first, others) = devices.split_first()?;
    let value = find(first, at, key)?;
    let same = |device: &&'a [(Text, T)]| find(device, at, key).is_some_and(|other| other.same(value));
    let all = if others.is_empty() { value.is_common() } else { others.iter().all(same) };
    all.then_some(value)
}

fn shared_layout<T: Value>(
    schema: Arc<Schema>,
    slots: Vec<Slot<T>>,
    each_len: usize,
    vocabulary: &mut Vocabulary,
) -> Arc<Layout<T>> {
    let mut hasher = FxHasher::default();
    Arc::as_ptr(&schema).hash(&mut hasher);
    for slot in &slots {
        match slot {
            Slot::Same(_, print) => hasher.write_u128(*print),
            Slot::Each(_) => hasher.write_u8(1),
        }
    }
    let same = |known: &Arc<Layout<T>>| {
        let pairs = || known.slots.iter().zip(&slots);
        Arc::ptr_eq(&known.schema, &schema)
            && known.slots.len() == slots.len()
            && pairs().all(|(a, b)| match (a, b) {
                (Slot::Same(a, _), Slot::Same(b, _)) => a.same(b),
                (Slot::Each(a), Slot::Each(b)) => a == b,
                (Slot::Same(..), Slot::Each(_)) | (Slot::Each(_), Slot::Same(..)) => false,
            })
    };
    let layouts = T::layouts(vocabulary);
    match layouts.get(hasher.finish(), same) {
        Some(known) => known,
        None => layouts.insert(hasher.finish(), Arc::new(Layout { schema, slots: slots.into(), each_len })),
    }
}

impl Value for AttrValue {
    fn same(&self, other: &Self) -> bool {
        self == other
    }

    fn is_common(&self) -> bool {
        match self {
            Self::String(text) => text.len() <= SHARED_LEN_MAX,
            Self::Bool(_) | Self::Version(_) | Self::Unsupported => true,
            Self::Int(_) | Self::Ints(_) | Self::Bools(_) | Self::Strings(_) | Self::Versions(_) => false,
        }
    }

    fn shared(&self, vocabulary: &mut Vocabulary) -> Self {
        vocabulary.value(self)
    }

    fn layouts(vocabulary: &mut Vocabulary) -> &mut Sweeping<Arc<Layout<Self>>> {
        &mut vocabulary.attribute_layouts
    }

    fn print(&self) -> u128 {
        match self {
            Self::Int(number) => exact(INT, u128::from(number.cast_unsigned())),
            Self::Bool(truth) => exact(BOOL, u128::from(*truth)),
            Self::String(text) if text.len() < 16 => {
                let mut bytes = [0; 16];
                bytes[..text.len()].copy_from_slice(text.as_bytes());
                // The last byte is free: it tells the length, which a zero at the end of the text would hide.
                exact(STRING + u8::try_from(text.len()).unwrap_or(0), u128::from_le_bytes(bytes))
            }
            Self::String(_)
            | Self::Version(_)
            | Self::Ints(_)
            | Self::Bools(_)
            | Self::Strings(_)
            | Self::Versions(_)
            | Self::Unsupported => of_hash(self),
        }
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

    fn is_common(&self) -> bool {
        true
    }

    fn shared(&self, _: &mut Vocabulary) -> Self {
        self.clone()
    }

    fn layouts(vocabulary: &mut Vocabulary) -> &mut Sweeping<Arc<Layout<Self>>> {
        &mut vocabulary.capacity_layouts
    }

    fn print(&self) -> u128 {
        // CEL can tell 1000m from 1: see `isInteger`.
        let held = self.value.as_i64_if_held_so();
        match held.filter(|number| number.unsigned_abs() < FLOAT_EXACT) {
            Some(number) => exact(QUANTITY, u128::from(number.cast_unsigned())),
            None => of_hash(&(&self.value, held, self.value.approximate_f64().to_bits())),
        }
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
