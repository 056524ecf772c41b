//! The usage of devices with open incidents, told to the machine when it changes.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};

use lazaret_fleet::{Changes, Fleet};
use lazaret_lifecycle::{Input as CoreInput, Lifecycle, TaintKeyValue};
use lazaret_model::{DeviceId, DeviceResult, Effect, Patience, Taint, Text, patience};

/// Pods that are named where they stay on a device.
const NAMED_MAX: usize = 3;

/// The namespaces whose claims hold each device, and why they stay, as a machine knows them.
#[derive(Debug, Default)]
pub struct Usage {
    told: BTreeMap<DeviceId, (Vec<Text>, Text)>,
    /// All of them were told, and nothing has changed since. A new one has told nothing.
    is_fresh: bool,
    /// The number of the newest incident by then, and how often incidents had moved to other devices.
    told_at: (u64, u64),
}

impl Usage {
    /// The fleet has changed.
    pub fn changed(&mut self, changes: &Changes) {
        self.is_fresh &= changes.claims.is_empty();
    }

    /// The machine has got this. It does not know any more who uses a device that is gone.
    pub fn told(&mut self, heard: &CoreInput) {
        if let CoreInput::DeviceGone(device) = heard {
            self.told.remove(device);
        }
    }

    /// The usage that the machine does not know: of incidents that were opened since the last call, and of all where claims have changed, or the devices of
    /// incidents.
    pub fn settle(&mut self, fleet: &Fleet, lifecycle: &Lifecycle) -> Vec<CoreInput> {
        let (numbers, moves) = self.told_at;
        let from = if self.is_fresh && moves == lifecycle.moves() { numbers } else { 0 };
        (self.is_fresh, self.told_at) = (true, (lifecycle.numbers_given(), lifecycle.moves()));
        let mut devices = BTreeMap::<DeviceId, TaintKeyValue>::new();
        for incident in lifecycle.incidents_after(from) {
            if incident.number > numbers {
                // The machine may have forgotten the device since its last incident.
                self.told.remove(&incident.device);
            }
            devices.insert(incident.device.clone(), incident.taint.clone());
        }
        if from == 0 {
            self.told.retain(|device, _| devices.contains_key(device));
        }
        let mut told = Vec::new();
        for (device, taint) in devices {
            let usage = (namespaces(fleet, &device), stays(fleet, &device, &taint));
            if self.told.get(&device) != Some(&usage) {
                self.told.insert(device.clone(), usage.clone());
                let (namespaces, stays) = usage;
                told.push(CoreInput::InUse { device, is_used: !namespaces.is_empty(), namespaces, stays });
            }
        }
        told
    }
}

/// Why a device with this taint stays in use, for people: pods that tolerate the taint for ever, and what ends it. Empty where all of them leave.
fn stays(fleet: &Fleet, device: &DeviceId, taint: &TaintKeyValue) -> Text {
    let TaintKeyValue { key, value } = taint.clone();
    let taint = Taint { key, value, effect: Effect::NoExecute, ..Taint::default() };
    let is_borne = |result: &DeviceResult| patience(&taint, &result.tolerations) == Patience::Forever;
    let mut pods: Vec<String> = Vec::new();
    for at in fleet.holders(device) {
        let mut held = fleet.held(at).filter(|held| held.device == device && !held.result_ref.admin_access);
        if let Some(claim) = fleet.claim(at).filter(|_| held.any(|held| is_borne(held.result_ref))) {
            let namespace = &claim.key.namespace;
            pods.extend(claim.reserved_for.iter().map(|pod| format!("{namespace}/{}", pod.name)));
        }
    }
    let more = pods.len().saturating_sub(NAMED_MAX);
    pods.sort();
    pods.truncate(NAMED_MAX);
    let Some(first) = pods.first() else { return Text::default() };
    let (namespace, name) = first.split_once('/').unwrap_or_default();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "pod {}{more}, which tolerates the taint {taint}: it ends by itself, or with kubectl delete pod -n {namespace} {name}",
        pods.join(", pod ")
    )
    .into()
}

/// The namespaces of the claims that use a device, each once. A claim with admin access does not use it.
fn namespaces(fleet: &Fleet, device: &DeviceId) -> Vec<Text> {
    let uses =
        |claim: &_| fleet.held(*claim).any(|held| held.device == device && !held.result_ref.admin_access);
    let claims = fleet.holders(device).filter(uses).filter_map(|claim| fleet.claim(claim));
    let namespaces: BTreeSet<Text> = claims.map(|claim| claim.key.namespace.clone()).collect();
    namespaces.into_iter().collect()
}
