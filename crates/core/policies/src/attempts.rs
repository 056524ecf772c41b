//! Writes that are in flight, and objects that are left alone for a while after one.

use alloc::{collections::BTreeMap, vec::Vec};

use lazaret_machine::{Backoff, Effect, EffectId, Flights, Outcome, Wake};
use lazaret_model::{Text, Timestamp};

/// A write that was done shows in the watch soon. Until then, or for this time, its object is not written again.
const SEEN_WITHIN_MS: i64 = 5_000;
/// Pauses after writes that failed.
const RETRY: Backoff = Backoff::new(500, 60_000);

/// Something to be written.
pub(crate) trait Write: Clone {
    /// The key of its object: the name; of a status, the name after a slash, which no name has.
    fn key(&self) -> Text;
    /// Whether no watch shows that it was done.
    fn is_unseen(&self) -> bool;
}

#[derive(Debug)]
pub(crate) struct Attempts<W> {
    flights: Flights<W, W>,
    /// The next attempt of each write, and the number of its failures; by [`Write::key`].
    not_before: BTreeMap<Text, (Timestamp, u32)>,
    /// When it was last decided what to write.
    planned: Option<Timestamp>,
}

impl<W> Default for Attempts<W> {
    fn default() -> Self {
        Self { flights: Flights::default(), not_before: BTreeMap::new(), planned: None }
    }
}

impl<W: Write> Attempts<W> {
    /// A write is sent.
    pub(crate) fn start(&mut self, write: W) -> Effect<W> {
        self.flights.send(write.clone(), write)
    }

    /// The outcome of an effect: the write, and whether it is done.
    pub(crate) fn acknowledge(
        &mut self,
        now: Timestamp,
        id: EffectId,
        outcome: Outcome,
    ) -> Option<(W, bool)> {
        let write = self.flights.land(id)?;
        let key = write.key();
        let failures = self.not_before.get(&key).map_or(0, |(_, failures)| *failures);
        let is_done = matches!(outcome, Outcome::Done | Outcome::Gone);
        if !is_done {
            let failures = failures.saturating_add(1);
            self.not_before.insert(key, (now.plus_millis(RETRY.after(failures)), failures));
        } else if write.is_unseen() {
            self.not_before.remove(&key);
        } else {
            self.not_before.insert(key, (now.plus_millis(SEEN_WITHIN_MS), 0));
        }
        Some((write, is_done))
    }

    /// The watch showed the object, or that it is gone.
    pub(crate) fn seen(&mut self, key: &Text) {
        self.not_before.remove(key);
    }

    /// It is decided now what to write.
    pub(crate) fn plan(&mut self, now: Timestamp) {
        self.planned = Some(now);
    }

    /// The keys of what was left alone until now, each once: it is decided now what to write there.
    pub(crate) fn due(&mut self, now: Timestamp) -> Vec<Text> {
        let is_due = |at: &Timestamp| *at <= now && self.planned.is_none_or(|planned| *at > planned);
        let due = self.not_before.iter().filter(|(_, (at, _))| is_due(at)).map(|(key, _)| key.clone());
        let due = due.collect();
        self.planned = Some(now);
        due
    }

    /// When something that was left alone may be written.
    pub(crate) fn wake(&self) -> Option<Wake> {
        let later = |at: &Timestamp| self.planned.is_none_or(|planned| *at > planned);
        let at = self.not_before.values().map(|(at, _)| *at).filter(later).min()?;
        Some(Wake::new(at, "an object that was written is looked at again"))
    }

    /// Whether this is to be left alone now.
    pub(crate) fn waits(&self, now: Timestamp, key: &Text) -> bool {
        self.flights.all().into_iter().any(|write| write.key() == *key)
            || self.not_before.get(key).is_some_and(|(at, _)| *at > now)
    }

    /// Whether a write of this failed, or was done and did not show in the watch in time. It is tried again.
    pub(crate) fn is_overdue(&self, now: Timestamp, key: &Text) -> bool {
        self.not_before.get(key).is_some_and(|(at, failures)| *failures > 0 || *at <= now)
    }

    /// Forgets writes that are no longer wanted.
    pub(crate) fn keep(&mut self, is_wanted: impl Fn(&Text) -> bool) {
        self.not_before.retain(|key, _| is_wanted(key));
    }
}
