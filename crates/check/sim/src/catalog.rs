//! The pools and devices in slices and claims, by number. The numbers of a write are a function of the object written, computed once for all readers.

use lazaret_model::{DeviceId, PoolId, ResourceClaim, ResourceSlice, Text};

use crate::numbers::{Numbers, hash};

/// Numbers of pools and devices, and those in each write of a slice or a claim.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    pools: Numbers<PoolId>,
    /// By pool and name.
    devices: Numbers<(u32, Text)>,
    /// By place in the log of slices.
    slices: Vec<(u32, Run)>,
    /// By place in the log of claims.
    claims: Vec<Run>,
    /// By place in the log of pods: numbers of the claims that they name.
    pods: Vec<Run>,
    /// Numbers of devices, or of claims, write after write.
    runs: Vec<u32>,
}

/// A part of the list of numbers.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u32,
    end: u32,
}

impl Catalog {
    /// The next write of a slice.
    pub(crate) fn slice_written(&mut self, slice: Option<&ResourceSlice>) {
        let start = self.end();
        let pool = slice.map_or(u32::MAX, |slice| self.pool(&slice.driver, &slice.pool.name));
        for device in slice.into_iter().flat_map(|slice| &slice.devices) {
            let number = self.device(pool, &device.name);
            self.runs.push(number);
        }
        self.slices.push((pool, Run { start, end: self.end() }));
    }

    /// The next write of a claim.
    pub(crate) fn claim_written(&mut self, claim: Option<&ResourceClaim>) {
        let start = self.end();
        let allocation = claim.and_then(|claim| claim.allocation.as_ref());
        for result in allocation.into_iter().flat_map(|allocation| &allocation.results) {
            let pool = self.pool(&result.device.driver, &result.device.pool);
            let number = self.device(pool, &result.device.device);
            self.runs.push(number);
        }
        self.claims.push(Run { start, end: self.end() });
    }

    /// The next write of a pod, which names these claims.
    pub(crate) fn pod_written(&mut self, claims: impl Iterator<Item = u32>) {
        let start = self.end();
        self.runs.extend(claims);
        self.pods.push(Run { start, end: self.end() });
    }

    /// How many writes of slices, claims and pods have been looked at.
    pub(crate) fn seen(&self) -> (usize, usize, usize) {
        (self.slices.len(), self.claims.len(), self.pods.len())
    }

    /// The pool of the slice written at this place, and its devices.
    pub(crate) fn of_slice(&self, place: usize) -> (u32, &[u32]) {
        let (pool, run) = self.slices[place];
        (pool, self.run(run))
    }

    /// The devices of the claim written at this place.
    pub(crate) fn of_claim(&self, place: usize) -> &[u32] {
        self.run(self.claims[place])
    }

    /// The claims that the pod written at this place names.
    pub(crate) fn of_pod(&self, place: usize) -> &[u32] {
        self.run(self.pods[place])
    }

    /// The number of a device, if anybody ever spoke of it.
    pub(crate) fn find(&self, id: &DeviceId) -> Option<u32> {
        let pool = self.find_pool(&id.driver, &id.pool)?;
        self.find_device(pool, &id.device)
    }

    /// The pool of a device.
    pub(crate) fn pool_of(&self, device: u32) -> u32 {
        self.devices.thing(device).0
    }

    /// The name of a device in the cluster.
    pub(crate) fn id(&self, device: u32) -> DeviceId {
        let (pool, name) = self.devices.thing(device);
        let PoolId { driver, pool } = self.pools.thing(*pool).clone();
        DeviceId { driver, pool, device: name.clone() }
    }

    /// The name of a pool in the cluster.
    pub(crate) fn pool_id(&self, pool: u32) -> &PoolId {
        self.pools.thing(pool)
    }

    /// How many pools there are.
    pub(crate) fn pools(&self) -> usize {
        self.pools.len()
    }

    /// How many devices there are.
    pub(crate) fn devices(&self) -> usize {
        self.devices.len()
    }

    fn find_pool(&self, driver: &Text, pool: &Text) -> Option<u32> {
        let hash = hash(&(driver, pool));
        self.pools.find(hash, |known| known.pool == *pool && known.driver == *driver)
    }

    fn find_device(&self, pool: u32, name: &Text) -> Option<u32> {
        self.devices.find(hash(&(pool, name)), |known| known.0 == pool && known.1 == *name)
    }

    fn pool(&mut self, driver: &Text, pool: &Text) -> u32 {
        if let Some(known) = self.find_pool(driver, pool) {
            return known;
        }
        let id = PoolId { driver: driver.clone(), pool: pool.clone() };
        self.pools.add(hash(&(driver, pool)), id)
    }

    fn device(&mut self, pool: u32, name: &Text) -> u32 {
        if let Some(known) = self.find_device(pool, name) {
            return known;
        }
        self.devices.add(hash(&(pool, name)), (pool, name.clone()))
    }

    fn run(&self, run: Run) -> &[u32] {
        &self.runs[run.start as usize..run.end as usize]
    }

    fn end(&self) -> u32 {
        u32::try_from(self.runs.len()).unwrap_or(u32::MAX)
    }
}
