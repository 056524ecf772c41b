//! Claims, and which devices they hold.

use alloc::sync::Arc;

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, DeviceResult, ObjectKey, ResourceClaim, Text};

use crate::{
    Fleet, Presence,
    body::SliceBody,
    claim_entry::{ClaimEntry, Holder, Place, results},
    few::Few,
    places::Found,
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
        if results(&old) != results(&claim) {
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
        for (at, result) in (0u32..).zip(new) {
            let holder = self.holder_or_new(result);
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

    fn holder_or_new(&mut self, result: &DeviceResult) -> u32 {
        let DeviceId { driver, pool, device } = &result.device;
        let (pool, device, place) = match self.published(&result.device) {
            Some(Found { slice, at, entry }) => {
                // A slice knows by place who holds its devices.
                if let Some(known) = entry.holder(at) {
                    return known;
                }
                (entry.pool, entry.raw.names[at].clone(), Place::Published { slice, device: at })
            }
            None => {
                let pool = self.pool_or_new(driver, pool);
                if let Some(known) = self.holder_ix(pool, device) {
                    return known;
                }
                let device = self.vocabulary.text(device);
                let memory = self.memory_of(pool, &device, None);
                let ghost = self.add_ghost(pool, &device, self.holders.next(), memory);
                (pool, device, Place::Ghost(ghost.unwrap_or(u32::MAX)))
            }
        };
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
            }
            Place::Published { .. } | Place::Ghost(_) => {
                let known = gone.as_ref().or_else(|| self.holders.get(holder));
                let places = known.map(|entry| self.places_of(pool, &entry.device)).unwrap_or_default();
                places.into_iter().for_each(|(slice, at)| self.refresh_usage_by(slice, at, left));
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
        let found = self.find_published(pool, &device);
        let new = match (found, old) {
            (Some(found), Place::Published { .. } | Place::Ghost(_)) => {
                Place::Published { slice: found.slice, device: found.at }
            }
            (None, Place::Ghost(ghost)) => match self.memory_of(pool, &device, None) {
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
                let memory = self.memory_of(pool, &device, raw.map(|raw| (raw, at)));
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
        last: Option<(Arc<SliceBody>, usize)>,
    ) -> Option<SliceBody> {
        let over = self.find_newest(pool, device);
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

fn holder_hash(pool: u32, device: &Text) -> u64 {
    hash_numbered(pool, [device])
}
