//! Slices coming, changing and going, and the marks on them.

use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};

use lazaret_model::{DeviceId, PoolId, ResourceSlice, Text};

use crate::{
    DEVICES_PER_SLICE_MAX, Fleet, Presence, SliceState,
    bits::DeviceBits,
    body::SliceBody,
    claims::Place,
    patch,
    selector::Hits,
    slice::SliceHead,
    taints::{Mark, OwnTaint, Source},
};

/// A slice, or the stand-in for one held device that is not published.
#[derive(Debug)]
pub(crate) struct SliceEntry {
    pub(crate) pool: u32,
    pub(crate) state: Arc<SliceState>,
    /// The devices as the driver published them. The state's are the same unless patches override something.
    pub(crate) raw: Arc<SliceBody>,
    /// Devices that some claim holds, in whatever way.
    pub(crate) held: DeviceBits,
    /// Patches that hit one of its devices, or fail on one.
    pub(crate) patches: Vec<u32>,
}

impl SliceEntry {
    fn new(pool: u32, state: SliceState) -> Self {
        let raw = state.body.clone();
        Self { pool, state: Arc::new(state), raw, held: DeviceBits::EMPTY, patches: Vec::new() }
    }

    /// The slice as the driver published it.
    pub(crate) fn as_published(&self) -> SliceState {
        let mut state = (*self.state).clone();
        state.body = self.raw.clone();
        state
    }
}

impl Fleet {
    pub(crate) fn apply_slice(&mut self, slice: &ResourceSlice) {
        let Some(&known) = self.slice_names.get(&slice.name) else { return self.add_slice(slice) };
        let Some(entry) = self.slices.get(known) else { return };
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
        let Some(&slice) = self.slice_names.get(name) else { return };
        let Some(entry) = self.slices.get(slice) else { return };
        let (pool, raw, head) = (entry.pool, entry.raw.clone(), entry.state.head.clone());
        self.slice_names.remove(name);
        self.unlink(slice);
        self.clear_hits(slice);
        self.settle_pool(pool, slice, &[&raw], &[&head]);
        self.slices.remove(slice);
        self.slices.recycle();
        self.note_pool(pool);
        self.drop_pool_if_empty(pool);
    }

    fn add_slice(&mut self, slice: &ResourceSlice) {
        let pool = self.pool_or_new(&slice.pool_id());
        let id = self.pools.get(pool).map_or_else(|| slice.pool_id(), |entry| entry.id.clone());
        let raw = Arc::new(SliceBody::of_slice(slice, &mut self.vocabulary));
        let head = SliceHead::of_slice(slice, id);
        let name = head.name.clone();
        let mut state = SliceState::new(head, raw.clone());
        state.own = own_taints(slice);
        let head = state.head.clone();
        let ix = self.slices.insert(SliceEntry::new(pool, state));
        self.slice_names.insert(name, ix);
        self.link(ix);
        self.refresh_usage(ix);
        self.refresh_marks(ix, None);
        self.settle_pool(pool, ix, &[&raw], &[&head]);
        self.note_pool(pool);
    }

    /// The slice says something new of itself or of its devices.
    fn replace_slice(&mut self, ix: u32, slice: &ResourceSlice, same_body: bool) {
        let Some(entry) = self.slices.get(ix) else { return };
        let (pool, old_raw, old_head) = (entry.pool, entry.raw.clone(), entry.state.head.clone());
        let old_body = entry.state.body.clone();
        self.unlink(ix);
        let raw = if same_body {
            old_raw.clone()
        } else {
            Arc::new(SliceBody::of_slice(slice, &mut self.vocabulary))
        };
        let head = Arc::new(SliceHead::of_slice(slice, old_head.pool.clone()));
        if let Some(entry) = self.slices.get_mut(ix) {
            entry.raw = raw.clone();
            let state = Arc::make_mut(&mut entry.state);
            state.head = head.clone();
            if !same_body {
                state.body = raw.clone();
            }
        }
        self.link(ix);
        if !same_body {
            self.refresh_usage(ix);
            self.refresh_marks(ix, Some(&old_body));
            // Whoever holds one of its devices may see other attributes, other taints, or nothing.
            let named: BTreeSet<&Text> = old_raw.names.iter().chain(&raw.names).collect();
            named.into_iter().for_each(|device| self.note_holders(pool, device));
        }
        self.settle_pool(pool, ix, &[&old_raw, &raw], &[&old_head, &head]);
        self.note_pool(pool);
    }

    /// Own taints change often and concern nobody else: they have their own path.
    fn update_own_taints(&mut self, ix: u32, slice: &ResourceSlice) {
        let Some(entry) = self.slices.get_mut(ix) else { return };
        let changed = differing_taints(&entry.state.own, slice);
        if changed.is_empty() {
            return;
        }
        Arc::make_mut(&mut entry.state).own = own_taints(slice);
        self.taints_changed(ix, changed);
    }

    // === Membership of a pool ===

    fn link(&mut self, ix: u32) {
        let Some(entry) = self.slices.get(ix) else { return };
        let (pool, body, state) = (entry.pool, entry.raw.clone(), entry.state.clone());
        let repeats = self.repeats(pool, &body);
        self.devices.insert(pool, ix, &body);
        let slices = &self.slices;
        let place = |list: &[u32]| {
            list.partition_point(|&other| slices.get(other).is_some_and(|e| e.state.name() < state.name()))
        };
        if let Some(entry) = self.pools.get_mut(pool) {
            entry.repeats += repeats;
            entry.facts = None;
            entry.slices.insert(place(&entry.slices), ix);
            if !state.head.taints.is_empty() {
                entry.taint_slices.insert(place(&entry.taint_slices), ix);
            }
        }
    }

    fn unlink(&mut self, ix: u32) {
        let Some(entry) = self.slices.get(ix) else { return };
        let (pool, body) = (entry.pool, entry.raw.clone());
        self.devices.remove(pool, ix, &body);
        let repeats = self.repeats(pool, &body);
        if let Some(entry) = self.pools.get_mut(pool) {
            entry.repeats -= repeats.min(entry.repeats);
            entry.facts = None;
            entry.slices.retain(|&other| other != ix);
            entry.taint_slices.retain(|&other| other != ix);
        }
    }

    /// How many times its device names occur in the pool's other slices, or again in itself.
    fn repeats(&self, pool: u32, body: &SliceBody) -> usize {
        let distinct: BTreeSet<&Text> = body.names.iter().collect();
        let elsewhere: usize = match self.pools.get(pool) {
            Some(entry) if !entry.slices.is_empty() => {
                body.names.iter().map(|name| self.devices.in_pool(pool, name).count()).sum()
            }
            Some(_) | None => 0,
        };
        elsewhere + body.len() - distinct.len()
    }

    /// After slices changed: which generation speaks, which slice speaks for each held device, and what slices of
    /// taints say. `raws` and `heads` are those that `changed` had and has.
    fn settle_pool(&mut self, pool: u32, changed: u32, raws: &[&Arc<SliceBody>], heads: &[&Arc<SliceHead>]) {
        let view = self.view_of(pool);
        let Some(entry) = self.pools.get_mut(pool) else { return };
        let same_view = core::mem::replace(&mut entry.view, view) == view;
        let has_taints = !entry.taint_slices.is_empty() || heads.iter().any(|head| !head.taints.is_empty());
        if has_taints {
            let targets: BTreeSet<u32> = if same_view {
                let named = heads.iter().flat_map(|head| &head.taints).map(|(device, _)| device);
                let places = named.flat_map(|device| self.places_of(pool, device)).map(|(slice, _)| slice);
                places.chain([changed]).collect()
            } else {
                entry.slices.iter().copied().collect()
            };
            targets.into_iter().for_each(|slice| self.refresh_taint_slices(slice));
        }
        if !same_view {
            self.note_rules_of_pool(pool);
        }
        let Some(entry) = self.pools.get(pool) else { return };
        if entry.holders.is_empty() {
            return;
        }
        let holders: Vec<u32> = if same_view {
            let named: BTreeSet<&Text> = raws.iter().flat_map(|raw| raw.names.iter()).collect();
            named.into_iter().filter_map(|device| self.holder_ix(pool, device)).collect()
        } else {
            entry.holders.iter().copied().collect()
        };
        let before = raws.first().map(|raw| (changed, *raw));
        holders.into_iter().for_each(|holder| self.settle_holder(holder, before));
    }

    /// Another generation speaks: rules may mean other published devices than before.
    fn note_rules_of_pool(&mut self, pool: u32) {
        let Some(entry) = self.pools.get(pool) else { return };
        let states: Vec<Arc<SliceState>> =
            entry.slices.iter().filter_map(|&slice| Some(self.slices.get(slice)?.state.clone())).collect();
        for mark in states.iter().flat_map(|state| &state.marks) {
            match &*mark.source {
                Source::Rule { name, .. } => self.note_rule(name),
                Source::TaintSlice { .. } | Source::Patch { .. } => {}
            }
        }
    }

    // === Marks ===

    /// Evaluates all patches and rules for a slice anew. `old` are the devices it had before.
    pub(crate) fn refresh_marks(&mut self, ix: u32, old: Option<&Arc<SliceBody>>) {
        self.refresh_patches(ix);
        self.rebuild_body(ix);
        self.refresh_rules(ix, old);
        self.refresh_taint_slices(ix);
    }

    fn refresh_patches(&mut self, ix: u32) {
        let Some(entry) = self.slices.get(ix) else { return };
        let raw = entry.as_published();
        let candidates = self.patch_index.candidates(raw.pool(), &raw.body);
        let stale: Vec<u32> =
            entry.patches.iter().copied().filter(|patch| !candidates.contains(patch)).collect();
        self.rebind_if_names_grew();
        for patch in stale {
            self.set_patch_hits(patch, ix, Hits::default());
        }
        for patch in candidates {
            let Some(state) = self.patches.get(patch) else { continue };
            let hits = state.compiled.hits(&raw, self.vocabulary.names());
            self.set_patch_hits(patch, ix, hits);
        }
    }

    pub(crate) fn set_patch_hits(&mut self, patch: u32, ix: u32, hits: Hits) {
        let Some(state) = self.patches.get_mut(patch) else { return };
        let Some(entry) = self.slices.get_mut(ix) else { return };
        entry.patches.retain(|other| *other != patch);
        if hits == Hits::default() {
            state.hits.remove(&ix);
        } else {
            state.hits.insert(ix, hits);
            entry.patches.push(patch);
        }
        if let Some(source) = state.source.clone() {
            self.set_mark(ix, &source, hits.matched);
        }
    }

    /// Applies the patches that hit a slice to what the driver published.
    pub(crate) fn rebuild_body(&mut self, ix: u32) {
        let Some(entry) = self.slices.get(ix) else { return };
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
            let of_device = patch::by_device(&patches, entry.raw.len());
            Arc::new(entry.raw.overridden(|device| &of_device[device], &mut self.vocabulary))
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
        let Some(entry) = self.slices.get(ix) else { return };
        let state = entry.state.clone();
        let mut candidates = self.rule_index.candidates(state.pool(), &state.body);
        if let Some(old) = old {
            candidates.extend(self.rule_index.candidates(state.pool(), old));
            candidates.sort_unstable();
            candidates.dedup();
        }
        let same_names = old.is_some_and(|old| old.names == state.body.names);
        for rule in candidates {
            let Some(mut rule_state) = self.rules.take(rule) else { continue };
            let hits = rule_state.compiled.hits(&state, self.vocabulary.names());
            self.lay_rule(&mut rule_state, ix, hits);
            if !same_names && hits != Hits::default() {
                self.note_rule(&rule_state.rule.name);
            }
            self.rules.put(rule, rule_state);
        }
    }

    /// Takes over what the pool's slices of taints say of a slice's devices.
    fn refresh_taint_slices(&mut self, ix: u32) {
        let Some(entry) = self.slices.get(ix) else { return };
        let Some(pool) = self.pools.get(entry.pool) else { return };
        let state = &entry.state;
        let is_taint = |mark: &Mark| matches!(*mark.source, Source::TaintSlice { .. });
        let old_len = state.marks.partition_point(is_taint);
        let mut marks: Vec<Mark> = Vec::new();
        for &other in &pool.taint_slices {
            let Some(head) = self.slices.get(other).map(|entry| &entry.state.head) else { continue };
            if head.generation != state.generation() && !pool.view.shows(head.generation) {
                continue;
            }
            for (device, source) in &head.taints {
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
            Arc::make_mut(&mut entry.state).marks.splice(..old_len, marks);
        }
        self.taints_changed(ix, DeviceBits(changed));
    }

    /// Says which devices of a slice a source taints.
    pub(crate) fn set_mark(&mut self, ix: u32, source: &Arc<Source>, bits: DeviceBits) {
        let Some(entry) = self.slices.get_mut(ix) else { return };
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
        let marks = &mut Arc::make_mut(&mut entry.state).marks;
        match at {
            Ok(at) if bits.is_empty() => {
                marks.remove(at);
            }
            Ok(at) => marks[at] = Mark { bits, source: source.clone() },
            Err(at) => marks.insert(at, Mark { bits, source: source.clone() }),
        }
        self.taints_changed(ix, changed);
    }

    /// Forgets what rules and patches said of a slice that goes.
    pub(crate) fn clear_hits(&mut self, ix: u32) {
        let Some(entry) = self.slices.get(ix) else { return };
        let (patches, state) = (entry.patches.clone(), entry.state.clone());
        for patch in patches {
            if let Some(patch) = self.patches.get_mut(patch) {
                patch.hits.remove(&ix);
            }
        }
        for rule in self.rule_index.candidates(state.pool(), &state.body) {
            let Some(mut rule_state) = self.rules.take(rule) else { continue };
            if rule_state.hits.remove(&ix).is_some() {
                self.note_rule(&rule_state.rule.name);
            }
            self.rules.put(rule, rule_state);
        }
    }

    pub(crate) fn taints_changed(&mut self, ix: u32, devices: DeviceBits) {
        let Some(entry) = self.slices.get(ix) else { return };
        let (pool, held) = (entry.pool, DeviceBits(entry.held.0 & devices.0));
        self.note_pool(pool);
        for device in held.iter() {
            let Some(entry) = self.slices.get(ix) else { return };
            if let Some(holder) = self.holder_ix(pool, &entry.state.body.names[device]) {
                self.note_claims_of(holder);
            }
        }
    }

    // === Stand-ins ===

    /// A stand-in for a device that is held but not published: with the attributes it had, if they are known.
    pub(crate) fn add_ghost(&mut self, pool: u32, device: &Text, memory: Option<SliceBody>) -> Option<u32> {
        let id = self.pools.get(pool)?.id.clone();
        let (presence, body) = match memory {
            Some(body) => (Presence::Remembered, body),
            None => (Presence::Unknown, SliceBody::of_name(&id.driver, device, &mut self.vocabulary)),
        };
        let raw = Arc::new(body);
        let state = SliceState::new(SliceHead::of_ghost(id, presence), raw.clone());
        let mut entry = SliceEntry::new(pool, state);
        entry.held = DeviceBits::one(0);
        let ghost = self.slices.insert(entry);
        self.devices.insert_anywhere(ghost, &raw);
        self.pools.get_mut(pool)?.ghosts.insert(device.clone(), ghost);
        self.refresh_patches(ghost);
        self.rebuild_body(ghost);
        self.refresh_rules(ghost, None);
        Some(ghost)
    }

    pub(crate) fn drop_ghost(&mut self, ghost: u32) {
        self.clear_hits(ghost);
        let Some(entry) = self.slices.remove(ghost) else { return };
        self.slices.recycle();
        self.devices.remove_anywhere(ghost, &entry.raw);
        if let Some(pool) = self.pools.get_mut(entry.pool) {
            pool.ghosts.remove(&entry.raw.names[0]);
        }
    }

    pub(crate) fn state_at(&self, place: Place) -> Option<(&Arc<SliceState>, usize)> {
        let (slice, device) = match place {
            Place::Published { slice, device } => (slice, device),
            Place::Ghost(slice) => (slice, 0),
        };
        Some((&self.slices.get(slice)?.state, device))
    }

    /// Where the fleet knows a device from: a slice that speaks for it, or a stand-in.
    pub(crate) fn locate(&self, id: &DeviceId) -> Option<(&Arc<SliceState>, usize)> {
        let pool = self.pool_ix(&id.pool_id())?;
        if let Some((slice, device)) = self.find_published(pool, &id.device) {
            return Some((&self.slices.get(slice)?.state, device));
        }
        let ghost = *self.pools.get(pool)?.ghosts.get(&id.device)?;
        Some((&self.slices.get(ghost)?.state, 0))
    }
}

fn own_taints(slice: &ResourceSlice) -> Arc<[OwnTaint]> {
    let devices = (0..=u8::MAX).zip(slice.devices.iter().take(DEVICES_PER_SLICE_MAX));
    devices
        .flat_map(|(device, of)| {
            (0..).zip(&of.taints).map(move |(index, taint)| OwnTaint { device, index, taint: taint.clone() })
        })
        .collect()
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
