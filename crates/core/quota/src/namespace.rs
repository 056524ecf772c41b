//! The quotas of one namespace, and what is used in it.

use alloc::{
    borrow::ToOwned,
    collections::{BTreeMap, BTreeSet},
    string::String,
};

use lazaret_machine::Retry;
use lazaret_model::{Quantity, Timestamp};

use crate::{Amounts, Classes, Counted, Quota, Usage, counted::Kind};

/// A usage that differs for less time is on its way: the server writes it with the object, and the two are seen one after the other.
const SETTLING_MS: i64 = 500;

/// The quotas of one namespace, and what is used in it.
#[derive(Debug, Default)]
pub(crate) struct Namespace {
    pub(crate) quotas: BTreeMap<String, Tracked>,
    pub(crate) objects: BTreeMap<Counted, BTreeMap<String, Known>>,
}

/// The usage of an object, as it was counted.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) usage: Usage,
    pub(crate) at: Timestamp,
}

/// A quota, and what is used of it.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    pub(crate) quota: Quota,
    /// Of the resources in its spec.
    totals: Amounts,
    /// Since when the status has been another than it should be.
    pub(crate) differs_since: Option<Timestamp>,
    pub(crate) in_flight: bool,
    pub(crate) retry: Retry,
}

impl Namespace {
    pub(crate) fn put(&mut self, kind: &Counted, name: &str, new: Known) {
        let objects = self.objects.entry(kind.clone()).or_default();
        let old = objects.insert(name.to_owned(), new.clone());
        self.move_totals(old.as_ref(), Some(&new));
    }

    pub(crate) fn remove(&mut self, kind: &Counted, name: &str) -> Option<Known> {
        let old = self.objects.get_mut(kind).and_then(|objects| objects.remove(name));
        self.move_totals(old.as_ref(), None);
        old
    }

    /// A pod is past its end.
    pub(crate) fn end(&mut self, now: Timestamp, pod: &str) {
        let pods = self.objects.iter().find(|(kind, _)| kind.is_pods());
        // It was deleted, or pods are not listed any more.
        let Some((kind, usage)) =
            pods.and_then(|(kind, pods)| Some((kind.clone(), pods.get(pod)?.usage.clone())))
        else {
            return;
        };
        self.put(&kind, pod, Known { usage, at: now });
    }

    /// Counts everything anew.
    pub(crate) fn count(&mut self, now: Timestamp) {
        let Self { quotas, objects } = self;
        objects.values_mut().flat_map(BTreeMap::values_mut).for_each(|known| known.at = now);
        quotas.values_mut().for_each(|tracked| tracked.count(objects));
    }

    fn move_totals(&mut self, old: Option<&Known>, new: Option<&Known>) {
        for tracked in self.quotas.values_mut() {
            for (known, sign) in old.map(|old| (old, -1)).into_iter().chain(new.map(|new| (new, 1))) {
                tracked.add(known, sign);
            }
        }
    }
}

impl Tracked {
    /// The same for another version of the quota that counts the same.
    pub(crate) fn with(self, quota: Quota) -> Self {
        Self { quota, ..self }
    }

    /// Counts everything anew.
    pub(crate) fn count(&mut self, objects: &BTreeMap<Counted, BTreeMap<String, Known>>) {
        self.totals = Amounts::default();
        objects.values().flat_map(BTreeMap::values).for_each(|known| self.add(known, 1));
    }

    fn add(&mut self, known: &Known, sign: i32) {
        if !self.quota.is_about(&known.usage.traits) {
            return;
        }
        for (name, amount) in known.usage.at(known.at).iter() {
            if self.quota.spec.hard.has(name) {
                self.totals.add_one(name, &if sign < 0 { amount.neg() } else { amount.clone() });
            }
        }
    }

    /// The usage that its status should have, if the status differs; `None` until everything that counts against it is known.
    pub(crate) fn wanted(
        &self,
        kinds: &BTreeMap<Kind, Counted>,
        listed: &BTreeSet<Counted>,
        classes: &Classes,
    ) -> Option<Amounts> {
        let mut used = Amounts::default();
        for name in self.quota.spec.hard.names() {
            let mut counting = kinds.values().filter(|kind| kind.counts(name, classes)).peekable();
            if counting.peek().is_some() {
                if !counting.all(|kind| listed.contains(kind)) {
                    return None;
                }
                used.set(name, self.totals.get(name).cloned().unwrap_or_else(Quantity::zero));
            }
        }
        let same =
            self.quota.enforced_amounts() == Some(&self.quota.spec.hard) && self.quota.used() == Some(&used);
        (!same).then_some(used)
    }

    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.due_at().is_some_and(|at| at <= now)
    }

    /// When a status that differs is to be written: at once if nothing is enforced yet.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        let since = self.differs_since.filter(|_| !self.in_flight)?;
        let fresh = self.quota.enforced_amounts() != Some(&self.quota.spec.hard);
        let at = if fresh { since } else { since.plus_millis(SETTLING_MS) };
        Some(self.retry.until().map_or(at, |until| at.max(until)))
    }
}
