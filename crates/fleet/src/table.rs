//! Values by key and device, in columns: what all devices of a slice have in common is kept once.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::hash::{Hash, Hasher};

use lazaret_model::{AttrId, AttrValue, CapacityValue, Quantity, RequestPolicy, Text};

use rustc_hash::FxHasher;

use crate::{
    bits::DeviceBits,
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

#[derive(Clone, Debug)]
pub(crate) enum Slot<T> {
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
    /// The same value, sharing what others have already: `above` may well be the same.
    fn shared(&self, above: Option<&Self>, vocabulary: &mut Vocabulary) -> Self;
    /// What CEL sees of it, as a number: equal for two values exactly where CEL cannot tell them apart.
    fn print(&self) -> u128;
    /// Where the slots of a layout that may be known already are put together.
    fn slots(vocabulary: &mut Vocabulary) -> &mut Vec<Slot<Self>>;
    /// Where layouts of tables of such values are kept.
    fn layouts(vocabulary: &mut Vocabulary) -> &mut Sweeping<Arc<Layout<Self>>>;
}

/// The devices that a table is built of, as lists of keys and values.
pub(crate) struct Rows<F> {
    /// How many devices there are.
    pub(crate) len: usize,
    /// What each has.
    pub(crate) of: F,
}

impl<'a, T: Value + 'a, F: Fn(usize) -> &'a [(Text, T)]> Rows<F> {
    fn iter(&self) -> impl Iterator<Item = &'a [(Text, T)]> {
        (0..self.len).map(&self.of)
    }

    /// The value that all devices have in a column. A device that is alone in its slice has everything in common with
    /// itself; what counts then is whether others may have it too.
    fn common(&self, column: &Column<'_>) -> Option<&'a T> {
        let value = if self.len == 0 { None } else { column.of((self.of)(0)) }?;
        let same = |device| column.of((self.of)(device)).is_some_and(|other| other.same(value));
        let all = if self.len == 1 { value.is_common() } else { (1..self.len).all(same) };
        all.then_some(value)
    }

    /// The schema that all devices together have, and whether each has all of its keys in order. A key that occurs
    /// twice counts once.
    fn schema(&self, driver: &Text, vocabulary: &mut Vocabulary) -> (Arc<Schema>, bool) {
        let keys_are = |schema: &Schema| {
            let known = &*schema.keys;
            let same = |row: &[(Text, T)]| (0..known.len()).all(|at| row[at].0 == known[at]);
            self.iter().all(|row| row.len() == known.len() && same(row))
        };
        // Drivers describe their devices alike, so the keys are mostly those of a slice seen just before.
        if self.len > 0
            && let Some(known) = vocabulary.recent_schema(driver, keys_are)
        {
            return (known, true);
        }
        let mut rows = self.iter();
        let mut keys: Vec<&Text> =
            rows.next().map_or(&[][..], |row| row).iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        for (key, _) in rows.flatten() {
            if let Err(at) = keys.binary_search(&key) {
                keys.insert(at, key);
            }
        }
        (vocabulary.schema(driver, &keys), false)
    }
}

/// A key, and where it is found.
struct Column<'a> {
    at: usize,
    key: &'a Text,
    /// Every device has it in that place.
    aligned: bool,
}

impl Column<'_> {
    fn of<'a, T>(&self, row: &'a [(Text, T)]) -> Option<&'a T> {
        if self.aligned {
            return row.get(self.at).map(|(_, value)| value);
        }
        row.iter().find(|(known, _)| known == self.key).map(|(_, value)| value)
    }
}

impl<T: Value> Table<T> {
    /// The table of these devices.
    pub(crate) fn build<'a, F>(driver: &Text, rows: &Rows<F>, vocabulary: &mut Vocabulary) -> Self
    where
        T: 'a,
        F: Fn(usize) -> &'a [(Text, T)],
    {
        let (schema, aligned) = rows.schema(driver, vocabulary);
        let columns = || schema.keys.iter().enumerate().map(|(at, key)| Column { at, key, aligned });
        let mut slots = core::mem::take(T::slots(vocabulary));
        let mut each_len = 0;
        for column in columns() {
            slots.push(match rows.common(&column) {
                Some(value) => Slot::Same(value.clone(), value.print()),
                None => {
                    each_len += 1;
                    Slot::Each(u32::try_from(each_len - 1).unwrap_or(u32::MAX))
                }
            });
        }
        let mut each: Vec<Option<T>> = Vec::with_capacity(rows.len * each_len);
        for row in rows.iter().take(if each_len > 0 { rows.len } else { 0 }) {
            for column in columns() {
                if let Slot::Each(_) = &slots[column.at] {
                    let above = each.len().checked_sub(each_len).and_then(|above| each[above].as_ref());
                    each.push(column.of(row).map(|value| value.shared(above, vocabulary)));
                }
            }
        }
        let layout = shared_layout(schema, &slots, each_len, vocabulary);
        slots.clear();
        *T::slots(vocabulary) = slots;
        Self { layout, each: each.into() }
    }

    /// Which of so many devices have a value of some kind.
    pub(crate) fn devices_with(&self, len: usize, wanted: impl Fn(&T) -> bool) -> DeviceBits {
        let common = |slot: &Slot<T>| match slot {
            Slot::Same(value, _) => wanted(value),
            Slot::Each(_) => false,
        };
        if self.layout.slots.iter().any(common) {
            return DeviceBits::first(len);
        }
        let mut found = DeviceBits::EMPTY;
        for (at, value) in self.each.iter().enumerate() {
            if value.as_ref().is_some_and(&wanted) {
                found.set(at / self.layout.each_len, true);
            }
        }
        found
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

    /// Whether nothing under a number tells any devices apart.
    pub(crate) fn is_uniform_in(&self, id: AttrId) -> bool {
        let slots = &self.layout.slots;
        self.layout.schema.columns_of(id).all(|column| matches!(slots[column], Slot::Same(..)))
    }

    /// Whether nothing under a number tells two devices apart.
    pub(crate) fn agree_on(&self, id: AttrId, one: usize, other: usize) -> bool {
        self.layout.schema.columns_of(id).all(|column| match &self.layout.slots[column] {
            Slot::Same(..) => true,
            Slot::Each(_) => match (self.cell(column, one), self.cell(column, other)) {
                (Some(one), Some(other)) => one.same(other),
                (one, other) => one.is_none() && other.is_none(),
            },
        })
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
        let mut rest = values.iter();
        let same = |(column, key)| match self.cell(column, device) {
            Some(mine) => rest.next().is_some_and(|(other, theirs)| key == other && mine.same(theirs)),
            None => true,
        };
        self.layout.schema.keys.iter().enumerate().all(same) && rest.next().is_none()
    }
}

fn shared_layout<T: Value>(
    schema: Arc<Schema>,
    slots: &[Slot<T>],
    each_len: usize,
    vocabulary: &mut Vocabulary,
) -> Arc<Layout<T>> {
    let mut hasher = FxHasher::default();
    Arc::as_ptr(&schema).hash(&mut hasher);
    for slot in slots {
        match slot {
            Slot::Same(_, print) => hasher.write_u128(*print),
            Slot::Each(_) => hasher.write_u8(1),
        }
    }
    let same = |known: &Arc<Layout<T>>| {
        let pairs = || known.slots.iter().zip(slots);
        Arc::ptr_eq(&known.schema, &schema)
            && known.slots.len() == slots.len()
            && pairs().all(|(a, b)| match (a, b) {
                (Slot::Same(a, _), Slot::Same(b, _)) => a.same(b),
                (Slot::Each(a), Slot::Each(b)) => a == b,
                (Slot::Same(..), Slot::Each(_)) | (Slot::Each(_), Slot::Same(..)) => false,
            })
    };
    if let Some(known) = T::layouts(vocabulary).get(hasher.finish(), same) {
        return known;
    }
    let kept = slots.iter().map(|slot| match slot {
        Slot::Same(value, print) => Slot::Same(value.shared(None, vocabulary), *print),
        Slot::Each(at) => Slot::Each(*at),
    });
    let layout = Layout { slots: kept.collect(), schema, each_len };
    T::layouts(vocabulary).insert(hasher.finish(), Arc::new(layout))
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

    fn shared(&self, above: Option<&Self>, vocabulary: &mut Vocabulary) -> Self {
        match (self, above) {
            // Neighbours often have the same, and then it need not be looked for.
            (Self::String(text), Some(Self::String(above))) if text == above => Self::String(above.clone()),
            (Self::String(text), _) if text.len() <= SHARED_LEN_MAX => Self::String(vocabulary.text(text)),
            (Self::Int(number), _) => Self::Int(*number),
            (
                Self::String(_)
                | Self::Bool(_)
                | Self::Version(_)
                | Self::Ints(_)
                | Self::Bools(_)
                | Self::Strings(_)
                | Self::Versions(_)
                | Self::Unsupported,
                _,
            ) => self.clone(),
        }
    }

    fn slots(vocabulary: &mut Vocabulary) -> &mut Vec<Slot<Self>> {
        &mut vocabulary.attribute_slots
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

    fn shared(&self, _: Option<&Self>, _: &mut Vocabulary) -> Self {
        self.clone()
    }

    fn slots(vocabulary: &mut Vocabulary) -> &mut Vec<Slot<Self>> {
        &mut vocabulary.capacity_slots
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
