//! Health of devices as kubelets write it into the status of pods.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::ToString,
    vec::Vec,
};

use lazaret_fleet::Fleet;
use lazaret_lifecycle::{Input as CoreInput, Source};
use lazaret_model::{DeviceHealth, DeviceId, ObjectKey, Text, Timestamp};

use crate::{
    levels::Levels,
    tell::{Level, Tell, lowered, severity},
};

/// The signal key of a device's health in a pod's status.
const HEALTH_KEY: &str = "health";

impl Levels {
    pub(crate) fn settle_pod(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        pod: &ObjectKey,
        told: &mut Vec<CoreInput>,
    ) {
        let mut said: BTreeMap<DeviceId, Level> = BTreeMap::new();
        for one in self.pods.get(pod).into_iter().flatten() {
            let Some(device) = device(one, &pod.namespace, fleet) else { continue };
            let message = if one.message.is_empty() {
                format!("pod {pod} reports {}", one.health)
            } else {
                format!("pod {pod} reports {}: {}", one.health, one.message)
            };
            said.insert(device, Level { value: one.health.clone(), message: message.into(), at: None });
        }
        let devices: BTreeSet<DeviceId> = said.keys().cloned().collect();
        let mut touched = devices.clone();
        let before = match devices.is_empty() {
            true => self.devices_of.remove(pod),
            false => self.devices_of.insert(pod.clone(), devices),
        };
        touched.extend(before.into_iter().flatten());
        for id in touched {
            let pods = self.health.entry(id.clone()).or_default();
            match said.remove(&id) {
                Some(level) => drop(pods.insert(pod.clone(), level)),
                None => drop(pods.remove(pod)),
            }
            match pods.values().max_by_key(|level| severity(&level.value)) {
                Some(worst) => Tell { now, id: &id }.raise(HEALTH_KEY.into(), worst, Source::Health, told),
                None => {
                    self.health.remove(&id);
                    told.push(lowered(&id, HEALTH_KEY.into(), Source::Health));
                }
            }
        }
    }
}

/// The device of a pod in this namespace that is meant. A CDI name means the only device of its request, or the one whose name it ends in.
fn device(health: &DeviceHealth, namespace: &Text, fleet: &Fleet) -> Option<DeviceId> {
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
