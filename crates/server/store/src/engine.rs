//! Engines, which make a commit durable.

use std::fmt::Debug;
use std::sync::Arc;

use lazaret_storage::{Event, SnapshotError, Snapshotted, StorageError};
use tokio::sync::oneshot;

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

pub(crate) type SnapshotReply = oneshot::Sender<Result<Snapshotted, SnapshotError>>;

/// Keeps commits. Used by one thread.
pub(crate) trait Engine: Debug + Send {
    /// Returns when the group would survive a loss of power, whole. After an error of this or of `published` it is
    /// not called again before `heal` has succeeded.
    fn append(&mut self, group: &GroupCommit<'_>) -> Result<(), StorageError>;

    /// Called after each publication; a chance to tidy up. Must not wait for the disk for long.
    ///
    /// # Errors
    /// Only when later appends could not be trusted.
    fn published(&mut self, state: &State) -> Result<(), StorageError>;

    /// Makes writing possible again after an error. When it returns, nothing of a group that failed will ever be
    /// read, and `state` is what is: its revision is not lower than any that the failed group may have used.
    fn heal(&mut self, state: &State) -> Result<(), StorageError>;

    /// Writes a snapshot now, beside the commits, and answers when it is durable.
    ///
    /// # Errors
    /// Only when later appends could not be trusted.
    fn snapshot(&mut self, state: &State, reply: SnapshotReply) -> Result<(), Arc<StorageError>>;
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

    fn heal(&mut self, _: &State) -> Result<(), StorageError> {
        Ok(())
    }

    fn snapshot(&mut self, _: &State, reply: SnapshotReply) -> Result<(), Arc<StorageError>> {
        drop(reply.send(Err(SnapshotError::Ephemeral)));
        Ok(())
    }
}
