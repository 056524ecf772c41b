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
    /// The pods that have changed, or all; also those whose devices are known by now.
    pub(crate) fn settle_pods(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        is_all: bool,
        told: &mut Vec<CoreInput>,
    ) {
        let mut pods = core::mem::take(&mut self.changed_pods);
        if is_all {
            pods.extend(self.pods.keys().cloned());
        }
        let is_clearer = |pod: &&ObjectKey| {
            let known = self.devices_of.get(*pod).map_or(0, BTreeSet::len);
            let devices: BTreeSet<DeviceId> = self.said(fleet, pod).map(|(device, _)| device).collect();
            devices.len() > known
        };
        let clearer: Vec<ObjectKey> = self.unclear_pods.iter().filter(is_clearer).cloned().collect();
        pods.extend(clearer);
        for pod in pods {
            self.settle_pod(now, fleet, &pod, told);
        }
    }

    /// The reports of a pod, with the devices that are known to be its own.
    fn said<'a>(
        &'a self,
        fleet: &'a Fleet,
        pod: &'a ObjectKey,
    ) -> impl Iterator<Item = (DeviceId, &'a DeviceHealth)> {
        let all = self.pods.get(pod).into_iter().flatten();
        all.filter_map(|one| Some((device(one, &pod.namespace, fleet)?, one)))
    }

    fn settle_pod(&mut self, now: Timestamp, fleet: &Fleet, pod: &ObjectKey, told: &mut Vec<CoreInput>) {
        let level = |one: &DeviceHealth| {
            let message = if one.message.is_empty() {
                format!("pod {pod} reports {}", one.health)
            } else {
                format!("pod {pod} reports {}: {}", one.health, one.message)
            };
            Level { value: one.health.clone(), message: message.into(), at: None }
        };
        let mut clear = 0;
        let said = self.said(fleet, pod).inspect(|_| clear += 1).map(|(device, one)| (device, level(one)));
        let mut said: BTreeMap<DeviceId, Level> = said.collect();
        if self.pods.get(pod).map_or(0, Vec::len) > clear {
            self.unclear_pods.insert(pod.clone());
        } else {
            self.unclear_pods.remove(pod);
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
            if pods.is_empty() {
                self.health.remove(&id);
                told.push(lowered(&id, HEALTH_KEY.into(), Source::Health));
            } else {
                self.settle_health_of(&Tell { now, id: &id }, told);
            }
        }
    }

    /// The worst that pods say of a device.
    pub(crate) fn settle_health_of(&self, tell: &Tell<'_>, told: &mut Vec<CoreInput>) {
        let pods = self.health.get(tell.id).into_iter().flat_map(BTreeMap::values);
        if let Some(worst) = pods.max_by_key(|level| severity(&level.value)) {
            tell.raise(HEALTH_KEY.into(), worst, Source::Health, told);
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
