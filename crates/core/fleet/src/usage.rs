//! The devices of each slice that are in use.

use alloc::sync::Arc;

use lazaret_invariant::invariant;
use lazaret_model::DeviceResult;

use crate::{
    Fleet, bits::DeviceBits, claim_entry::results, few::Few, pool_entry::PoolEntry, slice::SharedUse,
    sparse::Sparse,
};

impl Fleet {
    /// Works out what is in use of a slice that is new or has other devices.
    pub(crate) fn refresh_usage(&mut self, slice: u32) {
        let Some(entry) = invariant!(self.slices.get_mut(slice), "the number of a slice leads to it") else {
            return;
        };
        let (pool, raw) = (entry.pool, entry.raw.clone());
        entry.held = Few::default();
        if entry.state.in_use.0 != 0 || !entry.state.shared.is_empty() {
            let state = Arc::make_mut(&mut entry.state);
            state.in_use = DeviceBits::EMPTY;
            state.shared = Sparse::default();
        }
        if self.pools.get(pool).is_some_and(PoolEntry::has_holders) {
            for (device, name) in raw.names.iter().enumerate() {
                self.refresh_usage_by(slice, device, self.holder_ix(pool, name));
            }
        }
    }

    /// Works out what is in use of one device, given who holds it.
    pub(crate) fn refresh_usage_by(&mut self, slice: u32, device: usize, holder: Option<u32>) {
        let usage = holder.map(|holder| self.usage_by(holder)).unwrap_or_default();
        let Some(entry) = invariant!(self.slices.get_mut(slice), "the number of a slice leads to it") else {
            return;
        };
        entry.set_held(device, holder.filter(|_| usage.held));
        let state = &entry.state;
        let found = state.shared.binary_search_by_key(&device, |(at, _)| usize::from(*at));
        let same_shared = match (found, &usage.shared) {
            (Ok(at), Some(shared)) => state.shared[at].1 == *shared,
            (Err(_), None) => true,
            (Ok(_), None) | (Err(_), Some(_)) => false,
        };
        if same_shared && state.in_use.has(device) == usage.whole {
            return;
        }
        let pool = entry.pool;
        let state = Arc::make_mut(&mut entry.state);
        state.in_use.set(device, usage.whole);
        if !same_shared {
            state.shared.edit(|all| match (found, usage.shared, u8::try_from(device)) {
                (Ok(at), None, _) => drop(all.remove(at)),
                (Ok(at), Some(shared), _) => all[at].1 = shared,
                (Err(at), Some(shared), Ok(device)) => all.insert(at, (device, shared)),
                (Err(_), None, _) | (Err(_), Some(_), Err(_)) => {}
            });
        }
        self.note_pool(pool);
    }

    fn usage_by(&self, holder: u32) -> Usage {
        let mut usage = Usage::default();
        let Some(holder) = invariant!(self.holders.get(holder), "the number of a holder leads to it") else {
            return usage;
        };
        for &(claim, at) in holder.results.iter() {
            usage.held = true;
            let Some(entry) = invariant!(self.claims.get(claim), "the number of a claim leads to it") else {
                continue;
            };
            let Some(result) = invariant!(
                results(&entry.claim).get(at as usize),
                "a holder names a result of an allocation"
            ) else {
                continue;
            };
            match (result.admin_access, &result.share_id) {
                (true, _) => {}
                (false, None) => usage.whole = true,
                (false, Some(_)) => add_share(usage.shared.get_or_insert_default(), result),
            }
        }
        usage
    }
}

/// How a device is used.
#[derive(Default)]
struct Usage {
    /// By anybody, for monitoring too.
    held: bool,
    /// By one alone.
    whole: bool,
    /// In shares.
    shared: Option<SharedUse>,
}

fn add_share(shared: &mut SharedUse, result: &DeviceResult) {
    shared.shares = shared.shares.saturating_add(1);
    for (key, amount) in &result.consumed_capacity {
        match shared.consumed.binary_search_by(|(known, _)| known.cmp(key)) {
            Ok(at) => shared.consumed[at].1 = shared.consumed[at].1.add(amount),
            Err(at) => shared.consumed.insert(at, (key.clone(), amount.clone())),
        }
    }
}
