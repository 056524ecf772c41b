//! Values that repeat all over a fleet are kept once: names of attributes, short strings, sets of keys.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::hash::{Hash, Hasher};

use lazaret_model::{AttrId, AttrNames, AttrValue, CapacityValue, QualifiedName, Text};
use rustc_hash::FxHasher;

use crate::{
    layout::{Layout, Slot},
    schema::Schema,
    sweeping::Sweeping,
};

/// Strings up to this length are worth a look whether they are already there: models, numbers, bus addresses.
/// Longer ones are mostly serial numbers and occur once.
pub(crate) const SHARED_LEN_MAX: usize = 24;

/// As many kinds of table as a node with a few drivers has, attributes and capacities.
const RECENT_SCHEMAS: usize = 8;

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
                Arc::new(Schema::new(driver, keys, ids))
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
