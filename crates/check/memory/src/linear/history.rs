//! Operations of clients: their results, and when they began and ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Instants that all clients of a history share. Not time: only what came before what.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// The next instant.
    pub fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// One operation of one client.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Before it was sent.
    pub start: u64,
    /// After it was answered.
    pub end: u64,
    /// The question and the answer.
    pub what: What,
}

/// A question and its answer.
#[derive(Debug, Clone)]
pub enum What {
    /// An acknowledged write: its changes in order, and what it expected of keys.
    Wrote {
        /// The changes; none where it found nothing to change.
        changes: Vec<Change>,
        /// The keys that had to be at a revision, or absent.
        expected: Vec<(String, Written)>,
    },
    /// A write that was refused because a key was not as expected.
    Refused {
        /// The key.
        key: String,
        /// The value that the write expected.
        expected: Written,
        /// The value that was there instead, where the answer says so.
        found: Option<Written>,
    },
    /// A write whose outcome nobody told: none of these changes or all, at any time from its start.
    Unanswered {
        /// Keys and values; `None` removes.
        changes: Vec<(String, Option<String>)>,
    },
    /// A read of one key.
    Read {
        /// The key.
        key: String,
        /// The value that was read.
        found: Option<Seen>,
    },
    /// A read of a prefix at one revision.
    Listed {
        /// The prefix.
        prefix: String,
        /// The revision of the answer.
        revision: u64,
        /// The values that were read, by key.
        found: BTreeMap<String, Seen>,
    },
    /// A read of the past: it need not be new.
    ListedAt {
        /// The prefix.
        prefix: String,
        /// The revision that was asked for.
        revision: u64,
        /// The values that were read, by key.
        found: BTreeMap<String, Seen>,
    },
    /// A watch, from its beginning to its end.
    Watched {
        /// The prefix.
        prefix: String,
        /// The revision it began after.
        from: u64,
        /// The changes in the order of their delivery, each with the instant.
        delivered: Vec<(u64, Change)>,
        /// The revision up to which the store said that all was delivered.
        progress: u64,
    },
}

/// A key's state as a precondition: the revision of its last change, or that it is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// There is no such key.
    Absent,
    /// It is there, whatever its revision.
    Present,
    /// It was last changed at this revision.
    At(u64),
}

/// A key that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The revision of its last change.
    pub revision: u64,
    /// Its value.
    pub value: String,
}

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The revision that it made.
    pub revision: u64,
    /// The key.
    pub key: String,
    /// The value from then on; `None` after a delete.
    pub value: Option<String>,
}

/// All that clients saw of one store.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The revision before the first operation.
    pub first: u64,
    /// In any order.
    pub operations: Vec<Operation>,
}
