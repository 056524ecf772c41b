//! A fabric: devices in a rack of their own that can be attached to any of its nodes. A classic driver allocates them, because
//! only the fabric knows how many ports of a node are free.
//!
//! The fabric itself is what [`Fabric`] plays: it remembers attachments by the UID of the claim, whatever becomes of the controller that asked for
//! them; in a file, if it is to outlive the process.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lazaret_driver::{
    Failure, FileError,
    controller::{
        Allocate, Allocation, Controller, Deallocate, ExamineNodes, Name, NodeSelector, NodeSelectorTerm,
        Operator, Refusal, Requirement, Suitability, TaintedDevices,
    },
    read_file, write_file,
};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::fabric_parameters::parameters;

/// The attribute of a claim that names its device.
pub const DEVICE_ATTRIBUTE: &str = "device";
/// The attribute of a claim that names its pool, by which taints mean the device.
pub const POOL_ATTRIBUTE: &str = "pool";
/// The pool of all devices of the fabric.
pub const FABRIC_POOL: &str = "fabric";

/// The size of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricOptions {
    /// Devices, which are `fabric-0` and on.
    pub devices: usize,
    /// Devices that can be attached to one node at a time.
    pub ports_per_node: usize,
    /// How long each call takes.
    pub delay: Duration,
    /// How many pods may use a claim at a time; -1 for any number.
    pub user_limit: i64,
}

impl Default for FabricOptions {
    fn default() -> Self {
        Self { devices: 64, ports_per_node: 4, delay: Duration::ZERO, user_limit: 1 }
    }
}

/// A fabric. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Fabric {
    options: FabricOptions,
    /// Devices of this driver that no further claim gets.
    tainted: Option<(String, TaintedDevices)>,
    /// Where it remembers its attachments.
    file: Option<PathBuf>,
    state: Arc<Mutex<FabricState>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FabricState {
    /// By the UID of the claim.
    attached: BTreeMap<String, Attached>,
    /// Nodes that are not part of the fabric.
    outside: BTreeSet<String>,
}

/// A device that is held for a claim, and the node that it is attached to; none: any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attached {
    device: usize,
    node: Option<String>,
}

impl Fabric {
    /// A fabric of which nothing is attached.
    #[must_use]
    pub fn new(options: FabricOptions) -> Self {
        Self { options, tainted: None, file: None, state: Arc::default() }
    }

    /// A fabric that keeps its attachments in a file, and finds the existing ones.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open(options: FabricOptions, file: PathBuf) -> Result<Self, FileError> {
        let state: FabricState = read_file(&file)?;
        Ok(Self { state: Arc::new(Mutex::new(state)), file: Some(file), ..Self::new(options) })
    }

    /// Gives no further claim a device of this driver that is tainted.
    #[must_use]
    pub fn without_tainted(self, driver: &str, tainted: &TaintedDevices) -> Self {
        Self { tainted: Some((driver.to_owned(), tainted.clone())), ..self }
    }

    /// Takes a node out of the fabric: no claim can be allocated for it.
    pub fn disconnect(&self, node: &str) {
        self.state().outside.insert(node.to_owned());
    }

    /// Brings a node back.
    pub fn connect(&self, node: &str) {
        self.state().outside.remove(node);
    }

    /// Devices that are attached.
    #[must_use]
    pub fn attached(&self) -> usize {
        self.state().attached.len()
    }

    fn state(&self) -> MutexGuard<'_, FabricState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is attached, in the file first: what was answered is never forgotten.
    fn change(
        &self,
        state: &mut FabricState,
        change: impl FnOnce(&mut FabricState),
    ) -> Result<(), FileError> {
        let mut next = state.clone();
        change(&mut next);
        if let Some(file) = &self.file {
            write_file(file, &next)?;
        }
        *state = next;
        Ok(())
    }

    async fn work(&self) {
        if !self.options.delay.is_zero() {
            tokio::time::sleep(self.options.delay).await;
        }
    }

    fn free_device(&self, state: &FabricState) -> Option<usize> {
        let taken: BTreeSet<usize> = state.attached.values().map(|attached| attached.device).collect();
        (0..self.options.devices).find(|device| !taken.contains(device) && !self.is_tainted(*device))
    }

    fn is_tainted(&self, device: usize) -> bool {
        let is_tainted = |(driver, tainted): &(String, TaintedDevices)| {
            tainted.contains(driver, FABRIC_POOL, &device_name(device))
        };
        self.tainted.as_ref().is_some_and(is_tainted)
    }
}

impl FabricState {
    fn has_port(&self, node: &str, ports: usize) -> bool {
        let used = self.attached.values().filter(|attached| attached.node.as_deref() == Some(node)).count();
        used < ports && !self.outside.contains(node)
    }
}

impl Controller for Fabric {
    async fn allocate(&self, claim: &Allocate) -> Result<Allocation, Refusal> {
        self.work().await;
        let (uid, node) = (claim.uid.to_string(), claim.node.as_ref().map(ToString::to_string));
        let mut state = self.state();
        let held = state.attached.get(&uid).filter(|held| held.node == node).map(|held| held.device);
        let device = match held {
            Some(device) => device,
            None => {
                let ports = self.options.ports_per_node;
                let is_possible = node.as_ref().is_none_or(|node| state.has_port(node, ports));
                let device = self.free_device(&state).filter(|_| is_possible).ok_or(Refusal::Failed)?;
                let attached = Attached { device, node: node.clone() };
                let noted = self.change(&mut state, |state| drop(state.attached.insert(uid, attached)));
                noted.map_err(|error| {
                    warn!(%error, claim = %claim.claim, "an attachment could not be noted");
                    Refusal::Unknown
                })?;
                device
            }
        };
        let mut attributes = parameters(&claim.class_parameters, &claim.spec.parameters);
        attributes.insert(DEVICE_ATTRIBUTE.into(), device_name(device));
        attributes.insert(POOL_ATTRIBUTE.into(), FABRIC_POOL.to_owned());
        Ok(Allocation {
            attributes: attributes.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            available_on_nodes: node.map(|node| Arc::new(only(&node))),
            user_limit: self.options.user_limit,
        })
    }

    async fn deallocate(&self, claim: &Deallocate) -> Result<(), Failure> {
        self.work().await;
        let mut state = self.state();
        if state.attached.contains_key(claim.uid.as_str()) {
            self.change(&mut state, |state| drop(state.attached.remove(claim.uid.as_str())))?;
        }
        Ok(())
    }

    async fn unsuitable_nodes(&self, claim: &ExamineNodes) -> Result<Suitability, Failure> {
        self.work().await;
        let state = self.state();
        let is_full = self.free_device(&state).is_none();
        let unsuitable = |node: &&Name| is_full || !state.has_port(node, self.options.ports_per_node);
        Ok(Suitability {
            unsuitable_nodes: claim.nodes.iter().filter(unsuitable).cloned().collect(),
            available_on_nodes: None,
        })
    }
}

fn device_name(device: usize) -> String {
    format!("fabric-{device}")
}

fn only(node: &str) -> NodeSelector {
    let requirement =
        Requirement { key: "metadata.name".into(), operator: Operator::In, values: vec![node.into()] };
    let term = NodeSelectorTerm { match_expressions: Vec::new(), match_fields: vec![requirement] };
    NodeSelector { terms: vec![term] }
}
