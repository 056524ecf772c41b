//! The status that each quota should have, kept up to date with the objects.

use alloc::{
    borrow::ToOwned,
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};

use lazaret_invariant::invariant;
use lazaret_machine::{Backoff, Contents, EffectId, Flights, Machine, Outcome, Retry, Turn, Wake};
use lazaret_model::Timestamp;

use crate::{
    Amounts, Classes, Counted, Quota, Usage,
    counted::Kind,
    namespace::{Known, Namespace, Tracked},
};

/// Everything is counted anew at this interval, whatever changed.
pub const RESYNC_SECS: i64 = 300;
/// Pauses after writes that failed.
const RETRY: Backoff = Backoff::new(500, 60_000);

/// Something to be done.
pub type Effect = lazaret_machine::Effect<SetStatus>;

/// A status to be written, if the quota is still this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetStatus {
    /// Where the quota is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its incarnation.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
    /// The limits that are enforced from now on.
    pub hard: Amounts,
    /// The amounts used.
    pub used: Amounts,
    /// The quota in this version, as JSON: empty, unless it was [read whole](Quota::read_whole).
    pub object: Contents<Arc<[u8]>>,
}

/// The consequence of a received quota for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaChange {
    /// The first of its namespace: the objects of the namespace are to be passed in.
    First,
    /// It counts something else than before, or is new: [`Quotas::needs`] may say something else.
    Changed,
    /// It counts the same as before.
    Same,
}

/// The quotas of all namespaces, and what is used in namespaces that have one.
#[derive(Debug, Default)]
pub struct Quotas {
    namespaces: BTreeMap<String, Namespace>,
    /// Every kind that quotas may count.
    kinds: BTreeMap<Kind, Counted>,
    /// Those of which all objects are known.
    listed: BTreeSet<Counted>,
    classes: Classes,
    /// Pods that stop counting by themselves, with the time.
    ending: BTreeSet<(Timestamp, Place)>,
    /// Quotas that may differ from their status.
    touched: BTreeSet<Place>,
    /// Quotas that do.
    differing: BTreeSet<Place>,
    /// The view that was asked for, and the versions of the quotas that it is for.
    view: Option<(u64, BTreeMap<Place, String>)>,
    flights: Flights<SetStatus, Place>,
    resync_at: Option<Timestamp>,
    last_view: u64,
}

impl Machine for Quotas {
    type View = ();
    type Input<'a> = Turn;
    type Kind = SetStatus;
    type Why = &'static str;

    fn handle(&mut self, now: Timestamp, (): &(), turn: Turn) {
        match turn {
            Turn::Tick => self.think(now),
            Turn::BecameLeader => {}
            Turn::LostLeadership => self.abandon(),
            Turn::Acknowledged(id, reply) => self.acknowledge(now, id, reply.outcome),
        }
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.flights.take()
    }

    fn next_wake(&self) -> Option<Wake> {
        if !self.touched.is_empty() {
            return Some(Wake::now("quotas may differ from their status"));
        }
        let tracked = |(namespace, name): &Place| self.namespaces.get(namespace)?.quotas.get(name)?.due_at();
        let due = if self.view.is_some() { None } else { self.differing.iter().filter_map(tracked).min() };
        let ending = self.ending.first().map(|(at, _)| at.plus_millis(1));
        Wake::first([
            due.map(|at| Wake::new(at, "the status of a quota is to be written")),
            ending.map(|at| Wake::new(at, "a pod stops counting")),
            self.resync_at.map(|at| Wake::new(at, "everything is counted anew")),
        ])
    }
}

/// Namespace and name.
type Place = (String, String);

fn place(namespace: &str, name: &str) -> Place {
    (namespace.to_owned(), name.to_owned())
}

impl Quotas {
    /// A kind is served. Its objects are passed in once [`Quotas::needs`] says that some quota counts them.
    pub fn learn(&mut self, group: &str, plural: &str) {
        if let Some(counted) = Counted::of(group, plural) {
            self.kinds.insert(place(group, plural), counted);
            self.touch_all();
        }
    }

    /// A kind is not served any more.
    pub fn forget(&mut self, now: Timestamp, group: &str, plural: &str) {
        if let Some(kind) = self.kinds.remove(&place(group, plural)) {
            self.unlist(now, &kind);
        }
    }

    /// The kinds that some quota counts.
    #[must_use]
    pub fn needs(&self) -> Vec<&Kind> {
        let quotas = self.namespaces.values().flat_map(|namespace| namespace.quotas.values());
        let names: BTreeSet<&str> = quotas.flat_map(|tracked| tracked.quota.spec.hard.names()).collect();
        let wanted = |kind: &Counted| names.iter().any(|name| kind.counts(name, &self.classes));
        self.kinds.iter().filter(|(_, kind)| wanted(kind)).map(|(name, _)| name).collect()
    }

    /// Whether a namespace has a quota: only then its objects are passed in.
    #[must_use]
    pub fn tracks(&self, namespace: &str) -> bool {
        self.namespaces.contains_key(namespace)
    }

    /// The device classes are these.
    pub fn set_classes(&mut self, classes: Classes) {
        if self.classes != classes {
            self.classes = classes;
            self.touch_all();
        }
    }

    /// The device classes.
    #[must_use]
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// A quota is there or has changed.
    pub fn set_quota(&mut self, now: Timestamp, quota: Quota) -> QuotaChange {
        let at = place(&quota.metadata.namespace, &quota.metadata.name);
        let first = !self.tracks(&at.0);
        let namespace = self.namespaces.entry(at.0.clone()).or_default();
        let known = namespace.quotas.remove(&at.1);
        let known = known.filter(|known| known.quota.metadata.uid == quota.metadata.uid);
        let mut change = if first { QuotaChange::First } else { QuotaChange::Changed };
        let tracked = match known {
            Some(known) if known.quota.selects_as(&quota) => {
                change = QuotaChange::Same;
                known.with(quota)
            }
            known => {
                let mut tracked = known.unwrap_or_default().with(quota);
                tracked.count(&namespace.objects);
                tracked
            }
        };
        namespace.quotas.insert(at.1.clone(), tracked);
        self.touched.insert(at);
        self.resync_at.get_or_insert(now.plus_secs(RESYNC_SECS));
        change
    }

    /// A quota has gone.
    pub fn remove_quota(&mut self, namespace: &str, name: &str) {
        self.differing.remove(&place(namespace, name));
        // It was never seen.
        let Some(known) = self.namespaces.get_mut(namespace) else { return };
        known.quotas.remove(name);
        if known.quotas.is_empty() {
            self.namespaces.remove(namespace);
            self.ending.retain(|(_, (of, _))| of != namespace);
        }
    }

    /// All objects of a kind have been received, those of namespaces with a quota.
    pub fn list(&mut self, group: &str, plural: &str) {
        if let Some(kind) = self.kinds.get(&place(group, plural)).cloned()
            && self.listed.insert(kind)
        {
            self.touch_all();
        }
    }

    /// Nothing is known any more of the objects of a kind.
    pub fn clear(&mut self, now: Timestamp, group: &str, plural: &str) {
        if let Some(kind) = self.kinds.get(&place(group, plural)).cloned() {
            self.unlist(now, &kind);
        }
    }

    /// An object is there or has changed.
    pub fn put(&mut self, now: Timestamp, kind: &Counted, namespace: &str, name: &str, usage: Usage) {
        // The last quota of the namespace was deleted meanwhile.
        let Some(known) = self.namespaces.get_mut(namespace) else { return };
        if let Some(at) = usage.ends_after(now) {
            self.ending.insert((at, place(namespace, name)));
        }
        known.put(kind, name, Known { usage, at: now });
        self.touch(namespace);
    }

    /// An object has gone.
    pub fn remove(&mut self, now: Timestamp, kind: &Counted, namespace: &str, name: &str) {
        // The last quota of the namespace was deleted meanwhile.
        let Some(known) = self.namespaces.get_mut(namespace) else { return };
        if let Some(at) = known.remove(kind, name).and_then(|gone| gone.usage.ends_after(now)) {
            self.ending.remove(&(at, place(namespace, name)));
        }
        self.touch(namespace);
    }

    /// Decides which statuses are others than they should be.
    pub fn think(&mut self, now: Timestamp) {
        while self.ending.first().is_some_and(|(at, _)| *at < now) {
            let Some((_, (namespace, name))) =
                invariant!(self.ending.pop_first(), "the first pod to end was just seen")
            else {
                break;
            };
            if let Some(known) = self.namespaces.get_mut(&namespace) {
                known.end(now, &name);
                self.touch(&namespace);
            }
        }
        if self.resync_at.is_some_and(|at| at <= now) {
            self.namespaces.values_mut().for_each(|namespace| namespace.count(now));
            self.touch_all();
            self.resync_at = (!self.namespaces.is_empty()).then(|| now.plus_secs(RESYNC_SECS));
        }
        for at in core::mem::take(&mut self.touched) {
            // It was deleted.
            let Some(tracked) = find(&mut self.namespaces, &at) else { continue };
            if tracked.wanted(&self.kinds, &self.listed, &self.classes).is_some() {
                tracked.differs_since.get_or_insert(now);
                self.differing.insert(at);
            } else {
                tracked.differs_since = None;
                self.differing.remove(&at);
            }
        }
    }

    /// The kinds of which a view is wanted that is as new as the quotas are now, with a number to grant it by; nothing while one is open.
    pub fn wants_view(&mut self, now: Timestamp) -> Option<(u64, Vec<Kind>)> {
        if self.view.is_some() {
            return None;
        }
        let mut versions = BTreeMap::new();
        for at in &self.differing {
            if let Some(tracked) = find(&mut self.namespaces, at).filter(|tracked| tracked.is_due(now)) {
                versions.insert(at.clone(), tracked.quota.metadata.resource_version.clone());
            }
        }
        if versions.is_empty() {
            return None;
        }
        let kinds = self.needs().into_iter().cloned().collect();
        self.last_view += 1;
        self.view = Some((self.last_view, versions));
        Some((self.last_view, kinds))
    }

    /// All objects that existed when a view was requested have been received.
    pub fn view_reached(&mut self, number: u64) {
        // It was asked for before leadership was lost, or reached before.
        let Some((_, versions)) = self.view.take_if(|(wanted, _)| *wanted == number) else { return };
        for (at, version) in versions {
            let tracked = find(&mut self.namespaces, &at);
            // It was deleted, or changed.
            let Some(tracked) = tracked.filter(|tracked| tracked.quota.metadata.resource_version == version)
            else {
                continue;
            };
            // The objects that came with the view make it right.
            let Some(used) = tracked.wanted(&self.kinds, &self.listed, &self.classes) else { continue };
            tracked.in_flight = true;
            let (uid, hard) = (tracked.quota.metadata.uid.clone(), tracked.quota.spec.hard.clone());
            let ((namespace, name), object) = (at.clone(), Arc::clone(&tracked.quota.object).into());
            let write = SetStatus { namespace, name, uid, resource_version: version, hard, used, object };
            self.flights.launch(at, write);
        }
    }

    /// No answer will come to what is in flight, and no view: another leads.
    pub fn abandon(&mut self) {
        self.view = None;
        for at in self.flights.abandon() {
            if let Some(tracked) = find(&mut self.namespaces, &at) {
                tracked.in_flight = false;
            }
        }
    }

    /// The outcome of a write.
    pub fn acknowledge(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        // Acknowledged before, or given up with leadership.
        let Some(at) = self.flights.land(id) else { return };
        // It was deleted while its status was written.
        let Some(tracked) = find(&mut self.namespaces, &at) else { return };
        tracked.in_flight = false;
        if outcome == Outcome::Done {
            tracked.retry = Retry::default();
        } else {
            tracked.retry.fail(now, RETRY);
        }
        self.touched.insert(at);
    }

    fn unlist(&mut self, now: Timestamp, kind: &Counted) {
        self.listed.remove(kind);
        for namespace in self.namespaces.values_mut() {
            namespace.objects.remove(kind);
            namespace.count(now);
        }
        self.touch_all();
    }

    fn touch(&mut self, namespace: &str) {
        let names = self.namespaces.get(namespace).into_iter().flat_map(|known| known.quotas.keys());
        self.touched.extend(names.map(|name| place(namespace, name)));
    }

    fn touch_all(&mut self) {
        for (at, namespace) in &self.namespaces {
            self.touched.extend(namespace.quotas.keys().map(|name| place(at, name)));
        }
    }
}

fn find<'n>(namespaces: &'n mut BTreeMap<String, Namespace>, at: &Place) -> Option<&'n mut Tracked> {
    namespaces.get_mut(&at.0)?.quotas.get_mut(&at.1)
}
