//! What is kept of one rule: whom it hits, whom it made leave, and what its status says.

use alloc::{collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;
use lazaret_fleet::PodIx;
use lazaret_model::{Condition, ConditionStatus, DeviceTaintRule, Effect, Taint, Text, Timestamp};
use rustc_hash::FxBuildHasher;

use crate::{
    effect::EffectId,
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
    pub(crate) retired: bool,
    /// It is among those whose status may have to change.
    pub(crate) dirty: bool,
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
    pub(crate) timer: Option<Timestamp>,
}

impl RuleState {
    pub(crate) fn new(rule: Arc<DeviceTaintRule>) -> Self {
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
        state.recover();
        state
    }

    /// The rule has changed. What another wrote into its status counts as long as nothing was written in this leadership.
    pub(crate) fn follow(&mut self, rule: &Arc<DeviceTaintRule>, leading: bool) {
        if Arc::ptr_eq(&self.rule, rule) {
            return;
        }
        let before = self.progress;
        self.rule = rule.clone();
        self.follow_spec();
        if leading && self.status.wanted == 0 && self.progress != before {
            self.recover();
        }
    }

    /// A new leadership: counts come from what others left behind.
    pub(crate) fn start_leading(&mut self) {
        self.evicted = 0;
        self.counted_until = Timestamp::from_millis(i64::MIN);
        self.marks.values_mut().for_each(|mark| mark.own = false);
        self.status = StatusState { known: status::existing(&self.rule).cloned(), ..StatusState::default() };
        self.recover();
    }

    /// One more pod is hit, or would be.
    pub(crate) fn add_pod(&mut self, namespace: &Text) {
        self.pods += 1;
        match self.namespaces.get_mut(namespace.as_str()) {
            Some(count) => *count += 1,
            None => {
                self.namespaces.insert(namespace.clone(), 1);
            }
        }
    }

    /// One pod less.
    pub(crate) fn remove_pod(&mut self, namespace: &Text) {
        self.pods = self.pods.saturating_sub(1);
        if let Some(count) = self.namespaces.get_mut(namespace.as_str()) {
            *count -= 1;
            if *count == 0 {
                self.namespaces.remove(namespace.as_str());
            }
        }
    }

    /// A pod has left because of it, by a decision of `decided`.
    pub(crate) fn count_eviction(&mut self, decided: Timestamp) {
        self.evicted = self.evicted.saturating_add(1);
        self.counted_until = self.counted_until.max(decided);
    }

    /// A terminating pod is marked as evicted by it; `own` if it was counted in this leadership. Returns whether that is
    /// news.
    pub(crate) fn see_mark(&mut self, pod: PodIx, at: Timestamp, own: bool) -> bool {
        self.marks.insert(pod.0, Marked { at, own }).is_none()
    }

    /// That pod is gone.
    pub(crate) fn forget_mark(&mut self, pod: PodIx) {
        self.marks.remove(&pod.0);
    }

    /// Counts a pod that somebody else evicted and marked at this instant, unless the status has it. Returns whether it
    /// did.
    pub(crate) fn count_mark(&mut self, at: Timestamp) -> bool {
        let uncounted = self.progress.until.is_none_or(|until| at > until);
        if uncounted {
            self.evicted_before = self.evicted_before.saturating_add(1);
            self.counted_until = self.counted_until.max(at);
        }
        uncounted
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
