//! Events are forgotten some time after they were last written.
//!
//! The objects are not parsed for that: the server remembers the revision that it had at each time, and an event whose last write is before
//! the revision of an hour ago is an hour old. After a restart the hour begins again.

use std::{collections::VecDeque, time::Duration};

use lazaret_kinds::{Kind, find};
use lazaret_storage::{Op, RangeOptions, TxnError};

use crate::{ApiError, Server, object, verbs};

/// The interval at which revisions are noted: events live at most this much longer.
const NOTED_EVERY: Duration = Duration::from_secs(60);
/// The interval at which failures to delete are logged; each is counted.
const LOG_INTERVAL: Duration = Duration::from_secs(600);
/// Deleted in one write.
const BATCH_MAX: usize = 500;

/// Which revision there was when.
#[derive(Debug)]
struct RevisionTimes {
    kept: Duration,
    marks: VecDeque<(Duration, u64)>,
}

impl RevisionTimes {
    fn new(kept: Duration) -> Self {
        Self { kept, marks: VecDeque::new() }
    }

    /// Notes the revision of now. Returns the newest one that is old enough to be forgotten.
    fn note(&mut self, now: Duration, revision: u64) -> Option<u64> {
        let mut old = None;
        while let Some((_, revision)) = self.marks.front().filter(|(at, _)| *at + self.kept <= now) {
            old = Some(*revision);
            self.marks.pop_front();
        }
        self.marks.push_back((now, revision));
        old
    }
}

/// Lets go of the trees of objects that were not written after `revision`; their text stays.
pub fn forget_trees_until(server: &Server, revision: u64) {
    server.object_cache().forget_until(revision);
}

impl Server {
    /// Deletes events whose last write is older than `kept`; never ends. Zero keeps them for ever.
    pub async fn forget_events(&self, kept: Duration) {
        if kept.is_zero() {
            return std::future::pending().await;
        }
        let mut marks = RevisionTimes::new(kept);
        let begin = tokio::time::Instant::now();
        let mut ticks = tokio::time::interval(NOTED_EVERY.min(kept));
        let mut logged_at: Option<Duration> = None;
        loop {
            ticks.tick().await;
            let now = begin.elapsed();
            let old = marks.note(now, self.store().revision());
            let Some((revision, events)) = old.zip(find("", "events")) else { continue };
            // An event that could not be deleted is still older at the next turn.
            let Err(error) = self.forget_until(events, revision).await else { continue };
            self.metrics().events_not_forgotten();
            if logged_at.is_none_or(|logged_at| logged_at + LOG_INTERVAL <= now) {
                logged_at = Some(now);
                tracing::warn!(%error, "old events could not be deleted; that is tried again every minute");
            }
        }
    }

    async fn forget_until(&self, events: &Kind, revision: u64) -> Result<(), ApiError> {
        let prefix = object::key(events, "", "");
        let range =
            self.store().range(prefix.as_bytes(), &RangeOptions::default()).map_err(ApiError::internal)?;
        let old: Vec<Op> = range
            .items
            .iter()
            .filter(|item| item.modified <= revision)
            .map(|item| Op::delete(&*item.key, item.modified))
            .collect();
        for batch in old.chunks(BATCH_MAX) {
            match self.commit(batch.to_vec()).await {
                // One of them was written just now; the next turn sees which.
                Ok(_) | Err(TxnError::Conflict { .. }) => {}
                Err(error) => return Err(verbs::storage(&error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_old_when_its_time_has_passed() {
        let mut marks = RevisionTimes::new(Duration::from_secs(100));
        let mut note = |second, revision| marks.note(Duration::from_secs(second), revision);
        assert_eq!(note(0, 10), None);
        assert_eq!(note(60, 20), None);
        assert_eq!(note(120, 30), Some(10));
        assert_eq!(note(121, 30), None);
        assert_eq!(note(500, 40), Some(30));
    }
}
