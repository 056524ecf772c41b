//! Keys, items, and events about them.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;

/// A key: bytes, ordered as bytes, shared between every version of an item and every event about it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

/// One version of one key's value. Immutable and shared: the index, the history, readers and watchers hold the
/// same allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The key.
    pub key: Key,
    /// The bytes; a store does not know what they mean.
    pub value: Bytes,
    /// The revision at which the key came into being (since it was last absent).
    pub created: u64,
    /// The revision of this version: what a compare-and-swap compares, an object's `resourceVersion`.
    pub modified: u64,
}

/// One change of one key. Every change has a revision of its own, so a watcher that stops after any event can
/// resume from that event's revision without a gap and without a repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The revision this change made; a delete has one too.
    pub revision: u64,
    /// The key that changed.
    pub key: Key,
    /// The item from now on; `None` after a delete.
    pub new: Option<Arc<Item>>,
    /// The item until now; `None` before a create.
    pub old: Option<Arc<Item>>,
}

/// The change that an event made to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The key was absent.
    Created,
    /// The key had another value or another revision.
    Updated,
    /// The key is gone.
    Deleted,
}

impl Event {
    /// The change that this event made to its key.
    #[must_use]
    pub fn kind(&self) -> EventKind {
        match (&self.old, &self.new) {
            (None, Some(_)) => EventKind::Created,
            (Some(_), Some(_)) => EventKind::Updated,
            (_, None) => EventKind::Deleted,
        }
    }

    /// The bytes this event keeps alive at most, for the history's limit.
    #[must_use]
    pub fn weight(&self) -> usize {
        let values = [&self.new, &self.old].into_iter().flatten().map(|item| item.value.len()).sum::<usize>();
        size_of::<Event>() + 2 * size_of::<Item>() + self.key.len() + values
    }
}

impl Item {
    /// The bytes this item occupies, roughly: what a snapshot of it weighs.
    #[must_use]
    pub fn weight(&self) -> u64 {
        (size_of::<Item>() + self.key.len() + self.value.len()) as u64
    }
}

impl Deref for Key {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        Key(bytes.into())
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        Key(bytes.into())
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Key(text.as_bytes().into())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Key(text.into_bytes().into())
    }
}

impl From<Arc<str>> for Key {
    fn from(text: Arc<str>) -> Self {
        Key(text.into())
    }
}
