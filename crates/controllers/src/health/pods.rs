//! Health of devices as kubelets write it into the status of pods.

use lazaret_fleet::Fleet;
use lazaret_model::{DeviceHealth, DeviceId, ObjectKey, Text};
use lazaret_runtime::{Model, Object};

/// The health of devices in a pod's status.
pub(super) fn health(object: &Object) -> Vec<DeviceHealth> {
    let Ok(Model::Pod(pod)) = object.model() else { return Vec::new() };
    pod.rare.as_ref().map(|rare| rare.device_health.clone()).unwrap_or_default()
}

/// The device of a pod in this namespace that is meant. A CDI name means the only device of its request, or the one whose name it ends in.
pub(super) fn device(health: &DeviceHealth, namespace: &Text, fleet: &Fleet) -> Option<DeviceId> {
    let claim = fleet.claim_ix(&ObjectKey::new(namespace.clone(), health.claim.clone()))?;
    let is_asked = |request: &Text| {
        health.request.as_ref().is_none_or(|wanted| {
            request == wanted || request.strip_prefix(&**wanted).is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let devices: Vec<&DeviceId> =
        fleet.held(claim).filter(|held| is_asked(&held.result_ref.request)).map(|held| held.device).collect();
    let by_name = devices.iter().find(|device| device.to_string() == *health.resource);
    let by_end = || {
        let name = health.resource.rsplit(['=', '/']).next().unwrap_or_default();
        devices.iter().find(|device| *device.device == *name)
    };
    let only = || devices.first().filter(|_| devices.len() == 1);
    by_name.or_else(only).or_else(by_end).map(|device| (*device).clone())
}
