//! What is kept of each rule: whom it hits, whom it made leave, and what its status says.
//!
//! The counts are kept as pods come and go; nothing here ever walks over all pods.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use hashbrown::HashMap;
use lazaret_fleet::PodIx;
use lazaret_model::{Condition, ConditionStatus, DeviceTaintRule, Effect, Slab, Taint, Text, Timestamp, Uid};
use rustc_hash::FxBuildHasher;

use crate::{
    effect::EffectId,
    marks::Mark,
    status::{self, Progress},
};

/// What is known of one incarnation of a rule.
#[derive(Debug)]
pub(crate) struct RuleState {
    pub(crate) rule: Arc<DeviceTaintRule>,
    /// What its status says of evictions so far.
    progress: Progress,
    /// The taint as it would be if the effect was NoExecute; only while the effect is None.
    pub(crate) as_if_evicting: Option<Taint>,
    /// Pods that it makes leave, or would if its effect was NoExecute.
    pub(crate) pods: u64,
    /// Those pods by namespace.
    namespaces: HashMap<Text, u32, FxBuildHasher>,
    /// Evictions counted by others: read from the status and from pods that are still terminating.
    evicted_before: u64,
    /// Evictions counted in this leadership.
    evicted: u64,
    /// Evictions up to this instant are in the counts.
    counted_until: Timestamp,
    /// Terminating pods that are marked as evicted by this rule, by number.
    marks: BTreeMap<u32, Marked>,
    pub(crate) status: StatusState,
    /// The rule is gone; the state lives until no pod refers to it.
    retired: bool,
    /// It is among those whose status may have to change.
    dirty: bool,
}

/// A terminating pod that is marked as evicted by a rule.
#[derive(Clone, Copy, Debug)]
struct Marked {
    at: Timestamp,
    /// Counted in this leadership, as one of its own evictions.
    own: bool,
}

/// Where the writing of a rule's status stands.
#[derive(Debug, Default)]
pub(crate) struct StatusState {
    /// What the API server is believed to have.
    pub(crate) known: Option<Condition>,
    /// What was last written in this leadership.
    pub(crate) written: Option<Condition>,
    /// When it was last compared.
    pub(crate) looked: Option<Timestamp>,
    /// A write is under way.
    pub(crate) in_flight: Option<(EffectId, Condition)>,
    /// How many writes were wanted in this leadership and not withdrawn. None: whatever the status says comes from a
    /// predecessor.
    pub(crate) wanted: u64,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// No write before this instant, after a failure.
    pub(crate) not_before: Option<Timestamp>,
    /// Its entry among the timers.
    timer: Option<Timestamp>,
}

/// All rules.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    slab: Slab<RuleState>,
    by_name: HashMap<Text, u32, FxBuildHasher>,
    /// Rules whose status may have to change, in no order. Each has a flag of its own, so that it is here once.
    dirty: Vec<u32>,
    timers: BTreeSet<(Timestamp, u32)>,
}

impl RuleState {
    fn new(rule: Arc<DeviceTaintRule>) -> Self {
        let mut state = Self {
            progress: Progress::default(),
            as_if_evicting: None,
            pods: 0,
            namespaces: HashMap::default(),
            evicted_before: 0,
            evicted: 0,
            counted_until: Timestamp::from_millis(i64::MIN),
            marks: BTreeMap::new(),
            status: StatusState::default(),
            retired: false,
            dirty: false,
            rule,
        };
        state.follow_spec();
        state
    }

    fn follow_spec(&mut self) {
        self.as_if_evicting = matches!(self.rule.taint.effect, Effect::None)
            .then(|| Taint { effect: Effect::NoExecute, ..self.rule.taint.clone() });
        self.status.known = status::existing(&self.rule).cloned();
        self.progress = status::progress_of(&self.rule);
    }

    /// Takes over the count of whoever wrote the status so far, and adds the terminating pods that were marked since.
    /// Never counts a pod twice; misses those that were evicted after the status was written and are gone by now.
    fn recover(&mut self) {
        let until = self.progress.until.unwrap_or(Timestamp::from_millis(i64::MIN));
        let later = self.marks.values().filter(|mark| !mark.own && mark.at > until);
        self.counted_until =
            later.clone().map(|mark| mark.at).fold(self.counted_until.max(until), Timestamp::max);
        self.evicted_before = self.progress.evicted.saturating_add(later.count() as u64);
    }

    /// How many pods have left because of it.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted_before.saturating_add(self.evicted)
    }

    /// In how many namespaces its pods are.
    pub(crate) fn namespaces(&self) -> u64 {
        self.namespaces.len() as u64
    }

    /// Whether pods have to leave right now, or when their time comes.
    pub(crate) fn in_progress(&self) -> bool {
        matches!(self.rule.taint.effect, Effect::NoExecute) && self.pods > 0
    }

    /// The instant to write into the status: never before anything that is counted in it.
    pub(crate) fn stamp(&self, now: Timestamp) -> Timestamp {
        now.max(self.counted_until)
    }

    /// It starts, it ends, or its spec is not the one last written about: no waiting then.
    pub(crate) fn is_urgent(&self) -> bool {
        let last = self.status.written.as_ref().or(self.status.known.as_ref());
        last.is_none_or(|last| !self.is_told_by(last))
    }

    /// Whether a status is on its way that says whether it is in progress, and of which spec.
    pub(crate) fn is_about_to_be_told(&self) -> bool {
        self.status.in_flight.as_ref().is_some_and(|(_, condition)| self.is_told_by(condition))
    }

    fn is_told_by(&self, condition: &Condition) -> bool {
        let said = condition.status == ConditionStatus::True;
        said == self.in_progress() && condition.observed_generation == self.rule.generation
    }
}

impl Rules {
    pub(crate) fn by_name(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, at: u32) -> Option<&RuleState> {
        self.slab.get(at)
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut RuleState> {
        self.slab.get_mut(at)
    }

    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.slab.numbers()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The rule is there, or has changed; `known` is the number of the one of this name. Returns whether this incarnation
    /// of it is new.
    pub(crate) fn upsert(&mut self, known: Option<u32>, rule: &Arc<DeviceTaintRule>, leading: bool) -> bool {
        if let Some(at) = known
            && let Some(state) = self.slab.get_mut(at)
        {
            if state.rule.uid == rule.uid {
                if !Arc::ptr_eq(&state.rule, rule) {
                    let before = state.progress;
                    state.rule = rule.clone();
                    state.follow_spec();
                    if leading && state.status.wanted == 0 && state.progress != before {
                        state.recover();
                    }
                }
                self.touch(at);
                return false;
            }
            self.remove(&rule.name);
        }
        let mut state = RuleState::new(rule.clone());
        state.recover();
        let at = self.slab.insert(state);
        self.by_name.insert(rule.name.clone(), at);
        self.touch(at);
        true
    }

    /// The rule is gone.
    pub(crate) fn remove(&mut self, name: &str) {
        let Some(at) = self.by_name.remove(name) else { return };
        self.set_timer(at, None);
        if let Some(state) = self.slab.get_mut(at) {
            state.retired = true;
        }
        self.drop_if_unused(at);
    }

    /// One more pod is hit, or would be.
    pub(crate) fn add_pod(&mut self, at: u32, namespace: &Text) {
        let Some(state) = self.slab.get_mut(at) else { return };
        state.pods += 1;
        match state.namespaces.get_mut(namespace.as_str()) {
            Some(count) => *count += 1,
            None => {
                state.namespaces.insert(namespace.clone(), 1);
            }
        }
        self.touch(at);
    }

    /// One pod less.
    pub(crate) fn remove_pod(&mut self, at: u32, namespace: &Text) {
        let Some(state) = self.slab.get_mut(at) else { return };
        state.pods = state.pods.saturating_sub(1);
        if let Some(count) = state.namespaces.get_mut(namespace.as_str()) {
            *count -= 1;
            if *count == 0 {
                state.namespaces.remove(namespace.as_str());
            }
        }
        self.touch(at);
        self.drop_if_unused(at);
    }

    /// A pod has left because of it, by a decision of `decided`.
    pub(crate) fn count_eviction(&mut self, name: &str, uid: &Uid, decided: Timestamp) {
        let Some(at) = self.by_name(name) else { return };
        let Some(state) = self.slab.get_mut(at).filter(|state| state.rule.uid == *uid) else { return };
        state.evicted = state.evicted.saturating_add(1);
        state.counted_until = state.counted_until.max(decided);
        self.touch(at);
    }

    /// A terminating pod is seen that is marked as evicted by this rule; `own` if it was counted in this leadership.
    /// Returns the rule, if it is there and did not know yet.
    pub(crate) fn see_mark(&mut self, mark: Mark<'_>, pod: PodIx, own: bool, leading: bool) -> Option<u32> {
        let at = self.by_name(mark.rule)?;
        let state = self.slab.get_mut(at).filter(|state| state.rule.uid == *mark.uid)?;
        if state.marks.insert(pod.0, Marked { at: mark.at, own }).is_some() {
            return None;
        }
        if !own && leading && state.progress.until.is_none_or(|until| mark.at > until) {
            state.evicted_before = state.evicted_before.saturating_add(1);
            state.counted_until = state.counted_until.max(mark.at);
            self.touch(at);
        }
        Some(at)
    }

    /// That pod is gone.
    pub(crate) fn forget_mark(&mut self, at: u32, pod: PodIx) {
        if let Some(state) = self.slab.get_mut(at) {
            state.marks.remove(&pod.0);
        }
    }

    /// A new leadership: counts come from what others left behind.
    pub(crate) fn start_leading(&mut self) {
        for at in self.slab.numbers() {
            if let Some(state) = self.slab.get_mut(at) {
                state.evicted = 0;
                state.counted_until = Timestamp::from_millis(i64::MIN);
                state.marks.values_mut().for_each(|mark| mark.own = false);
                state.status =
                    StatusState { known: status::existing(&state.rule).cloned(), ..StatusState::default() };
                state.recover();
            }
            self.touch(at);
        }
        self.timers.clear();
    }

    /// The leadership is over: nothing of one's own is under way.
    pub(crate) fn stop_leading(&mut self) {
        for at in self.slab.numbers() {
            self.set_timer(at, None);
            if let Some(state) = self.slab.get_mut(at) {
                state.status.in_flight = None;
            }
        }
    }

    /// The status of this rule may have to change.
    pub(crate) fn touch(&mut self, at: u32) {
        if let Some(state) = self.slab.get_mut(at)
            && !state.retired
            && !core::mem::replace(&mut state.dirty, true)
        {
            self.dirty.push(at);
        }
    }

    /// Takes the rules whose status may have to change, ascending, those included whose time has come. Mostly there are
    /// none.
    pub(crate) fn take_dirty(&mut self, now: Timestamp) -> Vec<u32> {
        while let Some(&(due, at)) = self.timers.first() {
            if due > now {
                break;
            }
            self.set_timer(at, None);
            self.touch(at);
        }
        let mut dirty = core::mem::take(&mut self.dirty);
        if dirty.is_empty() {
            return dirty;
        }
        // A rule that is gone, or gone and come again under the same number, left its entry behind.
        let slab = &mut self.slab;
        dirty.retain(|at| {
            slab.get_mut(*at).is_some_and(|state| core::mem::take(&mut state.dirty) && !state.retired)
        });
        dirty.sort_unstable();
        dirty
    }

    /// Gives back what [`Self::take_dirty`] took, for its room to be used again.
    pub(crate) fn give_back(&mut self, mut taken: Vec<u32>) {
        if self.dirty.is_empty() {
            taken.clear();
            self.dirty = taken;
        }
    }

    /// When the status of this rule is to be looked at again.
    pub(crate) fn set_timer(&mut self, at: u32, when: Option<Timestamp>) {
        let Some(state) = self.slab.get_mut(at) else { return };
        if state.status.timer == when {
            return;
        }
        if let Some(old) = state.status.timer.take() {
            self.timers.remove(&(old, at));
        }
        if let Some(when) = when {
            state.status.timer = Some(when);
            self.timers.insert((when, at));
        }
    }

    /// The next instant at which a status may be written.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn drop_if_unused(&mut self, at: u32) {
        if self.slab.get(at).is_some_and(|state| state.retired && state.pods == 0) {
            self.set_timer(at, None);
            self.slab.remove(at);
        }
    }
}
