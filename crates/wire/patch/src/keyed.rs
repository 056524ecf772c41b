//! Lists whose items are found by a key.

use std::collections::HashMap;

use lazaret_json::Value;

/// The items of a list in their order, each found by its key without looking at the others.
pub(crate) struct KeyedItems<'a> {
    key: &'a str,
    /// `None` where an item was removed.
    items: Vec<Option<Value>>,
    /// For each item, the next one with the same key.
    next: Vec<Option<usize>>,
    by_key: HashMap<Value, FirstAndLast>,
}

/// The first and the last item with a key.
#[derive(Clone, Copy)]
struct FirstAndLast {
    first: usize,
    last: usize,
}

impl<'a> KeyedItems<'a> {
    pub(crate) fn new(key: &'a str, items: Vec<Value>) -> Self {
        let count = items.len();
        let mut keyed = Self {
            key,
            items: Vec::with_capacity(count),
            next: Vec::with_capacity(count),
            by_key: HashMap::with_capacity(count),
        };
        items.into_iter().for_each(|item| keyed.push(item));
        keyed
    }

    /// The first item with a key.
    pub(crate) fn get_mut(&mut self, key: &Value) -> Option<&mut Value> {
        let FirstAndLast { first, .. } = self.by_key.get(key)?;
        self.items[*first].as_mut()
    }

    /// Adds an item at the end. One without the key is there and never found.
    pub(crate) fn push(&mut self, item: Value) {
        let at = self.items.len();
        if let Some(key) = item.get(self.key) {
            let ends = self.by_key.entry(key.clone()).or_insert(FirstAndLast { first: at, last: at });
            if ends.last != at {
                self.next[ends.last] = Some(at);
                ends.last = at;
            }
        }
        self.items.push(Some(item));
        self.next.push(None);
    }

    /// Removes every item with a key.
    pub(crate) fn remove(&mut self, key: &Value) {
        let mut at = self.by_key.remove(key).map(|ends| ends.first);
        while let Some(found) = at {
            self.items[found] = None;
            at = self.next[found];
        }
    }
}

impl From<KeyedItems<'_>> for Vec<Value> {
    fn from(keyed: KeyedItems<'_>) -> Self {
        keyed.items.into_iter().flatten().collect()
    }
}
