//! Slices: the parts of a pool that a driver publishes.

use alloc::vec::Vec;

use crate::{Device, NodeSelector, PoolId, Quantity, Taint, Text, Uid};

/// One slice of a pool. It carries devices, or shared counters, or taints.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ResourceSlice {
    /// The object's name: slices of a pool are searched in this order.
    pub name: Text,
    /// The incarnation.
    pub uid: Uid,
    /// The driver that publishes it.
    pub driver: Text,
    /// Which pool it is part of.
    pub pool: PoolSpec,
    /// From where its devices can be reached.
    pub nodes: NodeScope,
    /// At most 128.
    pub devices: Vec<Device>,
    /// Counters that the pool's devices draw from, at most 8 sets.
    pub shared_counters: Vec<CounterSet>,
    /// Taints for devices of the pool by name, at most 32; a slice of this kind has no devices.
    pub taints: Vec<SliceTaint>,
    /// Node operations that the driver does not need.
    pub skip_node_operations: Vec<Text>,
}

impl ResourceSlice {
    /// The pool that it is part of.
    #[must_use]
    pub fn pool_id(&self) -> PoolId {
        PoolId { driver: self.driver.clone(), pool: self.pool.name.clone() }
    }
}

/// A slice's place in its pool.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PoolSpec {
    /// The pool's name within the driver.
    pub name: Text,
    /// Only the highest counts.
    pub generation: i64,
    /// How many slices of this generation make the pool complete.
    pub slice_count: i64,
}

/// From where a device can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum NodeScope {
    /// On one node.
    Node(Text),
    /// On the nodes that match.
    Selector(NodeSelector),
    /// Everywhere.
    All,
    /// Each device says.
    PerDevice,
    /// In a way this version does not know: nowhere.
    #[default]
    Unknown,
}

impl NodeScope {
    /// The node whose slice it is: one that a node may write for itself. A slice of several nodes is of none.
    #[inline]
    #[must_use]
    pub fn own_node(&self) -> Option<&Text> {
        match self {
            Self::Node(node) => Some(node),
            Self::Selector(_) | Self::All | Self::PerDevice | Self::Unknown => None,
        }
    }
}

/// Amounts that the devices of a pool share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSet {
    /// Unique in the pool.
    pub name: Text,
    /// By counter name, in order.
    pub counters: Vec<(Text, Quantity)>,
}

/// A taint in a slice of taints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceTaint {
    /// The device's name within the pool. It need not exist.
    pub device: Text,
    /// The taint.
    pub taint: Taint,
}
