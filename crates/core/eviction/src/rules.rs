//! All rules, by number and by name, and which of their statuses may have to change.
//!
//! The counts are kept as pods come and go; nothing here ever walks over all pods.

use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};

use hashbrown::HashMap;
use lazaret_fleet::PodIx;
use lazaret_invariant::invariant;
use lazaret_model::{DeviceTaintRule, Slab, Text, Timestamp, Uid};
use rustc_hash::FxBuildHasher;

use crate::{
    block::{Block, BlockCounts},
    marks::Mark,
    record::Record,
    rule_state::RuleState,
};

/// The news of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// This incarnation of it.
    New,
    /// Its status, which another leader has written late.
    StatusOfAnother,
    /// Nothing of these.
    Known,
}

/// All rules.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Whether statuses name pods before they are evicted.
    records: bool,
    slab: Slab<RuleState>,
    by_name: HashMap<Text, u32, FxBuildHasher>,
    /// Rules whose status may have to change, in no order. Each has a flag of its own, so that it is here once.
    dirty: Vec<u32>,
    timers: BTreeSet<(Timestamp, u32)>,
    /// When rules expire. An entry may be older than its rule.
    expiries: BTreeSet<(Timestamp, u32)>,
}

impl Rules {
    pub(crate) fn new(records: bool) -> Self {
        Self { records, ..Self::default() }
    }

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

    /// The rule is there, or has changed; `known` is the number of the one of this name.
    pub(crate) fn upsert(
        &mut self,
        now: Timestamp,
        known: Option<u32>,
        rule: &Arc<DeviceTaintRule>,
        leading: bool,
    ) -> Put {
        let put = self.put(now, known, rule, leading);
        let expires_at = rule.taint.eviction.as_ref().and_then(|spec| spec.expires_at);
        if let (Some(expires_at), Some(at)) = (expires_at, self.by_name(&rule.name)) {
            self.expiries.insert((expires_at, at));
        }
        put
    }

    fn put(&mut self, now: Timestamp, known: Option<u32>, rule: &Arc<DeviceTaintRule>, leading: bool) -> Put {
        if let Some(at) = known
            && let Some(state) = self.slab.get_mut(at)
        {
            if state.rule.uid == rule.uid {
                let is_of_another = state.follow(now, rule, leading);
                self.touch(at);
                return if is_of_another { Put::StatusOfAnother } else { Put::Known };
            }
            self.remove(&rule.name);
        }
        let at = self.slab.insert(RuleState::new(rule.clone(), leading, self.records));
        self.by_name.insert(rule.name.clone(), at);
        self.touch(at);
        Put::New
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
        let Some(state) = invariant!(self.slab.get_mut(at), "the number of a rule leads to it") else {
            return;
        };
        state.add_pod(namespace);
        self.touch(at);
    }

    /// One pod less.
    pub(crate) fn remove_pod(&mut self, at: u32, namespace: &Text) {
        let Some(state) = invariant!(self.slab.get_mut(at), "the number of a rule leads to it") else {
            return;
        };
        state.remove_pod(namespace);
        self.touch(at);
        self.drop_if_unused(at);
    }

    /// One more of its pods, or one less, is kept from being evicted.
    pub(crate) fn count_blocked(&mut self, at: u32, why: Block, more: bool) {
        let Some(state) = invariant!(self.slab.get_mut(at), "the number of a rule leads to it") else {
            return;
        };
        let count = &mut state.blocked[why as usize];
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        self.touch(at);
    }

    /// No pod of any is.
    pub(crate) fn forget_blocked(&mut self) {
        self.slab.for_each_mut(|state| {
            state.blocked = BlockCounts::default();
            state.held = None;
        });
    }

    /// A pod has left because of it, by a decision of `decided`.
    pub(crate) fn count_eviction(&mut self, name: &str, uid: &Uid, decided: Timestamp) {
        let Some(at) = self.by_name(name) else { return };
        let Some(state) = self.slab.get_mut(at).filter(|state| state.rule.uid == *uid) else { return };
        state.count_eviction(decided);
        self.touch(at);
    }

    /// A pod that one rule names is counted.
    pub(crate) fn settle_named_by(&mut self, pod: PodIx, uid: &Uid, rule: &str) {
        if self.records
            && let Some(state) = self.by_name(rule).and_then(|at| self.slab.get_mut(at))
        {
            state.record.settle(pod.0, uid);
        }
    }

    /// A pod that these rules name is counted.
    pub(crate) fn settle_named(&mut self, uid: &Uid, rules: &[(Text, Uid)]) {
        for (name, _) in rules.iter().filter(|_| self.records) {
            if let Some(state) = self.by_name(name).and_then(|at| self.slab.get_mut(at)) {
                state.record.settle_uid(uid);
            }
        }
    }

    /// It is known now whether a pod left because of these rules: their statuses may name it no more.
    pub(crate) fn touch_all(&mut self, rules: &[(Text, Uid)]) {
        for (name, _) in rules {
            if let Some(at) = self.by_name(name) {
                self.touch(at);
            }
        }
    }

    /// Pods may have left because of these rules, and nobody will ever know.
    pub(crate) fn may_have_missed(&mut self, rules: &[(Text, Uid)]) {
        for (name, uid) in rules {
            if let Some(at) = self.by_name(name)
                && let Some(state) = self.slab.get_mut(at).filter(|state| state.rule.uid == *uid)
            {
                state.may_have_missed();
                self.touch(at);
            }
        }
    }

    /// A terminating pod is seen that is marked as evicted by this rule; `own` if it was counted in this leadership.
    /// Returns the rule, if it is there and did not know yet.
    pub(crate) fn see_mark(&mut self, mark: Mark<'_>, pod: PodIx, own: bool, leading: bool) -> Option<u32> {
        let at = self.by_name(mark.rule)?;
        let state = self.slab.get_mut(at).filter(|state| state.rule.uid == *mark.uid)?;
        if !state.see_mark(pod, mark.at, own) {
            return None;
        }
        if !own && leading && state.count_mark(pod, mark.at) {
            self.touch(at);
        }
        Some(at)
    }

    /// That pod is gone.
    pub(crate) fn forget_mark(&mut self, at: u32, pod: PodIx) {
        if let Some(state) = self.slab.get_mut(at) {
            state.forget_mark(pod);
        }
    }

    /// A new leadership: counts come from what others left behind.
    pub(crate) fn start_leading(&mut self) {
        for at in self.slab.numbers() {
            if let Some(state) = self.slab.get_mut(at) {
                state.start_leading();
            }
            self.touch(at);
        }
        self.timers.clear();
    }

    /// The leadership is over: nothing of one's own is in flight.
    pub(crate) fn stop_leading(&mut self) {
        for at in self.slab.numbers() {
            self.set_timer(at, None);
            if let Some(state) = self.slab.get_mut(at) {
                state.status.in_flight = None;
                state.record = Record::default();
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
        while let Some(&(expires_at, at)) = self.expiries.first() {
            if expires_at > now {
                break;
            }
            self.expiries.remove(&(expires_at, at));
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
        let Some(state) = invariant!(self.slab.get_mut(at), "the number of a rule leads to it") else {
            return;
        };
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
        let expiry = self.expiries.first().map(|(at, _)| *at);
        self.timers.first().map(|(at, _)| *at).into_iter().chain(expiry).min()
    }

    fn drop_if_unused(&mut self, at: u32) {
        if self.slab.get(at).is_some_and(|state| state.retired && state.pods == 0) {
            self.set_timer(at, None);
            self.slab.remove(at);
        }
    }
}
