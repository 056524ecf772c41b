//! Jobs that have ended and keep their names for a while.
//!
//! A request whose sender gave it up may reach the server later. While the Job that it is to make is there, the server refuses the second one; after that it
//! would run on a device that is in service again.

use alloc::{collections::BTreeSet, vec::Vec};

use lazaret_model::{Text, Timestamp};

use super::{Child, Reconciler, Target};

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

impl Reconciler {
    /// Whether an object of an incident that is over stays, because a late request would make another of its name.
    pub(super) fn keeps_name(&mut self, now: Timestamp, child: &Child) -> bool {
        let Target::Job { result: Some(_) } = child.target else { return false };
        let written = self.incidents.get(&child.owner.name);
        let Some(written) = written.filter(|one| one.uid.as_ref() == Some(&child.owner.uid)) else {
            return false;
        };
        // Its end is not seen yet: its incident is looked at again when it is.
        let Some(over) = written.over.as_ref().map(|over| over.since) else {
            return written.stored.is_some();
        };
        let until = over.min(now).plus_millis(LATE_MS);
        if until <= now {
            return false;
        }
        self.kept.until.insert((until, child.owner.name.clone()));
        true
    }
}
