//! The index of what claims hold, and the rule for one more allocation.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_model::{CounterConsumption, DeviceId, ObjectKey, PoolId, Quantity, Text};

use crate::{
    Given, Reason, Refusal, SliceFacts,
    pools::{DeviceFacts, Pools},
};

/// An allocation on its way to the store. Until its outcome is known it counts beside what claims hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reservation(u64);

/// Devices that claims hold, and devices whose allocation is in flight.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    claims: BTreeMap<ObjectKey, Vec<Given>>,
    reserved: BTreeMap<Reservation, (ObjectKey, Vec<Given>)>,
    /// The holders of each device, or of a share of it.
    devices: BTreeMap<DeviceId, BTreeSet<Holder>>,
    reservations: u64,
    pools: Pools,
    /// Something else than slices says how much capacity devices have.
    overridden: bool,
}

/// A claim as it is stored, or as it may be soon.
type Holder = (ObjectKey, Option<Reservation>);

impl Holdings {
    /// A claim holds this now; nothing: it is gone, or not allocated.
    pub fn set(&mut self, claim: &ObjectKey, given: Vec<Given>) {
        if let Some(before) = self.claims.remove(claim) {
            self.forget(&before, &(claim.clone(), None));
        }
        if !given.is_empty() {
            self.note(&given, &(claim.clone(), None));
            self.claims.insert(claim.clone(), given);
        }
    }

    /// A slice says this; nothing: it is gone, or says nothing that matters.
    pub fn set_slice(&mut self, slice: &str, facts: Option<SliceFacts>) {
        self.pools.set(slice, facts);
    }

    /// Whether something else than slices says how much capacity devices have. Then the sum of what shares take is not compared with it.
    pub fn override_capacities(&mut self, overridden: bool) {
        self.overridden = overridden;
    }

    /// Forgets all claims, but not what is on its way to them.
    pub fn clear_claims(&mut self) {
        for (claim, given) in core::mem::take(&mut self.claims) {
            self.forget(&given, &(claim, None));
        }
    }

    /// Forgets all slices.
    pub fn clear_slices(&mut self) {
        self.pools.clear();
    }

    /// An allocation that was not refused is on its way to the store.
    pub fn reserve(&mut self, claim: &ObjectKey, given: Vec<Given>) -> Reservation {
        self.reservations += 1;
        let reservation = Reservation(self.reservations);
        self.note(&given, &(claim.clone(), Some(reservation)));
        self.reserved.insert(reservation, (claim.clone(), given));
        reservation
    }

    /// The outcome of an allocation is known: it is not stored, or [`set`](Self::set) says it before it is asked for again.
    pub fn end(&mut self, reservation: Reservation) {
        if let Some((claim, given)) = self.reserved.remove(&reservation) {
            self.forget(&given, &(claim, Some(reservation)));
        }
    }

    fn note(&mut self, given: &[Given], holder: &Holder) {
        for one in given {
            self.devices.entry(one.device.clone()).or_default().insert(holder.clone());
        }
    }

    fn forget(&mut self, given: &[Given], holder: &Holder) {
        for one in given {
            if let Some(holders) = self.devices.get_mut(&one.device) {
                holders.remove(holder);
                if holders.is_empty() {
                    self.devices.remove(&one.device);
                }
            }
        }
    }

    /// Why a claim that has `before` cannot have `wanted`. Devices that it keeps are not checked, nor are devices that it gives back.
    #[must_use]
    pub fn refusal(&self, claim: &ObjectKey, before: &[Given], wanted: &[Given]) -> Option<Refusal> {
        let is_new = |one: &&Given| !before.contains(one);
        wanted.iter().filter(is_new).find_map(|one| self.refused(claim, wanted, one))
    }

    fn refused(&self, claim: &ObjectKey, wanted: &[Given], one: &Given) -> Option<Refusal> {
        let device = &one.device;
        let others = self.others_of(claim, wanted, one);
        let facts = self.pools.device(device);
        let beside = others.iter().find_map(|(holder, other)| {
            Some(Refusal {
                device: device.clone(),
                holder: (*holder).clone(),
                reason: apart(one, other, facts)?,
            })
        });
        beside
            .or_else(|| self.beyond_capacity(one, &others, facts?))
            .or_else(|| self.beyond_counters(claim, wanted, one, facts?))
    }

    /// Holdings of the same device: by other claims, and by other results of the same claim. A write in flight counts once, with its claim.
    fn others_of<'a>(
        &'a self,
        claim: &'a ObjectKey,
        wanted: &'a [Given],
        one: &'a Given,
    ) -> Vec<(&'a ObjectKey, &'a Given)> {
        let own = wanted.iter().filter(|other| !core::ptr::eq(*other, one)).map(|other| (claim, other));
        let holders = self.devices.get(&one.device).into_iter().flatten();
        let theirs = holders.filter(|(holder, _)| holder != claim).flat_map(|(holder, reservation)| {
            self.given(holder, *reservation).iter().map(move |other| (holder, other))
        });
        let mut others: Vec<(&ObjectKey, &Given)> = Vec::new();
        for (holder, other) in own.chain(theirs).filter(|(_, other)| other.device == one.device) {
            let is_known = others.iter().any(|(known, given)| *known == holder && given.share == other.share);
            if !is_known {
                others.push((holder, other));
            }
        }
        others
    }

    fn given(&self, claim: &ObjectKey, reservation: Option<Reservation>) -> &[Given] {
        let given = match reservation {
            None => self.claims.get(claim),
            Some(reservation) => self.reserved.get(&reservation).map(|(_, given)| given),
        };
        given.map_or(&[], Vec::as_slice)
    }

    fn beyond_capacity(
        &self,
        one: &Given,
        others: &[(&ObjectKey, &Given)],
        facts: &DeviceFacts,
    ) -> Option<Refusal> {
        if self.overridden {
            return None;
        }
        let exceeded = facts.capacity.iter().find_map(|(name, has)| {
            let takers = others.iter().filter_map(|(holder, other)| Some((holder, other.takes(name)?)));
            let mut sum = one.takes(name)?.clone();
            let mut last = None;
            for (holder, amount) in takers {
                sum = sum.add(amount);
                last = Some(holder);
            }
            (sum > *has).then_some((name, last?))
        });
        exceeded.map(|(name, holder)| Refusal {
            device: one.device.clone(),
            holder: (*holder).clone(),
            reason: Reason::Capacity(name.clone()),
        })
    }

    /// The counters of the pool are drawn from once for each device that is held, however many shares of it are.
    fn beyond_counters(
        &self,
        claim: &ObjectKey,
        wanted: &[Given],
        one: &Given,
        facts: &DeviceFacts,
    ) -> Option<Refusal> {
        if facts.consumes.is_empty() {
            return None;
        }
        let pool = one.device.pool_id();
        let mut held: BTreeMap<&DeviceId, &ObjectKey> = BTreeMap::new();
        for given in wanted.iter().filter(|given| in_pool(&given.device, &pool)) {
            held.insert(&given.device, claim);
        }
        let from = DeviceId { driver: pool.driver.clone(), pool: pool.pool.clone(), device: Text::default() };
        for (device, holders) in self.devices.range(from..).take_while(|(device, _)| in_pool(device, &pool)) {
            if let Some((holder, _)) = holders.iter().find(|(holder, _)| holder != claim) {
                held.entry(device).or_insert(holder);
            }
        }
        held.remove(&one.device);
        facts.consumes.iter().find_map(|consumed| self.beyond_set(&pool, one, consumed, &held))
    }

    fn beyond_set(
        &self,
        pool: &PoolId,
        one: &Given,
        consumed: &CounterConsumption,
        held: &BTreeMap<&DeviceId, &ObjectKey>,
    ) -> Option<Refusal> {
        let set = self.pools.counters(pool, &consumed.counter_set)?;
        consumed.counters.iter().find_map(|(counter, amount)| {
            let has = amount_of(&set.counters, counter)?;
            let (mut sum, mut last) = (amount.clone(), None);
            for (device, holder) in held {
                if let Some(taken) = self.takes_of_counter(device, &consumed.counter_set, counter) {
                    sum = sum.add(taken);
                    last = Some(*holder);
                }
            }
            let holder = last.filter(|_| sum > *has)?;
            let reason = Reason::Counter { set: consumed.counter_set.clone(), counter: counter.clone() };
            Some(Refusal { device: one.device.clone(), holder: holder.clone(), reason })
        })
    }

    fn takes_of_counter(&self, device: &DeviceId, set: &Text, counter: &Text) -> Option<&Quantity> {
        let consumes = &self.pools.device(device)?.consumes;
        let of_set = consumes.iter().find(|consumed| consumed.counter_set == *set)?;
        amount_of(&of_set.counters, counter)
    }
}

/// Why two results cannot have the same device, whatever they take of it.
fn apart(one: &Given, other: &Given, facts: Option<&DeviceFacts>) -> Option<Reason> {
    let (Some(share), Some(others)) = (&one.share, &other.share) else { return Some(Reason::Held) };
    if !facts.is_some_and(|facts| facts.is_shared) {
        return Some(Reason::NotShared);
    }
    (share == others).then(|| Reason::SameShare(share.clone()))
}

fn in_pool(device: &DeviceId, pool: &PoolId) -> bool {
    device.driver == pool.driver && device.pool == pool.pool
}

fn amount_of<'a>(counters: &'a [(Text, Quantity)], counter: &Text) -> Option<&'a Quantity> {
    counters.iter().find(|(name, _)| name == counter).map(|(_, amount)| amount)
}
