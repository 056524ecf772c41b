//! A page of a collection.

use std::sync::Arc;

use lazaret_storage::Item;

use crate::continuation::Continuation;

/// A page of a collection, in one state of the store.
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Item>>,
    pub(crate) revision: u64,
    pub(crate) next: Option<Continuation>,
    pub(crate) remaining: Option<usize>,
}
