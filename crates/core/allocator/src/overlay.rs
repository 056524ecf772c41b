//! Allocations that were decided but are not in the fleet yet.

use alloc::{collections::BTreeMap, vec::Vec};

use lazaret_model::{Allocation, PoolId, Quantity, Text, Uid};

use crate::capacity;

/// The devices and amounts held by in-flight claims, on top of those in a snapshot.
///
/// Put an allocation in when it is decided; take it out when the fleet has seen it or it was given up. A claim that
/// is in both is counted twice where amounts are summed.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    claims: BTreeMap<Uid, Vec<(PoolId, Text)>>,
    pools: BTreeMap<PoolId, BTreeMap<Text, InFlight>>,
}

/// The shares and amounts of one device held by in-flight claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    holdings: Vec<Holding>,
    pub(crate) exclusive: u32,
    pub(crate) shares: u32,
    /// Whether a share recorded amounts, be they none.
    pub(crate) consumed: Vec<(Text, Quantity)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Holding {
    claim: Uid,
    shared: bool,
    consumed: Vec<(Text, Quantity)>,
}

impl Overlay {
    /// Nothing in flight.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// How many claims are in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Whether this claim is in flight.
    #[must_use]
    pub fn contains(&self, claim: &Uid) -> bool {
        self.claims.contains_key(claim)
    }

    /// The claim of this UID will get this. Replaces what was said of the claim before.
    pub fn insert(&mut self, claim: &Uid, allocation: &Allocation) {
        self.remove(claim);
        let mut held = Vec::with_capacity(allocation.results.len());
        for result in allocation.results.iter().filter(|result| !result.admin_access) {
            let (pool, device) = (result.device.pool_id(), result.device.device.clone());
            let shared = result.share_id.is_some();
            let consumed = if shared { result.consumed_capacity.clone() } else { Vec::new() };
            let usage = self.pools.entry(pool.clone()).or_default().entry(device.clone()).or_default();
            usage.holdings.push(Holding { claim: claim.clone(), shared, consumed });
            usage.sum();
            held.push((pool, device));
        }
        self.claims.insert(claim.clone(), held);
    }

    /// The claim of this UID is not in flight any more.
    pub fn remove(&mut self, claim: &Uid) {
        for (pool, device) in self.claims.remove(claim).into_iter().flatten() {
            // It held the last device of the pool twice, as shares.
            let Some(devices) = self.pools.get_mut(&pool) else { continue };
            if let Some(usage) = devices.get_mut(&device) {
                usage.holdings.retain(|holding| holding.claim != *claim);
                usage.sum();
                if usage.holdings.is_empty() {
                    devices.remove(&device);
                }
            }
            if devices.is_empty() {
                self.pools.remove(&pool);
            }
        }
    }

    /// By device name, what is held in a pool.
    pub(crate) fn pool(&self, pool: &PoolId) -> Option<&BTreeMap<Text, InFlight>> {
        if self.pools.is_empty() { None } else { self.pools.get(pool) }
    }
}

impl InFlight {
    fn sum(&mut self) {
        (self.exclusive, self.shares) = (0, 0);
        self.consumed.clear();
        for holding in &self.holdings {
            *if holding.shared { &mut self.shares } else { &mut self.exclusive } += 1;
            capacity::add(&mut self.consumed, &holding.consumed);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use lazaret_model::{DeviceId, DeviceResult};

    use super::*;

    fn result(device: &str, share: Option<&str>, amount: i64) -> DeviceResult {
        DeviceResult {
            request: "r".into(),
            device: DeviceId::new("d", "p", device),
            admin_access: false,
            tolerations: vec![],
            binding_conditions: vec![],
            binding_failure_conditions: vec![],
            share_id: share.map(Into::into),
            consumed_capacity: vec![("mem".into(), Quantity::from_i64(amount))],
            skip_node_operations: vec![],
        }
    }

    fn allocation(results: Vec<DeviceResult>) -> Allocation {
        Allocation { results, ..Allocation::default() }
    }

    #[test]
    fn sums_what_claims_hold_and_forgets_it() {
        let pool = PoolId { driver: "d".into(), pool: "p".into() };
        let mut overlay = Overlay::new();
        overlay.insert(&"a".into(), &allocation(vec![result("x", Some("1"), 2), result("y", None, 0)]));
        overlay.insert(&"b".into(), &allocation(vec![result("x", Some("2"), 3)]));
        let x = &overlay.pool(&pool).unwrap()["x"];
        assert_eq!((x.exclusive, x.shares), (0, 2));
        assert_eq!(x.consumed, vec![("mem".into(), Quantity::from_i64(5))]);
        assert_eq!(overlay.pool(&pool).unwrap()["y"].exclusive, 1);

        overlay.insert(&"a".into(), &allocation(vec![]));
        assert_eq!(overlay.pool(&pool).unwrap()["x"].consumed, vec![("mem".into(), Quantity::from_i64(3))]);
        overlay.remove(&"b".into());
        assert!(overlay.pool(&pool).is_none() && overlay.len() == 1);
    }

    #[test]
    fn two_shares_of_the_only_device_are_forgotten_together() {
        let mut overlay = Overlay::new();
        overlay.insert(&"a".into(), &allocation(vec![result("x", Some("1"), 2), result("x", Some("2"), 3)]));
        overlay.remove(&"a".into());
        assert!(overlay.is_empty() && overlay.pools.is_empty());
    }

    #[test]
    fn admin_access_holds_nothing() {
        let mut overlay = Overlay::new();
        overlay.insert(
            &"a".into(),
            &allocation(vec![DeviceResult { admin_access: true, ..result("x", None, 0) }]),
        );
        assert!(overlay.pools.is_empty() && overlay.contains(&"a".into()));
    }
}
