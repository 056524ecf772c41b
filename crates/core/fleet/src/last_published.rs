//! The last published state of devices that no slice has any more: from the annotation of a claim, and for it.
//!
//! A fleet that saw the slice go remembers it. A fleet that starts later takes it from the claim.

use alloc::vec::Vec;

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, LastPublished, ResourceSlice};

use crate::{ClaimIx, Fleet, Presence, body::SliceBody, claim_entry::Place};

impl Fleet {
    /// Whether any device is held that no slice speaks for. Mostly none is.
    #[must_use]
    pub fn has_unpublished_devices(&self) -> bool {
        !self.ghosts.is_empty()
    }

    /// The last published state of the devices of a claim that no slice has, each once, in the order of the results.
    #[must_use]
    pub fn last_published(&self, claim: ClaimIx) -> Vec<LastPublished> {
        let mut all: Vec<LastPublished> = Vec::new();
        let entry = self.claims.get(claim.0).filter(|_| self.has_unpublished_devices());
        for holder in entry.iter().flat_map(|entry| &*entry.holders) {
            if let Some(one) = self.last_published_of(*holder)
                && !all.iter().any(|other| {
                    other.driver == one.driver
                        && other.pool == one.pool
                        && other.device.name == one.device.name
                })
            {
                all.push(one);
            }
        }
        all
    }

    fn last_published_of(&self, holder: u32) -> Option<LastPublished> {
        let holder = self.holders.get(holder)?;
        let Place::Ghost(ghost) = holder.place else { return None };
        let ghost = self.slices.get(ghost)?;
        if ghost.state.head.presence != Presence::Remembered {
            return None;
        }
        let pool = &self.pools.get(holder.pool)?.id;
        let id = DeviceId::new(pool.driver.clone(), pool.pool.clone(), holder.device.clone());
        let attributes = ghost.raw.attributes.row(0).map(|(key, _, value)| (key.clone(), value.clone()));
        let capacity = ghost.raw.capacity.row(0).map(|(key, _, value)| (key.clone(), value.clone()));
        let shared = ghost.raw.flags().allow_multiple.has(0);
        Some(LastPublished::new(&id, attributes.collect(), capacity.collect(), shared))
    }

    /// Takes in the devices that a claim records and that are unknown otherwise. Devices that this fleet has seen itself count more.
    pub(crate) fn recall(&mut self, claim: u32) {
        let Some(entry) = self.claims.get(claim).filter(|entry| !entry.claim.last_published.is_empty())
        else {
            return;
        };
        let (claim, holders) = (entry.claim.clone(), entry.holders.clone());
        for holder in &*holders {
            let Some(held) = invariant!(self.holders.get(*holder), "the number of a holder leads to it")
            else {
                continue;
            };
            let (pool, device, place) = (held.pool, held.device.clone(), held.place);
            let Place::Ghost(ghost) = place else { continue };
            if self.slices.get(ghost).is_none_or(|entry| entry.state.head.presence != Presence::Unknown) {
                continue;
            }
            let Some(id) = invariant!(
                self.pools.get(pool).map(|pool| pool.id.clone()),
                "the number of a pool leads to it"
            ) else {
                continue;
            };
            let id = DeviceId::new(id.driver, id.pool, device.clone());
            let Some(said) = claim.last_published.iter().find(|said| said.is_of(&id)) else { continue };
            let alone = ResourceSlice {
                driver: said.driver.clone(),
                devices: [said.device.clone()].into(),
                ..ResourceSlice::default()
            };
            let memory = SliceBody::of_slice(&alone, &mut self.vocabulary);
            self.note_rules_at(place);
            self.drop_ghost(ghost);
            let ghost = self.add_ghost(pool, &device, *holder, Some(memory));
            self.placed(*holder, Place::Ghost(ghost.unwrap_or(u32::MAX)));
        }
    }
}
