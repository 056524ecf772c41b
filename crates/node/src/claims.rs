//! What a node knows of claims and pods.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use crate::{
    NodeError,
    checkpoint::{ClaimState, DeviceState, DriverState, Nothing},
};

/// A claim by name. The UID tells it from an earlier claim of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimId {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its incarnation.
    pub uid: String,
}

/// A claim as it is in the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimView {
    /// Which.
    pub id: ClaimId,
    /// The UID of the pod that controls it, if one does.
    pub controller: Option<String>,
    /// UIDs of pods that may use it.
    pub reserved_for: BTreeSet<String>,
    /// Drivers with results in its allocation; none: it is not allocated.
    pub drivers: Option<BTreeSet<String>>,
}

/// A pod as far as claims are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Its incarnation.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The claims it uses, by the name of the object.
    pub claims: Vec<PodClaim>,
}

/// A claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    /// The object; none: there is to be one, and it is not made yet.
    pub name: Option<String>,
    /// It was made from a template for this pod, which must control it.
    pub is_generated: bool,
}

/// Phases of one claim on this node. Only what the checkpoint holds survives a restart: then it counts as not prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Plugins may know of it.
    Noted,
    Prepared,
    Unpreparing,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) uid: String,
    pub(crate) pods: BTreeSet<String>,
    pub(crate) drivers: BTreeMap<String, Vec<DeviceState>>,
    pub(crate) phase: Phase,
}

/// Namespace and name.
pub(crate) type Key = (String, String);

impl Entry {
    pub(crate) fn state(&self, (namespace, name): &Key) -> ClaimState {
        let driver = |(name, devices): (&String, &Vec<DeviceState>)| {
            (name.clone(), DriverState { devices: devices.clone(), skipped: Vec::new() })
        };
        ClaimState {
            uid: self.uid.clone(),
            name: name.clone(),
            namespace: namespace.clone(),
            pods: self.pods.iter().map(|pod| (pod.clone(), Nothing {})).collect(),
            drivers: self.drivers.iter().map(driver).collect(),
        }
    }

    pub(crate) fn restored(state: ClaimState) -> (Key, Self) {
        let entry = Self {
            uid: state.uid,
            pods: state.pods.into_keys().collect(),
            drivers: state.drivers.into_iter().map(|(name, driver)| (name, driver.devices)).collect(),
            phase: Phase::Noted,
        };
        ((state.namespace, state.name), entry)
    }
}

/// Checks that a pod may use a claim. Changes nothing: a pod that fails here can be deleted although no driver is there.
pub(crate) fn check<'a>(
    pod: &PodView,
    claim: &PodClaim,
    found: &'a BTreeMap<String, ClaimView>,
) -> Result<&'a ClaimView, NodeError> {
    let name = claim.name.as_ref().ok_or(NodeError::ClaimNotCreated)?;
    let view = found.get(name).ok_or_else(|| NodeError::ClaimMissing(name.clone()))?;
    if claim.is_generated && view.controller.as_ref() != Some(&pod.uid) {
        return Err(NodeError::NotOwned { claim: name.clone(), pod: pod.name.clone() });
    }
    if !view.reserved_for.contains(&pod.uid) {
        return Err(NodeError::NotReserved {
            claim: name.clone(),
            claim_uid: view.id.uid.clone(),
            pod: pod.name.clone(),
            pod_uid: pod.uid.clone(),
        });
    }
    if view.drivers.is_none() { Err(NodeError::NotAllocated(name.clone())) } else { Ok(view) }
}
