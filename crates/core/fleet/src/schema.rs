//! The keys that the devices of a slice have.

use alloc::{boxed::Box, vec::Vec};
use core::hash::Hash;

use lazaret_model::{AttrId, QualifiedName, Text};
use siphasher::sip128::Hasher128;

use crate::fingerprint;

/// The keys of the attributes (or capacities) of a slice's devices, as published and as numbers.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) driver: Text,
    /// In key order: the order of the columns.
    pub(crate) keys: Box<[Text]>,
    pub(crate) ids: Box<[AttrId]>,
    /// Columns by number. Where `x` and `driver/x` are both there, the key with the domain comes first.
    by_id: Box<[(AttrId, u32)]>,
    /// The same in the order of names with their domains, each with the name's fingerprint.
    by_name: Box<[(u128, u32)]>,
}

/// Up to this many columns are looked through one by one.
const GLANCE_MAX: usize = 16;

impl Schema {
    /// The schema of these keys, which are in order, each with its number.
    pub(crate) fn new(driver: Text, keys: Box<[Text]>, ids: Box<[AttrId]>) -> Self {
        let mut by_id: Vec<(AttrId, u32)> = ids.iter().copied().zip(0..).collect();
        by_id.sort_by_key(|(id, column)| (*id, !keys[*column as usize].contains('/'), *column));
        let by_name = by_name(&keys, &driver);
        Self { driver, keys, ids, by_id: by_id.into(), by_name }
    }

    /// The columns that may hold `id`, best first.
    #[inline]
    pub(crate) fn columns_of(&self, id: AttrId) -> impl Iterator<Item = usize> {
        // Few are faster looked through than cut in halves.
        let start = if self.by_id.len() <= GLANCE_MAX {
            self.by_id.iter().position(|(other, _)| *other >= id).unwrap_or(self.by_id.len())
        } else {
            self.by_id.partition_point(|(other, _)| *other < id)
        };
        self.by_id[start..]
            .iter()
            .take_while(move |(other, _)| *other == id)
            .map(|(_, column)| *column as usize)
    }

    /// All columns by number, best first where several have the same.
    pub(crate) fn by_id(&self) -> &[(AttrId, u32)] {
        &self.by_id
    }

    /// All columns by name, best first where several have the same: name's fingerprint and column.
    pub(crate) fn by_name(&self) -> &[(u128, u32)] {
        &self.by_name
    }
}

fn by_name(keys: &[Text], driver: &str) -> Box<[(u128, u32)]> {
    let mut names: Vec<(QualifiedName, bool, u32)> = (0..)
        .zip(keys)
        .map(|(column, key)| (QualifiedName::of_key(key, driver), !key.contains('/'), column))
        .collect();
    names.sort();
    let fingerprint = |name: &QualifiedName| {
        let mut hasher = fingerprint::hasher();
        name.hash(&mut hasher);
        hasher.finish128().as_u128()
    };
    names.iter().map(|(name, _, column)| (fingerprint(name), *column)).collect()
}
