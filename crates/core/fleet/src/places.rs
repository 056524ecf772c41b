//! Where devices are, by name.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{DeviceId, Text};

use crate::{Fleet, claim_entry::Place, pool_entry::pool_hash, slice::SliceHead, slice_entry::SliceEntry};

/// A device in a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) slice: u32,
    /// The device's place in it.
    pub(crate) at: usize,
    pub(crate) entry: &'a SliceEntry,
}

impl Fleet {
    /// The slice that speaks for a device: see [`Self::find_newest`].
    pub(crate) fn published(&self, id: &DeviceId) -> Option<Found<'_>> {
        let found = self.anywhere(id)?;
        if let Some(holder) = found.entry.holder(found.at) {
            return match self.holders.get(holder)?.place {
                Place::Published { slice, device: at } => {
                    Some(Found { slice, at, entry: self.slices.get(slice)? })
                }
                Place::Ghost(_) => None,
            };
        }
        let pool = self.pools.get(found.entry.pool)?;
        if pool.repeats > 0 {
            return self.find_published(found.entry.pool, &id.device, None);
        }
        pool.views.shows(&found.entry.state.head).then_some(found)
    }

    /// Some slice that has a device, of any generation and of any node.
    pub(crate) fn anywhere(&self, id: &DeviceId) -> Option<Found<'_>> {
        let DeviceId { driver, pool, device } = id;
        self.devices.find(pool_hash(driver, pool), device, |slice, at| {
            let entry = self.slices.get(slice)?;
            let of = &entry.state.head.pool;
            let is_it = entry.raw.names.get(at) == Some(device) && of.pool == *pool && of.driver == *driver;
            is_it.then_some(Found { slice, at, entry })
        })
    }

    /// The slice that speaks for a device of a pool, for a claim that is usable on this node alone.
    pub(crate) fn find_published(&self, pool: u32, device: &Text, node: Option<&Text>) -> Option<Found<'_>> {
        let views = &self.pools.get(pool)?.views;
        self.find_newest(pool, device, node).filter(|newest| views.shows(&newest.entry.state.head))
    }

    /// The slice that has a device, be it of a generation that is over. Slices of other nodes than the one where it is held do not count: a node
    /// writes slices in pools of any name. Where it is not known which node is meant, a slice of no node comes first, then the node of the pool's name, then
    /// the first by name: no generation makes a slice of one node count before that of another.
    pub(crate) fn find_newest(&self, pool: u32, device: &Text, node: Option<&Text>) -> Option<Found<'_>> {
        let entry = self.pools.get(pool)?;
        if entry.repeats == 0 {
            let found = self.devices.find(entry.hash, device, |slice, at| self.has(pool, device, slice, at));
            return found.filter(|found| counts_for(&found.entry.state.head, node));
        }
        let candidates = self.everywhere(pool, device);
        candidates.filter(|found| counts_for(&found.entry.state.head, node)).min_by(|left, right| {
            let rank = |found: &Found<'_>| {
                let node = found.entry.state.head.nodes.own_node();
                (!entry.views.shows(&found.entry.state.head), node.is_some_and(|node| *node != entry.id.pool))
            };
            let (a, b) = (&left.entry.state, &right.entry.state);
            rank(left)
                .cmp(&rank(right))
                .then_with(|| a.nodes().own_node().cmp(&b.nodes().own_node()))
                .then_with(|| b.generation().cmp(&a.generation()))
                .then_with(|| a.name().cmp(b.name()))
                .then(left.at.cmp(&right.at))
        })
    }

    /// Whether this slice is the one that speaks for its device at a place.
    pub(crate) fn speaks(&self, slice: u32, entry: &SliceEntry, at: usize) -> bool {
        if let Some(holder) = entry.holder(at) {
            let here = Place::Published { slice, device: at };
            return self.holders.get(holder).is_some_and(|holder| holder.place == here);
        }
        let found = self.find_published(entry.pool, &entry.raw.names[at], None);
        found.is_some_and(|found| (found.slice, found.at) == (slice, at))
    }

    /// The node where a device is held. Of several the one of the pool's name, or the first by name: two nodes hold a device only if it is shared
    /// between them, and then no slice of a node has it.
    pub(crate) fn node_of_holder(&self, holder: u32) -> Option<&Text> {
        let entry = self.holders.get(holder)?;
        let claims = entry.results.iter().filter_map(|(claim, _)| self.claims.get(*claim));
        let nodes = claims.filter_map(|entry| entry.claim.allocation.as_ref()?.only_node());
        nodes.min_by_key(|node| {
            let is_of_name = self.pools.get(entry.pool).is_some_and(|pool| pool.id.pool == **node);
            (!is_of_name, *node)
        })
    }

    /// All slices of a pool, of any generation, with a device of this name, and its place in each.
    pub(crate) fn places_of(&self, pool: u32, device: &Text) -> Vec<(u32, usize)> {
        self.everywhere(pool, device).map(|found| (found.slice, found.at)).collect()
    }

    /// All slices and stand-ins of whatever pool with a device of this name. Looks at every one: few leave the pool open
    /// when they name a device, and slices that are alike share one list of names.
    pub(crate) fn slices_with(&self, device: &Text) -> Vec<u32> {
        let mut last: Option<(&Arc<[Text]>, bool)> = None;
        let mut found = Vec::new();
        for (slice, entry) in self.slices.iter() {
            let names = &entry.raw.names;
            let has = match last {
                Some((known, has)) if Arc::ptr_eq(known, names) => has,
                Some(_) | None => names.contains(device),
            };
            last = Some((names, has));
            if has {
                found.push(slice);
            }
        }
        found
    }

    fn everywhere(&self, pool: u32, device: &Text) -> impl Iterator<Item = Found<'_>> {
        let hash = self.pools.get(pool).map(|entry| entry.hash);
        let places = hash.into_iter().flat_map(move |hash| self.devices.in_pool(hash, device));
        places.filter_map(move |(slice, at)| self.has(pool, device, slice, at))
    }

    /// A place, unless it is that of another device whose name has the same hash.
    fn has(&self, pool: u32, device: &Text, slice: u32, at: usize) -> Option<Found<'_>> {
        let entry = self.slices.get(slice)?;
        let is_it = entry.pool == pool && entry.raw.names.get(at) == Some(device);
        is_it.then_some(Found { slice, at, entry })
    }
}

/// Whether a slice says anything about devices that are held on this node.
#[inline]
pub(crate) fn counts_for(head: &SliceHead, node: Option<&Text>) -> bool {
    let Some(node) = node else { return true };
    head.nodes.own_node().is_none_or(|own| own == node)
}
