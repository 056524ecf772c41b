//! The keys to decide, and when: each key once, at its earliest time.

use lazaret_machine::Backoff;

use crate::prelude::*;

/// A key that was just decided rests for this time: a burst of news about one set's pods is one decision, not thousands.
const REST_MS: i64 = 20;
/// Pauses after failures.
const BACKOFF: Backoff = Backoff::new(50, 60_000);
/// At this number of remembered keys, the rested ones are dropped.
const RESTING_MAX: usize = 4_096;

/// Keys with the time at which each is due. Never longer than there are objects and failures of objects.
#[derive(Debug, Default)]
pub struct Queue {
    due: BTreeSet<(Timestamp, Key)>,
    at: ByKey<Timestamp>,
    failures: ByKey<u32>,
    looked: ByKey<Timestamp>,
}

impl Queue {
    /// Something about the key has changed: look soon, though not at once after the last look.
    pub fn touch(&mut self, now: Timestamp, key: Key) {
        let earliest = self.looked.get(&key).map_or(now, |last| last.plus_millis(REST_MS)).max(now);
        self.add(earliest, key);
    }

    /// Look at the key at this time, or earlier if it was already due earlier.
    pub fn add(&mut self, at: Timestamp, key: Key) {
        if let Some(known) = self.at.get(&key) {
            if *known <= at {
                return;
            }
            self.due.remove(&(*known, key.clone()));
        }
        self.at.insert(key.clone(), at);
        self.due.insert((at, key));
    }

    /// The next key that is due.
    pub fn pop(&mut self, now: Timestamp) -> Option<Key> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        self.at.remove(&key);
        if self.looked.len() >= RESTING_MAX {
            self.looked.retain(|_, last| last.plus_millis(REST_MS) > now);
        }
        self.looked.insert(key.clone(), now);
        Some(key)
    }

    /// When the next key is due.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// It did not work: look again, later each time. Returns when.
    pub fn fail(&mut self, now: Timestamp, key: &Key) -> Timestamp {
        let failures = self.failures.entry(key.clone()).or_default();
        let wait = backoff_ms(*failures);
        *failures = failures.saturating_add(1);
        let at = now.plus_millis(wait);
        self.add(at, key.clone());
        at
    }

    /// It worked: the next failure is a first one.
    pub fn reset_failures(&mut self, key: &Key) {
        self.failures.remove(key);
    }

    /// How many keys wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }
}

/// The wait after a failure with this many before it.
pub(crate) fn backoff_ms(failures: u32) -> i64 {
    BACKOFF.after(failures.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_key_waits_once_and_at_its_earliest() {
        let mut queue = Queue::default();
        let key = Key::new("a", "b");
        queue.add(at(100), key.clone());
        queue.add(at(50), key.clone());
        queue.add(at(80), key.clone());
        assert_eq!((queue.len(), queue.next()), (1, Some(at(50))));
        assert_eq!(queue.pop(at(49)), None);
        assert_eq!(queue.pop(at(50)), Some(key));
        assert!(queue.is_empty());
    }

    #[test]
    fn a_burst_is_one_look() {
        let mut queue = Queue::default();
        let key = Key::new("a", "b");
        queue.touch(at(0), key.clone());
        assert_eq!(queue.pop(at(0)), Some(key.clone()), "the first news is heard at once");
        for millis in 1..10 {
            queue.touch(at(millis), key.clone());
            assert_eq!(queue.pop(at(millis)), None);
        }
        assert_eq!(queue.pop(at(20)), Some(key));
    }

    #[test]
    fn failures_wait_longer_each_time_until_one_works() {
        let mut queue = Queue::default();
        let key = Key::new("a", "b");
        let mut waits = Vec::new();
        for _ in 0..14 {
            queue.fail(at(0), &key);
            waits.push(queue.next().unwrap().as_millis());
            queue.pop(at(i64::MAX));
        }
        assert_eq!(waits[..4], [50, 100, 200, 400]);
        assert_eq!(waits[13], BACKOFF.longest_ms);
        queue.reset_failures(&key);
        queue.fail(at(0), &key);
        assert_eq!(queue.next(), Some(at(50)));
    }
}
