//! How far a drain is, in a line.

use std::collections::BTreeSet;

use lazaret_model::{Timestamp, human_duration};
use lazaret_print::count;

use super::{super::time::age, Drain};

impl Drain {
    /// How far it is, in a line; `unconfirmed` devices are not yet said to be idle by their rules, `blocked` keeps pods from being evicted, a
    /// line for each wait, and the plan foretold the end for `expected`.
    #[must_use]
    pub fn progress(
        &self,
        now: Timestamp,
        unconfirmed: usize,
        blocked: &BTreeSet<String>,
        expected: Option<Timestamp>,
    ) -> String {
        let (all, emptying) = (self.stages.len(), self.emptying());
        let waiting = self.waiting().len();
        let (gone, pods) = (self.left.len(), count(self.left.len() + waiting, "pod"));
        let kept: Vec<&str> = blocked.iter().map(String::as_str).collect();
        let kept = if kept.is_empty() { String::new() } else { format!(", {}", kept.join(", ")) };
        let what = if emptying == 0 && now < self.next_at {
            format!(
                "grace period: pods are evicted in {}, {} of {} still in use, {gone} of {pods} gone{}{kept}",
                age(now, self.next_at),
                self.in_use(),
                count(all, "device"),
                expected_end(now, expected)
            )
        } else if emptying < all || waiting > 0 {
            let pace = self.pace_so_far(now, waiting).unwrap_or_else(|| expected_end(now, expected));
            format!("{emptying} of {} being emptied, {gone} of {pods} gone{pace}{kept}", count(all, "device"))
        } else if unconfirmed > 0 {
            format!("pods are gone, {unconfirmed} of {} not yet reported Drained", count(all, "device"))
        } else {
            format!(
                "devices are empty, {} of {} replaced, {} Pending",
                self.replaced.len(),
                count(self.replaced.len() + self.unreplaced(), "pod"),
                self.pending.len()
            )
        };
        format!("{} elapsed: {what}", age(self.started, now))
    }

    /// How many pods have left a second since they are evicted, and when the last one will have at that pace; nothing before one has. Those
    /// that ended by themselves before say nothing about it.
    fn pace_so_far(&self, now: Timestamp, waiting: usize) -> Option<String> {
        let elapsed_ms = now.millis_since(self.started.plus_millis(self.manner.grace_ms));
        let gone = (self.left.len() - self.left_in_grace.min(self.left.len())) as u64;
        let (Ok(elapsed_ms), 1..) = (u64::try_from(elapsed_ms), gone) else { return None };
        let per_hour = gone.saturating_mul(3_600_000) / elapsed_ms.max(1);
        let left_ms = (waiting as u64).saturating_mul(elapsed_ms) / gone;
        let left = human_duration(i64::try_from(left_ms / 1_000).unwrap_or(i64::MAX));
        let tenths = per_hour / 360;
        let pace = if tenths > 0 {
            format!("{}.{} a second", tenths / 10, tenths % 10)
        } else {
            format!("{per_hour} an hour")
        };
        Some(format!(", {pace}, about {left} left"))
    }

    fn in_use(&self) -> usize {
        let devices: BTreeSet<usize> = self
            .users
            .values()
            .filter(|user| !user.stays)
            .flat_map(|user| user.devices.iter().copied())
            .collect();
        devices.len()
    }
}

/// How long it takes as far as the plan could tell.
fn expected_end(now: Timestamp, expected: Option<Timestamp>) -> String {
    let left = expected.map(|end| end.millis_since(now)).filter(|left| *left > 0);
    left.map_or_else(String::new, |left| format!(", about {} left", human_duration(left / 1_000)))
}
