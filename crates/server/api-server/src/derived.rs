//! Values computed from all objects under a prefix of the store, and computed again only when one of them changed.

use std::sync::{Arc, Mutex, PoisonError};

use lazaret_storage::{Item, RangeOptions, Storage, Watch};

/// Something made from the objects under a prefix. A look costs one glance at a watch; nothing runs in the background.
pub(crate) struct Derived<T> {
    prefix: &'static str,
    make: fn(&[Arc<Item>]) -> T,
    state: Mutex<Option<(Watch, Arc<T>)>>,
}

impl<T> std::fmt::Debug for Derived<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Derived").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl<T> Derived<T> {
    pub(crate) const fn new(prefix: &'static str, make: fn(&[Arc<Item>]) -> T) -> Self {
        Self { prefix, make, state: Mutex::new(None) }
    }

    /// As of everything that was written before this was called.
    pub(crate) fn get(&self, store: &dyn Storage) -> Arc<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((watch, known)) = state.as_mut()
            && matches!(watch.try_next(), Ok(None))
        {
            return known.clone();
        }
        // Something changed, or the watch fell behind: begin anew.
        let range = store.range(self.prefix.as_bytes(), &RangeOptions::default());
        let (items, revision) = range
            .map(|range| (range.items, range.revision))
            .unwrap_or_else(|_| (Vec::new(), store.revision()));
        let made = Arc::new((self.make)(&items));
        *state = store.watch(self.prefix.into(), revision).ok().map(|watch| (watch, made.clone()));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_store::{Op, Options, Store};

    #[test]
    fn it_is_worked_out_again_when_something_under_the_prefix_changed_and_only_then() {
        let store = Store::ephemeral(Options::default()).unwrap();
        let derived = Derived::new("/a/", |items| items.len());
        assert_eq!(*derived.get(&store), 0);
        let first = derived.get(&store);
        store.txn_blocking(vec![Op::create("/b/x", "{}")]).unwrap();
        assert!(Arc::ptr_eq(&first, &derived.get(&store)), "another prefix");
        for at in 0..200 {
            store.txn_blocking(vec![Op::create(format!("/a/{at}").as_str(), "{}")]).unwrap();
        }
        assert_eq!(*derived.get(&store), 200, "one look sees all changes at once");
        assert_eq!(*derived.get(&store), 200);
    }
}
