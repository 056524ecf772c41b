//! The queue of a machine: items to look at, now or later, and effects in flight.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_machine::{Backoff, EffectId};
use lazaret_model::Timestamp;

/// Pauses after failures.
const PAUSES: Backoff = Backoff::new(100, 30_000);
/// The same for routine, as kubelets pause between renewals of a lease that fail.
const ROUTINE_PAUSES: Backoff = Backoff::new(100, 7_000);

/// While other items are queued, one of this many is a [routine](Agenda::with_routine) one.
const ROUTINE_SHARE: u32 = 8;
/// Routine that was due this long ago gets every second place: a node that does not renew its lease for 40 s is taken for dead.
const ROUTINE_LATE_MS: i64 = 10_000;
const LATE_SHARE: u32 = 2;

/// Each item is in it at most once in each role, so it never holds more than there are items.
#[derive(Clone, Debug)]
pub struct Agenda<T> {
    order: VecDeque<T>,
    /// Queued as well, each with the time at which it was; they go while `order` is empty, and otherwise one in [`ROUTINE_SHARE`], or one in
    /// [`LATE_SHARE`] while the first is late.
    routine: VecDeque<(Timestamp, T)>,
    is_routine: fn(&T) -> bool,
    since_routine: u32,
    /// When it was last asked what is due.
    now: Timestamp,
    queued: BTreeSet<T>,
    timers: BTreeSet<(Timestamp, T)>,
    timer_of: BTreeMap<T, Timestamp>,
    flying: BTreeMap<EffectId, T>,
    busy: BTreeSet<T>,
    failures: BTreeMap<T, u32>,
    last: u64,
    in_flight_max: usize,
}

impl<T: Ord + Clone> Agenda<T> {
    /// Nothing is queued. At most this many effects are in flight.
    #[must_use]
    pub fn new(in_flight_max: usize) -> Self {
        Self {
            order: VecDeque::new(),
            routine: VecDeque::new(),
            is_routine: |_| false,
            since_routine: 0,
            now: Timestamp::EPOCH,
            queued: BTreeSet::new(),
            timers: BTreeSet::new(),
            timer_of: BTreeMap::new(),
            flying: BTreeMap::new(),
            busy: BTreeSet::new(),
            failures: BTreeMap::new(),
            last: 0,
            in_flight_max,
        }
    }

    /// Items that come back by themselves all the time, as renewals of leases do. However many of them are due, they do not hold up the others.
    #[must_use]
    pub fn with_routine(self, is_routine: fn(&T) -> bool) -> Self {
        Self { is_routine, ..self }
    }

    /// Look at it soon.
    pub fn touch(&mut self, item: T) {
        if !self.busy.contains(&item) && self.queued.insert(item.clone()) {
            if (self.is_routine)(&item) {
                self.routine.push_back((self.now, item));
            } else {
                self.order.push_back(item);
            }
        }
    }

    /// Look at it then; an earlier time that was set before stands.
    pub fn later(&mut self, at: Timestamp, item: T) {
        match self.timer_of.get(&item) {
            Some(before) if *before <= at => return,
            Some(before) => drop(self.timers.remove(&(*before, item.clone()))),
            None => {}
        }
        self.timer_of.insert(item.clone(), at);
        self.timers.insert((at, item));
    }

    /// Queues what is due.
    pub fn wake(&mut self, now: Timestamp) {
        self.now = now;
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, item)) = self.timers.pop_first() {
                self.timer_of.remove(&item);
                self.touch(item);
            }
        }
    }

    /// The next item to look at, if more effects may be in flight.
    #[allow(clippy::should_implement_trait, reason = "it takes from a queue that grows meanwhile")]
    pub fn next(&mut self) -> Option<T> {
        if self.flying.len() >= self.in_flight_max {
            return None;
        }
        let item = self.pop()?;
        self.queued.remove(&item);
        Some(item)
    }

    fn pop(&mut self) -> Option<T> {
        self.since_routine += 1;
        let is_late = |(queued, _): &(Timestamp, T)| self.now.millis_since(*queued) >= ROUTINE_LATE_MS;
        let share = if self.routine.front().is_some_and(is_late) { LATE_SHARE } else { ROUTINE_SHARE };
        if self.order.is_empty() || self.since_routine >= share {
            self.since_routine = 0;
            if let Some((_, item)) = self.routine.pop_front() {
                return Some(item);
            }
        }
        self.order.pop_front()
    }

    /// An effect for the item is in flight. The item is not looked at again before the effect has ended.
    pub fn launch(&mut self, item: T) -> EffectId {
        self.last += 1;
        self.busy.insert(item.clone());
        self.flying.insert(EffectId(self.last), item);
        EffectId(self.last)
    }

    /// The item of the effect in flight with this number.
    #[must_use]
    pub fn in_flight(&self, id: EffectId) -> Option<&T> {
        self.flying.get(&id)
    }

    /// An effect has ended; if it failed, the item is looked at again after a pause, else at once.
    pub fn land(&mut self, now: Timestamp, id: EffectId, failed: bool) -> Option<T> {
        let item = self.flying.remove(&id)?;
        self.busy.remove(&item);
        if failed {
            let failures = self.failures.entry(item.clone()).or_default();
            *failures = failures.saturating_add(1);
            let pauses = if (self.is_routine)(&item) { ROUTINE_PAUSES } else { PAUSES };
            let pause = pauses.after(*failures);
            self.later(now.plus_millis(pause), item.clone());
        } else {
            self.failures.remove(&item);
            self.touch(item.clone());
        }
        Some(item)
    }

    /// Whether it failed last time, and its pause is not over.
    #[must_use]
    pub fn is_paused(&self, item: &T, now: Timestamp) -> bool {
        self.failures.contains_key(item) && self.timer_of.get(item).is_some_and(|at| *at > now)
    }

    /// It is no more.
    pub fn forget(&mut self, item: &T) {
        self.failures.remove(item);
        if let Some(at) = self.timer_of.remove(item) {
            self.timers.remove(&(at, item.clone()));
        }
    }

    /// When the next item is due that is to be looked at later, and which.
    #[must_use]
    pub fn next_timer(&self) -> Option<(Timestamp, &T)> {
        self.timers.first().map(|(at, item)| (*at, item))
    }

    /// The same, routine left out.
    #[must_use]
    pub fn next_timer_but_routine(&self) -> Option<(Timestamp, &T)> {
        let mut others = self.timers.iter().filter(|(_, item)| !(self.is_routine)(item));
        others.next().map(|(at, item)| (*at, item))
    }

    /// Whether an item waits to be looked at and may be.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.flying.len() < self.in_flight_max && !(self.order.is_empty() && self.routine.is_empty())
    }

    /// Nothing is wanted any more, nor any answer.
    pub fn clear(&mut self) {
        let fresh = Self::new(self.in_flight_max);
        *self = Self { last: self.last, is_routine: self.is_routine, now: self.now, ..fresh };
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn failures_pause_and_double() {
        let mut agenda = Agenda::new(1);
        agenda.touch('a');
        agenda.touch('b');
        assert_eq!(agenda.next(), Some('a'));
        let id = agenda.launch('a');
        assert_eq!(agenda.next(), None, "one may be under way");
        agenda.touch('a');
        agenda.land(at(0), id, true);
        assert!(agenda.is_paused(&'a', at(99)));
        assert_eq!(agenda.next_timer().map(|(at, _)| at), Some(at(100)));
        assert_eq!((agenda.next(), agenda.next()), (Some('b'), None));
        agenda.wake(at(100));
        assert_eq!(agenda.next(), Some('a'));
        let id = agenda.launch('a');
        agenda.land(at(100), id, true);
        assert_eq!(agenda.next_timer().map(|(at, _)| at), Some(at(300)));
        agenda.forget(&'a');
        assert_eq!(agenda.next_timer().map(|(at, _)| at), None);
    }

    #[test]
    fn routine_items_let_the_others_pass_and_still_get_their_share() {
        let mut agenda = Agenda::new(1).with_routine(|item| *item < 100);
        (0..150).for_each(|item| agenda.touch(item));
        let first: Vec<i32> = core::iter::from_fn(|| agenda.next()).take(56).collect();
        let routine: Vec<i32> = first.iter().copied().filter(|item| *item < 100).collect();
        assert_eq!(routine, [0, 1, 2, 3, 4, 5, 6], "one in eight");
        assert_eq!(first.iter().filter(|item| **item >= 100).count(), 49);
        let rest: Vec<i32> = core::iter::from_fn(|| agenda.next()).collect();
        assert_eq!((rest.len(), rest.last()), (94, Some(&99)), "and all of them in the end");
        agenda.clear();
        agenda.touch(1);
        agenda.touch(100);
        assert_eq!((agenda.next(), agenda.next()), (Some(100), Some(1)));
    }

    #[test]
    fn routine_that_is_late_gets_every_second_place() {
        let mut agenda = Agenda::new(1).with_routine(|item| *item < 100);
        agenda.wake(at(0));
        (0..150).for_each(|item| agenda.touch(item));
        agenda.wake(at(ROUTINE_LATE_MS));
        let first: Vec<i32> = core::iter::from_fn(|| agenda.next()).take(20).collect();
        assert_eq!(first.iter().filter(|item| **item < 100).count(), 10, "{first:?}");
    }

    #[test]
    fn the_earlier_time_stands() {
        let mut agenda = Agenda::new(8);
        agenda.later(at(5), 'a');
        agenda.later(at(9), 'a');
        assert_eq!(agenda.next_timer().map(|(at, _)| at), Some(at(5)));
        agenda.later(at(2), 'a');
        agenda.wake(at(4));
        assert_eq!((agenda.next(), agenda.next_timer().map(|(at, _)| at)), (Some('a'), None));
    }
}
