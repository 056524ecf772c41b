//! The claims and pods of a node.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use lazaret_conflict::DeviceUse;

use crate::{
    NodeError,
    checkpoint::{
        BorrowedState, CheckpointError, ClaimState, ClaimText, DriverState, EmptyObject, HeldDevice,
    },
};

/// Which API a claim is of. A claim of each may have the same name, and each has plugins of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimKind {
    /// `resource.k8s.io`, prepared by plugins of type `DRAPlugin`.
    #[default]
    Structured,
    /// `cdi.k8s.io`, prepared by plugins of type `ResourcePlugin`.
    Classic,
}

/// A claim in the namespace of its pod.
pub type ClaimName = (ClaimKind, String);

/// A claim by name. The UID tells it from an earlier claim of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimId {
    /// Its API.
    pub kind: ClaimKind,
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
    /// UIDs of its owners: the controller of a structured claim, all owners of a classic one.
    pub owners: BTreeSet<String>,
    /// UIDs of pods that may use it.
    pub reserved_for: BTreeSet<String>,
    /// Drivers with results in its allocation; none: it is not allocated.
    pub drivers: Option<BTreeSet<String>>,
    /// The devices that it was given.
    pub devices: Vec<HeldDevice>,
    /// Of a classic claim: what its driver's controller has to say to the driver's plugin.
    pub attributes: BTreeMap<String, String>,
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
    /// Its API.
    pub kind: ClaimKind,
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
    pub(crate) drivers: BTreeMap<String, DriverState>,
    /// The devices that it was allocated, whatever its drivers answered.
    pub(crate) held: Vec<HeldDevice>,
    /// Of a classic claim, as it was read last. Not in the checkpoint: only to prepare needs them, and reads the claim first.
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) phase: Phase,
    /// As it is in the checkpoint; none: it has changed since.
    pub(crate) text: Option<ClaimText>,
}

/// API, namespace and name.
pub(crate) type Key = (ClaimKind, String, String);

impl Entry {
    pub(crate) fn state(&self, (kind, namespace, name): &Key) -> ClaimState {
        ClaimState {
            kind: *kind,
            uid: self.uid.clone(),
            name: name.clone(),
            namespace: namespace.clone(),
            pods: self.pods.iter().map(|pod| (pod.clone(), EmptyObject {})).collect(),
            drivers: self.drivers.clone(),
            held: self.held.clone(),
        }
    }

    /// Makes its text, if it has changed.
    pub(crate) fn write(&mut self, (_, namespace, name): &Key) -> Result<(), CheckpointError> {
        if self.text.is_none() {
            let (uid, pods, drivers, held) = (&self.uid, &self.pods, &self.drivers, &self.held);
            self.text = Some(ClaimText::of(&BorrowedState { uid, name, namespace, pods, drivers, held })?);
        }
        Ok(())
    }

    pub(crate) fn restored(mut state: ClaimState) -> (Key, Self) {
        // A kubelet wrote only what its drivers answered.
        if state.held.is_empty() && state.kind == ClaimKind::Structured {
            let all = state.drivers.iter().flat_map(|(driver, done)| {
                done.devices.iter().map(move |device| HeldDevice {
                    driver: driver.clone(),
                    pool: device.pool.clone(),
                    device: device.device.clone(),
                    share: device.share.clone(),
                    is_admin: false,
                })
            });
            state.held = all.collect();
        }
        let entry = Self {
            uid: state.uid,
            pods: state.pods.into_keys().collect(),
            drivers: state.drivers,
            held: state.held,
            attributes: BTreeMap::new(),
            phase: Phase::Noted,
            text: None,
        };
        ((state.kind, state.namespace, state.name), entry)
    }

    /// Whether it was given a device that it did not have when it was prepared.
    pub(crate) fn has_moved(&self, devices: &[HeldDevice]) -> bool {
        devices.iter().any(|device| !self.held.contains(device))
    }

    /// Holds these devices, and those that it had before: their drivers may have prepared them.
    pub(crate) fn hold(&mut self, devices: &[HeldDevice]) {
        for device in devices {
            if !self.held.contains(device) {
                self.held.push(device.clone());
            }
        }
    }

    /// The driver's devices that this claim holds and another one wants, if there is one.
    pub(crate) fn conflict<'a>(&self, wanted: &'a [HeldDevice]) -> Option<&'a HeldDevice> {
        wanted.iter().find(|wanted| self.held.iter().any(|held| held.as_use().excludes(&wanted.as_use())))
    }
}

impl HeldDevice {
    pub(crate) fn as_use(&self) -> DeviceUse<'_> {
        let Self { driver, pool, device, share, is_admin } = self;
        DeviceUse { driver, pool, device, share: share.as_deref(), is_admin: *is_admin }
    }
}

/// Checks that a pod may use a claim. Changes nothing: a pod that fails here can be deleted although no driver is there.
pub(crate) fn check<'a>(
    pod: &PodView,
    claim: &PodClaim,
    found: &'a BTreeMap<ClaimName, ClaimView>,
) -> Result<&'a ClaimView, NodeError> {
    let name = claim.name.as_ref().ok_or(NodeError::ClaimNotCreated)?;
    let view = found.get(&(claim.kind, name.clone())).ok_or_else(|| NodeError::ClaimMissing(name.clone()))?;
    if claim.is_generated && !view.owners.contains(&pod.uid) {
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
