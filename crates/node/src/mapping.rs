//! Which CDI names a container gets.

use alloc::{string::String, vec::Vec};

use crate::checkpoint::{ClaimState, DeviceState};

/// A claim that a container uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerClaim {
    /// The name of the object.
    pub claim: String,
    /// One request of it; none: all.
    pub request: Option<String>,
}

/// The CDI names of a container, in the order of its claims. A name that comes again is left out: runtimes differ in what they
/// do with one.
#[must_use]
pub fn cdi_ids(claims: &[ClaimState], namespace: &str, uses: &[ContainerClaim]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for used in uses {
        let found = claims.iter().filter(|claim| claim.namespace == namespace && claim.name == used.claim);
        let devices = found.flat_map(|claim| claim.drivers.values()).flat_map(|driver| &driver.devices);
        for id in devices
            .filter(|device| is_for(device, used.request.as_deref()))
            .flat_map(|device| &device.cdi_ids)
        {
            if !ids.contains(id) {
                ids.push(id.clone());
            }
        }
    }
    ids
}

fn is_for(device: &DeviceState, request: Option<&str>) -> bool {
    request.is_none_or(|request| {
        device.requests.is_empty() || device.requests.iter().any(|name| name == request)
    })
}
