//! Taint rules: which devices each means, kept up to date.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use lazaret_invariant::invariant;
use lazaret_model::{DeviceSelector, DeviceTaintRule, Text};

use crate::{
    Fleet, Problem, SliceState,
    rule::RuleState,
    selector::{Compiled, Hits, Verdict, text_of},
    slice_entry::SliceEntry,
};

impl Fleet {
    pub(crate) fn apply_rule(&mut self, rule: Arc<DeviceTaintRule>) {
        let Some(&ix) = self.rule_names.get(&rule.name) else { return self.add_rule(rule) };
        let Some(mut state) = invariant!(self.rules.take(ix), "the number of a rule leads to it") else {
            return;
        };
        if state.rule != rule {
            self.note_rule(&rule.name);
            self.change_rule(ix, &mut state, rule);
        }
        self.rules.put(ix, state);
    }

    pub(crate) fn rule_gone(&mut self, name: &Text) {
        let Some(ix) = self.rule_names.remove(name) else { return };
        let Some(mut state) = invariant!(self.rules.remove(ix), "the number of a rule leads to it") else {
            return;
        };
        self.note_rule(name);
        self.rule_index.remove(ix, state.rule.active_selector());
        let hit: Vec<u32> = state.hits.keys().copied().collect();
        hit.into_iter().for_each(|slice| self.lay_rule(&mut state, slice, Hits::default()));
    }

    fn add_rule(&mut self, rule: Arc<DeviceTaintRule>) {
        let compiled = self.compile(rule.active_selector());
        let source = RuleState::source_of(&rule);
        let name = rule.name.clone();
        let mut state = RuleState { rule: rule.clone(), compiled, source, hits: BTreeMap::new() };
        self.note_rule(&name);
        let targets = self.candidates(rule.active_selector());
        self.evaluate_rule(&mut state, targets);
        let ix = self.rules.insert(state);
        self.rule_index.insert(ix, rule.active_selector());
        self.rule_names.insert(name, ix);
    }

    fn change_rule(&mut self, ix: u32, state: &mut RuleState, rule: Arc<DeviceTaintRule>) {
        let old = core::mem::replace(&mut state.rule, rule.clone());
        let source = RuleState::source_of(&rule);
        let same_source = *source == *state.source;
        if !same_source {
            state.source = source;
        }
        if old.active_selector() != rule.active_selector() {
            self.rule_index.remove(ix, old.active_selector());
            self.rule_index.insert(ix, rule.active_selector());
            state.compiled = self.compile(rule.active_selector());
            let targets = self.candidates(rule.active_selector());
            self.evaluate_rule(state, targets);
        } else if !same_source {
            // A status written by somebody does not get here: it touches no slice.
            let source = state.source.clone();
            state.hits.iter().for_each(|(&slice, hits)| self.set_mark(slice, &source, hits.matched));
        }
    }

    /// A class came, went or changed: asks again what the rules that use it mean.
    pub(crate) fn reclassify_rules(&mut self, class: &Text) {
        for ix in self.rule_index.of_class(class) {
            let Some(mut state) = invariant!(self.rules.take(ix), "the number of a rule leads to it") else {
                continue;
            };
            self.note_rule(&state.rule.name);
            state.compiled = state.compiled.with_class(self.next.classes.get(class), self.vocabulary.names());
            let targets = self.candidates(state.rule.active_selector());
            self.evaluate_rule(&mut state, targets);
            self.rules.put(ix, state);
        }
    }

    /// Evaluates a rule on `targets`, and takes it off all other slices.
    fn evaluate_rule(&mut self, state: &mut RuleState, targets: Vec<u32>) {
        let mut left: BTreeSet<u32> = state.hits.keys().copied().collect();
        for slice in targets {
            left.remove(&slice);
            let Some(entry) = invariant!(self.slices.get(slice), "the number of a slice leads to it") else {
                continue;
            };
            let hits = state.compiled.hits(&entry.state, self.vocabulary.names());
            self.lay_rule(state, slice, hits);
        }
        left.into_iter().for_each(|slice| self.lay_rule(state, slice, Hits::default()));
    }

    /// Records what a rule hits in a slice.
    pub(crate) fn lay_rule(&mut self, state: &mut RuleState, slice: u32, hits: Hits) {
        let old = if hits == Hits::default() {
            state.hits.remove(&slice).unwrap_or_default()
        } else {
            state.hits.insert(slice, hits).unwrap_or_default()
        };
        if old != hits {
            self.note_rule(&state.rule.name);
        }
        if !old.matched.is_empty() || !hits.matched.is_empty() {
            self.set_mark(slice, &state.source, hits.matched);
        }
    }

    // === Shared with patches and previews ===

    pub(crate) fn compile(&self, selector: Option<&DeviceSelector>) -> Compiled {
        let class = selector.and_then(|selector| self.next.classes.get(selector.class.as_ref()?));
        Compiled::new(selector, class, self.vocabulary.names())
    }

    /// The slices and stand-ins, ascending, in which a selector may mean a device, judging by names.
    pub(crate) fn candidates(&self, selector: Option<&DeviceSelector>) -> Vec<u32> {
        let Some(selector) = selector else { return Vec::new() };
        let mut found = match (&selector.driver, &selector.pool, &selector.device) {
            (Some(driver), Some(pool), device) => self.in_pools(self.pool_ix(driver, pool), device.as_ref()),
            (None, Some(pool), device) => {
                let is_it = |ix: &u32| self.pools.get(*ix).is_some_and(|entry| entry.id.pool == *pool);
                self.in_pools(self.pool_names.of(pool).filter(is_it), device.as_ref())
            }
            (_, None, Some(device)) => self.slices_with(device),
            (Some(driver), None, None) => {
                let is_it = |ix: &u32| self.pools.get(*ix).is_some_and(|entry| entry.id.driver == *driver);
                self.in_pools(self.pool_drivers.of(driver).filter(is_it), None)
            }
            (None, None, None) => self.slices.iter().map(|(slice, _)| slice).collect(),
        };
        found.sort_unstable();
        found.dedup();
        found
    }

    fn in_pools(&self, pools: impl IntoIterator<Item = u32>, device: Option<&Text>) -> Vec<u32> {
        let mut found = Vec::new();
        for pool in pools {
            let Some(entry) = invariant!(self.pools.get(pool), "the number of a pool leads to it") else {
                continue;
            };
            match device {
                Some(device) => {
                    found.extend(self.devices.in_pool(entry.hash, device).map(|(slice, _)| slice));
                    found.extend(self.ghost(pool, device));
                }
                None => found.extend(entry.slices.iter().copied().chain(self.ghosts_of(pool))),
            }
        }
        found
    }

    /// The problem of a selector: in itself, or on devices where it failed.
    pub(crate) fn problem_of(&self, compiled: &Compiled, hits: &BTreeMap<u32, Hits>) -> Option<Problem> {
        if let Some(problem) = compiled.problem() {
            return Some(problem.clone());
        }
        if !compiled.by_attributes() {
            // Names can always be compared.
            return None;
        }
        let mut devices = 0;
        // The example is the first by name: the same on every controller, whatever it went through. Its text is asked
        // for again rather than remembered: it is needed seldom, and the failure may be on every device.
        let mut first: Option<(&SliceState, usize)> = None;
        for (slice, hits) in hits.iter().filter(|(_, hits)| !hits.failed.is_empty()) {
            devices += hits.failed.len();
            let Some(SliceEntry { state, .. }) =
                invariant!(self.slices.get(*slice), "the number of a slice leads to it")
            else {
                continue;
            };
            if first.is_some_and(|(first, _)| first.pool() < state.pool()) {
                continue;
            }
            let here = hits.failed.iter().map(|at| (&**state, at));
            first = first
                .into_iter()
                .chain(here)
                .min_by_key(|(state, at)| (state.pool(), &state.body.names[*at]));
        }
        let (state, at) = first?;
        let example = state.device_id(at);
        let device = state.device(self.vocabulary.names(), at);
        match compiled.matches(state.pool(), device.name(), Some(device)) {
            Verdict::Failed(check) => {
                Some(Problem::FailedOnDevices { devices, example, message: text_of(&check) })
            }
            Verdict::No | Verdict::Yes => None,
        }
    }
}
