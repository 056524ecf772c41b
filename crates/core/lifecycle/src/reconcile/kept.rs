//! Jobs that have ended and keep their names for a while.
//!
//! A request whose sender gave it up may reach the server later. While the Job that it is to make is there, the server refuses the second one; after that it
//! would run on a device that is in service again.

use alloc::{collections::BTreeSet, vec::Vec};

use lazaret_model::{Text, Timestamp};

/// How long a Job that has ended is there after the end of its incident: as long as an API server works on a request.
pub(super) const LATE_MS: i64 = 60_000;

/// Incidents whose Jobs keep their names, and until when. No more than there are Jobs.
#[derive(Debug, Default)]
pub(super) struct Kept {
    until: BTreeSet<(Timestamp, Text)>,
}

impl Kept {
    pub(super) fn clear(&mut self) {
        self.until.clear();
    }

    /// Whether the Jobs of an incident that has been over since then stay: a late request would make others of their names.
    pub(super) fn keeps(&mut self, now: Timestamp, incident: &Text, over: Timestamp) -> bool {
        let until = over.min(now).plus_millis(LATE_MS);
        let stays = now < until;
        if stays {
            self.until.insert((until, incident.clone()));
        }
        stays
    }

    /// Incidents whose Jobs may go now.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Text> {
        let mut due = Vec::new();
        while let Some((_, incident)) = self.until.first().filter(|(until, _)| *until <= now).cloned() {
            self.until.pop_first();
            due.push(incident);
        }
        due
    }

    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.until.first().map(|(until, _)| *until)
    }
}
