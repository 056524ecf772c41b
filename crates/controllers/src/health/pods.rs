//! Health of devices as kubelets write it into the status of pods.

use lazaret_fleet::Fleet;
use lazaret_model::{DeviceId, ObjectKey, Text};
use lazaret_runtime::Object;
use serde::Deserialize;

/// Entries of one pod that are looked at: as many as a claim has devices, for each of several claims.
const ENTRIES_MAX: usize = 256;

/// The health of a device of one claim, from a pod's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Health {
    claim: ObjectKey,
    /// Only devices for this request.
    request: Option<Text>,
    /// `driver/pool/device`, or the name of a CDI device.
    resource: Text,
    pub(super) health: Text,
    pub(super) message: Text,
}

#[derive(Deserialize)]
struct Pod {
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    resource_claims: Vec<Claim>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claim {
    name: String,
    resource_claim_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    resource_claim_statuses: Vec<Claim>,
    container_statuses: Vec<Container>,
    init_container_statuses: Vec<Container>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    #[serde(default)]
    allocated_resources_status: Vec<Allocated>,
}

#[derive(Deserialize)]
struct Allocated {
    name: String,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    #[serde(rename = "resourceID")]
    resource_id: String,
    #[serde(default)]
    health: String,
    #[serde(default)]
    message: String,
}

/// The health of devices in a pod's status.
pub(super) fn health(object: &Object) -> Vec<Health> {
    const FIELD: &[u8] = b"allocatedResourcesStatus";
    if memchr::memmem::find(object.json(), FIELD).is_none() {
        return Vec::new();
    }
    let Ok(Pod { spec, status }) = serde_json::from_slice(object.json()) else { return Vec::new() };
    let claim_of = |entry: &str| {
        let named = spec.resource_claims.iter().chain(&status.resource_claim_statuses);
        let found =
            named.filter(|claim| claim.name == entry).find_map(|claim| claim.resource_claim_name.as_ref());
        found.map(|name| ObjectKey::new(object.key.namespace.clone(), name.as_str()))
    };
    let containers = status.container_statuses.iter().chain(&status.init_container_statuses);
    let mut all: Vec<Health> = Vec::new();
    for allocated in containers.flat_map(|container| &container.allocated_resources_status) {
        // As kubelet writes it: claim:ENTRY or claim:ENTRY/REQUEST.
        let Some(rest) = allocated.name.strip_prefix("claim:") else { continue };
        let (entry, request) = match rest.split_once('/') {
            Some((entry, request)) => (entry, Some(Text::from(request))),
            None => (rest, None),
        };
        let Some(claim) = claim_of(entry) else { continue };
        for resource in &allocated.resources {
            let one = Health {
                claim: claim.clone(),
                request: request.clone(),
                resource: resource.resource_id.as_str().into(),
                health: resource.health.as_str().into(),
                message: resource.message.as_str().into(),
            };
            if all.len() < ENTRIES_MAX && !all.contains(&one) {
                all.push(one);
            }
        }
    }
    all
}

impl Health {
    /// The device that is meant. A CDI name means the only device of its request, or the one whose name it ends in.
    pub(super) fn device(&self, fleet: &Fleet) -> Option<DeviceId> {
        let claim = fleet.claim_ix(&self.claim)?;
        let is_asked = |request: &Text| {
            self.request.as_ref().is_none_or(|wanted| {
                request == wanted || request.strip_prefix(&**wanted).is_some_and(|rest| rest.starts_with('/'))
            })
        };
        let devices: Vec<&DeviceId> = fleet
            .held(claim)
            .filter(|held| is_asked(&held.result_ref.request))
            .map(|held| held.device)
            .collect();
        let by_name = devices.iter().find(|device| device.to_string() == *self.resource);
        let by_end = || {
            let name = self.resource.rsplit(['=', '/']).next().unwrap_or_default();
            devices.iter().find(|device| *device.device == *name)
        };
        let only = || devices.first().filter(|_| devices.len() == 1);
        by_name.or_else(only).or_else(by_end).map(|device| (*device).clone())
    }
}
