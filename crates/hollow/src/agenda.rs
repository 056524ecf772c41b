//! What a machine has to look at, now or later, and what it has under way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_model::Timestamp;

/// The first pause after a failure; each further one doubles it.
const RETRY_MS_MIN: i64 = 100;
/// No pause is longer.
const RETRY_MS_MAX: i64 = 30_000;

/// Each item is in it at most once in each role, so it never holds more than there are items.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    order: VecDeque<T>,
    queued: BTreeSet<T>,
    timers: BTreeSet<(Timestamp, T)>,
    timer_of: BTreeMap<T, Timestamp>,
    flying: BTreeMap<u64, T>,
    busy: BTreeSet<T>,
    failures: BTreeMap<T, u32>,
    last: u64,
    in_flight_max: usize,
}

impl<T: Ord + Clone> Agenda<T> {
    pub(crate) fn new(in_flight_max: usize) -> Self {
        Self {
            order: VecDeque::new(),
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

    /// Look at it soon.
    pub(crate) fn touch(&mut self, item: T) {
        if !self.busy.contains(&item) && self.queued.insert(item.clone()) {
            self.order.push_back(item);
        }
    }

    /// Look at it then; an earlier time that was set before stands.
    pub(crate) fn later(&mut self, at: Timestamp, item: T) {
        match self.timer_of.get(&item) {
            Some(before) if *before <= at => return,
            Some(before) => drop(self.timers.remove(&(*before, item.clone()))),
            None => {}
        }
        self.timer_of.insert(item.clone(), at);
        self.timers.insert((at, item));
    }

    /// Queues what is due.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, item)) = self.timers.pop_first() {
                self.timer_of.remove(&item);
                self.touch(item);
            }
        }
    }

    /// What to look at next, if more may be under way.
    pub(crate) fn next(&mut self) -> Option<T> {
        if self.flying.len() >= self.in_flight_max {
            return None;
        }
        let item = self.order.pop_front()?;
        self.queued.remove(&item);
        Some(item)
    }

    /// Something is under way for it. It is not looked at again before that has landed.
    pub(crate) fn launch(&mut self, item: T) -> u64 {
        self.last += 1;
        self.busy.insert(item.clone());
        self.flying.insert(self.last, item);
        self.last
    }

    /// What is under way by this number.
    pub(crate) fn in_flight(&self, id: u64) -> Option<&T> {
        self.flying.get(&id)
    }

    /// What was under way has ended; if it failed, the item is looked at again after a pause, else at once.
    pub(crate) fn land(&mut self, now: Timestamp, id: u64, failed: bool) -> Option<T> {
        let item = self.flying.remove(&id)?;
        self.busy.remove(&item);
        if failed {
            let failures = self.failures.entry(item.clone()).or_default();
            *failures = failures.saturating_add(1);
            let pause = RETRY_MS_MIN.saturating_mul(1 << (*failures - 1).min(20)).min(RETRY_MS_MAX);
            self.later(now.plus_millis(pause), item.clone());
        } else {
            self.failures.remove(&item);
            self.touch(item.clone());
        }
        Some(item)
    }

    /// Whether it failed last time, and its pause is not over.
    pub(crate) fn is_paused(&self, item: &T, now: Timestamp) -> bool {
        self.failures.contains_key(item) && self.timer_of.get(item).is_some_and(|at| *at > now)
    }

    /// It is no more.
    pub(crate) fn forget(&mut self, item: &T) {
        self.failures.remove(item);
        if let Some(at) = self.timer_of.remove(item) {
            self.timers.remove(&(at, item.clone()));
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Nothing is wanted any more, nor any answer.
    pub(crate) fn clear(&mut self) {
        *self = Self { last: self.last, ..Self::new(self.in_flight_max) };
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(agenda.next_wake(), Some(at(100)));
        assert_eq!((agenda.next(), agenda.next()), (Some('b'), None));
        agenda.wake(at(100));
        assert_eq!(agenda.next(), Some('a'));
        let id = agenda.launch('a');
        agenda.land(at(100), id, true);
        assert_eq!(agenda.next_wake(), Some(at(300)));
        agenda.forget(&'a');
        assert_eq!(agenda.next_wake(), None);
    }

    #[test]
    fn the_earlier_time_stands() {
        let mut agenda = Agenda::new(8);
        agenda.later(at(5), 'a');
        agenda.later(at(9), 'a');
        assert_eq!(agenda.next_wake(), Some(at(5)));
        agenda.later(at(2), 'a');
        agenda.wake(at(4));
        assert_eq!((agenda.next(), agenda.next_wake()), (Some('a'), None));
    }
}
