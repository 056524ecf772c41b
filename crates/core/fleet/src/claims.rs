//! Claims, and which devices they hold.

use alloc::sync::Arc;

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, DeviceResult, ObjectKey, ResourceClaim, Text};

use crate::{
    Fleet, Presence,
    body::SliceBody,
    claim_entry::{ClaimEntry, Holder, Place, results},
    few::Few,
    places::{Found, counts_for},
    source::Source,
    vocabulary::hash_numbered,
};

impl Fleet {
    /// Takes in a claim; its number.
    pub(crate) fn apply_claim(&mut self, claim: Arc<ResourceClaim>) -> u32 {
        let name = self.claim_names.number(&claim.key.namespace, &claim.key.name);
        let known = self.claim_names.get(name).and_then(|name| name.claim);
        let Some((known, entry)) = known.and_then(|known| Some((known, self.claims.get_mut(known)?))) else {
            return self.add_claim(name, claim);
        };
        if entry.claim.uid != claim.uid {
            self.claim_gone(&claim.key);
            let name = self.claim_names.number(&claim.key.namespace, &claim.key.name);
            return self.add_claim(name, claim);
        }
        if entry.claim == claim {
            return known;
        }
        let old = core::mem::replace(&mut entry.claim, claim.clone());
        self.note_claim(known);
        if results(&old) != results(&claim) || node_of(&old) != node_of(&claim) {
            self.hold(known, results(&claim));
        }
        if old.owner != claim.owner
            || old.reserved_for != claim.reserved_for
            || old.allocation.is_some() != claim.allocation.is_some()
        {
            self.relate_claim(known);
        }
        self.recall(known);
        known
    }

    fn add_claim(&mut self, name: u32, claim: Arc<ResourceClaim>) -> u32 {
        let entry = ClaimEntry {
            claim: claim.clone(),
            name,
            holders: Few::default(),
            pods: Few::default(),
            noted: false,
        };
        let ix = self.claims.insert(entry);
        if let Some(name) = self.claim_names.get_mut(name) {
            name.claim = Some(ix);
        }
        self.note_claim(ix);
        self.hold(ix, results(&claim));
        self.relate_claim(ix);
        self.recall(ix);
        ix
    }

    pub(crate) fn claim_gone(&mut self, key: &ObjectKey) {
        let Some(at) = self.claim_names.find(&key.namespace, &key.name) else { return };
        let name = self.claim_names.get_mut(at);
        let Some(ix) = name.and_then(|name| name.claim.take()) else { return };
        self.note_claim(ix);
        self.hold(ix, &[]);
        self.unrelate_claim(ix);
        self.claims.retire(ix);
        self.claim_names.forget_if_unused(at);
    }

    // === Holding ===

    /// Moves a claim from what it held to what it holds. New devices are taken before old ones are let go, so that a
    /// device that stays is never forgotten.
    fn hold(&mut self, claim: u32, new: &[DeviceResult]) {
        let Some(entry) = invariant!(self.claims.get_mut(claim), "the number of a claim leads to it") else {
            return;
        };
        let old = core::mem::take(&mut entry.holders);
        if new.is_empty() && old.is_empty() {
            return;
        }
        for (at, holder) in (0u32..).zip(&*old) {
            if let Some(entry) = self.holders.get_mut(*holder) {
                entry.results.remove((claim, at));
            }
        }
        let mut holders = Few::default();
        let held = self.claims.get(claim).map(|entry| entry.claim.clone());
        let node = held.as_deref().and_then(node_of);
        for (at, result) in (0u32..).zip(new) {
            let holder = self.holder_or_new(result, node);
            if let Some(entry) = self.holders.get_mut(holder) {
                entry.results.insert((claim, at));
            }
            holders.push(holder);
        }
        let mut touched = old;
        holders.iter().for_each(|holder| touched.push(*holder));
        touched.sort();
        if let Some(entry) = self.claims.get_mut(claim) {
            entry.holders = holders;
        }
        touched.iter().for_each(|holder| self.holder_changed(*holder));
    }

    /// The number of a device that is held; `node`: where the claim that holds it now is usable, if on one node.
    fn holder_or_new(&mut self, result: &DeviceResult, node: Option<&Text>) -> u32 {
        let DeviceId { driver, pool, device } = &result.device;
        let (pool, device) = match self.anywhere(&result.device) {
            Some(Found { at, entry, .. }) => {
                // A slice knows by place who holds its devices.
                if let Some(known) = entry.holder(at) {
                    return known;
                }
                (entry.pool, entry.raw.names[at].clone())
            }
            None => (self.pool_or_new(driver, pool), self.vocabulary.text(device)),
        };
        let found = self.find_published(pool, &device, node);
        let place = found.map(|found| Place::Published { slice: found.slice, device: found.at });
        let is_alone = place.is_some() && self.pools.get(pool).is_some_and(|pool| pool.repeats == 0);
        if !is_alone && let Some(known) = self.holder_ix(pool, &device) {
            return known;
        }
        let place = place.unwrap_or_else(|| {
            let memory = self.memory_of(pool, &device, node, None);
            let ghost = self.add_ghost(pool, &device, self.holders.next(), memory);
            Place::Ghost(ghost.unwrap_or(u32::MAX))
        });
        let hash = holder_hash(pool, &device);
        let holder = self.holders.insert(Holder { pool, device, results: Few::default(), place });
        self.holder_lookup.insert_unique(hash, (hash, holder), |(hash, _)| *hash);
        if let Some(pool) = self.pools.get_mut(pool) {
            pool.add_holder();
        }
        // At once, for the same claim may have the device in more than one result.
        if let Place::Published { slice, device } = place
            && let Some(entry) = self.slices.get_mut(slice)
        {
            entry.set_held(device, Some(holder));
        }
        holder
    }

    /// After claims began or ceased to hold a device.
    fn holder_changed(&mut self, holder: u32) {
        let Some(entry) = invariant!(self.holders.get(holder), "the number of a holder leads to it") else {
            return;
        };
        let (pool, place) = (entry.pool, entry.place);
        self.note_rules_at(place);
        let left = self.holders.get(holder).filter(|entry| !entry.results.is_empty()).map(|_| holder);
        let gone = if left.is_none() { self.let_go(holder) } else { None };
        match place {
            // No other slice of the pool has the device.
            Place::Published { slice, device }
                if self.pools.get(pool).is_some_and(|pool| pool.repeats == 0) =>
            {
                self.refresh_usage_by(slice, device, left);
                if left.is_some()
                    && self
                        .slices
                        .get(slice)
                        .is_some_and(|of| !counts_for(&of.state.head, self.node_of_holder(holder)))
                {
                    self.settle_holder(holder, None);
                }
            }
            Place::Published { .. } | Place::Ghost(_) => {
                let known = gone.as_ref().or_else(|| self.holders.get(holder));
                let places = known.map(|entry| self.places_of(pool, &entry.device)).unwrap_or_default();
                for (slice, device) in places {
                    self.refresh_usage_by(slice, device, left);
                    self.note_rules_at(Place::Published { slice, device });
                }
                if left.is_some() {
                    self.settle_holder(holder, None);
                }
            }
        }
        if left.is_none() {
            self.drop_pool_if_empty(pool);
        }
    }

    /// Forgets a device that nobody holds any more.
    fn let_go(&mut self, holder: u32) -> Option<Holder> {
        if let Place::Ghost(ghost) = self.holders.get(holder)?.place {
            self.drop_ghost(ghost);
        }
        let entry = self.holders.remove(holder)?;
        let hash = holder_hash(entry.pool, &entry.device);
        if let Ok(found) = self.holder_lookup.find_entry(hash, |(_, at)| *at == holder) {
            found.remove();
        }
        if let Some(pool) = self.pools.get_mut(entry.pool) {
            pool.remove_holder();
        }
        Some(entry)
    }

    /// Finds out anew from where a held device is known. `before` are the devices that a slice had until now.
    pub(crate) fn settle_holder(&mut self, holder: u32, before: Option<(u32, &Arc<SliceBody>)>) {
        let Some(entry) = invariant!(self.holders.get(holder), "the number of a holder leads to it") else {
            return;
        };
        let (pool, device, old) = (entry.pool, entry.device.clone(), entry.place);
        let node = self.node_of_holder(holder).cloned();
        let found = self.find_published(pool, &device, node.as_ref());
        let new = match (found, old) {
            (Some(found), Place::Published { .. } | Place::Ghost(_)) => {
                Place::Published { slice: found.slice, device: found.at }
            }
            (None, Place::Ghost(ghost)) => match self.memory_of(pool, &device, node.as_ref(), None) {
                Some(memory) if !self.remembers(ghost, &memory) => {
                    self.note_rules_at(old);
                    self.drop_ghost(ghost);
                    let ghost = self.add_ghost(pool, &device, holder, Some(memory));
                    return self.placed(holder, Place::Ghost(ghost.unwrap_or(u32::MAX)));
                }
                Some(_) | None => old,
            },
            (None, Place::Published { slice, device: at }) => {
                let raw = match before {
                    Some((changed, raw)) if changed == slice => Some(raw.clone()),
                    Some(_) | None => self.slices.get(slice).map(|entry| entry.raw.clone()),
                };
                let memory = self.memory_of(pool, &device, node.as_ref(), raw.map(|raw| (raw, at)));
                Place::Ghost(self.add_ghost(pool, &device, holder, memory).unwrap_or(u32::MAX))
            }
        };
        if new == old {
            return;
        }
        self.note_rules_at(old);
        if let Place::Ghost(ghost) = old {
            self.drop_ghost(ghost);
        }
        self.placed(holder, new);
    }

    pub(crate) fn placed(&mut self, holder: u32, place: Place) {
        if let Some(entry) = self.holders.get_mut(holder) {
            entry.place = place;
        }
        self.note_rules_at(place);
        self.note_claims_of(holder);
    }

    /// The last known state of a device that no slice publishes: from a slice of an older generation, or as it was `last` published.
    fn memory_of(
        &mut self,
        pool: u32,
        device: &Text,
        node: Option<&Text>,
        last: Option<(Arc<SliceBody>, usize)>,
    ) -> Option<SliceBody> {
        let over = self.find_newest(pool, device, node);
        let over = over.map(|found| (found.entry.raw.clone(), found.at));
        let (raw, at) = over.or(last)?;
        Some(raw.alone(at, &mut self.vocabulary))
    }

    fn remembers(&self, ghost: u32, memory: &SliceBody) -> bool {
        self.slices.get(ghost).is_some_and(|entry| {
            entry.state.head.presence == Presence::Remembered && entry.raw.same_shapes(memory)
        })
    }

    pub(crate) fn holder_ix(&self, pool: u32, device: &Text) -> Option<u32> {
        self.holder_hashed(holder_hash(pool, device), pool, device)
    }

    fn holder_hashed(&self, hash: u64, pool: u32, device: &Text) -> Option<u32> {
        let same = |holder: u32| {
            self.holders.get(holder).is_some_and(|entry| entry.pool == pool && entry.device == *device)
        };
        let found = self.holder_lookup.find(hash, |(other, holder)| *other == hash && same(*holder));
        found.map(|(_, holder)| *holder)
    }

    pub(crate) fn note_claims_of(&mut self, holder: u32) {
        let count = self.holders.get(holder).map_or(0, |entry| entry.results.len());
        for at in 0..count {
            if let Some(&(claim, _)) = self.holders.get(holder).and_then(|entry| entry.results.get(at)) {
                self.note_claim(claim);
            }
        }
    }

    pub(crate) fn note_holders(&mut self, pool: u32, device: &Text) {
        if let Some(holder) = self.holder_ix(pool, device) {
            self.note_claims_of(holder);
        }
    }

    pub(crate) fn note_rules_at(&mut self, place: Place) {
        let Some((state, device)) = self.state_at(place) else { return };
        if state.marks.is_empty() {
            return;
        }
        let state = state.clone();
        for mark in state.marks.iter().filter(|mark| mark.bits.has(device)) {
            match &*mark.source {
                Source::Rule { name, .. } => self.note_rule(name),
                Source::TaintSlice { .. } | Source::Patch { .. } => {}
            }
        }
    }
}

/// The one node where a claim is usable.
fn node_of(claim: &ResourceClaim) -> Option<&Text> {
    claim.allocation.as_ref()?.only_node()
}

fn holder_hash(pool: u32, device: &Text) -> u64 {
    hash_numbered(pool, [device])
}
