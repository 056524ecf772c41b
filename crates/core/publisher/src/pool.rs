//! The pools that a driver wants to publish.

use alloc::{format, string::String, vec, vec::Vec};

use k8s_openapi::api::{
    core::v1::NodeSelector,
    resource::v1::{CounterSet, Device},
};

use crate::{COUNTER_SETS_PER_SLICE_MAX, DEVICES_PER_SLICE_MAX};

/// Whose slices a publisher looks after. It never touches those of another driver, node or scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Devices of one node. Slices name it and go with it.
    Node {
        /// The name of the Node.
        name: String,
    },
    /// One pool that a node owns and other nodes reach too. Slices name no node, and go with their owner. Several nodes
    /// may have such pools of the same driver: each looks after its own alone.
    Pool {
        /// The name of the Node that owns the slices.
        owner: String,
        /// The name of the pool.
        pool: String,
    },
    /// Devices that no single node has. Nothing removes the slices but their driver.
    Cluster,
}

impl Scope {
    /// The Node that owns the slices.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        match self {
            Self::Node { name } => Some(name),
            Self::Pool { owner, .. } => Some(owner),
            Self::Cluster => None,
        }
    }

    /// `spec.nodeName` of the slices; empty: it is not set.
    #[must_use]
    pub fn node_name(&self) -> &str {
        match self {
            Self::Node { name } => name,
            Self::Pool { .. } | Self::Cluster => "",
        }
    }

    /// The only pool there is, where there is just one.
    #[must_use]
    pub fn only_pool(&self) -> Option<&str> {
        match self {
            Self::Pool { pool, .. } => Some(pool),
            Self::Node { .. } | Self::Cluster => None,
        }
    }
}

/// From where devices of a pool can be reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Nodes {
    /// From the node of the scope; from everywhere if the scope is no node.
    #[default]
    Local,
    /// From everywhere.
    All,
    /// From these nodes.
    Selected(NodeSelector),
    /// Each device says it.
    PerDevice,
}

/// A set of devices that is published together. Devices are allocated in this order, all else being equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    /// From where its devices can be reached.
    pub nodes: Nodes,
    /// At least this generation. 0 leaves it to the publisher.
    pub generation: i64,
    /// The devices.
    pub devices: Vec<Device>,
    /// Counters that devices consume.
    pub shared_counters: Vec<CounterSet>,
    /// The attribute that says which partitions are alike.
    pub partition_type_attribute: Option<String>,
    /// Calls that kubelet need not make for these devices.
    pub skip_node_operations: Vec<String>,
}

impl Pool {
    /// A pool of these devices, for the node of the scope.
    #[must_use]
    pub fn of(devices: Vec<Device>) -> Self {
        Self { devices, ..Self::default() }
    }
}

/// The content of one slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Content {
    pub(crate) devices: Vec<Device>,
    pub(crate) shared_counters: Vec<CounterSet>,
}

/// Cuts a pool into slices: counters first, as a slice has either counters or devices. An empty pool is one empty slice, so
/// that users see that the driver is there.
pub(crate) fn split(pool: &Pool) -> Vec<Content> {
    let counters = pool.shared_counters.chunks(COUNTER_SETS_PER_SLICE_MAX);
    let counters = counters.map(|sets| Content { shared_counters: sets.to_vec(), ..Content::default() });
    let devices = pool.devices.chunks(DEVICES_PER_SLICE_MAX);
    let devices = devices.map(|devices| Content { devices: devices.to_vec(), ..Content::default() });
    let slices: Vec<Content> = counters.chain(devices).collect();
    if slices.is_empty() { vec![Content::default()] } else { slices }
}

/// The name of a slice begins with its index, so that a sorted list is in the driver's order, and the slice is found again.
pub(crate) fn name_prefix(index: usize, driver: &str, scope: &Scope) -> String {
    match scope.owner() {
        Some(owner) => format!("{index:05x}-{driver}-{owner}-"),
        None => format!("{index:05x}-{driver}-"),
    }
}

/// The index in a slice's name; none if another client named it.
pub(crate) fn index_of(name: &str) -> Option<usize> {
    let (part, _) = name.split_once('-')?;
    let index = usize::from_str_radix(part, 16).ok()?;
    (format!("{index:05x}") == part).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn device(number: usize) -> Device {
        Device { name: format!("gpu-{number}"), ..Device::default() }
    }

    #[test]
    fn pools_are_cut_at_64_devices_and_counters_come_first() {
        for (devices, counters, wanted) in [
            (0, 0, vec![(0, 0)]),
            (64, 0, vec![(64, 0)]),
            (65, 0, vec![(64, 0), (1, 0)]),
            (130, 9, vec![(0, 8), (0, 1), (64, 0), (64, 0), (2, 0)]),
        ] {
            let shared_counters = (0..counters)
                .map(|number| CounterSet { name: number.to_string(), ..CounterSet::default() })
                .collect();
            let pool = Pool { shared_counters, ..Pool::of((0..devices).map(device).collect()) };
            let cut: Vec<(usize, usize)> = split(&pool)
                .iter()
                .map(|content| (content.devices.len(), content.shared_counters.len()))
                .collect();
            assert_eq!(cut, wanted);
        }
    }

    #[test]
    fn the_index_is_the_first_part_of_the_name() {
        let node = Scope::Node { name: "n".into() };
        assert_eq!(name_prefix(31, "d.com", &node), "0001f-d.com-n-");
        assert_eq!(name_prefix(0x12_3456, "d.com", &Scope::Cluster), "123456-d.com-");
        for (name, wanted) in [
            ("0001f-d-n-x", Some(31)),
            ("123456-d-x", Some(0x12_3456)),
            ("1f-d-x", None),
            ("0001F-d-x", None),
            ("000001-d-x", None),
            ("node-d-x", None),
            ("00001", None),
            ("+0001-x", None),
        ] {
            assert_eq!(index_of(name), wanted, "{name}");
        }
    }
}
