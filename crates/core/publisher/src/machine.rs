//! The machine that gets slices from what they are to what they should be.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    vec::Vec,
};
use core::fmt;

use k8s_openapi::api::resource::v1::ResourceSlice;
use lazaret_invariant::invariant;
use lazaret_machine::{Backoff, EffectId, Flights, Machine, Retry, Turn, Wake};
use lazaret_model::Timestamp;

use crate::{
    Dropped, Pool, PoolError, Scope,
    dropped::missing,
    effect::{Answer, Effect, EffectKind},
    plan::{Accepted, Identity, Step, plan},
    validate::validate,
};

/// Pauses after failures that pass: a server that restarts is back within the longest.
const PASSING: Backoff = Backoff::new(200, 30_000);
/// Pauses after a refusal: a person has to change something first.
const REFUSED: Backoff = Backoff::new(200, 300_000);
/// Writes in flight, one for each pool.
const IN_FLIGHT_MAX: usize = 16;
/// Problems that were not read. The oldest go first.
const PROBLEMS_MAX: usize = 64;
/// Between two repairs of a pool that another client keeps changing: the first pause, doubled with every repair.
const REPAIR_MS_MIN: i64 = 1_000;
/// And the longest.
const REPAIR_MS_MAX: i64 = 30_000;
/// A pool that no other client changed for this long is repaired at once again.
const REPAIR_FORGET_MS: i64 = 60_000;

/// Something that the driver's author or administrator should know. None ends the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Pools that cannot be published. Those before them stay.
    Invalid(PoolError),
    /// The server stored less than it was sent.
    Dropped(Dropped),
    /// A write failed. It is tried again.
    Failed {
        /// Of which pool; empty: of all.
        pool: String,
        /// The server's error.
        why: String,
        /// When it is tried again, from now.
        retry_in_ms: i64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(error) => write!(f, "cannot be published: {error}"),
            Self::Dropped(dropped) => write!(f, "{dropped}"),
            Self::Failed { pool, why, retry_in_ms } => {
                write!(f, "publishing pool {pool:?} failed, next attempt in {retry_in_ms} ms: {why}")
            }
        }
    }
}

/// Publishes the pools of one driver, while it leads.
#[derive(Debug)]
pub struct Publisher {
    identity: Identity,
    leads: bool,
    /// None until the driver said what it wants: nothing is deleted before.
    desired: Option<BTreeMap<String, Pool>>,
    /// The server's slices, by name; none until they were listed.
    actual: Option<BTreeMap<String, ResourceSlice>>,
    pools: BTreeMap<String, Progress>,
    owner: OwnerState,
    flights: Flights<EffectKind, Flight>,
    problems: VecDeque<Problem>,
}

/// How far one pool is.
#[derive(Debug, Default)]
struct Progress {
    /// Something changed since it was last planned.
    is_dirty: bool,
    /// Steps of the plan that are left.
    steps: VecDeque<Step>,
    is_in_flight: bool,
    backoff: Retry,
    /// The last failure was a refusal of what was sent.
    was_refused: bool,
    accepted: Accepted,
    /// When it may be repaired next, and the pause after that.
    repair: Option<(Timestamp, i64)>,
    /// The changes seen while a write was in flight, by name: one may be that write. The newest of each slice.
    deferred: BTreeMap<String, SliceChange>,
}

#[derive(Debug)]
enum SliceChange {
    Set(ResourceSlice),
    Gone(ResourceSlice),
}

#[derive(Debug)]
enum Flight {
    Step { pool: String, step: Box<Step> },
    Owner,
}

/// The read of the Node.
#[derive(Debug, Default)]
struct OwnerState {
    is_wanted: bool,
    is_in_flight: bool,
    backoff: Retry,
}

impl Machine for Publisher {
    type View = ();
    type Input<'a> = Turn;
    type Kind = EffectKind;
    type Why = &'static str;

    /// Writes in flight go on without leadership: their answers say what the server has.
    fn handle(&mut self, now: Timestamp, (): &(), turn: Turn) {
        match turn {
            Turn::Tick => {}
            Turn::BecameLeader => self.leads = true,
            Turn::LostLeadership => self.leads = false,
            Turn::Acknowledged(id, reply) => self.acknowledge(now, id, reply.into()),
        }
        if self.leads {
            self.plan_next(now);
        }
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        if self.leads { self.flights.take() } else { None }
    }

    fn next_wake(&self) -> Option<Wake> {
        if !self.leads || self.desired.is_none() || self.actual.is_none() {
            return None;
        }
        if self.owner.is_wanted {
            let at = self.owner.backoff.until().filter(|_| !self.owner.is_in_flight)?;
            return Some(Wake::new(at, "the Node that owns the slices is read again"));
        }
        if self.flights.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let waiting = self
            .pools
            .values()
            .filter(|progress| !progress.is_in_flight && (progress.is_dirty || !progress.steps.is_empty()));
        let due =
            waiting.filter_map(|progress| progress.backoff.until().max(progress.repair.map(|(at, _)| at)));
        Some(Wake::new(due.min()?, "a pool is written again, or repaired"))
    }
}

impl Publisher {
    /// A publisher for a driver, which does not lead and knows nothing yet.
    #[must_use]
    pub fn new(driver: impl Into<String>, scope: Scope) -> Self {
        let is_wanted = scope.owner().is_some();
        Self {
            identity: Identity { driver: driver.into(), scope, owner: None },
            leads: false,
            desired: None,
            actual: None,
            pools: BTreeMap::new(),
            owner: OwnerState { is_wanted, ..OwnerState::default() },
            flights: Flights::default(),
            problems: VecDeque::new(),
        }
    }

    /// Replaces all pools that the driver wants.
    ///
    /// # Errors
    /// When they cannot be published. The pools wanted before stay.
    pub fn want(&mut self, pools: BTreeMap<String, Pool>) -> Result<(), PoolError> {
        if let Err(error) = validate(&self.identity.scope, &pools) {
            self.report(Problem::Invalid(error.clone()));
            return Err(error);
        }
        let before = self.desired.take().unwrap_or_default();
        let names: BTreeSet<&String> = before.keys().chain(pools.keys()).collect();
        for name in names {
            if before.get(name) == pools.get(name) && self.pools.contains_key(name) {
                continue;
            }
            let progress = self.pools.entry(name.clone()).or_default();
            progress.is_dirty = true;
            progress.repair = None;
            if core::mem::take(&mut progress.was_refused) {
                progress.backoff.try_now();
            }
        }
        self.desired = Some(pools);
        Ok(())
    }

    /// All slices of this driver and scope, as of a version of the server.
    pub fn list(&mut self, now: Timestamp, slices: Vec<ResourceSlice>, resource_version: &str) {
        let listed: BTreeMap<String, ResourceSlice> = slices
            .into_iter()
            .filter(|slice| self.is_ours(slice))
            .filter_map(|slice| Some((slice.metadata.name.clone()?, slice)))
            .collect();
        let before = self.actual.take().unwrap_or_default();
        let is_start = before.is_empty();
        let mut actual = listed;
        for (name, slice) in before {
            match actual.get(&name) {
                // Written after the list was made.
                None if is_newer(&slice, resource_version) => drop(actual.insert(name, slice)),
                None => self.vanished(now, &slice),
                Some(listed) if is_newer(&slice, version(listed)) => drop(actual.insert(name, slice)),
                Some(listed) if version(listed) != version(&slice) => {
                    self.touched(now, &listed.spec.pool.name)
                }
                Some(_) => {}
            }
        }
        let pools: BTreeSet<String> = actual.values().map(|slice| slice.spec.pool.name.clone()).collect();
        for pool in pools {
            let progress = self.pools.entry(pool).or_default();
            progress.is_dirty |= is_start;
        }
        self.actual = Some(actual);
    }

    /// A slice as it is now.
    pub fn see(&mut self, now: Timestamp, slice: ResourceSlice) {
        // A server names every object; without a name there is nothing to file it under.
        let Some(name) = slice.metadata.name.clone() else { return };
        if !self.is_ours(&slice) {
            return;
        }
        if let Some(progress) = self.writing(&slice) {
            progress.deferred.insert(name, SliceChange::Set(slice));
            return;
        }
        // A watch may speak before the first list.
        let Some(actual) = &mut self.actual else { return };
        let known = actual.get(&name);
        if known.is_some_and(|known| version(known) == version(&slice) || is_newer(known, version(&slice))) {
            return;
        }
        let pool = slice.spec.pool.name.clone();
        actual.insert(name, slice);
        self.touched(now, &pool);
    }

    /// A slice that is gone, as it last was.
    pub fn miss(&mut self, now: Timestamp, slice: &ResourceSlice) {
        let name = slice.metadata.name.as_deref().unwrap_or_default();
        if let Some(progress) = self.writing(slice) {
            progress.deferred.insert(name.into(), SliceChange::Gone(slice.clone()));
            return;
        }
        // A watch may speak before the first list.
        let Some(actual) = &mut self.actual else { return };
        let same = |known: &ResourceSlice| known.metadata.uid == slice.metadata.uid;
        if actual.get(name).is_some_and(same)
            && let Some(known) = actual.remove(name)
        {
            self.vanished(now, &known);
        }
    }

    /// Decides what to do next.
    fn plan_next(&mut self, now: Timestamp) {
        // The driver has not said what it wants.
        let Some(desired) = &self.desired else { return };
        // Nothing has been listed.
        let Some(actual) = &self.actual else { return };
        if self.owner.is_wanted {
            if !self.owner.is_in_flight
                && self.owner.backoff.is_over(now)
                && let Some(name) = self.identity.scope.owner()
            {
                self.owner.is_in_flight = true;
                self.flights.launch(Flight::Owner, EffectKind::ReadOwner { name: name.into() });
            }
            return;
        }
        // Pools that are neither wanted nor published.
        self.pools.retain(|name, progress| {
            progress.is_dirty
                || progress.is_in_flight
                || !progress.steps.is_empty()
                || desired.contains_key(name)
        });
        for (name, progress) in &mut self.pools {
            if self.flights.len() >= IN_FLIGHT_MAX {
                return;
            }
            if progress.is_in_flight || !progress.backoff.is_over(now) {
                continue;
            }
            if progress.is_dirty && progress.repair.is_none_or(|(at, _)| at <= now) {
                let existing: Vec<&ResourceSlice> =
                    actual.values().filter(|slice| slice.spec.pool.name == *name).collect();
                progress.steps = plan(&self.identity, name, desired.get(name), &existing, &progress.accepted);
                progress.is_dirty = false;
            }
            if let Some(step) = progress.steps.pop_front() {
                progress.is_in_flight = true;
                let effect = step.effect.clone();
                self.flights.launch(Flight::Step { pool: name.clone(), step: Box::new(step) }, effect);
            }
        }
    }

    /// Takes in the answer to an effect, with the object that the server returned. Unknown or repeated ids are ignored.
    pub fn acknowledge(&mut self, now: Timestamp, id: EffectId, answer: Answer) {
        match self.flights.land(id) {
            Some(Flight::Owner) => self.owner_read(now, answer),
            Some(Flight::Step { pool, step }) => {
                self.step_done(now, &pool, *step, answer);
                let deferred =
                    self.pools.get_mut(&pool).map(|progress| core::mem::take(&mut progress.deferred));
                for seen in deferred.unwrap_or_default().into_values() {
                    match seen {
                        SliceChange::Set(slice) => self.see(now, slice),
                        SliceChange::Gone(slice) => self.miss(now, &slice),
                    }
                }
            }
            // Acknowledged before.
            None => {}
        }
    }

    /// The next problem to report.
    pub fn poll_problem(&mut self) -> Option<Problem> {
        self.problems.pop_front()
    }

    /// Whether the server has what the driver wants, as far as is known.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let is_done =
            |progress: &Progress| !progress.is_dirty && progress.steps.is_empty() && !progress.is_in_flight;
        self.desired.is_some() && self.actual.is_some() && self.pools.values().all(is_done)
    }

    fn owner_read(&mut self, now: Timestamp, answer: Answer) {
        self.owner.is_in_flight = false;
        let why = match answer {
            Answer::Owner(uid) => {
                if self.identity.owner.as_ref() != Some(&uid) {
                    self.pools.values_mut().for_each(|progress| progress.is_dirty = true);
                }
                self.identity.owner = Some(uid);
                self.owner = OwnerState::default();
                return;
            }
            Answer::Gone => "there is no such Node".into(),
            Answer::Conflict(why) | Answer::Refused(why) | Answer::Failed(why) => why,
            Answer::Stored(_) => "the answer is no Node".into(),
        };
        self.owner.backoff.fail(now, PASSING);
        let retry_in_ms = self.owner.backoff.until().map_or(0, |at| at.millis_since(now));
        self.report(Problem::Failed { pool: String::new(), why, retry_in_ms });
    }

    fn step_done(&mut self, now: Timestamp, pool: &str, step: Step, answer: Answer) {
        let Some(actual) = invariant!(self.actual.as_mut(), "slices are listed before the first write")
        else {
            return;
        };
        let Some(progress) = invariant!(self.pools.get_mut(pool), "a pool with a write in flight is kept")
        else {
            return;
        };
        progress.is_in_flight = false;
        let (why, pauses) = match answer {
            Answer::Stored(slice) => {
                let dropped = step.wanted.as_ref().map(|sent| (missing(sent, &slice.spec), sent));
                if let (Some(index), Some((gates, sent))) = (step.index, dropped) {
                    let is_known = progress.accepted.get(&index).is_some_and(|(before, _)| before == sent);
                    if gates.is_empty() {
                        progress.accepted.remove(&index);
                    } else if !is_known {
                        progress.accepted.insert(index, (sent.clone(), slice.spec.clone()));
                        self.problems.push_back(Problem::Dropped(Dropped {
                            pool: pool.into(),
                            index,
                            gates,
                        }));
                    }
                }
                if let Some(name) = slice.metadata.name.clone() {
                    actual.insert(name, *slice);
                }
                return self.advanced(pool);
            }
            Answer::Gone => match step.effect {
                EffectKind::Delete { name, .. } => {
                    actual.remove(&name);
                    return self.advanced(pool);
                }
                EffectKind::Update(slice) => {
                    actual.remove(slice.metadata.name.as_deref().unwrap_or_default());
                    ("the slice is gone".into(), PASSING)
                }
                EffectKind::Create(_) | EffectKind::ReadOwner { .. } => ("not found".into(), PASSING),
            },
            Answer::Refused(why) => (why, REFUSED),
            Answer::Conflict(why) | Answer::Failed(why) => (why, PASSING),
            Answer::Owner(_) => ("the answer is no slice".into(), PASSING),
        };
        progress.was_refused = pauses == REFUSED;
        // Planned anew from what is known then.
        progress.is_dirty = true;
        progress.steps.clear();
        progress.backoff.fail(now, pauses);
        let retry_in_ms = progress.backoff.until().map_or(0, |at| at.millis_since(now));
        self.report(Problem::Failed { pool: pool.into(), why, retry_in_ms });
    }

    fn advanced(&mut self, pool: &str) {
        let Some(progress) = invariant!(self.pools.get_mut(pool), "a pool with a write in flight is kept")
        else {
            return;
        };
        progress.backoff = Retry::default();
        progress.was_refused = false;
        // The driver wants something else by now: what is left of the plan is not it.
        if progress.is_dirty {
            progress.steps.clear();
        }
        while self.problems.len() > PROBLEMS_MAX {
            self.problems.pop_front();
        }
    }

    /// The pool of a slice, if a write to it is in flight.
    fn writing(&mut self, slice: &ResourceSlice) -> Option<&mut Progress> {
        self.pools.get_mut(&slice.spec.pool.name).filter(|progress| progress.is_in_flight)
    }

    /// Another client changed a slice of a pool.
    fn touched(&mut self, now: Timestamp, pool: &str) {
        let progress = self.pools.entry(pool.into()).or_default();
        if progress.is_dirty {
            return;
        }
        progress.is_dirty = true;
        // At once the first time; with a growing pause against a client that does it again and again.
        progress.repair = Some(match progress.repair {
            Some((at, pause)) if now.millis_since(at) < REPAIR_FORGET_MS => {
                (at.plus_millis(pause).max(now), (pause * 2).min(REPAIR_MS_MAX))
            }
            Some(_) | None => (now, REPAIR_MS_MIN),
        });
    }

    fn vanished(&mut self, now: Timestamp, slice: &ResourceSlice) {
        self.touched(now, &slice.spec.pool.name);
        // It may have gone with its Node, which may be back as another.
        self.owner.is_wanted = self.identity.scope.owner().is_some();
    }

    fn is_ours(&self, slice: &ResourceSlice) -> bool {
        let scope = &self.identity.scope;
        slice.spec.driver == self.identity.driver
            && slice.spec.node_name.as_deref().unwrap_or_default() == scope.node_name()
            && scope.only_pool().is_none_or(|pool| slice.spec.pool.name == pool)
    }

    fn report(&mut self, problem: Problem) {
        self.problems.push_back(problem);
        while self.problems.len() > PROBLEMS_MAX {
            self.problems.pop_front();
        }
    }
}

fn version(slice: &ResourceSlice) -> &str {
    slice.metadata.resource_version.as_deref().unwrap_or_default()
}

/// Whether a slice is newer than a version. Versions of one server are numbers that grow.
fn is_newer(slice: &ResourceSlice, than: &str) -> bool {
    match (version(slice).parse::<u64>(), than.parse::<u64>()) {
        (Ok(slice), Ok(than)) => slice > than,
        _ => false,
    }
}
