//! The machine: its inputs, its state, and the order in which it thinks.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};

use lazaret_fleet::{Changes, Fleet};
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use crate::{
    effect::{Effect, EffectId, EffectKind, Note, Outcome},
    flight::{Flight, Overseer, Watch},
    objects::{Node, Pod, ReplicaSet},
    policy::Policy,
    record::Mark,
    tables::{Known, Tables},
};

/// What may be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Between two writes of one status that record nothing new.
    pub status_ms: i64,
    /// The first pause after a failure; each further one doubles it.
    pub retry_ms_min: i64,
    /// No pause is longer.
    pub retry_ms_max: i64,
    /// How long news of what was done may take before it is taken to be missing.
    pub settle_ms: i64,
    /// How long a pod is let be that a disruption budget held back.
    pub budget_ms: i64,
    /// Replacements under way in the whole cluster.
    pub flights_max: usize,
    /// Events that may wait to be taken; further ones are dropped.
    pub events_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // A new taint is to be seen in the status within a second.
            status_ms: 400,
            retry_ms_min: 250,
            retry_ms_max: 60_000,
            settle_ms: 5_000,
            budget_ms: 10_000,
            flights_max: 500,
            events_max: 1_024,
        }
    }
}

/// What the machine can be told.
#[derive(Clone, Debug)]
pub enum Input {
    /// A policy as it is now.
    Policy(Arc<Policy>),
    /// A policy is gone.
    PolicyGone(ObjectKey),
    /// A pod as it is now.
    Pod(Arc<Pod>),
    /// A pod is gone.
    PodGone(ObjectKey),
    /// A node as it is now.
    Node(Arc<Node>),
    /// A node is gone.
    NodeGone(Text),
    /// A replica set as it is now.
    ReplicaSet(Arc<ReplicaSet>),
    /// A replica set is gone.
    ReplicaSetGone(ObjectKey),
    /// Whether something can be read.
    Sight(Source, Sight),
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Nodes: their taints.
    Nodes,
    /// Claims, slices, rules: the taints of devices.
    Devices,
    /// Replica sets: how to release a pod.
    ReplicaSets,
    /// Pods.
    Pods,
}

/// Whether something can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It can.
    Clear,
    /// It cannot; which permission is missing.
    Barred(Text),
}

/// How much of what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Times that a pod was looked at, ever.
    pub looks: u64,
    /// Pods with a taint that is counted.
    pub tainted: u64,
    /// Replacements under way.
    pub in_flight: u64,
    /// Policies whose breaker holds.
    pub tripped: u64,
    /// Replacements begun, ever.
    pub started: u64,
    /// Replacements that came to their end, ever.
    pub replaced: u64,
    /// Replacements given up before anything was done, ever.
    pub cancelled: u64,
    /// Replacements not Ready in time, ever.
    pub overdue: u64,
    /// Replacements after which nobody started another pod, ever.
    pub unreplaced: u64,
    /// Times that a disruption budget held a pod back, ever.
    pub held: u64,
    /// Steps that were refused, ever.
    pub refused: u64,
}

/// Pods whose replacement came to its end and those that took their places, remembered against late news of them.
const ENDED_MAX: usize = 4_096;

/// The replacement of one cluster's pods. Reads a fleet, owns none; it must always be given the same one.
#[derive(Debug)]
pub struct Replacement {
    pub(crate) options: Options,
    pub(crate) tables: Tables,
    /// What cannot be read, and which permission is missing.
    pub(crate) barred: BTreeMap<Source, Text>,
    pub(crate) leading: bool,
    pub(crate) now: Timestamp,
    pub(crate) watches: BTreeMap<ObjectKey, Watch>,
    pub(crate) overseers: BTreeMap<ObjectKey, Overseer>,
    /// By the UID of the pod that is replaced.
    pub(crate) flights: BTreeMap<Uid, Flight>,
    /// Pods with findings, by when they may be replaced.
    pub(crate) ripe: BTreeSet<(Timestamp, ObjectKey)>,
    /// When to look at a pod again.
    pub(crate) timers: BTreeSet<(Timestamp, ObjectKey)>,
    /// Pods that a budget held back, until when.
    pub(crate) held: BTreeMap<ObjectKey, Timestamp>,
    /// Pods to be looked at.
    pub(crate) concerned: BTreeSet<ObjectKey>,
    /// Something may be begun that could not be before.
    pub(crate) may_start: bool,
    ended: VecDeque<Uid>,
    effects: VecDeque<Effect>,
    events: usize,
    pub(crate) under_way: BTreeMap<EffectId, UnderWay>,
    next_effect: u64,
    pub(crate) figures: Figures,
}

/// An effect that was not acknowledged yet.
#[derive(Debug)]
pub(crate) enum UnderWay {
    Step { uid: Uid, kind: Step },
    Status { policy: ObjectKey },
}

/// The kinds of steps, to know what an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Release,
    Copy,
    Ungate,
    Evict,
    Delete,
}

impl Replacement {
    /// A machine that knows nothing yet and does not lead.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            tables: Tables::default(),
            barred: BTreeMap::new(),
            leading: false,
            now: Timestamp::from_millis(i64::MIN),
            watches: BTreeMap::new(),
            overseers: BTreeMap::new(),
            flights: BTreeMap::new(),
            ripe: BTreeSet::new(),
            timers: BTreeSet::new(),
            held: BTreeMap::new(),
            concerned: BTreeSet::new(),
            may_start: false,
            ended: VecDeque::new(),
            effects: VecDeque::new(),
            events: 0,
            under_way: BTreeMap::new(),
            next_effect: 0,
            figures: Figures::default(),
        }
    }

    /// Takes note of an object. Decides nothing yet: more may follow at once.
    pub fn tell(&mut self, input: Input) {
        match input {
            Input::Policy(policy) => self.tell_policy(policy),
            Input::PolicyGone(key) => {
                self.concern_namespace(&key.namespace);
                self.tables.policies.remove(&key);
                self.overseers.remove(&key);
            }
            Input::Pod(pod) => self.tell_pod(pod),
            Input::PodGone(key) => {
                if let Some(pod) = self.tables.pods.get(&key).cloned() {
                    self.awaken(&pod);
                }
                self.tables.remove_pod(&key);
                self.concerned.insert(key);
            }
            Input::Node(node) => {
                if self.tables.nodes.get(&node.name) != Some(&node) {
                    self.concerned.extend(self.tables.pods_on(&node.name).cloned());
                    self.tables.nodes.insert(node.name.clone(), node);
                }
            }
            Input::NodeGone(name) => {
                self.concerned.extend(self.tables.pods_on(&name).cloned());
                self.tables.nodes.remove(&name);
            }
            Input::ReplicaSet(set) => self.tables.set_replica_set(set),
            Input::ReplicaSetGone(key) => self.tables.remove_replica_set(&key),
            Input::Sight(source, sight) => self.tell_sight(source, sight),
        }
    }

    /// Takes note of what changed in the fleet.
    pub fn tell_devices(&mut self, fleet: &Fleet, changes: &Changes) {
        let of_claims = changes.claims.iter().flat_map(|claim| fleet.pods_of_claim(*claim));
        let pods = changes.pods.iter().copied().chain(of_claims);
        self.concerned.extend(pods.filter_map(|pod| Some(fleet.pod(pod)?.key.clone())));
    }

    /// From now on effects are wanted, or none are. To be said only once every object has been heard of.
    pub fn lead(&mut self, now: Timestamp, fleet: &Fleet, leading: bool) {
        self.now = now;
        if leading == self.leading {
            return;
        }
        self.leading = leading;
        self.watches.clear();
        self.overseers.clear();
        self.flights.clear();
        self.ripe.clear();
        self.timers.clear();
        self.held.clear();
        self.effects.clear();
        self.events = 0;
        self.under_way.clear();
        self.ended.clear();
        self.concerned.clear();
        if leading {
            self.resume(now, fleet);
        }
    }

    /// Decides what is to be done at `now`. May be called early, late, or for nothing.
    pub fn think(&mut self, now: Timestamp, fleet: &Fleet) {
        self.now = now;
        if !self.leading {
            self.concerned.clear();
            return;
        }
        for key in core::mem::take(&mut self.concerned) {
            self.evaluate(now, fleet, &key, false);
        }
        self.ring_timers(now);
        self.advance_all(now);
        self.review_breakers(now);
        self.start(now);
        self.write_statuses(now);
    }

    /// What became of an effect. Unknown or repeated ids are ignored.
    pub fn acknowledge(&mut self, now: Timestamp, effect: EffectId, outcome: Outcome) {
        self.now = now;
        match self.under_way.remove(&effect) {
            Some(UnderWay::Step { uid, kind }) => self.acknowledge_step(now, &uid, kind, outcome),
            Some(UnderWay::Status { policy }) => self.acknowledge_status(now, &policy, effect, outcome),
            None => {}
        }
    }

    /// The next effect to be done, the oldest first. None is given twice.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front()?;
        if matches!(effect.kind, EffectKind::Event(_)) {
            self.events -= 1;
        }
        Some(effect)
    }

    /// When to think again if nothing happens before. `None`: there is nothing to wait for.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        if !self.leading {
            return None;
        }
        let later = |at: &Timestamp| *at > self.now;
        let timer = self.timers.first().map(|(at, _)| *at);
        let held = self.held.values().copied().filter(later).min();
        let flights = self.flights.values().filter(|flight| flight.step.is_none());
        let flights = flights.flat_map(|flight| {
            [Some(flight.not_before), Some(flight.unsure_until), self.deadline_of(flight)]
        });
        let flight = flights.flatten().filter(later).min();
        let statuses =
            self.overseers.values().filter(|overseer| overseer.dirty && overseer.writing.is_none());
        let status = statuses.map(|overseer| overseer.not_before).min();
        [timer, held, flight, status].into_iter().flatten().min()
    }

    /// How much of what there is.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures {
            tainted: self.ripe.len() as u64,
            in_flight: self.flights.len() as u64,
            tripped: self.overseers.values().filter(|overseer| overseer.tripped).count() as u64,
            ..self.figures
        }
    }

    /// The pods that are being replaced, by UID.
    pub fn in_flight(&self) -> impl Iterator<Item = &Uid> {
        self.flights.keys()
    }

    fn tell_policy(&mut self, policy: Arc<Policy>) {
        let key = policy.key.clone();
        let known = self.tables.policies.get(&key);
        if let Some(known) = known
            && known.policy.uid == policy.uid
            && is_older(&policy.version, &known.policy.version)
        {
            return;
        }
        let same = known.is_some_and(|known| {
            known.policy.uid == policy.uid
                && known.policy.spec == policy.spec
                && known.policy.deleting == policy.deleting
        });
        if known.is_none_or(|known| known.policy.uid != policy.uid) {
            self.overseers.remove(&key);
        }
        if !same {
            self.concern_namespace(&key.namespace);
        }
        if self.leading {
            let overseer =
                self.overseers.entry(key.clone()).or_insert_with(|| Overseer::resume(&policy.status));
            overseer.dirty = true;
        }
        for flight in self.flights.values_mut() {
            if flight.record.policy == key.name && flight.record.pod.namespace == key.namespace {
                flight.recorded &= policy.status.has_record(&flight.record.uid);
            }
        }
        self.tables.policies.insert(key, Known::new(policy));
    }

    fn tell_pod(&mut self, pod: Arc<Pod>) {
        self.awaken(&pod);
        let key = pod.key.clone();
        self.tables.set_pod(pod);
        self.concerned.insert(key);
    }

    /// What was done to a pod can be seen: no need to wait for news of it any longer.
    fn awaken(&mut self, pod: &Pod) {
        let replaced = pod.mark.as_ref().map(|mark| &mark.record().uid);
        for uid in [Some(&pod.uid), replaced].into_iter().flatten() {
            if let Some(flight) = self.flights.get_mut(uid)
                && flight.failures == 0
            {
                flight.not_before = self.now;
            }
        }
    }

    fn tell_sight(&mut self, source: Source, sight: Sight) {
        let before = match sight {
            Sight::Clear => self.barred.remove(&source).is_some(),
            Sight::Barred(why) => self.barred.insert(source, why.clone()) != Some(why),
        };
        if !before {
            return;
        }
        // What can no longer be read is not what it was: nothing is begun on old news.
        self.concerned.extend(self.tables.pods.keys().cloned());
        for overseer in self.overseers.values_mut() {
            overseer.dirty = true;
        }
    }

    fn concern_namespace(&mut self, namespace: &Text) {
        let Self { tables, concerned, .. } = self;
        concerned.extend(tables.pods_in(namespace).cloned());
    }

    /// Takes up what the objects say is under way, and all timers.
    fn resume(&mut self, now: Timestamp, fleet: &Fleet) {
        for (key, known) in &self.tables.policies {
            let urgent = !known.policy.status.replacements.is_empty();
            self.overseers.insert(key.clone(), Overseer { urgent, ..Overseer::resume(&known.policy.status) });
            for entry in &known.policy.status.replacements {
                let mut flight = Flight::new(Arc::new(entry.record.clone()));
                flight.overdue = entry.overdue;
                flight.bound = entry.replacement.as_ref().and_then(|name| {
                    let pod = self.tables.pods.get(&ObjectKey::new(key.namespace.clone(), name.clone()))?;
                    (pod.uid != entry.record.uid).then(|| (pod.key.clone(), pod.uid.clone()))
                });
                flight.announced = true;
                self.flights.insert(entry.record.uid.clone(), flight);
            }
        }
        let keys: Vec<ObjectKey> = self.tables.pods.keys().cloned().collect();
        for key in &keys {
            self.evaluate(now, fleet, key, true);
        }
        self.may_start = true;
    }

    /// A pod that carries the mark of a replacement nobody knows of: it is brought to its end.
    pub(crate) fn adopt_marked(&mut self, pod: &Arc<Pod>) {
        let Some(mark) = &pod.mark else { return };
        let record = mark.record();
        if self.flights.contains_key(&record.uid) || self.has_ended(&record.uid) {
            return;
        }
        let unfinished = match mark {
            Mark::Released(_) => pod.uid == record.uid && !pod.deleting,
            Mark::Copy(_) => {
                pod.gated || self.tables.pod(&record.pod, &record.uid).is_some_and(|old| !old.deleting)
            }
        };
        if unfinished {
            let mut flight = Flight::new(Arc::new(record.clone()));
            flight.announced = true;
            if let Some(overseer) = self.overseers.get_mut(&flight.policy()) {
                overseer.dirty = true;
            }
            self.flights.insert(record.uid.clone(), flight);
        }
    }

    pub(crate) fn remember_ended(&mut self, uid: Uid) {
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(uid);
    }

    /// Whether a pod was replaced, or took a place, by this leader.
    pub(crate) fn has_ended(&self, uid: &Uid) -> bool {
        self.ended.contains(uid)
    }

    pub(crate) fn emit(&mut self, kind: EffectKind) -> EffectId {
        self.next_effect += 1;
        let id = EffectId(self.next_effect);
        self.effects.push_back(Effect { id, kind });
        id
    }

    pub(crate) fn say(&mut self, note: Note) {
        if self.events < self.options.events_max {
            self.events += 1;
            self.emit(EffectKind::Event(note));
        }
    }

    /// The pause after so many failures in a row.
    pub(crate) fn pause(&self, failures: u32) -> i64 {
        let doubled = self.options.retry_ms_min.saturating_mul(1 << failures.saturating_sub(1).min(20));
        doubled.min(self.options.retry_ms_max)
    }
}

/// Versions are numbers since 1.35; what is none is never older.
fn is_older(version: &Text, than: &Text) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
    }
}
