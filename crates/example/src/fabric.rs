//! A fabric: devices in a rack of their own that can be attached to any of its nodes. A classic driver allocates them, because
//! only the fabric knows how many ports of a node are free.
//!
//! The fabric itself is what [`Fabric`] plays: it remembers attachments by the UID of the claim, whatever becomes of the controller that asked for
//! them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lazaret_driver::{
    Failure,
    controller::{
        Allocate, Allocation, Controller, Deallocate, ExamineNodes, NodeSelector, NodeSelectorTerm, Operator,
        Refusal, Requirement, Suitability,
    },
};

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
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// By the UID of the claim: the device, and the node that it is attached to; `None`: any.
    attached: BTreeMap<String, (usize, Option<String>)>,
    /// Nodes that are not part of the fabric.
    outside: BTreeSet<String>,
}

impl Fabric {
    /// A fabric of which nothing is attached.
    #[must_use]
    pub fn new(options: FabricOptions) -> Self {
        Self { options, state: Arc::default() }
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn work(&self) {
        if !self.options.delay.is_zero() {
            tokio::time::sleep(self.options.delay).await;
        }
    }
}

impl State {
    fn free_device(&self, devices: usize) -> Option<usize> {
        let taken: BTreeSet<usize> = self.attached.values().map(|(device, _)| *device).collect();
        (0..devices).find(|device| !taken.contains(device))
    }

    fn has_port(&self, node: &str, ports: usize) -> bool {
        let used = self.attached.values().filter(|(_, at)| at.as_deref() == Some(node)).count();
        used < ports && !self.outside.contains(node)
    }
}

impl Controller for Fabric {
    async fn allocate(&self, claim: &Allocate) -> Result<Allocation, Refusal> {
        self.work().await;
        let (uid, node) = (claim.uid.to_string(), claim.node.as_ref().map(ToString::to_string));
        let mut state = self.state();
        let held = state.attached.get(&uid).filter(|(_, at)| *at == node).map(|(device, _)| *device);
        let device = match held {
            Some(device) => device,
            None => {
                let is_possible =
                    node.as_ref().is_none_or(|node| state.has_port(node, self.options.ports_per_node));
                let device = state.free_device(self.options.devices).filter(|_| is_possible);
                let device = device.ok_or(Refusal::Failed)?;
                state.attached.insert(uid, (device, node.clone()));
                device
            }
        };
        let attributes =
            [(DEVICE_ATTRIBUTE, format!("fabric-{device}")), (POOL_ATTRIBUTE, FABRIC_POOL.to_owned())];
        Ok(Allocation {
            attributes: attributes.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            available_on_nodes: node.map(|node| Arc::new(only(&node))),
            user_limit: self.options.user_limit,
        })
    }

    async fn deallocate(&self, claim: &Deallocate) -> Result<(), Failure> {
        self.work().await;
        self.state().attached.remove(claim.uid.as_str());
        Ok(())
    }

    async fn unsuitable_nodes(&self, claim: &ExamineNodes) -> Result<Suitability, Failure> {
        self.work().await;
        let state = self.state();
        let is_full = state.free_device(self.options.devices).is_none();
        let unsuitable = |node: &&lazaret_driver::controller::Name| {
            is_full || !state.has_port(node, self.options.ports_per_node)
        };
        Ok(Suitability {
            unsuitable_nodes: claim.nodes.iter().filter(unsuitable).cloned().collect(),
            available_on_nodes: None,
        })
    }
}

fn only(node: &str) -> NodeSelector {
    let requirement =
        Requirement { key: "metadata.name".into(), operator: Operator::In, values: vec![node.into()] };
    let term = NodeSelectorTerm { match_expressions: Vec::new(), match_fields: vec![requirement] };
    NodeSelector { terms: vec![term] }
}
