//! Transactions: what to expect of some keys, and what to do to them if all of it holds.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::TxnInvalid;
use crate::item::{Event, Key};

/// One operation of a transaction: an expectation about a key, and an action that is taken if every expectation of
/// the transaction holds.
#[derive(Debug, Clone)]
pub struct Op {
    /// The key; at most one operation of a transaction may name it.
    pub key: Key,
    /// The precondition.
    pub expect: Expect,
    /// The change.
    pub action: Action,
}

/// A precondition on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing in particular.
    Any,
    /// It does not exist.
    Absent,
    /// It exists.
    Present,
    /// It exists, and was last modified at this revision.
    Revision(u64),
}

/// A change of a key.
#[derive(Debug, Clone)]
pub enum Action {
    /// Set its value.
    Put(Value),
    /// Remove it; removing what is absent changes nothing and takes no revision.
    Delete,
    /// Only look: the expectation guards the rest of the transaction.
    Check,
}

/// The bytes to put.
#[derive(Debug, Clone)]
pub enum Value {
    /// These bytes, shared and not copied. A small slice of a large buffer keeps the whole buffer alive.
    Plain(Bytes),
    /// `before`, then the decimal revision of this very change, then `after`: so a stored object can carry its own
    /// `resourceVersion` and be shipped as it is stored.
    Stamped {
        /// The bytes up to the revision.
        before: Bytes,
        /// The bytes from the revision on.
        after: Bytes,
    },
}

/// An acknowledged transaction.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The store's revision right after it.
    pub revision: u64,
    /// The event of each operation, in order; `None` for one that changed nothing.
    pub events: Vec<Option<Arc<Event>>>,
}

impl Op {
    /// Puts a value under a key that must not exist.
    pub fn create(key: impl Into<Key>, value: impl Into<Value>) -> Op {
        Op { key: key.into(), expect: Expect::Absent, action: Action::Put(value.into()) }
    }

    /// Replaces a value that was last modified at `revision`.
    pub fn update(key: impl Into<Key>, revision: u64, value: impl Into<Value>) -> Op {
        Op { key: key.into(), expect: Expect::Revision(revision), action: Action::Put(value.into()) }
    }

    /// Puts a value whatever was there.
    pub fn put(key: impl Into<Key>, value: impl Into<Value>) -> Op {
        Op { key: key.into(), expect: Expect::Any, action: Action::Put(value.into()) }
    }

    /// Removes a key that was last modified at `revision`.
    pub fn delete(key: impl Into<Key>, revision: u64) -> Op {
        Op { key: key.into(), expect: Expect::Revision(revision), action: Action::Delete }
    }

    /// Removes a key if it is there.
    pub fn delete_any(key: impl Into<Key>) -> Op {
        Op { key: key.into(), expect: Expect::Any, action: Action::Delete }
    }

    /// Changes nothing; guards the rest of the transaction.
    pub fn check(key: impl Into<Key>, expect: Expect) -> Op {
        Op { key: key.into(), expect, action: Action::Check }
    }

    /// The bytes of its key and value: its part of a transaction's limit.
    #[must_use]
    pub fn weight(&self) -> usize {
        let value = match &self.action {
            Action::Put(value) => value.len_max(),
            Action::Delete | Action::Check => 0,
        };
        self.key.len() + value
    }
}

impl Value {
    /// The bytes as they are stored at `revision`.
    #[must_use]
    pub fn at(&self, revision: u64) -> Bytes {
        match self {
            Value::Plain(bytes) => bytes.clone(),
            Value::Stamped { before, after } => {
                let stamp = revision.to_string();
                let mut bytes = Vec::with_capacity(before.len() + stamp.len() + after.len());
                bytes.extend_from_slice(before);
                bytes.extend_from_slice(stamp.as_bytes());
                bytes.extend_from_slice(after);
                bytes.into()
            }
        }
    }

    fn len_max(&self) -> usize {
        const REVISION_DIGITS_MAX: usize = 20;
        match self {
            Value::Plain(bytes) => bytes.len(),
            Value::Stamped { before, after } => before.len() + REVISION_DIGITS_MAX + after.len(),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Value {
    fn from(bytes: T) -> Self {
        Value::Plain(bytes.into())
    }
}

/// The limits of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxnLimits {
    /// Operations.
    pub ops_max: usize,
    /// Bytes of keys and values.
    pub bytes_max: usize,
    /// Bytes of one key.
    pub key_bytes_max: usize,
}

impl Default for TxnLimits {
    fn default() -> Self {
        TxnLimits { ops_max: 512, bytes_max: 16 << 20, key_bytes_max: 4_096 }
    }
}

/// Checks the rules that need no state. Returns the weight of the transaction.
///
/// # Errors
/// See [`TxnInvalid`].
pub fn validate(ops: &[Op], limits: TxnLimits) -> Result<usize, TxnInvalid> {
    if ops.is_empty() {
        return Err(TxnInvalid::Empty);
    }
    if ops.len() > limits.ops_max {
        return Err(TxnInvalid::TooManyOps { ops: ops.len(), max: limits.ops_max });
    }
    for op in ops {
        if op.key.is_empty() {
            return Err(TxnInvalid::EmptyKey);
        }
        if op.key.len() > limits.key_bytes_max {
            return Err(TxnInvalid::KeyTooLong { bytes: op.key.len(), max: limits.key_bytes_max });
        }
    }
    let bytes = ops.iter().map(Op::weight).sum();
    if bytes > limits.bytes_max {
        return Err(TxnInvalid::TooLarge { bytes, max: limits.bytes_max });
    }
    if ops.len() > 1 {
        let mut keys: Vec<&Key> = ops.iter().map(|op| &op.key).collect();
        keys.sort_unstable();
        if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(TxnInvalid::RepeatedKey(pair[0].clone()));
        }
    }
    Ok(bytes)
}
