//! A claim in the fleet, and the devices that it holds.

use alloc::sync::Arc;

use lazaret_model::{DeviceResult, ResourceClaim, Text};

use crate::few::Few;

/// A claim, as a small number. Stable while the claim (by UID) exists; not given to another before
/// [`Fleet::take_changes`](crate::Fleet::take_changes) has reported it gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimIx(pub u32);

#[derive(Clone, Debug)]
pub(crate) struct ClaimEntry {
    pub(crate) claim: Arc<ResourceClaim>,
    /// The number of its name.
    pub(crate) name: u32,
    /// The devices that it holds, by the order of its allocation results.
    pub(crate) holders: Few<u32>,
    /// Pods that use it, ascending.
    pub(crate) pods: Few<u32>,
    pub(crate) noted: bool,
}

/// A device that at least one claim holds.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) pool: u32,
    pub(crate) device: Text,
    /// Claim and position of the result, ascending.
    pub(crate) results: Few<(u32, u32), 1>,
    pub(crate) place: Place,
}

/// From where a held device is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Published { slice: u32, device: usize },
    Ghost(u32),
}

/// The devices that are allocated to a claim.
#[inline]
pub(crate) fn results(claim: &ResourceClaim) -> &[DeviceResult] {
    claim.allocation.as_ref().map_or(&[], |allocation| &allocation.results)
}
