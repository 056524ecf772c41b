//! Which CDI names a container gets, and what its status says of its devices.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use crate::{
    ClaimKind, DeviceHealth, Millis,
    checkpoint::{ClaimState, DeviceState, DriverState},
    health::Health,
};

/// A claim that a container uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerClaim {
    /// The API of the object.
    pub kind: ClaimKind,
    /// The name of the object.
    pub claim: String,
    /// One request of it; none: all.
    pub request: Option<String>,
}

/// A container and the claims that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerUse {
    /// Its name.
    pub name: String,
    /// It runs before the others. Its status says nothing of devices.
    pub is_init: bool,
    /// The claims, each with the name that it has in the pod. A claim that was made for extended resources has none.
    pub claims: Vec<(Option<String>, ContainerClaim)>,
}

/// The devices of one claim in a container's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceStatus {
    /// `claim:NAME` or `claim:NAME/REQUEST`.
    pub name: String,
    /// Its devices.
    pub resources: Vec<ResourceHealth>,
}

/// The health of a device in a container's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceHealth {
    /// Its first CDI name; without one, driver, pool and device.
    pub id: String,
    /// How it is.
    pub health: DeviceHealth,
    /// A text for people.
    pub message: Option<String>,
}

/// Results of drivers for a claim of the pod's namespace.
pub(crate) type Drivers<'a> = &'a dyn Fn(&ContainerClaim) -> Option<&'a BTreeMap<String, DriverState>>;

/// The CDI names of a container, in the order of its claims. A name that comes again is left out: runtimes differ in what they
/// do with one.
#[must_use]
pub fn cdi_ids(claims: &[ClaimState], namespace: &str, uses: &[ContainerClaim]) -> Vec<String> {
    let find = |used: &ContainerClaim| {
        let is_used = |claim: &&ClaimState| {
            claim.kind == used.kind && claim.namespace == namespace && claim.name == used.claim
        };
        claims.iter().find(is_used).map(|claim| &claim.drivers)
    };
    cdi_ids_of(&find, uses.iter())
}

pub(crate) fn cdi_ids_of<'a>(
    drivers: Drivers<'_>,
    uses: impl Iterator<Item = &'a ContainerClaim>,
) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for used in uses {
        let devices = drivers(used).into_iter().flat_map(BTreeMap::values).flat_map(|driver| &driver.devices);
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

/// The devices in the status of each container. Containers without claims are left out, and claims without
/// devices; so are classic claims, whose health no plugin reports.
pub(crate) fn statuses(
    now: Millis,
    drivers: Drivers<'_>,
    health: &Health,
    containers: &[ContainerUse],
) -> BTreeMap<String, Vec<ResourceStatus>> {
    let mut shown = BTreeMap::new();
    for container in containers.iter().filter(|container| !container.is_init) {
        let mut list: Vec<ResourceStatus> = Vec::new();
        let named = container.claims.iter().filter_map(|(name, used)| Some((name.as_ref()?, used)));
        for (name, used) in named.filter(|(_, used)| used.kind == ClaimKind::Structured) {
            let name = match &used.request {
                Some(request) => format!("claim:{name}/{request}"),
                None => format!("claim:{name}"),
            };
            let resources = resources(now, drivers, health, used);
            if !resources.is_empty() && list.iter().all(|status| status.name != name) {
                list.push(ResourceStatus { name, resources });
            }
        }
        if !list.is_empty() {
            shown.insert(container.name.clone(), list);
        }
    }
    shown
}

fn resources(
    now: Millis,
    drivers: Drivers<'_>,
    health: &Health,
    used: &ContainerClaim,
) -> Vec<ResourceHealth> {
    let mut resources: Vec<ResourceHealth> = Vec::new();
    for (driver, state) in drivers(used).into_iter().flatten() {
        for device in state.devices.iter().filter(|device| is_for(device, used.request.as_deref())) {
            let triple = || format!("{driver}/{}/{}", device.pool, device.device);
            let id = device.cdi_ids.first().cloned().unwrap_or_else(triple);
            if resources.iter().any(|known| known.id == id) {
                continue;
            }
            let (health, message) = health.of(now, driver, &(device.pool.clone(), device.device.clone()));
            resources.push(ResourceHealth { id, health, message });
        }
    }
    resources
}

/// Drivers name the request, not which of its alternatives was chosen.
fn is_for(device: &DeviceState, request: Option<&str>) -> bool {
    request.is_none_or(|request| {
        let request = request.split('/').next().unwrap_or_default();
        device.requests.is_empty()
            || device.requests.iter().any(|name| name.split('/').next() == Some(request))
    })
}
