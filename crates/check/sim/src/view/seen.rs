//! The state of a client's view, with the objects in it.

use core::ops::Deref;
use std::sync::Arc;

use lazaret_lifecycle::PoolState;
use lazaret_model::{
    Device, DeviceClass, DeviceId, DeviceResult, DeviceTaintRule, Node, ObjectKey, Pod, PoolId,
    ResourceClaim, ResourceSlice, ResourceSlicePatch, Text,
};

use super::{Place, Remembered, Use, View, results};
use crate::api::{Api, Stored};

/// A view, and the objects that it speaks of: of what the server has, this shows what the client has been told.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    api: &'a Api,
    view: &'a View,
}

/// A device and its number.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Its name.
    pub id: &'a DeviceId,
    number: Option<u32>,
}

/// A pod as it was seen.
#[derive(Clone, Copy, Debug)]
pub struct SeenPod<'a> {
    /// The pod.
    pub pod: &'a Arc<Pod>,
    /// Where in the log it was written, and one more.
    pub(crate) place: u32,
}

impl Deref for SeenPod<'_> {
    type Target = Pod;
    fn deref(&self) -> &Pod {
        self.pod
    }
}

/// A claim as it was seen.
#[derive(Clone, Copy, Debug)]
pub struct SeenClaim<'a> {
    /// The claim.
    pub claim: &'a Arc<ResourceClaim>,
    /// Its version.
    pub version: u64,
    place: u32,
}

impl<'a> Seen<'a> {
    pub(super) fn new(view: &'a View, api: &'a Api) -> Self {
        Self { api, view }
    }

    /// A pod.
    #[must_use]
    pub fn pod(self, key: &ObjectKey) -> Option<SeenPod<'a>> {
        self.pod_at(self.api.pods.number(key)?)
    }

    /// All pods, in key order.
    pub fn pods(self) -> impl Iterator<Item = SeenPod<'a>> {
        self.api.pods.in_order().filter_map(move |number| self.pod_at(number))
    }

    /// The pod whose key has this number.
    pub(crate) fn pod_at(self, number: u32) -> Option<SeenPod<'a>> {
        self.pod_written(*self.view.pods.live.get(number as usize)?)
    }

    /// The pod that was written at the place before this one.
    pub(crate) fn pod_written(self, place: u32) -> Option<SeenPod<'a>> {
        self.api.pods.written(place).map(|stored| SeenPod { pod: stored.object, place })
    }

    /// The first pod whose key has this number or a higher one.
    pub(crate) fn pod_from(self, number: u32) -> Option<SeenPod<'a>> {
        let live = self.view.pods.live.get(number as usize..)?;
        self.pod_written(*live.iter().find(|place| **place != 0)?)
    }

    /// The claims that a pod names, in the order of its entries; `None` where there is none of that name.
    pub fn claims_of(self, pod: SeenPod<'a>) -> impl Iterator<Item = Option<SeenClaim<'a>>> {
        let named = self.api.catalog.of_pod(pod.place as usize - 1);
        named.iter().map(move |number| self.claim_at(*number))
    }

    fn claim_at(self, number: u32) -> Option<SeenClaim<'a>> {
        let place = *self.view.claims.live.get(number as usize)?;
        let Stored { version, object } = self.api.claims.written(place)?;
        Some(SeenClaim { claim: object, version, place })
    }

    /// The devices allocated to a claim.
    pub fn results(self, claim: SeenClaim<'a>) -> impl Iterator<Item = (&'a DeviceResult, Named<'a>)> {
        results(self.api, claim.place)
            .map(|(result, number)| (result, Named { id: &result.device, number: Some(number) }))
    }

    /// A rule.
    #[must_use]
    pub fn rule(self, name: &Text) -> Option<&'a Arc<DeviceTaintRule>> {
        self.api.rules.get_in(&self.view.rules.live, name).map(|stored| stored.object)
    }

    /// All rules, by name.
    pub fn rules(self) -> impl Iterator<Item = &'a Arc<DeviceTaintRule>> {
        self.api.rules.iter_in(&self.view.rules.live).map(|stored| stored.object)
    }

    /// A node.
    #[must_use]
    pub fn node(self, name: &Text) -> Option<&'a Arc<Node>> {
        self.api.nodes.get_in(&self.view.nodes.live, name).map(|stored| stored.object)
    }

    /// All patches, by name.
    pub fn patches(self) -> impl Iterator<Item = &'a Arc<ResourceSlicePatch>> {
        self.api.patches.iter_in(&self.view.patches.live).map(|stored| stored.object)
    }

    /// A class.
    #[must_use]
    pub fn class(self, name: &Text) -> Option<&'a Arc<DeviceClass>> {
        self.api.classes.get_in(&self.view.classes.live, name).map(|stored| stored.object)
    }

    /// A device by its name.
    #[must_use]
    pub fn device<'i>(self, id: &'i DeviceId) -> Named<'i> {
        Named { id, number: self.api.catalog.find(id) }
    }

    /// Devices held by some claim.
    pub fn held(self) -> impl Iterator<Item = DeviceId> {
        let held = (0..).zip(&self.view.uses).filter(|(_, used)| **used != Use::default());
        held.map(move |(device, _)| self.api.catalog.id(device))
    }

    /// The newest slice that has a device, be its generation over or not.
    fn place(self, device: Named<'_>) -> Option<(Place, &'a ResourceSlice)> {
        let place = *self.view.places.get(device.number? as usize)?;
        Some((place, self.api.slices.written(place.slice)?.object))
    }

    /// Whether some slice has a device, be its generation over or not.
    pub(crate) fn lists(self, id: &DeviceId) -> bool {
        self.place(self.device(id)).is_some()
    }

    /// The slice and the record that stand for a device.
    #[must_use]
    pub fn published(self, device: Named<'_>) -> Option<(&'a ResourceSlice, &'a Device)> {
        let (place, slice) = self.place(device).filter(|(place, _)| !place.over)?;
        Some((slice, &slice.devices[place.at as usize]))
    }

    /// Whether a device can be given out: it is published in the newest generation of its pool, and that is complete.
    #[must_use]
    pub fn is_allocatable(self, device: Named<'_>) -> bool {
        let pool = device.number.map(|number| self.api.catalog.pool_of(number));
        let pool = pool.and_then(|pool| self.view.pools.get(pool as usize));
        let published = self.published(device);
        pool.zip(published)
            .is_some_and(|(pool, (slice, _))| !pool.rolling && slice.pool.generation == pool.newest)
    }

    /// All pools, and whether the slices of their newest generation are all there, as the first of them says.
    pub(crate) fn pools(self) -> impl Iterator<Item = (PoolId, PoolState)> {
        (0..).zip(&self.view.pools).map(move |(number, pool)| {
            let slices = || pool.slices.iter().filter_map(|slice| self.api.slices.written(*slice));
            let newest = slices().map(|stored| stored.object.pool.generation).max();
            let mut members = slices().filter(|stored| Some(stored.object.pool.generation) == newest);
            let wanted = members.next().map(|first| first.object.pool.slice_count);
            let there = i64::try_from(members.count()).unwrap_or(i64::MAX).saturating_add(1);
            let state = match wanted {
                None => PoolState::Gone,
                Some(wanted) if wanted == there => PoolState::Complete,
                Some(_) => PoolState::Incomplete,
            };
            (self.api.catalog.pool_id(number).clone(), state)
        })
    }

    /// The slices of taints that count for a device published in a slice of this generation: those of its own, and
    /// those that count for the pool.
    pub fn taint_slices(self, device: Named<'_>, generation: i64) -> impl Iterator<Item = &'a ResourceSlice> {
        let pool = device.number.map(|number| self.api.catalog.pool_of(number));
        let pool = pool.and_then(|pool| self.view.pools.get(pool as usize));
        let (newest, rolling) = pool.map_or((0, false), |pool| (pool.newest, pool.rolling));
        let slices = pool.map_or(&[][..], |pool| &pool.slices).iter();
        slices.filter_map(move |slice| self.api.slices.written(*slice)).map(|stored| &**stored.object).filter(
            move |slice| {
                let of = slice.pool.generation;
                !slice.taints.is_empty() && (rolling || of == newest || of == generation)
            },
        )
    }

    /// The known state of a device: as some slice has it, be its generation over, else as remembered for its holder.
    #[must_use]
    pub fn known(self, device: Named<'_>) -> Option<&'a Device> {
        if let Some((place, slice)) = self.place(device) {
            return Some(&slice.devices[place.at as usize]);
        }
        match *self.view.remembered.get(&device.number?)? {
            Remembered::Slice(slice, at) => {
                Some(&self.api.slices.written(slice)?.object.devices[at as usize])
            }
            Remembered::Claim(claim, at) => {
                Some(&self.api.claims.written(claim)?.object.last_published[at as usize].device)
            }
        }
    }

    /// Whether what is known of a device is what a claim says of it.
    #[must_use]
    pub fn knows_from_claim(self, device: Named<'_>) -> bool {
        let known = device.number.and_then(|number| self.view.remembered.get(&number));
        self.place(device).is_none() && matches!(known, Some(Remembered::Claim(..)))
    }

    /// The use of a device by claims.
    #[must_use]
    pub fn used(self, device: Named<'_>) -> Use {
        device.number.map(|number| self.view.used(number)).unwrap_or_default()
    }
}
