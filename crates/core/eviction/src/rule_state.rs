//! The state of one rule: the pods that it affects, those that it evicted, and its status.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;
use lazaret_fleet::PodIx;
use lazaret_model::{
    Condition, ConditionStatus, DeviceTaintRule, Effect, EvictionCount, Taint, Text, Timestamp,
};
use rustc_hash::FxBuildHasher;

use crate::{
    block::{Block, BlockCounts},
    effect::{EffectId, RuleStatus},
    holds::Held,
    record::Record,
    status,
    verified::Verified,
};

/// The state of one incarnation of a rule.
#[derive(Debug)]
pub(crate) struct RuleState {
    pub(crate) rule: Arc<DeviceTaintRule>,
    /// The evictions that its status counts so far.
    progress: EvictionCount,
    /// Every eviction since the rule was made is in the counts: it was made in this leadership, and the outcome of each was heard.
    exact: bool,
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
    /// Whether its status names pods before they are evicted.
    records: bool,
    /// Pods that its status names before they are evicted.
    pub(crate) record: Record,
    /// Its pods whose eviction something keeps from beginning.
    pub(crate) blocked: BlockCounts,
    /// Why it has no effect before it is approved.
    pub(crate) held: Option<Box<Held>>,
    /// Since when it is in force, if something held it or it had expired: patience counts from then on.
    pub(crate) effective_since: Option<Timestamp>,
    /// The instant in its next status, if that is another one.
    pub(crate) begins: Option<Timestamp>,
    pub(crate) status: StatusState,
    /// Whether what was there when the spec was first seen has been seen.
    pub(crate) verified: Verified,
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
    /// The status that the API server is believed to have.
    pub(crate) known: Option<RuleStatus>,
    /// The status that was last written in this leadership.
    pub(crate) written: Option<RuleStatus>,
    /// The reason of the last event about blocked pods.
    pub(crate) announced: Option<Text>,
    /// When it was last compared.
    pub(crate) looked: Option<Timestamp>,
    /// A write is in flight.
    pub(crate) in_flight: Option<(EffectId, RuleStatus)>,
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
    /// A rule that is seen for the first time. A leader has seen all rules that there were when it began: this one was made since.
    pub(crate) fn new(rule: Arc<DeviceTaintRule>, leading: bool, records: bool) -> Self {
        let mut state = Self {
            progress: EvictionCount::default(),
            exact: leading,
            as_if_evicting: None,
            pods: 0,
            namespaces: HashMap::default(),
            evicted_before: 0,
            evicted: 0,
            counted_until: Timestamp::from_millis(i64::MIN),
            marks: BTreeMap::new(),
            records,
            record: Record::default(),
            blocked: BlockCounts::default(),
            held: None,
            effective_since: rule.effective_since,
            begins: None,
            status: StatusState::default(),
            verified: Verified::No,
            retired: false,
            dirty: false,
            rule,
        };
        state.follow_spec();
        state.recover();
        state
    }

    /// The rule has changed. A status by another writer counts as long as none was written in this leadership: returns whether it is one.
    pub(crate) fn follow(&mut self, now: Timestamp, rule: &Arc<DeviceTaintRule>, leading: bool) -> bool {
        if Arc::ptr_eq(&self.rule, rule) {
            return false;
        }
        if rule.effective_since != self.rule.effective_since {
            self.effective_since = rule.effective_since;
        } else if is_suspended(&self.rule) && !is_suspended(rule) {
            // The status does not say it yet, or cannot.
            self.effective_since = Some(now);
        }
        let before = (self.progress, self.rule.clone());
        if self.rule.generation != rule.generation {
            self.verified = Verified::No;
        }
        self.rule = rule.clone();
        self.follow_spec();
        let is_of_another = self.progress != before.0 || self.rule.evicting != before.1.evicting;
        if leading && self.status.wanted == 0 && is_of_another {
            self.exact = self.records && self.is_said_to_be_complete();
            self.recover();
            return true;
        }
        false
    }

    /// Whether it is in force with this status, and was not with the one that it has: it was held or not decided about, or it had expired.
    pub(crate) fn begins_by(&self, held: Option<&Condition>, expired: Option<&Condition>) -> bool {
        let is_true = |said: Option<&Condition>| said.is_some_and(|one| one.status == ConditionStatus::True);
        if is_true(held) || is_true(expired) {
            return false;
        }
        match self.status.written.as_ref().or(self.status.known.as_ref()) {
            Some(last) if last.held.is_some() => {
                is_true(last.held.as_ref()) || is_true(last.expired.as_ref())
            }
            Some(last) => is_true(last.expired.as_ref()) || self.rule.is_held(),
            None => self.rule.is_held() || self.rule.is_said_to_be_expired(),
        }
    }

    /// It is in force from now on: it is neither held nor expired any more. Plans follow the status that says so.
    pub(crate) fn begin_to_apply(&mut self, now: Timestamp) {
        self.begins = Some(now);
    }

    /// A new leadership: counts come from what others left behind.
    pub(crate) fn start_leading(&mut self) {
        self.evicted = 0;
        self.exact = self.records && self.is_said_to_be_complete();
        self.record = Record::default();
        self.verified = Verified::No;
        // Another leader may have let it begin since.
        self.begins = None;
        self.counted_until = Timestamp::from_millis(i64::MIN);
        self.marks.values_mut().for_each(|mark| mark.own = false);
        let known = status::existing(&self.rule);
        // Events of the previous leader are not repeated.
        let said = known.as_ref().and_then(|known| status::blocked_reason(known.blocked.as_ref()));
        let announced = said.map(Text::from);
        self.status = StatusState { known, announced, ..StatusState::default() };
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

    /// How many pods are terminating that are marked as evicted by it.
    pub(crate) fn terminating(&self) -> usize {
        self.marks.len()
    }

    /// Whether it applies no more. An expiry in the status stays for its spec, even if the clock of this leader shows an earlier time.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        let said = |status: &RuleStatus| {
            status.expired.as_ref().is_some_and(|condition| {
                condition.status == ConditionStatus::True
                    && condition.observed_generation == self.rule.generation
            })
        };
        self.rule.taint.eviction.as_ref().is_some_and(|spec| {
            spec.expires_at.is_some()
                && (spec.is_expired(now)
                    || self.rule.is_said_to_be_expired()
                    || self.status.written.as_ref().or(self.status.known.as_ref()).is_some_and(said))
        })
    }

    /// Whether its status does not say yet that it has expired, or that it has not after all.
    pub(crate) fn expiry_is_news(&self, now: Timestamp) -> bool {
        let last = self.status.written.as_ref().or(self.status.known.as_ref());
        let said = last.and_then(|last| last.expired.as_ref());
        let says = said.is_some_and(|said| said.status == ConditionStatus::True);
        says != self.is_expired(now)
    }

    /// Whether it has no effect before it is approved, or before it is known whether it has to be.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some() || self.rule.is_held()
    }

    /// Whether its status has to say whether it is held. `wanted`: some guard wants approval of rules that reach far.
    pub(crate) fn says_whether_held(&self, wanted: bool) -> bool {
        // A write of this controller may have left alone what another had said.
        let is_said = self.rule.conditions.iter().any(|said| said.kind == DeviceTaintRule::HELD);
        let was_said = is_said || self.status.known.as_ref().is_some_and(|known| known.held.is_some());
        let is_required = self.rule.review.as_ref().is_some_and(|review| review.is_required);
        wanted || is_required || was_said || self.held.is_some() || self.rule.is_held()
    }

    /// Whether its status does not say yet whether it is held.
    pub(crate) fn hold_is_news(&self, wanted: bool) -> bool {
        let last = self.status.written.as_ref().or(self.status.known.as_ref());
        let said = last.and_then(|last| last.held.as_ref());
        let said = said.filter(|said| said.observed_generation == self.rule.generation);
        match said.map(|said| said.status) {
            Some(ConditionStatus::True) => self.held.is_none(),
            Some(ConditionStatus::False) => self.held.is_some(),
            Some(ConditionStatus::Unknown) | None => self.says_whether_held(wanted),
        }
    }

    /// The reason that blocks evictions of its pods; of several the first.
    pub(crate) fn blocked_by(&self) -> Option<Block> {
        if self.held.is_some() {
            return Some(Block::Held);
        }
        Block::ALL.into_iter().zip(self.blocked).find_map(|(why, pods)| (pods > 0).then_some(why))
    }

    /// That pod is gone.
    pub(crate) fn forget_mark(&mut self, pod: PodIx) {
        self.marks.remove(&pod.0);
    }

    /// Counts a pod that somebody else evicted and marked at this instant, unless the status has it. Returns whether it
    /// did.
    pub(crate) fn count_mark(&mut self, pod: PodIx, at: Timestamp) -> bool {
        let was_named = self.record.settle_inherited(pod.0);
        let uncounted = if self.progress.complete {
            was_named
        } else {
            self.progress.until.is_none_or(|until| at > until)
        };
        if uncounted {
            self.evicted_before = self.evicted_before.saturating_add(1);
            self.counted_until = self.counted_until.max(at);
        }
        uncounted
    }

    fn follow_spec(&mut self) {
        self.as_if_evicting = matches!(self.rule.taint.effect, Effect::None)
            .then(|| Taint { effect: Effect::NoExecute, ..self.rule.taint.clone() });
        self.status.known = status::existing(&self.rule);
        self.progress = self.rule.evictions.unwrap_or_default();
    }

    /// Takes over the count of whoever wrote the status so far, and adds the terminating pods that were marked since.
    /// Never counts a pod twice; misses those that were evicted after the status was written and are gone by now. So what it takes over
    /// is no exact count.
    fn recover(&mut self) {
        let until = self.progress.until.unwrap_or(Timestamp::from_millis(i64::MIN));
        // A complete status counts the pods that it does not name.
        let by_time = !self.progress.complete;
        let later = self.marks.values().filter(|mark| by_time && !mark.own && mark.at > until);
        self.counted_until =
            later.clone().map(|mark| mark.at).fold(self.counted_until.max(until), Timestamp::max);
        self.evicted_before = self.progress.pods.saturating_add(later.count() as u64);
    }

    /// Pods that the status of a predecessor names have left.
    pub(crate) fn count_begun(&mut self, pods: u64) {
        self.evicted_before = self.evicted_before.saturating_add(pods);
    }

    /// Whether a terminating pod is marked as evicted by it.
    pub(crate) fn is_marked(&self, pod: PodIx) -> bool {
        self.marks.contains_key(&pod.0)
    }

    /// Whether every eviction of predecessors is in its status, by number or by name. They write one before they evict.
    fn is_said_to_be_complete(&self) -> bool {
        match self.rule.evictions {
            Some(count) => count.complete && !count.at_least,
            None => status::existing(&self.rule).is_none(),
        }
    }

    /// A pod may have left because of it, which cannot be found out.
    pub(crate) fn may_have_missed(&mut self) {
        self.exact = false;
    }

    /// The count as it goes into the status. `now`: when it is written.
    pub(crate) fn count(&self, now: Timestamp) -> EvictionCount {
        EvictionCount {
            pods: self.evicted(),
            at_least: !self.exact,
            until: Some(self.stamp(now)),
            complete: self.records && !self.record.is_incomplete,
        }
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

    /// Whether all that can be said of its devices is that nobody has to leave them any more: then it is worth looking whether anybody has
    /// one.
    pub(crate) fn may_be_drained(&self) -> bool {
        matches!(self.rule.taint.effect, Effect::NoExecute) && self.pods == 0
    }

    /// Whether its devices were idle when its status was last written.
    pub(crate) fn was_drained(&self) -> bool {
        let last = self.status.written.as_ref().or(self.status.known.as_ref());
        last.is_some_and(|last| last.drained.status == ConditionStatus::True)
    }

    /// Whether a status is on its way that says whether it is in progress, and of which spec.
    pub(crate) fn is_about_to_be_told(&self) -> bool {
        self.status.in_flight.as_ref().is_some_and(|(_, status)| self.is_told_by(status))
    }

    fn is_told_by(&self, status: &RuleStatus) -> bool {
        let condition = &status.condition;
        let is = if self.in_progress() { ConditionStatus::True } else { ConditionStatus::False };
        condition.status == is
            && condition.observed_generation == self.rule.generation
            && status::blocked_reason(status.blocked.as_ref()) == self.blocked_by().map(Block::name)
    }
}

/// Whether a rule has no effect, as its object says.
fn is_suspended(rule: &DeviceTaintRule) -> bool {
    rule.is_held() || rule.is_said_to_be_expired()
}
