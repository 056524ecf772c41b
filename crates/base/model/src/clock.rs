//! The time of a core, from two clocks: one that can be set, and one that only counts.
//!
//! A core compares instants that it finds in objects (a taint's `timeAdded`, a Job's `startTime`) with `now`, so `now` must agree with the
//! wall clock; and it measures durations (backoff, pace, how long a lease has not been renewed), so `now` must advance at the rate of the
//! monotonic clock and never go back. No single number does both across a clock that is set. So time is cut into *eras*: within one, `now`
//! does both; a wall clock that is set begins the next, and whatever was measured in the one before means nothing in it. A machine that
//! lives in one era and is built anew for the next has no duration that can be wrong, however many fields it keeps them in.

use crate::Timestamp;

/// The two clocks may disagree by this much within an era. Clocks are corrected by less all the time; more is a clock that was set, or a
/// machine that was suspended, during which only the wall clock goes on.
pub const STEP_MS_MIN: i64 = 1_000;
/// A smaller disagreement is made up for by one part in `SLEW` of the time that passes: a duration is wrong by at most 5 %.
const SLEW: i64 = 20;

/// The time of a core, and the era it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Within [`STEP_MS_MIN`] of the wall clock. Never goes back within an era.
    pub now: Timestamp,
    /// Durations between readings of different eras mean nothing.
    pub era: u64,
    /// The last time that the clock was set back.
    pub set_back: Option<SetBack>,
}

/// A clock that was set back: what it would show, and what it showed instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetBack {
    /// The time that it would have shown.
    pub from: Timestamp,
    /// The time that it showed.
    pub to: Timestamp,
}

impl SetBack {
    /// An instant found in an object, as the clock shows it after it was set. An instant that had passed must not pass again: it keeps its
    /// distance from now. An instant that lay ahead even then stays, and so does one that was written since.
    #[must_use]
    pub fn dated(&self, now: Timestamp, instant: Timestamp) -> Timestamp {
        if instant > now && instant <= self.from {
            instant.plus_millis(self.to.millis_since(self.from))
        } else {
            instant
        }
    }
}

/// Makes readings of both clocks one time.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Milliseconds that [`Reading::now`] is ahead of the monotonic clock; `None` before the first reading.
    offset: Option<i64>,
    monotonic: i64,
    /// Time that passed while the clocks disagreed, and was not used yet to make up for it.
    credit: i64,
    era: u64,
    set_back: Option<SetBack>,
}

impl Clock {
    /// The time, given what both clocks show, in milliseconds. The zero of the monotonic clock is arbitrary.
    pub fn read(&mut self, wall_ms: i64, monotonic_ms: i64) -> Reading {
        let monotonic = if self.offset.is_some() { monotonic_ms.max(self.monotonic) } else { monotonic_ms };
        let wanted = wall_ms.saturating_sub(monotonic);
        let offset = match self.offset {
            None => wanted,
            Some(offset) => self.corrected(offset, wanted, monotonic),
        };
        (self.offset, self.monotonic) = (Some(offset), monotonic);
        let now = Timestamp::from_millis(monotonic.saturating_add(offset));
        Reading { now, era: self.era, set_back: self.set_back }
    }

    /// Nothing was observed for a while in `era`, though time has passed: what seems old may only be unheard. A new era begins, unless it has.
    pub fn stalled(&mut self, era: u64) {
        self.era += u64::from(self.era == era);
    }

    fn corrected(&mut self, offset: i64, wanted: i64, monotonic: i64) -> i64 {
        let behind = wanted.saturating_sub(offset);
        if behind == 0 || behind.saturating_abs() > STEP_MS_MIN {
            self.era += u64::from(behind != 0);
            self.credit = 0;
            if behind < 0 {
                let shown = |offset| Timestamp::from_millis(monotonic.saturating_add(offset));
                self.set_back = Some(SetBack { from: shown(offset), to: shown(wanted) });
            }
            return wanted;
        }
        let credit = self.credit.saturating_add(monotonic.saturating_sub(self.monotonic));
        let most = credit / SLEW;
        let correction = behind.clamp(-most, most);
        // Time that was not needed is not saved up for the next correction.
        self.credit = if correction == behind { 0 } else { credit % SLEW };
        offset + correction
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};
    use proptest::prelude::*;

    #[test]
    fn a_clock_that_is_set_begins_an_era_at_the_time_it_shows() {
        let mut clock = Clock::default();
        let mut read = |wall, monotonic| {
            let Reading { now, era, .. } = clock.read(wall, monotonic);
            (now.as_millis(), era)
        };
        assert_eq!(read(1_000_000, 50), (1_000_000, 0));
        assert_eq!(read(1_000_100, 150), (1_000_100, 0));
        // An hour back, then an hour forward; a suspended machine looks like the latter.
        assert_eq!(read(1_000_200 - 3_600_000, 250), (1_000_200 - 3_600_000, 1));
        assert_eq!(read(1_000_300 - 3_600_000, 350), (1_000_300 - 3_600_000, 1));
        assert_eq!(read(1_000_400, 450), (1_000_400, 2));
    }

    #[test]
    fn a_stall_begins_one_era_however_many_notice_it() {
        let mut clock = Clock::default();
        let before = clock.read(1_000, 0).era;
        clock.stalled(before);
        clock.stalled(before);
        assert_eq!(clock.read(61_000, 60_000).era, before + 1);
    }

    #[test]
    fn a_small_correction_is_spread_over_time() {
        let mut clock = Clock::default();
        let mut read = |wall, monotonic| clock.read(wall, monotonic).now.as_millis();
        assert_eq!(read(10_000, 0), 10_000);
        // Half a second back: the time goes on, a little slower, until the wall clock has caught up.
        assert_eq!(read(10_000, 500), 10_475);
        assert_eq!(read(19_500, 10_000), 19_500);
        // And forward: a little faster.
        assert_eq!(read(20_500, 10_500), 20_025);
        assert_eq!(read(30_000, 20_000), 30_000);
    }

    #[test]
    fn many_readings_correct_as_much_as_one() {
        let mut clock = Clock::default();
        clock.read(10_000, 0);
        clock.read(9_500, 0);
        let last = (1..=10_000).map(|ms| clock.read(9_500 + ms, ms)).last().unwrap();
        assert_eq!((last.now.as_millis(), last.era), (19_500, 0));
    }

    #[test]
    fn what_had_come_before_a_clock_was_set_back_need_not_come_again() {
        let mut clock = Clock::default();
        let at = Timestamp::from_millis;
        clock.read(10_000_000, 0);
        let Reading { now, set_back, .. } = clock.read(6_400_000 + 500, 500);
        let set_back = set_back.unwrap();
        assert_eq!(set_back, SetBack { from: at(10_000_500), to: at(6_400_500) });
        // Ten seconds ago is still ten seconds ago.
        assert_eq!(set_back.dated(now, at(9_990_500)), at(6_390_500));
        // Long ago, just now, and planned for later.
        for instant in [0, 6_400_000, 6_400_500, 10_000_501, 20_000_000] {
            assert_eq!(set_back.dated(now, at(instant)), at(instant));
        }
        // Written an hour later, when the clock shows again what it showed before it was set.
        assert_eq!(set_back.dated(at(9_990_500), at(9_990_500)), at(9_990_500));
    }

    proptest! {
        /// However both clocks behave: within an era `now` never goes back, is within a step of the wall clock, and no duration is wrong
        /// by more than the slew; and an era begins only when the clocks have come apart.
        #[test]
        fn within_an_era_durations_and_instants_are_right(
            steps in prop::collection::vec((0_i64..20_000, prop_oneof![
                4 => Just(0_i64), 2 => -900_i64..900, 1 => -10_000_000_i64..10_000_000,
            ]), 1..200),
        ) {
            let (mut clock, mut wall, mut monotonic) = (Clock::default(), 1_700_000_000_000_i64, 0_i64);
            let mut era: Vec<(i64, Reading)> = vec![(0, clock.read(wall, monotonic))];
            for (elapsed, set) in steps {
                monotonic += elapsed;
                let apart = (era[era.len() - 1].1.now.as_millis() + elapsed - (wall + elapsed + set)).abs();
                wall += elapsed + set;
                let reading = clock.read(wall, monotonic);
                prop_assert!((reading.now.as_millis() - wall).abs() <= STEP_MS_MIN);
                if reading.era != era[0].1.era {
                    prop_assert!(apart > STEP_MS_MIN);
                    prop_assert_eq!(reading.now.as_millis(), wall);
                    era.clear();
                }
                for (at, before) in &era {
                    let (real, told) = (monotonic - at, reading.now.millis_since(before.now));
                    prop_assert!(told >= 0 && (told - real).abs() <= real / SLEW + 1, "{} for {}", told, real);
                }
                era.push((monotonic, reading));
            }
        }

        #[test]
        fn no_readings_make_it_panic(readings in prop::collection::vec((any::<i64>(), any::<i64>()), 0..20)) {
            let mut clock = Clock::default();
            for (wall, monotonic) in readings {
                clock.read(wall, monotonic);
            }
        }
    }
}
