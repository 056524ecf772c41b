//! Sets of shared values that forget those which nobody uses.

use alloc::sync::Arc;

use hashbrown::HashTable;
use lazaret_model::Text;

/// A table is swept when it has grown to twice what the last sweep left, and at least to this.
const SWEEP_LEN_MIN: usize = 1024;

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
    pub(crate) fn get_or_insert(
        &mut self,
        hash: u64,
        same: impl FnMut(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> T {
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
