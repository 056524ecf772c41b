//! The taints that rules, patches and slices of taints lay over the devices of a slice.

use alloc::{sync::Arc, vec::Vec};

use lazaret_invariant::invariant;

use crate::{
    Fleet,
    bits::DeviceBits,
    body::SliceBody,
    overrides::Override,
    selector::Hits,
    source::{Mark, Source},
};

impl Fleet {
    /// Evaluates all patches and rules for a slice anew. `old` are the devices it had before.
    pub(crate) fn refresh_marks(&mut self, ix: u32, old: Option<&Arc<SliceBody>>) {
        self.refresh_patches(ix);
        self.rebuild_body(ix);
        self.refresh_rules(ix, old);
        self.refresh_taint_slices(ix);
    }

    pub(crate) fn refresh_patches(&mut self, ix: u32) {
        self.rebind_if_names_grew();
        let Some(entry) = invariant!(self.slices.get(ix), "the number of a slice leads to it") else {
            return;
        };
        if entry.patches.is_empty() && self.patch_index.is_empty() {
            return;
        }
        let raw = entry.as_published();
        let candidates = self.patch_index.candidates(raw.pool(), &raw.body);
        let stale: Vec<u32> =
            entry.patches.iter().copied().filter(|patch| !candidates.contains(patch)).collect();
        for patch in stale {
            self.set_patch_hits(patch, ix, Hits::default());
        }
        for patch in candidates {
            let Some(state) = invariant!(self.patches.get(patch), "the number of a patch leads to it") else {
                continue;
            };
            let hits = state.compiled.hits(&raw, self.vocabulary.names());
            self.set_patch_hits(patch, ix, hits);
        }
    }

    pub(crate) fn set_patch_hits(&mut self, patch: u32, ix: u32, hits: Hits) {
        let Some(state) = invariant!(self.patches.get_mut(patch), "the number of a patch leads to it") else {
            return;
        };
        let Some(entry) = invariant!(self.slices.get_mut(ix), "the number of a slice leads to it") else {
            return;
        };
        let is_hit = hits != Hits::default();
        if is_hit {
            state.hits.insert(ix, hits);
        } else {
            state.hits.remove(&ix);
        }
        if is_hit != entry.patches.contains(&patch) {
            entry.patches.edit(|patches| match is_hit {
                true => patches.push(patch),
                false => patches.retain(|other| *other != patch),
            });
        }
        if let Some(source) = state.source.clone() {
            self.set_mark(ix, &source, hits.matched);
        }
    }

    /// Applies the patches that hit a slice to what the driver published.
    pub(crate) fn rebuild_body(&mut self, ix: u32) {
        let Some(entry) = invariant!(self.slices.get(ix), "the number of a slice leads to it") else {
            return;
        };
        if entry.patches.is_empty() && Arc::ptr_eq(&entry.state.body, &entry.raw) {
            return;
        }
        let mut patches: Vec<_> = entry
            .patches
            .iter()
            .filter_map(|&patch| self.patches.get(patch))
            .filter(|state| state.overrides_values())
            .filter_map(|state| Some((state.hits.get(&ix)?.matched, state)))
            .filter(|(bits, _)| !bits.is_empty())
            .collect();
        let body = if patches.is_empty() {
            entry.raw.clone()
        } else {
            patches.sort_by(|(_, a), (_, b)| a.strength(b));
            let (raw, vocabulary) = (&entry.raw, &mut self.vocabulary);
            let overrides: Vec<Override<'_>> = patches
                .into_iter()
                .map(|(hits, state)| Override::new(&state.patch.patch, hits, &raw.driver, vocabulary))
                .collect();
            Arc::new(raw.overridden(&overrides, &mut self.vocabulary))
        };
        if let Some(entry) = self.slices.get_mut(ix)
            && !Arc::ptr_eq(&entry.state.body, &body)
        {
            Arc::make_mut(&mut entry.state).body = body;
            let pool = entry.pool;
            if let Some(pool) = self.pools.get_mut(pool) {
                pool.facts = None;
            }
            self.note_pool(pool);
        }
        self.rebind_if_names_grew();
    }

    /// Evaluates all rules for a slice anew.
    pub(crate) fn refresh_rules(&mut self, ix: u32, old: Option<&Arc<SliceBody>>) {
        if self.rule_index.is_empty() {
            return;
        }
        let Some(entry) = invariant!(self.slices.get(ix), "the number of a slice leads to it") else {
            return;
        };
        let state = entry.state.clone();
        let mut candidates = self.rule_index.candidates(state.pool(), &state.body);
        if let Some(old) = old {
            candidates.extend(self.rule_index.candidates(state.pool(), old));
            candidates.sort_unstable();
            candidates.dedup();
        }
        let same_names = old.is_some_and(|old| old.names == state.body.names);
        for rule in candidates {
            let Some(mut rule_state) = invariant!(self.rules.take(rule), "the number of a rule leads to it")
            else {
                continue;
            };
            let hits = rule_state.compiled.hits(&state, self.vocabulary.names());
            self.lay_rule(&mut rule_state, ix, hits);
            if !same_names && hits != Hits::default() {
                self.note_rule(&rule_state.rule.name);
            }
            self.rules.put(rule, rule_state);
        }
    }

    /// Takes over what the pool's slices of taints say of a slice's devices.
    pub(crate) fn refresh_taint_slices(&mut self, ix: u32) {
        let Some(entry) = invariant!(self.slices.get(ix), "the number of a slice leads to it") else {
            return;
        };
        let Some(pool) = invariant!(self.pools.get(entry.pool), "the number of a pool leads to it") else {
            return;
        };
        let state = &entry.state;
        if pool.taint_slices.is_empty() && state.marks.is_empty() {
            return;
        }
        let is_taint = |mark: &Mark| matches!(*mark.source, Source::TaintSlice { .. });
        let old_len = state.marks.partition_point(is_taint);
        let mut marks: Vec<Mark> = Vec::new();
        for &other in pool.taint_slices.iter() {
            let Some(head) = invariant!(
                self.slices.get(other).map(|entry| &entry.state.head),
                "the number of a slice leads to it"
            ) else {
                continue;
            };
            // A node says nothing about devices that are not its own.
            let of_other =
                head.nodes.own_node().is_some_and(|node| Some(node) != state.head.nodes.own_node());
            if of_other || head.generation != state.generation() && !pool.views.shows(head) {
                continue;
            }
            for (device, source) in head.taints.iter() {
                let bits: DeviceBits = state.body.names.iter().map(|name| name == device).collect();
                if !bits.is_empty() {
                    marks.push(Mark { bits, source: source.clone() });
                }
            }
        }
        let old = &state.marks[..old_len];
        let same = |(a, b): (&Mark, &Mark)| a.bits == b.bits && a.source == b.source;
        if old.len() == marks.len() && old.iter().zip(&marks).all(same) {
            return;
        }
        let changed = old.iter().chain(&marks).fold(0, |bits, mark| bits | mark.bits.0);
        if let Some(entry) = self.slices.get_mut(ix) {
            Arc::make_mut(&mut entry.state).marks.edit(|all| drop(all.splice(..old_len, marks)));
        }
        self.taints_changed(ix, DeviceBits(changed));
    }

    /// Says which devices of a slice a source taints.
    pub(crate) fn set_mark(&mut self, ix: u32, source: &Arc<Source>, bits: DeviceBits) {
        let Some(entry) = invariant!(self.slices.get_mut(ix), "the number of a slice leads to it") else {
            return;
        };
        let marks = &entry.state.marks;
        let at = marks.binary_search_by(|mark| mark.source.order(source));
        let changed = match at {
            Ok(at) if marks[at].source == *source => DeviceBits(marks[at].bits.0 ^ bits.0),
            Ok(at) => DeviceBits(marks[at].bits.0 | bits.0),
            Err(_) => bits,
        };
        if changed.is_empty() {
            return;
        }
        Arc::make_mut(&mut entry.state).marks.edit(|marks| match at {
            Ok(at) if bits.is_empty() => drop(marks.remove(at)),
            Ok(at) => marks[at] = Mark { bits, source: source.clone() },
            Err(at) => marks.insert(at, Mark { bits, source: source.clone() }),
        });
        self.taints_changed(ix, changed);
    }

    /// Forgets what rules and patches said of a slice that goes.
    pub(crate) fn clear_hits(&mut self, ix: u32) {
        let Some(entry) = invariant!(self.slices.get(ix), "the number of a slice leads to it") else {
            return;
        };
        let (patches, state) = (entry.patches.clone(), entry.state.clone());
        for &patch in patches.iter() {
            if let Some(patch) = self.patches.get_mut(patch) {
                patch.hits.remove(&ix);
            }
        }
        for rule in self.rule_index.candidates(state.pool(), &state.body) {
            let Some(mut rule_state) = invariant!(self.rules.take(rule), "the number of a rule leads to it")
            else {
                continue;
            };
            if rule_state.hits.remove(&ix).is_some() {
                self.note_rule(&rule_state.rule.name);
            }
            self.rules.put(rule, rule_state);
        }
    }

    pub(crate) fn taints_changed(&mut self, ix: u32, devices: DeviceBits) {
        let Some(entry) = invariant!(self.slices.get(ix), "the number of a slice leads to it") else {
            return;
        };
        self.note_pool(entry.pool);
        for at in 0.. {
            let Some(&(device, holder)) = self.slices.get(ix).and_then(|entry| entry.held.get(at)) else {
                return;
            };
            if devices.has(usize::from(device)) {
                self.note_claims_of(holder);
            }
        }
    }
}
