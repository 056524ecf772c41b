//! What makes a commit last.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::StorageError;
use crate::item::Event;
use crate::shared::State;

/// A group of transactions on its way to the disk.
#[derive(Debug)]
pub(crate) struct GroupCommit<'a> {
    /// The revision before the group.
    pub(crate) base: u64,
    /// Its changes, at the revisions right after `base`.
    pub(crate) events: &'a [Arc<Event>],
    /// The history up to here is to be forgotten.
    pub(crate) compact: Option<u64>,
}

/// Keeps commits. Used by one thread.
pub(crate) trait Engine: Debug + Send {
    /// Returns when the group would survive a loss of power, whole. After an error it is not called again.
    fn append(&mut self, group: &GroupCommit<'_>) -> Result<(), StorageError>;

    /// Told after each publication; a chance to tidy up. Must not wait for the disk for long.
    ///
    /// # Errors
    /// Only when later appends could not be trusted.
    fn published(&mut self, state: &State) -> Result<(), StorageError>;
}

/// Keeps nothing: for tests, simulations, and servers whose state may vanish.
#[derive(Debug)]
pub(crate) struct Ephemeral;

impl Engine for Ephemeral {
    fn append(&mut self, _: &GroupCommit<'_>) -> Result<(), StorageError> {
        Ok(())
    }

    fn published(&mut self, _: &State) -> Result<(), StorageError> {
        Ok(())
    }
}
