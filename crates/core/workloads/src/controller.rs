//! The one machine that runs every controller: a queue of keys, a decision for each, and what is in flight.
//!
//! While writes for a key are in flight the key is not looked at again. Their results are put into the [`World`] before
//! the next look, so a decision counts what the one before it did, without keeping books of what to expect.

use lazaret_invariant::invariant;
use lazaret_machine::EffectId;

use crate::{
    effect::Answer, effect::Effect, failure_run::FailureRun, flight::Flight, limits::Limits, prelude::*,
    queue::Queue,
};

/// Keys decided in one poll, so that no controller keeps the others waiting.
const DECISIONS_MAX: usize = 256;
/// Writes in flight from which on no further key is decided.
const IN_FLIGHT_MAX: usize = 2_000;
/// Identifiers of effects of different controllers differ in their remainder.
pub(crate) const CONTROLLERS_MAX: u64 = 64;

/// A controller: which keys a change concerns, and what to do about a key.
#[derive(Clone, Copy)]
pub struct Rules {
    /// As in events and metrics.
    pub name: &'static str,
    /// Nothing is decided before all of these have been listed.
    pub needs: &'static [&'static Resource],
    /// The keys that a change concerns.
    pub concerns: fn(&World, &Change, &mut Vec<Key>),
    /// Plans the writes for a key. Called with any key at any time, also of a deleted object; must be quick when there is nothing to do.
    pub decide: fn(&Context<'_>, &mut Plan),
}

impl core::fmt::Debug for Rules {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

/// The input of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The time.
    pub now: Timestamp,
    /// All that is known.
    pub world: &'a World,
    /// The object that the decision is about.
    pub key: &'a Key,
    /// Why the last attempt failed for good, if it did.
    pub failure: Option<&'a str>,
    /// The mark that the last decision left, and since when it has been the same.
    pub remembered: Option<(u64, Timestamp)>,
    /// The failures in a row that the last look knew of.
    pub failure_run: Option<&'a FailureRun>,
    /// The limits of what one object may create.
    pub limits: Limits,
}

impl Context<'_> {
    /// Since when looks have found this mark: from now on, if the last one found another.
    #[must_use]
    pub fn since(&self, mark: u64) -> Timestamp {
        self.remembered.filter(|(known, _)| *known == mark).map_or(self.now, |(_, since)| since)
    }
}

/// A decision: what to do now, and when to look again unless something changes before.
#[derive(Debug, Default)]
pub struct Plan {
    pub(crate) writes: Vec<Planned>,
    pub(crate) again: Option<Timestamp>,
    pub(crate) mark: Option<u64>,
    pub(crate) failure_run: Option<FailureRun>,
}

/// A write, and what to tell people once it is done.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) write: Write,
    pub(crate) note: Option<Note>,
    pub(crate) tries: u32,
}

impl Plan {
    /// Does this.
    pub fn write(&mut self, write: Write) {
        self.writes.push(Planned { write, note: None, tries: 0 });
    }

    /// Does this, and tells people once it is done.
    pub fn write_and_tell(&mut self, write: Write, note: Note) {
        self.writes.push(Planned { write, note: Some(note), tries: 0 });
    }

    /// Looks again at this time, or earlier.
    pub fn look_again(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |known| known.min(at)));
    }

    /// Has the next look at this key find the mark, with the time since when it has been this one. For what can only be
    /// told by watching: that something has not changed for a while.
    pub fn remember(&mut self, mark: u64) {
        self.mark = Some(mark);
    }

    /// Has the next look at this key find these failures.
    pub fn remember_failures(&mut self, run: FailureRun) {
        self.failure_run = Some(run);
    }

    /// Whether nothing is to be done now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

/// A controller at work.
#[derive(Debug)]
pub struct Controller {
    rules: Rules,
    queue: Queue,
    flights: ByKey<Flight>,
    by_effect: BTreeMap<EffectId, Key>,
    failures: ByKey<String>,
    /// Creations refused for the time being are retried at this time, whatever changes before.
    refused: ByKey<Timestamp>,
    /// The mark that each decision left: one a key, dropped by the first decision that leaves none.
    remembered: ByKey<(u64, Timestamp)>,
    /// Likewise.
    failure_runs: ByKey<FailureRun>,
    out: Vec<Effect>,
    next_id: u64,
    limits: Limits,
}

impl Controller {
    /// A controller with these rules; `index` makes its identifiers differ from those of others.
    #[must_use]
    pub fn new(rules: Rules, index: u64, limits: Limits) -> Self {
        Self {
            rules,
            queue: Queue::default(),
            flights: ByKey::default(),
            by_effect: BTreeMap::new(),
            failures: ByKey::default(),
            refused: ByKey::default(),
            remembered: ByKey::default(),
            failure_runs: ByKey::default(),
            out: Vec::new(),
            next_id: index % CONTROLLERS_MAX,
            limits,
        }
    }

    /// As in events and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.rules.name
    }

    /// How many keys wait to be looked at, and how many writes are in flight.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        (self.queue.len(), self.by_effect.len())
    }

    /// Something has changed; `world` already knows.
    pub fn changed(&mut self, now: Timestamp, world: &World, change: &Change) {
        let mut keys = Vec::new();
        (self.rules.concerns)(world, change, &mut keys);
        let wanted = self.wanted_otherwise(change);
        for key in keys {
            if wanted.as_ref() == Some(&key) {
                self.queue.add(now, key);
            } else {
                self.queue.touch(now, key);
            }
        }
    }

    /// The key of an object of the controller's own kind whose spec has changed: a user may be watching, and such changes do not come in bursts.
    fn wanted_otherwise(&self, change: &Change) -> Option<Key> {
        let (old, new) = (change.old.as_ref()?, change.new.as_ref()?);
        let own = self.rules.needs.first().is_some_and(|kind| **kind == *new.resource());
        let changed = old.metadata().generation != new.metadata().generation;
        (own && changed).then(|| new.key())
    }

    /// Looks at this key, whatever is heard.
    pub fn look(&mut self, at: Timestamp, key: Key) {
        self.queue.add(at, key);
    }

    /// The effects that are due now.
    pub fn poll(&mut self, now: Timestamp, world: &World) -> Vec<Effect> {
        if self.queue.next().is_some_and(|at| at <= now) && world.knows(self.rules.needs) {
            for _ in 0..DECISIONS_MAX {
                if self.by_effect.len() >= IN_FLIGHT_MAX {
                    break;
                }
                // No key is due.
                let Some(key) = self.queue.pop(now) else { break };
                self.turn(now, world, key);
            }
        }
        core::mem::take(&mut self.out)
    }

    /// When to poll next, unless something is heard before.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        if self.by_effect.len() >= IN_FLIGHT_MAX { None } else { self.queue.next() }
    }

    /// An effect has ended. Returns the changes that `world` learns from the answer, for every controller to hear.
    pub fn acknowledge(
        &mut self,
        now: Timestamp,
        world: &mut World,
        id: EffectId,
        answer: Answer,
    ) -> Vec<Change> {
        // An event, or answered before, or too late.
        let Some(key) = self.by_effect.remove(&id) else { return Vec::new() };
        let Some(flight) =
            invariant!(self.flights.get_mut(&key), "a decision is kept while its writes are in flight")
        else {
            return Vec::new();
        };
        let (changes, note) = flight.land(now, world, id, answer);
        if let Some(note) = note {
            let id = self.id();
            self.out.push(Effect { id, kind: Write::Event(note) });
        }
        self.proceed(now, world, key);
        changes
    }

    /// Nothing in flight will be answered, as when another replica became the leader: every key is decided anew. Writes that
    /// were sent may have been done; the watches will show them.
    pub fn abandon(&mut self, now: Timestamp) {
        self.out.clear();
        self.by_effect.clear();
        let mut keys: Vec<Key> = core::mem::take(&mut self.flights).into_keys().collect();
        keys.sort_unstable();
        for key in keys {
            self.queue.fail(now, &key);
        }
    }

    /// Looks at a key: goes on with what is in flight, or decides anew.
    fn turn(&mut self, now: Timestamp, world: &World, key: Key) {
        if self.flights.contains_key(&key) {
            self.proceed(now, world, key);
            return;
        }
        let mut plan = Plan::default();
        let failure = self.failures.get(&key).map(String::as_str);
        let remembered = self.remembered.get(&key).copied();
        let failure_run = self.failure_runs.get(&key);
        let context =
            Context { now, world, key: &key, failure, remembered, failure_run, limits: self.limits };
        (self.rules.decide)(&context, &mut plan);
        match plan.mark.map(|mark| (mark, context.since(mark))) {
            Some(entry) => self.remembered.insert(key.clone(), entry),
            None => self.remembered.remove(&key),
        };
        match plan.failure_run.take() {
            Some(run) => self.failure_runs.insert(key.clone(), run),
            None => self.failure_runs.remove(&key),
        };
        if let Some(at) = plan.again {
            self.queue.add(at, key.clone());
        }
        let waits_until = self.refused.get(&key).copied().filter(|until| *until > now);
        let planned = plan.writes.len();
        if waits_until.is_some() {
            plan.writes.retain(|planned| !matches!(planned.write, Write::Create { .. }));
        }
        let flight = match waits_until.filter(|_| plan.writes.len() < planned) {
            Some(until) => {
                self.queue.add(until, key.clone());
                Flight::without_creations(plan.writes, until)
            }
            None if planned == 0 => return self.reset_failures(&key),
            None => Flight::new(plan.writes),
        };
        self.flights.insert(key.clone(), flight);
        self.proceed(now, world, key);
    }

    /// Sends what may be sent, or ends the flight.
    fn proceed(&mut self, now: Timestamp, world: &World, key: Key) {
        let Some(mut flight) = invariant!(self.flights.remove(&key), "a decision that goes on is there")
        else {
            return;
        };
        for id in flight.expire(now) {
            self.by_effect.remove(&id);
        }
        for planned in flight.release(now, world) {
            let id = self.id();
            self.out.push(Effect { id, kind: planned.write.clone().shown() });
            if !matches!(planned.write, Write::Event(_)) {
                self.by_effect.insert(id, key.clone());
                flight.sent(now, id, planned);
            }
        }
        if !flight.is_over(now, world) {
            if let Some(at) = flight.next() {
                self.queue.add(at, key.clone());
            }
            self.flights.insert(key, flight);
            return;
        }
        let waits_until = flight.waits_until();
        match (flight.into_failure(), waits_until) {
            (Some(why), _) => {
                let until = self.queue.fail(now, &key);
                if let Some(why) = why {
                    self.failures.insert(key.clone(), why);
                    self.refused.insert(key, until);
                }
            }
            // All that was done is what need not wait: it says nothing of what was refused.
            (None, Some(until)) => self.queue.add(until, key),
            (None, None) => {
                self.reset_failures(&key);
                self.queue.touch(now, key);
            }
        }
    }

    /// It worked: what went wrong before is forgotten.
    fn reset_failures(&mut self, key: &Key) {
        self.queue.reset_failures(key);
        self.failures.remove(key);
        self.refused.remove(key);
    }

    fn id(&mut self) -> EffectId {
        self.next_id += CONTROLLERS_MAX;
        EffectId(self.next_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Rules = Rules {
        name: "own",
        needs: &[&resource::JOBS],
        concerns: |_, change, keys| keys.extend(change.latest().map(Object::key)),
        decide: |_, _| {},
    };

    fn job(generation: u64, version: u64) -> Object {
        let metadata = json!({"name": "j", "namespace": "n", "uid": "u", "generation": generation, "resourceVersion": version.to_string()});
        Object::parse(&resource::JOBS, &json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn a_change_of_what_is_wanted_does_not_wait_for_a_rest() {
        let at = |ms: i64| Timestamp::from_secs(1_000).plus_millis(ms);
        let (mut world, mut controller) = (World::new(), Controller::new(OWN, 0, Limits::default()));
        world.list(&resource::JOBS, Vec::new(), &[], 0);
        let mut tell = |controller: &mut Controller, ms: i64, object: Object| {
            let change = world.put(object).unwrap();
            controller.changed(at(ms), &world, &change);
            let due = controller.next_wake();
            let _ = controller.poll(at(ms), &world);
            due
        };
        assert_eq!(tell(&mut controller, 0, job(1, 1)), Some(at(0)));
        let after_news = tell(&mut controller, 5, job(1, 2));
        assert!(after_news > Some(at(5)), "news rests: {after_news:?}");
        assert_eq!(tell(&mut controller, 6, job(2, 3)), Some(at(6)));
    }
}
