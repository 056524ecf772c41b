//! Stand-ins for devices that are held but that no slice speaks for: *ghosts*. A ghost is a slice of one device, so
//! rules and patches find it the way they find any other.

use alloc::sync::Arc;

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, Text};

use crate::{
    Fleet, Presence, SliceState, body::SliceBody, claim_entry::Place, slice::SliceHead,
    slice_entry::SliceEntry,
};

impl Fleet {
    /// A stand-in for a device that is held but not published: with the attributes it had, if they are known.
    pub(crate) fn add_ghost(
        &mut self,
        pool: u32,
        device: &Text,
        holder: u32,
        memory: Option<SliceBody>,
    ) -> Option<u32> {
        let id = self.pools.get(pool)?.id.clone();
        let (presence, body) = match memory {
            Some(body) => (Presence::Remembered, body),
            None => (Presence::Unknown, SliceBody::of_name(&id.driver, device, &mut self.vocabulary)),
        };
        let raw = Arc::new(body);
        let state = SliceState::new(SliceHead::of_ghost(id, presence), raw.clone());
        let mut entry = SliceEntry::new(pool, state);
        entry.set_held(0, Some(holder));
        let ghost = self.slices.insert(entry);
        self.ghosts.insert((pool, device.clone()), ghost);
        self.refresh_patches(ghost);
        self.rebuild_body(ghost);
        self.refresh_rules(ghost, None);
        Some(ghost)
    }

    pub(crate) fn drop_ghost(&mut self, ghost: u32) {
        self.clear_hits(ghost);
        let Some(entry) = invariant!(self.slices.remove(ghost), "the number of a slice leads to it") else {
            return;
        };
        self.ghosts.remove(&(entry.pool, entry.raw.names[0].clone()));
    }

    /// The stand-in for a device of a pool, if it has one.
    pub(crate) fn ghost(&self, pool: u32, device: &Text) -> Option<u32> {
        if self.ghosts.is_empty() {
            return None;
        }
        self.ghosts.get(&(pool, device.clone())).copied()
    }

    /// All stand-ins for devices of a pool.
    pub(crate) fn ghosts_of(&self, pool: u32) -> impl Iterator<Item = u32> {
        let first = |pool| (pool, Text::default());
        self.ghosts.range(first(pool)..first(pool.saturating_add(1))).map(|(_, ghost)| *ghost)
    }

    #[inline]
    pub(crate) fn state_at(&self, place: Place) -> Option<(&Arc<SliceState>, usize)> {
        let (slice, device) = match place {
            Place::Published { slice, device } => (slice, device),
            Place::Ghost(slice) => (slice, 0),
        };
        Some((&self.slices.get(slice)?.state, device))
    }

    /// Where the fleet knows a device from: a slice that speaks for it, or a stand-in.
    pub(crate) fn locate(&self, id: &DeviceId) -> Option<(&Arc<SliceState>, usize)> {
        if let Some(found) = self.published(id) {
            return Some((&found.entry.state, found.at));
        }
        let ghost = self.ghost(self.pool_ix(&id.driver, &id.pool)?, &id.device)?;
        Some((&self.slices.get(ghost)?.state, 0))
    }
}
