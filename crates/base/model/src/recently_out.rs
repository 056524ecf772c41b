//! Devices, nodes and domains that were out of service a short time ago: a breaker with a window counts them although they are back.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{BreakerStatus, Timestamp, Unit};

/// Of more that are back in service the first is forgotten: as many devices as a large cluster has.
const BACK_MAX: usize = 100_000;

/// The units that are out of service, and those that were so within the window of a breaker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecentlyOut {
    out: BTreeSet<Unit>,
    /// When each unit that is back in service was first seen to be.
    back: BTreeMap<Unit, Timestamp>,
    /// Further units that an earlier controller has seen come back, or that came back after it, and until when they count. Their names are not known.
    inherited: Vec<(u64, Timestamp)>,
    /// As many units counted for an earlier controller: those that are not out of service any more have come back since.
    counted_before: Option<u64>,
}

impl RecentlyOut {
    /// The count of an earlier controller, from a guard's status. The first look at what is out of service now says how many have come back since.
    #[must_use]
    pub fn inherit(status: &BreakerStatus) -> Self {
        let recent = status.recent_until.filter(|_| status.recent > 0).map(|until| (status.recent, until));
        let counted_before = Some(status.out_of_service).filter(|count| *count > 0);
        Self { inherited: recent.into_iter().collect(), counted_before, ..Self::default() }
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
        if let Some(before) = self.counted_before.take() {
            // When they came back is not known: they count from now.
            let known = self.inherited() + self.out.len() as u64;
            self.inherited.push((before.saturating_sub(known), latest));
        }
        self.inherited.iter_mut().for_each(|(_, until)| *until = (*until).min(latest));
        self.inherited.retain(|(count, until)| *count > 0 && *until > now);
    }

    /// Those that are back in service, and count.
    pub fn back(&self) -> impl Iterator<Item = &Unit> {
        self.back.keys()
    }

    /// How many more count.
    #[must_use]
    pub fn inherited(&self) -> u64 {
        self.inherited.iter().map(|(count, _)| count).sum()
    }

    /// When the first of those that are back counts no more, and the last.
    #[must_use]
    pub fn ends(&self, window_seconds: i64) -> Option<(Timestamp, Timestamp)> {
        let back = self.back.values().map(|since| since.plus_secs(window_seconds));
        let ends = back.chain(self.inherited.iter().map(|(_, until)| *until));
        ends.fold(None, |ends, end| {
            let (first, last) = ends.unwrap_or((end, end));
            Some((first.min(end), last.max(end)))
        })
    }
}
