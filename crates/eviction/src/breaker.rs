//! How much of what a guard selects is out of service.

use alloc::collections::BTreeSet;

use lazaret_fleet::{DeviceRef, Fleet};
use lazaret_model::{BreakerUnit, Counted, DeviceSelector, DisruptionGuard, NodeScope, Text};

/// Counts what a breaker is about. Costs the devices that the guard selects.
pub(crate) fn count(fleet: &Fleet, guard: &DisruptionGuard, of: BreakerUnit) -> Counted {
    let all = DeviceSelector::default();
    let selection = fleet.selection_of(guard.selector.as_ref().unwrap_or(&all));
    let is_out = |device: &DeviceRef<'_>| device.taints().any(|found| found.taint.effect.blocks_allocation());
    match of {
        BreakerUnit::Devices => Counted {
            out: selection.published().filter(is_out).count() as u64,
            total: selection.published_count() as u64,
        },
        BreakerUnit::Nodes => {
            let nodes = |only_out: bool| -> BTreeSet<&Text> {
                let devices = selection.published().filter(|device| !only_out || is_out(device));
                devices.filter_map(node_of).collect()
            };
            Counted { out: nodes(true).len() as u64, total: nodes(false).len() as u64 }
        }
    }
}

/// The node of a device that is on one.
fn node_of(device: DeviceRef<'_>) -> Option<&Text> {
    match device.nodes().unwrap_or_else(|| device.slice().nodes()) {
        NodeScope::Node(node) => Some(node),
        NodeScope::Selector(_) | NodeScope::All | NodeScope::PerDevice | NodeScope::Unknown => None,
    }
}
