//! What is the same all over a fleet is kept once: names of attributes, short strings, sets of keys.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::hash::{Hash, Hasher};

use hashbrown::HashTable;
use lazaret_model::{AttrId, AttrNames, AttrValue, CapacityValue, QualifiedName, Text};
use rustc_hash::FxHasher;

use crate::{
    fingerprint::Fingerprint,
    table::{Layout, Slot},
};

/// Strings up to this length are worth a look whether they are already there: models, numbers, bus addresses.
/// Longer ones are mostly serial numbers and occur once.
pub(crate) const SHARED_LEN_MAX: usize = 24;

/// A table is swept when it has grown to twice what the last sweep left, and at least to this.
const SWEEP_LEN_MIN: usize = 1024;

/// As many kinds of table as a node with a few drivers has, attributes and capacities.
const RECENT_SCHEMAS: usize = 8;

/// The keys of the attributes (or capacities) of a slice's devices, as published and as numbers.
#[derive(Debug)]
pub(crate) struct Schema {
    driver: Text,
    /// In key order: the order of the columns.
    pub(crate) keys: Box<[Text]>,
    pub(crate) ids: Box<[AttrId]>,
    /// Columns by number. Where `x` and `driver/x` are both there, the key with the domain comes first.
    by_id: Box<[(AttrId, u32)]>,
    /// The same in the order of names with their domains, each with the name's fingerprint.
    by_name: Box<[(u128, u32)]>,
}

/// So many columns are looked through one by one.
const GLANCE_MAX: usize = 16;

impl Schema {
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

/// Everything that is shared between slices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vocabulary {
    names: Arc<AttrNames>,
    strings: Sweeping<Text>,
    lists: Sweeping<Arc<[Text]>>,
    schemas: Sweeping<Arc<Schema>>,
    pub(crate) attribute_layouts: Sweeping<Arc<Layout<AttrValue>>>,
    pub(crate) capacity_layouts: Sweeping<Arc<Layout<CapacityValue>>>,
    /// Schemas used lately, at most [`RECENT_SCHEMAS`].
    recent_schemas: Vec<Arc<Schema>>,
    /// Empty between uses, kept for their room.
    pub(crate) attribute_slots: Vec<Slot<AttrValue>>,
    pub(crate) capacity_slots: Vec<Slot<CapacityValue>>,
}

impl Vocabulary {
    pub(crate) fn names(&self) -> &Arc<AttrNames> {
        &self.names
    }

    /// The same text, in the allocation that others use already.
    pub(crate) fn text(&mut self, text: &Text) -> Text {
        self.strings.get_or_insert(hash_texts([text]), |known| known == text, || text.clone())
    }

    /// The same texts, in the list that others use already.
    pub(crate) fn texts<'a>(
        &mut self,
        texts: impl ExactSizeIterator<Item = &'a Text> + Clone,
    ) -> Arc<[Text]> {
        let mut hasher = FxHasher::default();
        texts.clone().for_each(|text| hasher.write(text.as_bytes()));
        let same = |known: &Arc<[Text]>| known.len() == texts.len() && known.iter().eq(texts.clone());
        if let Some(known) = self.lists.get(hasher.finish(), same) {
            return known;
        }
        let list = texts.map(|text| self.text(text)).collect();
        self.lists.insert(hasher.finish(), list)
    }

    /// The schema of a driver's devices that was used lately and has the right keys, if there is one.
    pub(crate) fn recent_schema(
        &mut self,
        driver: &Text,
        keys_are: impl Fn(&Schema) -> bool,
    ) -> Option<Arc<Schema>> {
        let fits = |known: &Arc<Schema>| known.driver == *driver && keys_are(known);
        let at = self.recent_schemas.iter().position(fits)?;
        Some(self.recent_schemas[at].clone())
    }

    /// The schema of these keys (sorted, distinct) for this driver.
    pub(crate) fn schema(&mut self, driver: &Text, keys: &[&Text]) -> Arc<Schema> {
        let schema = self.schema_of(driver, keys);
        self.recent_schemas.truncate(RECENT_SCHEMAS - 1);
        self.recent_schemas.insert(0, schema.clone());
        schema
    }

    fn schema_of(&mut self, driver: &Text, keys: &[&Text]) -> Arc<Schema> {
        let mut hasher = FxHasher::default();
        driver.hash(&mut hasher);
        keys.hash(&mut hasher);
        let (names, strings) = (&mut self.names, &mut self.strings);
        self.schemas.get_or_insert(
            hasher.finish(),
            |known| known.driver == *driver && known.keys.iter().eq(keys.iter().copied()),
            || {
                let mut shared = |text: &Text| {
                    strings.get_or_insert(hash_texts([text]), |known| known == text, || text.clone())
                };
                let driver = shared(driver);
                let keys: Box<[Text]> = keys.iter().map(|key| shared(key)).collect();
                let ids: Box<[AttrId]> = keys.iter().map(|key| number(names, key, &driver)).collect();
                let mut by_id: Vec<(AttrId, u32)> = ids.iter().copied().zip(0..).collect();
                by_id.sort_by_key(|(id, column)| (*id, !keys[*column as usize].contains('/'), *column));
                let by_name = by_name(&keys, &driver);
                Arc::new(Schema { driver, keys, ids, by_id: by_id.into(), by_name })
            },
        )
    }

    /// The number of `key` among the attributes of devices of `driver`.
    pub(crate) fn id(&mut self, key: &str, driver: &str) -> AttrId {
        number(&mut self.names, key, driver)
    }
}

fn number(names: &mut Arc<AttrNames>, key: &str, driver: &str) -> AttrId {
    let name = QualifiedName::of_key(key, driver);
    let known = names.get(&name);
    // Only a name never seen before copies the table, and only if a snapshot still reads the old one.
    if known == AttrId::ABSENT { Arc::make_mut(names).intern(&name) } else { known }
}

fn by_name(keys: &[Text], driver: &str) -> Box<[(u128, u32)]> {
    let mut names: Vec<(QualifiedName, bool, u32)> = (0..)
        .zip(keys)
        .map(|(column, key)| (QualifiedName::of_key(key, driver), !key.contains('/'), column))
        .collect();
    names.sort();
    let fingerprint = |name: &QualifiedName| {
        let mut hasher = Fingerprint::new();
        name.hash(&mut hasher);
        hasher.finish128()
    };
    names.iter().map(|(name, _, column)| (fingerprint(name), *column)).collect()
}

/// A set of shared things, out of which what nobody else uses any more is swept now and then.
#[derive(Clone, Debug)]
pub(crate) struct Sweeping<T> {
    table: HashTable<(u64, T)>,
    sweep_at: usize,
}

impl<T> Default for Sweeping<T> {
    fn default() -> Self {
        Self { table: HashTable::new(), sweep_at: SWEEP_LEN_MIN }
    }
}

impl<T: Shared> Sweeping<T> {
    fn get_or_insert(&mut self, hash: u64, same: impl FnMut(&T) -> bool, make: impl FnOnce() -> T) -> T {
        match self.get(hash, same) {
            Some(known) => known,
            None => self.insert(hash, make()),
        }
    }

    pub(crate) fn get(&self, hash: u64, mut same: impl FnMut(&T) -> bool) -> Option<T> {
        self.table.find(hash, |(_, known)| same(known)).map(|(_, known)| known.clone())
    }

    /// Takes in what is not there yet.
    pub(crate) fn insert(&mut self, hash: u64, value: T) -> T {
        if self.table.len() >= self.sweep_at {
            self.table.retain(|(_, known)| !known.is_unique());
            self.sweep_at = (self.table.len() * 2).max(SWEEP_LEN_MIN);
        }
        self.table.insert_unique(hash, (hash, value.clone()), |(hash, _)| *hash);
        value
    }
}

/// Something of which one can tell whether anybody else has it.
pub(crate) trait Shared: Clone {
    fn is_unique(&self) -> bool;
}

impl Shared for Text {
    fn is_unique(&self) -> bool {
        self.is_unique()
    }
}

impl<T: ?Sized> Shared for Arc<T> {
    fn is_unique(&self) -> bool {
        Arc::strong_count(self) == 1
    }
}

/// The hash of some texts, in order.
#[inline]
pub(crate) fn hash_texts<const N: usize>(texts: [&str; N]) -> u64 {
    hash_numbered(0, texts)
}

/// The hash of a number and some texts. Each text is taken in whole, so that it matters where one ends.
#[inline]
pub(crate) fn hash_numbered<const N: usize>(number: u32, texts: [&str; N]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u32(number);
    texts.iter().for_each(|text| hasher.write(text.as_bytes()));
    hasher.finish()
}
