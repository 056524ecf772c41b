//! Times of a wall clock that may be set, beside a timeline that only goes on.
//!
//! A machine measures durations by one timeline, which advances by the monotonic clock. Its writes for others, and its reads, have the times
//! of the wall clock. Each instant of the timeline has the time that the wall clock showed then: one that was noted before the clock was set stays as it
//! was, and one after it is right.

use std::collections::VecDeque;

/// The clocks come apart by less while a clock is corrected, which is not worth a mark.
const JUMP_MS: i64 = 1_000;
/// Clocks that are set more often forget what was before.
const MARKS_MAX: usize = 64;

/// The timeline beside the wall clock, all in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WallTimes {
    /// From which instant of the timeline on the wall clock is ahead by how much; the oldest first. There is always one.
    marks: VecDeque<(i64, i64)>,
    now: i64,
}

impl WallTimes {
    /// They agree at the beginning.
    pub(crate) fn new(now: i64) -> Self {
        Self { marks: VecDeque::from([(now, 0)]), now }
    }

    /// Both clocks were read.
    pub(crate) fn read(&mut self, now: i64, wall: i64) {
        self.now = self.now.max(now);
        let ahead = wall.saturating_sub(now);
        if self.marks.back().is_some_and(|(_, before)| ahead.saturating_sub(*before).abs() < JUMP_MS) {
            return;
        }
        self.marks.push_back((now, ahead));
        if self.marks.len() > MARKS_MAX {
            self.marks.pop_front();
        }
    }

    /// The time on the wall clock at an instant of the timeline.
    pub(crate) fn wall(&self, at: i64) -> i64 {
        let mark = self.marks.iter().rev().find(|(from, _)| *from <= at).or(self.marks.front());
        at.saturating_add(mark.map_or(0, |(_, ahead)| *ahead))
    }

    /// The instant at which the wall clock showed this, the last of them if it was set back. A time that it did not show yet is counted on from now.
    pub(crate) fn instant(&self, wall: i64) -> i64 {
        let mut until = self.now;
        for (from, ahead) in self.marks.iter().rev() {
            let at = wall.saturating_sub(*ahead);
            if (*from..=until).contains(&at) {
                return at;
            }
            until = *from;
        }
        let newest = self.marks.back().map_or(wall, |(_, ahead)| wall.saturating_sub(*ahead));
        if newest > self.now {
            return newest;
        }
        // Before the timeline began, or skipped when the clock was set forward.
        let oldest = self.marks.front().map_or(wall, |(_, ahead)| wall.saturating_sub(*ahead));
        oldest.min(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn times_from_before_stay_and_times_from_then_on_are_right() {
        for set_by in [2 * HOUR, -2 * HOUR] {
            let begin = 1_000 * HOUR;
            let mut times = WallTimes::new(begin);
            times.read(begin + HOUR, begin + HOUR + 900);
            assert_eq!(times.wall(begin + HOUR), begin + HOUR, "a correction");
            times.read(begin + 2 * HOUR, begin + 2 * HOUR + set_by);
            assert_eq!(times.wall(begin + HOUR), begin + HOUR, "noted before");
            assert_eq!(times.wall(begin + 3 * HOUR), begin + 3 * HOUR + set_by);
            // A note that somebody else made a minute after that by the wall clock was made a minute after it.
            times.read(begin + 3 * HOUR, begin + 3 * HOUR + set_by);
            assert_eq!(times.instant(begin + 2 * HOUR + set_by + 60_000), begin + 2 * HOUR + 60_000);
            // Of a process before this one.
            assert_eq!(times.instant(begin - HOUR), begin - HOUR);
            // A time that is still to come.
            let at = times.instant(begin + 5 * HOUR + set_by);
            assert_eq!(at, begin + 5 * HOUR);
        }
    }

    #[test]
    fn what_was_read_is_written_as_it_was() {
        let mut times = WallTimes::new(0);
        times.read(10 * HOUR, 15 * HOUR);
        times.read(20 * HOUR, 20 * HOUR);
        times.read(30 * HOUR, 30 * HOUR);
        for wall in [HOUR, 16 * HOUR, 21 * HOUR, 29 * HOUR, 31 * HOUR] {
            assert_eq!(times.wall(times.instant(wall)), wall, "{}", wall / HOUR);
        }
    }

    #[test]
    fn a_clock_that_is_set_all_the_time_costs_little() {
        let mut times = WallTimes::new(0);
        (1..10_000).for_each(|at| times.read(at * HOUR, (at % 2) * HOUR));
        assert_eq!(times.marks.len(), MARKS_MAX);
    }
}
