//! Values by key and device, in columns: what all devices of a slice have in common is kept once.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::hash::{Hash, Hasher};

use lazaret_model::{AttrId, Text};

use rustc_hash::FxHasher;

use crate::{
    bits::DeviceBits,
    layout::{Layout, Slot},
    rows::{Column, Rows},
    schema::Schema,
    value::Value,
    vocabulary::Vocabulary,
};

/// The attributes, or the capacities, of the devices of one slice.
#[derive(Clone, Debug)]
pub(crate) struct Table<T> {
    layout: Arc<Layout<T>>,
    /// For each device: what it has in the columns that are not the same for all.
    each: Box<[Option<T>]>,
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

    /// The table of devices that have these values.
    pub(crate) fn of_rows(driver: &Text, rows: Vec<Vec<(Text, T)>>, vocabulary: &mut Vocabulary) -> Self {
        Self::build(driver, &Rows { len: rows.len(), of: |at: usize| rows[at].as_slice() }, vocabulary)
    }

    /// Which of `len` devices have such a value.
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

    /// The value of a device in a column.
    fn cell(&self, column: usize, device: usize) -> Option<&T> {
        match &self.layout.slots[column] {
            Slot::Same(value, _) => Some(value),
            Slot::Each(at) => self.each[device * self.layout.each_len + *at as usize].as_ref(),
        }
    }

    /// The value of a device under an attribute's number.
    #[inline]
    pub(crate) fn get(&self, id: AttrId, device: usize) -> Option<&T> {
        self.layout.schema.columns_of(id).find_map(|column| self.cell(column, device))
    }

    /// The columns under a number in which the devices are not all the same.
    pub(crate) fn varying(&self, id: AttrId) -> impl Iterator<Item = u32> {
        let slots = &self.layout.slots;
        let columns = self.layout.schema.columns_of(id);
        columns
            .filter(|column| matches!(slots[*column], Slot::Each(_)))
            .filter_map(|at| u32::try_from(at).ok())
    }

    /// Whether two devices have the same in a column.
    #[inline]
    pub(crate) fn agree_in(&self, column: u32, one: usize, other: usize) -> bool {
        let column = column as usize;
        match (self.cell(column, one), self.cell(column, other)) {
            (Some(one), Some(other)) => one.same(other),
            (one, other) => one.is_none() && other.is_none(),
        }
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
