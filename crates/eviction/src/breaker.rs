//! How much of what a guard selects is out of service.

use alloc::collections::BTreeSet;

use lazaret_fleet::{DeviceRef, Fleet};
use lazaret_model::{BreakerUnit, Counted, DeviceSelector, DisruptionGuard, Unit};

/// Counts what a breaker is about. Costs the devices that the guard selects.
pub(crate) fn count(fleet: &Fleet, guard: &DisruptionGuard, of: &BreakerUnit) -> Counted {
    let all = DeviceSelector::default();
    let selection = fleet.selection_of(guard.selector.as_ref().unwrap_or(&all));
    let is_out = |device: &DeviceRef<'_>| device.taints().any(|found| found.taint.effect.blocks_allocation());
    match of {
        BreakerUnit::Devices => Counted {
            out: selection.published().filter(is_out).count() as u64,
            total: selection.published_count() as u64,
        },
        BreakerUnit::Nodes | BreakerUnit::FaultDomains { .. } => {
            let (mut out, mut total) = (BTreeSet::<Unit>::new(), BTreeSet::new());
            for device in selection.published() {
                let Some(unit) = device.unit(of) else { continue };
                if is_out(&device) {
                    out.insert(unit.clone());
                }
                total.insert(unit);
            }
            Counted { out: out.len() as u64, total: total.len() as u64 }
        }
    }
}
