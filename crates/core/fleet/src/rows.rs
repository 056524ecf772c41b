//! Devices as a driver lists them, on the way into a [table](crate::table).

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::Text;

use crate::{schema::Schema, value::Value, vocabulary::Vocabulary};

/// The devices that a table is built of, as lists of keys and values.
pub(crate) struct Rows<F> {
    /// How many devices there are.
    pub(crate) len: usize,
    /// The keys and values of a device.
    pub(crate) of: F,
}

impl<'a, T: Value + 'a, F: Fn(usize) -> &'a [(Text, T)]> Rows<F> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a [(Text, T)]> {
        (0..self.len).map(&self.of)
    }

    /// The value that all devices have in a column. A device that is alone in its slice has everything in common with
    /// itself; what counts then is whether others may have it too.
    pub(crate) fn common(&self, column: &Column<'_>) -> Option<&'a T> {
        let value = if self.len == 0 { None } else { column.of((self.of)(0)) }?;
        let same = |device| column.of((self.of)(device)).is_some_and(|other| other.same(value));
        let all = if self.len == 1 { value.is_common() } else { (1..self.len).all(same) };
        all.then_some(value)
    }

    /// The schema that all devices together have, and whether each has all of its keys in order. A key that occurs
    /// twice counts once.
    pub(crate) fn schema(&self, driver: &Text, vocabulary: &mut Vocabulary) -> (Arc<Schema>, bool) {
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
pub(crate) struct Column<'a> {
    pub(crate) at: usize,
    pub(crate) key: &'a Text,
    /// Every device has it in that place.
    pub(crate) aligned: bool,
}

impl Column<'_> {
    pub(crate) fn of<'a, T>(&self, row: &'a [(Text, T)]) -> Option<&'a T> {
        if self.aligned {
            return row.get(self.at).map(|(_, value)| value);
        }
        row.iter().find(|(known, _)| known == self.key).map(|(_, value)| value)
    }
}
