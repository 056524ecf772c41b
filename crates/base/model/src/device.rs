//! A device as its driver publishes it.

use alloc::vec::Vec;
use core::fmt;

use crate::{AttrValue, NodeScope, Quantity, Taint, Text};

/// `driver/pool/device`: the identity of a device in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// The driver's name.
    pub driver: Text,
    /// The pool's name within the driver.
    pub pool: Text,
    /// The device's name within the pool.
    pub device: Text,
}

impl DeviceId {
    /// An identity from its parts.
    pub fn new(driver: impl Into<Text>, pool: impl Into<Text>, device: impl Into<Text>) -> Self {
        Self { driver: driver.into(), pool: pool.into(), device: device.into() }
    }

    /// The pool it is in.
    #[must_use]
    pub fn pool_id(&self) -> PoolId {
        PoolId { driver: self.driver.clone(), pool: self.pool.clone() }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.driver)?;
        f.write_str("/")?;
        f.write_str(&self.pool)?;
        f.write_str("/")?;
        f.write_str(&self.device)
    }
}

/// `driver/pool`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId {
    /// The driver's name.
    pub driver: Text,
    /// The pool's name within the driver.
    pub pool: Text,
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.driver, self.pool)
    }
}

/// One device in a slice.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Device {
    /// Unique in the pool.
    pub name: Text,
    /// By key as published (with or without a domain), in key order.
    pub attributes: Vec<(Text, AttrValue)>,
    /// By key as published, in key order.
    pub capacity: Vec<(Text, CapacityValue)>,
    /// The amounts that it takes of the pool's shared counters.
    pub consumes_counters: Vec<CounterConsumption>,
    /// Where it can be reached; only with [`NodeScope::PerDevice`] on the slice.
    pub nodes: Option<NodeScope>,
    /// Set by the driver.
    pub taints: Vec<Taint>,
    /// An allocation of it is usable on the chosen node alone.
    pub binds_to_node: bool,
    /// Conditions to wait for before binding; `None` differs from an empty list in pool order.
    pub binding_conditions: Option<Vec<Text>>,
    /// Conditions that mean binding failed.
    pub binding_failure_conditions: Option<Vec<Text>>,
    /// May be given to several requests at once.
    pub allow_multiple_allocations: Option<bool>,
    /// The amounts that it takes of the node's own resources, by resource, in order.
    pub node_allocatable: Vec<(Text, NodeAllocatable)>,
}

/// The amount that a device takes of a resource of its own node.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeAllocatable {
    /// The amount that the device itself stands for.
    pub mapping: Option<NodeMapping>,
    /// The further amount for each pod that uses it.
    pub per_pod: Option<Quantity>,
    /// The further amount for each container that uses it.
    pub per_container: Option<Quantity>,
}

/// How much of a node's resource a device stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeMapping {
    /// As much as is consumed of a capacity.
    Capacity {
        /// Which capacity.
        key: Text,
        /// The factor; `None`: 1.
        multiplier: Option<Quantity>,
    },
    /// This amount for the device.
    PerDevice(Quantity),
}

/// An amount that a device has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityValue {
    /// How much in all.
    pub value: Quantity,
    /// How requests for a share are rounded.
    pub policy: Option<RequestPolicy>,
}

/// Which amounts may be taken from a shared device.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RequestPolicy {
    /// Taken when a request names no amount.
    pub default: Option<Quantity>,
    /// The amounts allowed, ascending.
    pub valid_values: Vec<Quantity>,
    /// Or a range of them.
    pub valid_range: Option<ValidRange>,
}

/// A range of amounts on a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidRange {
    /// The least.
    pub min: Option<Quantity>,
    /// The most.
    pub max: Option<Quantity>,
    /// The distance between two allowed amounts.
    pub step: Option<Quantity>,
}

/// The amounts that a device takes of one counter set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterConsumption {
    /// The set's name.
    pub counter_set: Text,
    /// By counter name, in order.
    pub counters: Vec<(Text, Quantity)>,
    /// With which other devices of the set it can be given out together.
    pub compatibility_groups: Vec<Text>,
}
