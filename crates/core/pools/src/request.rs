//! A request and when it is due to be deleted.

use lazaret_model::{Text, Timestamp, Uid};

/// Seconds that a request is kept after it was answered.
pub const COMPLETED_SECONDS_MAX: i64 = 3_600;
/// Seconds that an unanswered request is kept.
pub const PENDING_SECONDS_MAX: i64 = 24 * 3_600;

/// A ResourcePoolStatusRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub name: Text,
    /// Which incarnation of it.
    pub uid: Uid,
    /// Its resource version.
    pub version: Text,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Pools of this driver are wanted.
    pub driver: Text,
    /// Only the pool with this name.
    pub pool: Option<Text>,
    /// Pools to list at most; all of them are counted.
    pub pools_max: usize,
    /// Groups the partitions of a pool in which no slice names an attribute for that.
    pub partition_attribute: Option<Text>,
    /// Whether it has a status.
    pub progress: Progress,
}

/// Whether a request has a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has none.
    Pending,
    /// It has one, with the time of its condition `Complete` or `Failed`.
    Answered(Option<Timestamp>),
}

impl Request {
    /// When it is old enough to be deleted.
    pub(crate) fn expires(&self) -> Option<Timestamp> {
        let (since, seconds) = match self.progress {
            Progress::Pending => (self.created, PENDING_SECONDS_MAX),
            Progress::Answered(at) => (at.or(self.created), COMPLETED_SECONDS_MAX),
        };
        since.map(|since| since.plus_secs(seconds).plus_millis(1))
    }
}
