//! A token bucket in whole numbers.
//!
//! The level is kept in thousandths of a pod, so that a rate in pods a second adds exactly `rate` thousandths each
//! millisecond: no rounding, no drift. **Invariant:** in any span of `t` milliseconds it grants at most
//! `burst + rate·t/1000` pods, whatever the sequence of calls, rate changes (then: the highest rate of the span) and
//! refunds, as long as the clock does not jump forwards.

use lazaret_model::Timestamp;

/// Thousandths in one pod.
const POD: i64 = 1_000;

/// How many pods may leave, and how soon the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limiter {
    per_second: u32,
    burst: u32,
    /// Below zero after a group larger than what was there has left.
    level: i64,
    settled: Timestamp,
}

impl Limiter {
    /// A bucket that holds its whole burst.
    #[must_use]
    pub fn full(per_second: u32, burst: u32, now: Timestamp) -> Self {
        Self { per_second, burst, level: i64::from(burst) * POD, settled: now }
    }

    /// A bucket that holds what has flowed in since it was empty.
    #[must_use]
    pub fn empty_since(per_second: u32, burst: u32, since: Timestamp, now: Timestamp) -> Self {
        let mut limiter = Self { per_second, burst, level: 0, settled: since.min(now) };
        limiter.settle(now);
        limiter
    }

    /// Pods a second. Zero: nobody leaves, not even a burst.
    #[must_use]
    pub fn per_second(&self) -> u32 {
        self.per_second
    }

    /// Sets the rate from now on. Permits up to now accrue at the old rate.
    pub fn set_rate(&mut self, per_second: u32, now: Timestamp) {
        self.settle(now);
        self.per_second = per_second;
    }

    /// Whether one pod may leave now.
    #[must_use]
    pub fn permits(&self, now: Timestamp) -> bool {
        self.permits_together(1, now)
    }

    /// Whether this many pods may leave at once now; more than the burst may when the bucket is full.
    #[must_use]
    pub fn permits_together(&self, pods: usize, now: Timestamp) -> bool {
        self.per_second > 0 && self.burst > 0 && self.level_at(now) >= self.level_for(pods)
    }

    /// One pod leaves. Never below empty: a pod that another limiter let go empties this one, it does not put it in
    /// debt. Returns whether there was a whole permit to take.
    pub fn take(&mut self, now: Timestamp) -> bool {
        self.settle(now);
        let whole = self.per_second > 0 && self.level >= POD;
        self.level = self.level.min(0).max(self.level - POD);
        whole
    }

    /// Takes permits for pods that leave at once. Missing permits are owed.
    pub fn take_together(&mut self, pods: usize, now: Timestamp) {
        self.settle(now);
        self.level = self.level.saturating_sub(thousandths(pods));
    }

    /// A pod that was let go is known not to have left. Never above the burst.
    pub fn refund(&mut self, now: Timestamp) {
        self.settle(now);
        self.level = (self.level + POD).min(self.capacity());
    }

    /// The first instant at which one pod may leave, if nothing changes; [`Timestamp::NEVER`] at a rate of zero.
    #[must_use]
    pub fn next_permit(&self, now: Timestamp) -> Timestamp {
        self.reaches(POD, now)
    }

    /// The same for this many pods at once.
    #[must_use]
    pub fn next_permit_together(&self, pods: usize, now: Timestamp) -> Timestamp {
        self.reaches(self.level_for(pods), now)
    }

    /// The first instant at which the bucket is full again: from then on it knows nothing that a new one would not.
    #[must_use]
    pub fn full_at(&self, now: Timestamp) -> Timestamp {
        self.reaches(self.capacity(), now)
    }

    fn reaches(&self, level: i64, now: Timestamp) -> Timestamp {
        let missing = level.saturating_sub(self.level_at(now)).max(0);
        if self.per_second == 0 || level > self.capacity() {
            return Timestamp::NEVER;
        }
        let millis = missing.cast_unsigned().div_ceil(u64::from(self.per_second));
        now.plus_millis(i64::try_from(millis).unwrap_or(i64::MAX))
    }

    fn capacity(&self) -> i64 {
        i64::from(self.burst) * POD
    }

    /// How much there must be for this many pods to leave at once.
    fn level_for(&self, pods: usize) -> i64 {
        thousandths(pods).min(self.capacity().max(POD))
    }

    /// A clock that went back adds nothing.
    fn level_at(&self, now: Timestamp) -> i64 {
        let elapsed = now.millis_since(self.settled).max(0);
        let flowed = elapsed.saturating_mul(i64::from(self.per_second));
        self.level.saturating_add(flowed).min(self.capacity())
    }

    /// Moves the reference instant to `now`, also backwards: a clock set back must not stop the flow until it has
    /// caught up.
    pub fn settle(&mut self, now: Timestamp) {
        self.level = self.level_at(now);
        self.settled = now;
    }
}

fn thousandths(pods: usize) -> i64 {
    i64::try_from(pods).unwrap_or(i64::MAX).saturating_mul(POD)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn burst_first_then_the_rate() {
        let mut limiter = Limiter::full(10, 3, at(0));
        let grants: Vec<i64> =
            (0..1_000).filter(|&ms| limiter.permits(at(ms)) && limiter.take(at(ms))).collect();
        assert_eq!(grants[..6], [0, 1, 2, 100, 200, 300]);
        assert_eq!(limiter.next_permit(at(950)), at(1_000));
    }

    #[test]
    fn empty_since_fills_up_and_stops_at_the_burst() {
        assert!(!Limiter::empty_since(2, 10, at(0), at(499)).permits(at(499)));
        assert!(Limiter::empty_since(2, 10, at(0), at(500)).permits(at(500)));
        assert_eq!(Limiter::empty_since(2, 10, at(0), at(1_000_000)), Limiter::full(2, 10, at(1_000_000)));
    }

    #[test]
    fn rate_zero_lets_nobody_go_and_a_new_rate_counts_at_once() {
        let mut limiter = Limiter::full(0, 10, at(0));
        assert!(!limiter.permits(at(5_000)));
        assert_eq!(limiter.next_permit(at(0)), Timestamp::NEVER);
        limiter.set_rate(1, at(5_000));
        assert!(limiter.permits(at(5_000)));
    }

    #[test]
    fn a_clock_set_back_neither_fills_nor_stalls() {
        let mut limiter = Limiter::full(1, 1, at(100_000));
        assert!(limiter.take(at(100_000)));
        assert!(!limiter.permits(at(50_000)));
        assert!(!limiter.take(at(50_000)));
        assert_eq!(limiter.next_permit(at(50_000)), at(51_000));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Wait(i64),
        Take,
        TakeAndRefund(i64),
        Rate(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..400_i64).prop_map(Step::Wait),
            8 => Just(Step::Take),
            1 => (0..50_i64).prop_map(Step::TakeAndRefund),
            1 => (0..50_u32).prop_map(Step::Rate),
        ];
        proptest::collection::vec(step, 1..300)
    }

    proptest! {
        /// In every window between two grants, ends included: at most burst + highest rate × length.
        #[test]
        fn never_more_than_burst_and_rate_in_any_window(start in 1..50_u32, burst in 1..12_u32, steps in steps()) {
            let mut limiter = Limiter::full(start, burst, at(0));
            let (mut now, mut grants, mut top) = (0_i64, Vec::new(), start);
            for step in steps {
                match step {
                    Step::Wait(ms) => now += ms,
                    Step::Take => if limiter.permits(at(now)) {
                        prop_assert!(limiter.take(at(now)));
                        grants.push(now);
                    },
                    Step::TakeAndRefund(ms) => if limiter.take(at(now)) {
                        now += ms;
                        limiter.refund(at(now));
                    },
                    Step::Rate(rate) => { limiter.set_rate(rate, at(now)); top = top.max(rate); }
                }
            }
            for (i, from) in grants.iter().enumerate() {
                for (j, to) in grants.iter().enumerate().skip(i) {
                    let allowed = i64::from(burst) * 1_000 + i64::from(top) * (to - from);
                    prop_assert!(i64::try_from(j - i + 1).unwrap() * 1_000 <= allowed);
                }
            }
        }

        /// The promised instant is the first that permits.
        #[test]
        fn next_permit_is_exact(rate in 1..2_000_u32, burst in 1..12_u32, takes in 0..40_usize, wait in 0..2_000_i64) {
            let mut limiter = Limiter::full(rate, burst, at(0));
            for _ in 0..takes {
                limiter.take(at(0));
            }
            let next = limiter.next_permit(at(wait));
            prop_assert!(limiter.permits(next));
            if next > at(wait) {
                prop_assert!(!limiter.permits(next.plus_millis(-1)));
            }
        }
    }
}
