//! Patches coming, changing and going.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use lazaret_invariant::invariant;
use lazaret_model::{ResourceSlicePatch, Text};

use crate::{Fleet, bits::DeviceBits, patch::PatchState, selector::Hits};

impl Fleet {
    pub(crate) fn apply_patch(&mut self, patch: Arc<ResourceSlicePatch>) {
        match self.patch_names.get(&patch.name).copied() {
            Some(ix) => {
                let Some(state) = invariant!(self.patches.get(ix), "the number of a patch leads to it")
                else {
                    return;
                };
                if state.patch != patch {
                    self.change_patch(ix, &patch);
                }
            }
            None => {
                let compiled = self.compile(patch.selector.as_ref());
                let source = PatchState::source_of(&patch);
                let state = PatchState { patch: patch.clone(), compiled, source, hits: BTreeMap::new() };
                let ix = self.patches.insert(state);
                self.patch_index.insert(ix, patch.selector.as_ref());
                self.patch_names.insert(patch.name.clone(), ix);
                self.noted.moved = true;
                self.evaluate_patch(ix);
            }
        }
    }

    pub(crate) fn patch_gone(&mut self, name: &Text) {
        let Some(ix) = self.patch_names.remove(name) else { return };
        let Some(state) = invariant!(self.patches.get(ix), "the number of a patch leads to it") else {
            return;
        };
        self.patch_index.remove(ix, state.patch.selector.as_ref());
        self.noted.moved = true;
        let hit = self.take_patch_off(ix);
        self.patches.remove(ix);
        hit.into_iter().for_each(|slice| self.body_changed(slice));
    }

    fn change_patch(&mut self, ix: u32, patch: &Arc<ResourceSlicePatch>) {
        let mut dirty = self.take_patch_off(ix);
        let compiled = self.compile(patch.selector.as_ref());
        let Some(state) = invariant!(self.patches.get_mut(ix), "the number of a patch leads to it") else {
            return;
        };
        self.patch_index.remove(ix, state.patch.selector.as_ref());
        self.patch_index.insert(ix, patch.selector.as_ref());
        state.patch = patch.clone();
        state.compiled = compiled;
        state.source = PatchState::source_of(patch);
        self.noted.moved = true;
        dirty.extend(self.lay_patch(ix));
        dirty.into_iter().for_each(|slice| self.body_changed(slice));
    }

    /// A class came, went or changed: asks again what the patches that use it mean.
    pub(crate) fn reclassify_patches(&mut self, class: &Text) {
        for ix in self.patch_index.of_class(class) {
            let Some(state) = invariant!(self.patches.get(ix), "the number of a patch leads to it") else {
                continue;
            };
            let compiled = state.compiled.with_class(self.next.classes.get(class), self.vocabulary.names());
            let mut dirty = self.take_patch_off(ix);
            if let Some(state) = self.patches.get_mut(ix) {
                state.compiled = compiled;
            }
            dirty.extend(self.lay_patch(ix));
            dirty.into_iter().for_each(|slice| self.body_changed(slice));
        }
    }

    fn evaluate_patch(&mut self, ix: u32) {
        self.lay_patch(ix).into_iter().for_each(|slice| self.body_changed(slice));
    }

    /// Finds out which devices a patch means and marks them; says in which slices it overrides values.
    fn lay_patch(&mut self, ix: u32) -> BTreeSet<u32> {
        let Some(state) = invariant!(self.patches.get(ix), "the number of a patch leads to it") else {
            return BTreeSet::new();
        };
        let overrides = state.overrides_values();
        let mut overridden = BTreeSet::new();
        for slice in self.candidates(state.compiled.selector().cloned().as_ref()) {
            let Some(entry) = invariant!(self.slices.get(slice), "the number of a slice leads to it") else {
                continue;
            };
            let Some(state) = invariant!(self.patches.get(ix), "the number of a patch leads to it") else {
                continue;
            };
            let hits = state.compiled.hits(&entry.as_published(), self.vocabulary.names());
            self.set_patch_hits(ix, slice, hits);
            if overrides && !hits.matched.is_empty() {
                overridden.insert(slice);
            }
        }
        overridden
    }

    /// Takes a patch off all slices; says in which it overrode values.
    fn take_patch_off(&mut self, ix: u32) -> BTreeSet<u32> {
        let Some(state) = invariant!(self.patches.get(ix), "the number of a patch leads to it") else {
            return BTreeSet::new();
        };
        let overrides = state.overrides_values();
        let hits: Vec<(u32, DeviceBits)> =
            state.hits.iter().map(|(slice, hits)| (*slice, hits.matched)).collect();
        hits.iter().for_each(|(slice, _)| self.set_patch_hits(ix, *slice, Hits::default()));
        hits.into_iter().filter(|(_, bits)| overrides && !bits.is_empty()).map(|(slice, _)| slice).collect()
    }

    /// The values of a slice's devices changed by patches: rules are evaluated on the result.
    fn body_changed(&mut self, slice: u32) {
        let Some(entry) = invariant!(self.slices.get(slice), "the number of a slice leads to it") else {
            return;
        };
        let (pool, old, raw) = (entry.pool, entry.state.body.clone(), entry.raw.clone());
        self.rebuild_body(slice);
        self.refresh_rules(slice, Some(&old));
        raw.names.iter().for_each(|device| self.note_holders(pool, device));
    }
}
