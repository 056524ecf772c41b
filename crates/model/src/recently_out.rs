//! Devices, nodes and domains that were out of service a short time ago: a breaker with a window counts them although they are back.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::{BreakerStatus, Timestamp, Unit};

/// Of more that are back in service the first is forgotten: as many devices as a large cluster has.
const BACK_MAX: usize = 100_000;

/// The units that are out of service, and those that were so within the window of a breaker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecentlyOut {
    out: BTreeSet<Unit>,
    /// When each unit that is back in service was first seen to be.
    back: BTreeMap<Unit, Timestamp>,
    /// The number of further units that an earlier controller has seen come back, and until when they count. Their names are not known.
    inherited: Option<(u64, Timestamp)>,
}

impl RecentlyOut {
    /// The count of an earlier controller, from a guard's status.
    #[must_use]
    pub fn inherit(status: &BreakerStatus) -> Self {
        let inherited = status.recent_until.filter(|_| status.recent > 0).map(|until| (status.recent, until));
        Self { inherited, ..Self::default() }
    }

    /// These are out of service now, and no others.
    pub fn see(&mut self, now: Timestamp, window_seconds: i64, out: BTreeSet<Unit>) {
        let before = core::mem::replace(&mut self.out, out);
        self.back.extend(before.into_iter().map(|unit| (unit, now)));
        self.back.retain(|unit, since| {
            // A clock that was set back makes nothing count for longer than the window.
            *since = (*since).min(now);
            since.plus_secs(window_seconds) > now && !self.out.contains(unit)
        });
        while self.back.len() > BACK_MAX {
            self.back.pop_first();
        }
        let latest = now.plus_secs(window_seconds);
        let inherited = self.inherited.map(|(count, until)| (count, until.min(latest)));
        self.inherited = inherited.filter(|(_, until)| *until > now);
    }

    /// Those that are back in service, and count.
    pub fn back(&self) -> impl Iterator<Item = &Unit> {
        self.back.keys()
    }

    /// How many more count.
    #[must_use]
    pub fn inherited(&self) -> u64 {
        self.inherited.map_or(0, |(count, _)| count)
    }

    /// When the first of those that are back counts no more, and the last.
    #[must_use]
    pub fn ends(&self, window_seconds: i64) -> Option<(Timestamp, Timestamp)> {
        let back = self.back.values().map(|since| since.plus_secs(window_seconds));
        let ends = back.chain(self.inherited.map(|(_, until)| until));
        ends.fold(None, |ends, end| {
            let (first, last) = ends.unwrap_or((end, end));
            Some((first.min(end), last.max(end)))
        })
    }
}
