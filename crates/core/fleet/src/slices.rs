//! Slices coming, changing and going.

use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{PoolId, ResourceSlice, Text};

use crate::{
    DEVICES_PER_SLICE_MAX, Fleet, SliceState,
    bits::DeviceBits,
    body::SliceBody,
    pool_entry::PoolEntry,
    slice::SliceHead,
    slice_entry::SliceEntry,
    source::{OwnTaint, Source},
    sparse::Sparse,
    vocabulary::hash_texts,
};

impl Fleet {
    pub(crate) fn apply_slice(&mut self, slice: &ResourceSlice) {
        let Some(known) = self.slice_ix(&slice.name) else { return self.add_slice(slice) };
        let Some(entry) = invariant!(self.slices.get(known), "the number of a slice leads to it") else {
            return;
        };
        let PoolId { driver, pool } = &entry.state.head.pool;
        if *driver != slice.driver || *pool != slice.pool.name {
            self.slice_gone(&slice.name);
            return self.add_slice(slice);
        }
        let same_head = entry.state.head.is_of(slice);
        let same_body = entry.raw.is_of(slice);
        self.update_own_taints(known, slice);
        if !same_head || !same_body {
            self.replace_slice(known, slice, same_body);
        }
    }

    pub(crate) fn slice_gone(&mut self, name: &Text) {
        let Some(slice) = self.slice_ix(name) else { return };
        let Some(entry) = invariant!(self.slices.get(slice), "the number of a slice leads to it") else {
            return;
        };
        let (pool, raw, head) = (entry.pool, entry.raw.clone(), entry.state.head.clone());
        if let Ok(found) = self.slice_names.find_entry(hash_texts([name]), |ix| *ix == slice) {
            found.remove();
        }
        let repeats = self.unlink(slice);
        self.clear_hits(slice);
        self.settle_pool(pool, slice, &[&raw], &[&head], repeats);
        self.slices.remove(slice);
        self.note_pool(pool);
        self.drop_pool_if_empty(pool);
    }

    fn slice_ix(&self, name: &Text) -> Option<u32> {
        let is_it = |ix: &u32| self.slices.get(*ix).is_some_and(|entry| entry.state.name() == name);
        self.slice_names.find(hash_texts([name]), is_it).copied()
    }

    fn add_slice(&mut self, slice: &ResourceSlice) {
        let pool = self.pool_or_new(&slice.driver, &slice.pool.name);
        let id = self.pools.get(pool).map_or_else(|| slice.pool_id(), |entry| entry.id.clone());
        let raw = Arc::new(SliceBody::of_slice(slice, &mut self.vocabulary));
        let head = SliceHead::of_slice(slice, id, &mut self.vocabulary);
        let name = head.name.clone();
        let mut state = SliceState::new(head, raw.clone());
        state.own = own_taints(slice);
        let head = state.head.clone();
        let ix = self.slices.insert(SliceEntry::new(pool, state));
        let slices = &self.slices;
        let rehash = |ix: &u32| slices.get(*ix).map_or(0, |entry| hash_texts([entry.state.name()]));
        self.slice_names.insert_unique(hash_texts([&name]), ix, rehash);
        let repeats = self.link(ix);
        self.refresh_usage(ix);
        self.refresh_marks(ix, None);
        self.settle_pool(pool, ix, &[&raw], &[&head], repeats);
        self.note_pool(pool);
    }

    /// The slice says something new of itself or of its devices.
    fn replace_slice(&mut self, ix: u32, slice: &ResourceSlice, same_body: bool) {
        let Some(entry) = invariant!(self.slices.get(ix), "the number of a slice leads to it") else {
            return;
        };
        let (pool, old_raw, old_head) = (entry.pool, entry.raw.clone(), entry.state.head.clone());
        let old_body = entry.state.body.clone();
        let repeats_before = self.unlink(ix);
        let raw = if same_body {
            old_raw.clone()
        } else {
            Arc::new(SliceBody::of_slice(slice, &mut self.vocabulary))
        };
        let head = Arc::new(SliceHead::of_slice(slice, old_head.pool.clone(), &mut self.vocabulary));
        if let Some(entry) = self.slices.get_mut(ix) {
            entry.raw = raw.clone();
            let state = Arc::make_mut(&mut entry.state);
            state.head = head.clone();
            if !same_body {
                state.body = raw.clone();
            }
        }
        let repeats = repeats_before + self.link(ix);
        if !same_body {
            self.refresh_usage(ix);
            self.refresh_marks(ix, Some(&old_body));
            // A claim that holds one of its devices may see other attributes, other taints, or nothing.
            if self.pools.get(pool).is_some_and(PoolEntry::has_holders) {
                let named = old_raw.names.iter().chain(raw.names.iter());
                named.for_each(|device| self.note_holders(pool, device));
            }
        }
        self.settle_pool(pool, ix, &[&old_raw, &raw], &[&old_head, &head], repeats);
        self.note_pool(pool);
    }

    /// Own taints change often and concern nobody else: they have their own path.
    fn update_own_taints(&mut self, ix: u32, slice: &ResourceSlice) {
        let Some(entry) = invariant!(self.slices.get_mut(ix), "the number of a slice leads to it") else {
            return;
        };
        let changed = differing_taints(&entry.state.own, slice);
        if changed.is_empty() {
            return;
        }
        Arc::make_mut(&mut entry.state).own = own_taints(slice);
        self.taints_changed(ix, changed);
    }

    // === Membership of a pool ===

    /// Makes the slice one of its pool. How many pairs of devices of the same name that makes.
    fn link(&mut self, ix: u32) -> usize {
        let Some(entry) = invariant!(self.slices.get(ix), "the number of a slice leads to it") else {
            return 0;
        };
        let (pool, body, state) = (entry.pool, entry.raw.clone(), entry.state.clone());
        let slices = &self.slices;
        let of_pool = |slice| slices.get(slice).is_some_and(|entry| entry.pool == pool);
        let hash = self.pools.get(pool).map_or(0, |entry| entry.hash);
        let repeats = self.devices.insert(hash, ix, &body, of_pool);
        let place = |list: &[u32]| {
            list.partition_point(|&other| slices.get(other).is_some_and(|e| e.state.name() < state.name()))
        };
        if let Some(entry) = self.pools.get_mut(pool) {
            entry.repeats += repeats;
            entry.facts = None;
            entry.slices.insert_at(place(&entry.slices), ix);
            if !state.head.taints.is_empty() {
                let at = place(&entry.taint_slices);
                entry.taint_slices.edit(|list| list.insert(at, ix));
            }
        }
        repeats
    }

    /// Takes the slice out of its pool. How many pairs of devices of the same name it was part of.
    fn unlink(&mut self, ix: u32) -> usize {
        let Some(entry) = invariant!(self.slices.get(ix), "the number of a slice leads to it") else {
            return 0;
        };
        let (pool, body) = (entry.pool, entry.raw.clone());
        let of_pool = |slice| self.slices.get(slice).is_some_and(|entry| entry.pool == pool);
        let hash = self.pools.get(pool).map_or(0, |entry| entry.hash);
        let repeats = self.devices.remove(hash, ix, &body, of_pool);
        if let Some(entry) = self.pools.get_mut(pool) {
            entry.repeats -= repeats.min(entry.repeats);
            entry.facts = None;
            entry.slices.remove(ix);
            if !entry.taint_slices.is_empty() {
                entry.taint_slices.edit(|list| list.retain(|&other| other != ix));
            }
        }
        repeats
    }

    /// After slices changed: which generation speaks, which slice speaks for each held device, and what slices of
    /// taints say. `raws` and `heads` are those that `changed` had and has, `repeats` how many of its devices have
    /// or had a name that another has, too.
    fn settle_pool(
        &mut self,
        pool: u32,
        changed: u32,
        raws: &[&Arc<SliceBody>],
        heads: &[&Arc<SliceHead>],
        repeats: usize,
    ) {
        let views = self.views_of(pool);
        let Some(entry) = invariant!(self.pools.get_mut(pool), "the number of a pool leads to it") else {
            return;
        };
        let before = core::mem::replace(&mut entry.views, views);
        let is_seen_otherwise = |slice: &u32| {
            let nodes = self.slices.get(*slice).map(|of| &of.state.head.nodes);
            nodes.is_some_and(|nodes| before.of_scope(nodes) != entry.views.of_scope(nodes))
        };
        let moved: Vec<u32> = entry.slices.iter().copied().filter(is_seen_otherwise).collect();
        let same_view = moved.is_empty();
        let has_taints = !entry.taint_slices.is_empty() || heads.iter().any(|head| !head.taints.is_empty());
        if has_taints {
            let targets: BTreeSet<u32> = if same_view {
                let named = heads.iter().flat_map(|head| head.taints.iter()).map(|(device, _)| device);
                let places = named.flat_map(|device| self.places_of(pool, device)).map(|(slice, _)| slice);
                places.chain([changed]).collect()
            } else {
                entry.slices.iter().copied().collect()
            };
            targets.into_iter().for_each(|slice| self.refresh_taint_slices(slice));
        }
        let same = |pair: &[&Arc<SliceHead>]| {
            pair[0].generation == pair[1].generation && pair[0].nodes.own_node() == pair[1].nodes.own_node()
        };
        if !same_view || !heads.windows(2).all(same) || repeats > 0 {
            self.note_rules_of_pool(pool);
        }
        let Some(entry) = invariant!(self.pools.get(pool), "the number of a pool leads to it") else {
            return;
        };
        if !entry.has_holders() {
            return;
        }
        let named = raws.iter().flat_map(|raw| raw.names.iter());
        let mut holders: Vec<u32> = named.filter_map(|device| self.holder_ix(pool, device)).collect();
        if !same_view {
            let all = moved.into_iter().chain(self.ghosts_of(pool));
            let held = all.filter_map(|slice| Some(self.slices.get(slice)?.held.iter()));
            holders.extend(held.flatten().map(|(_, holder)| *holder));
        }
        holders.sort_unstable();
        holders.dedup();
        let before = raws.first().map(|raw| (changed, *raw));
        holders.into_iter().for_each(|holder| self.settle_holder(holder, before));
    }

    /// Another generation or another slice speaks: rules may mean other published devices than before.
    fn note_rules_of_pool(&mut self, pool: u32) {
        let Some(entry) = invariant!(self.pools.get(pool), "the number of a pool leads to it") else {
            return;
        };
        let states: Vec<Arc<SliceState>> =
            entry.slices.iter().filter_map(|&slice| Some(self.slices.get(slice)?.state.clone())).collect();
        for mark in states.iter().flat_map(|state| state.marks.iter()) {
            match &*mark.source {
                Source::Rule { name, .. } => self.note_rule(name),
                Source::TaintSlice { .. } | Source::Patch { .. } => {}
            }
        }
    }
}

fn own_taints(slice: &ResourceSlice) -> Sparse<OwnTaint> {
    let devices = &slice.devices[..slice.devices.len().min(DEVICES_PER_SLICE_MAX)];
    let mut own = Vec::new();
    for (device, of) in (0..=u8::MAX).zip(devices) {
        for (index, taint) in (0..).zip(&of.taints) {
            own.push(OwnTaint { device, index, taint: taint.clone() });
        }
    }
    own.into()
}

/// Which devices have other taints of their own than before, by place.
fn differing_taints(own: &[OwnTaint], slice: &ResourceSlice) -> DeviceBits {
    let mut rest = own;
    let mut changed = DeviceBits::EMPTY;
    for (at, device) in slice.devices.iter().take(DEVICES_PER_SLICE_MAX).enumerate() {
        let (mine, others) = rest.split_at(rest.partition_point(|taint| usize::from(taint.device) <= at));
        rest = others;
        if !mine.iter().map(|own| &own.taint).eq(&device.taints) {
            changed.set(at, true);
        }
    }
    rest.iter().for_each(|taint| changed.set(usize::from(taint.device), true));
    changed
}
