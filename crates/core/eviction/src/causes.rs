//! Causes: each taint that makes somebody leave is known once, however many pods it hits.

use alloc::sync::Arc;
use core::hash::{Hash, Hasher};

use hashbrown::HashTable;
use lazaret_fleet::{EffectiveTaint, Origin};
use lazaret_model::{DeviceId, Slab, Taint, Timestamp};
use rustc_hash::FxHasher;

use crate::{
    limiter::Limiter,
    options::Options,
    paces::Paces,
    reason::{Cause, PaceKey, Source},
};

/// No rate is higher: beyond it a pace means nothing, and sums stay far from overflow.
const PER_SECOND_MAX: u32 = 1_000_000;

/// The state of one cause.
#[derive(Debug)]
pub(crate) struct CauseState {
    pub(crate) cause: Arc<Cause>,
    /// When the taint was set; for one without a time, when it was first seen to affect a pod.
    pub(crate) since: Timestamp,
    /// The rule's place among the rules, if it is one.
    pub(crate) rule: Option<u32>,
    /// Its pace and the rate it adds to it, if it has any.
    pub(crate) pace: Option<(u32, u32)>,
    /// How many pods have it among their reasons.
    pods: u32,
    hash: u64,
}

/// Where pods that are due wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// For the permit of a pace, if there is one.
    Pace(Option<u32>),
    /// In the line of the cause.
    Line,
}

/// All causes in use.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    slab: Slab<CauseState>,
    by_identity: HashTable<u32>,
    /// How many of them are taints that no rule sets.
    of_no_rule: usize,
    /// Where in memory the taint is that was last asked for, and its cause. Good for one pass over a fleet, which does
    /// not move meanwhile: a rule that hits many pods is looked up once.
    last: Option<(usize, u32)>,
}

/// The context in which a cause is made.
pub(crate) struct Surroundings<'a> {
    pub(crate) now: Timestamp,
    pub(crate) options: &'a Options,
    pub(crate) leader_since: Option<Timestamp>,
    pub(crate) paces: &'a mut Paces,
}

impl Causes {
    pub(crate) fn get(&self, at: u32) -> Option<&CauseState> {
        self.slab.get(at)
    }

    /// The pace of a cause, if it has one.
    pub(crate) fn pace_of(&self, at: u32) -> Option<u32> {
        self.slab.get(at)?.pace.map(|(pace, _)| pace)
    }

    /// Where pods that are due for a cause wait.
    pub(crate) fn queue_of(&self, at: u32) -> Queue {
        match self.slab.get(at) {
            Some(state) if state.cause.taint.eviction.is_some() => Queue::Line,
            Some(state) => Queue::Pace(state.pace.map(|(pace, _)| pace)),
            None => Queue::Pace(None),
        }
    }

    /// From here to the next call the fleet stays as it is.
    pub(crate) fn begin_pass(&mut self) {
        self.last = None;
    }

    /// The cause that this taint is; made if nobody had it so far. `rule` tells the place of a rule by its name.
    pub(crate) fn of(
        &mut self,
        taint: &EffectiveTaint<'_>,
        device: &DeviceId,
        rule: impl FnOnce() -> Option<u32>,
        around: &mut Surroundings<'_>,
    ) -> u32 {
        let place = core::ptr::from_ref(taint.taint).addr();
        if let Some((last, at)) = self.last
            && last == place
        {
            return at;
        }
        let at = self.look_up(taint, device, rule, around);
        self.last = Some((place, at));
        at
    }

    fn look_up(
        &mut self,
        taint: &EffectiveTaint<'_>,
        device: &DeviceId,
        rule: impl FnOnce() -> Option<u32>,
        around: &mut Surroundings<'_>,
    ) -> u32 {
        let hash = identity(&taint.origin, taint.taint);
        let slab = &self.slab;
        let known = self.by_identity.find(hash, |at| {
            slab.get(*at).is_some_and(|state| {
                state.hash == hash
                    && state.cause.source.is(&taint.origin)
                    && state.cause.taint == *taint.taint
            })
        });
        if let Some(at) = known {
            return *at;
        }
        let source = Source::from(&taint.origin);
        let pace = around.rate_of(taint.taint).map(|rate| {
            let key = PaceKey::of(&source, taint.taint, device);
            let fresh = around.fresh_limiter(rate, taint.taint);
            (around.paces.attach(key, rate, around.now, || fresh), rate)
        });
        let state = CauseState {
            since: around.options.set_at(around.now, taint.taint).unwrap_or(around.now),
            rule: rule(),
            cause: Arc::new(Cause { source, taint: taint.taint.clone() }),
            pace,
            pods: 0,
            hash,
        };
        self.of_no_rule += usize::from(!matches!(state.cause.source, Source::Rule { .. }));
        let at = self.slab.insert(state);
        let slab = &self.slab;
        self.by_identity.insert_unique(hash, at, |at| slab.get(*at).map_or(0, |state| state.hash));
        at
    }

    /// One more pod has it. The rule that it is, if it is one.
    pub(crate) fn add_pod(&mut self, at: u32) -> Option<u32> {
        let state = self.slab.get_mut(at)?;
        state.pods += 1;
        state.rule
    }

    /// One pod less has it. With the last it is forgotten. The rule that it is, if it is one.
    pub(crate) fn remove_pod(&mut self, at: u32, paces: &mut Paces, now: Timestamp) -> Option<u32> {
        let state = self.slab.get_mut(at)?;
        let rule = state.rule;
        state.pods = state.pods.saturating_sub(1);
        if state.pods > 0 {
            return rule;
        }
        self.last = None;
        if let Ok(found) = self.by_identity.find_entry(state.hash, |other| *other == at) {
            found.remove();
        }
        if let Some(state) = self.slab.remove(at) {
            self.of_no_rule -= usize::from(!matches!(state.cause.source, Source::Rule { .. }));
            if let Some((pace, rate)) = state.pace {
                paces.detach(pace, rate, now);
            }
        }
        rule
    }

    /// Whether a taint that no rule sets makes a pod leave.
    pub(crate) fn are_some_of_no_rule(&self) -> bool {
        self.of_no_rule > 0
    }

    /// How many causes are in use.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }
}

impl Surroundings<'_> {
    /// Negative is zero: nobody leaves. `None`: not paced.
    fn rate_of(&self, taint: &Taint) -> Option<u32> {
        match taint.evictions_per_second {
            Some(rate) => Some(u32::try_from(rate.max(0)).unwrap_or(u32::MAX).min(PER_SECOND_MAX)),
            None => self.options.default_evictions_per_second.map(|rate| rate.min(PER_SECOND_MAX)),
        }
    }

    /// A taint that was set after this leadership began has a full burst: no predecessor can have worked on it. Any
    /// other is treated as if its burst had been used up at the moment the leadership began.
    fn fresh_limiter(&self, rate: u32, taint: &Taint) -> Limiter {
        let burst = self.options.burst;
        let Some(leader_since) = self.leader_since else {
            return Limiter::empty_since(rate, burst, self.now, self.now);
        };
        let certainly_mine = leader_since.plus_millis(self.options.clock_skew_ms_max);
        match self.options.set_at(self.now, taint) {
            Some(time) if time > certainly_mine => Limiter::full(rate, burst, self.now),
            Some(_) | None => Limiter::empty_since(rate, burst, leader_since, self.now),
        }
    }
}

fn identity(origin: &Origin<'_>, taint: &Taint) -> u64 {
    let mut hasher = FxHasher::default();
    match origin {
        Origin::Rule { uid, .. } => uid.hash(&mut hasher),
        Origin::Device { slice, index } => (1_u8, slice, index).hash(&mut hasher),
        Origin::TaintSlice { slice, index } => (2_u8, slice, index).hash(&mut hasher),
        Origin::Patch { name, index } => (3_u8, name, index).hash(&mut hasher),
    }
    taint.key.hash(&mut hasher);
    taint.value.hash(&mut hasher);
    taint.time_added.hash(&mut hasher);
    hasher.finish()
}
