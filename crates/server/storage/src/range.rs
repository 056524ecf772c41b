//! Reads of many keys, now or at a past revision.

use std::sync::Arc;

use crate::item::{Item, Key};

/// Which part of a prefix to read, and when.
#[derive(Debug, Clone, Default)]
pub struct RangeOptions {
    /// The revision to read at; `None` reads the newest.
    pub at: Option<u64>,
    /// The greatest number of items; `None` reads all.
    pub limit: Option<usize>,
    /// Only keys greater than this one: the last key of the page before.
    pub after: Option<Key>,
}

/// A page of items, ascending by key.
#[derive(Debug, Clone)]
pub struct Range {
    /// The items.
    pub items: Vec<Arc<Item>>,
    /// The revision they were read at: where the next page must be read, and where a watch continues.
    pub revision: u64,
    /// The number of items of the prefix that follow the last one.
    pub remaining: usize,
}
