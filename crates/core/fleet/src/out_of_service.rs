//! How much of what a guard selects is out of service, or was so within the window of its breaker.

use alloc::collections::BTreeSet;

use lazaret_model::{
    Breaker, BreakerUnit, Counted, DeviceSelector, DisruptionGuard, RecentlyOut, Timestamp, Unit,
};

use crate::{DeviceRef, Fleet};

/// Counts what a breaker is about. Costs the devices that the guard selects.
#[must_use]
pub fn count_out_of_service(
    now: Timestamp,
    fleet: &Fleet,
    guard: &DisruptionGuard,
    breaker: &Breaker,
    recent: &mut RecentlyOut,
) -> Counted {
    let all = DeviceSelector::default();
    let selection = fleet.selection_of(guard.selector.as_ref().unwrap_or(&all));
    let is_out = |device: &DeviceRef<'_>| device.is_out_of_service();
    let window = breaker.window_seconds;
    match &breaker.of {
        BreakerUnit::Devices if window == 0 => Counted {
            out: selection.published().filter(is_out).count() as u64,
            total: selection.published_count() as u64,
            ..Counted::default()
        },
        BreakerUnit::Devices => {
            let out = selection.published().filter(is_out).map(|device| Unit::Device(device.id())).collect();
            let is_there = |unit: &Unit| matches!(unit, Unit::Device(id) if fleet.device(id).is_some());
            let total = selection.published_count() as u64;
            counted(now, out, total, (window, recent), is_there)
        }
        of @ (BreakerUnit::Nodes | BreakerUnit::FaultDomains { .. }) => {
            let (mut out, mut total) = (BTreeSet::<Unit>::new(), BTreeSet::new());
            for device in selection.published() {
                let Some(unit) = device.unit(of) else { continue };
                if is_out(&device) {
                    out.insert(unit.clone());
                }
                total.insert(unit);
            }
            counted(now, out, total.len() as u64, (window, recent), |unit| total.contains(unit))
        }
    }
}

/// Counts the units that are out of service, and those that were within the window and still exist.
fn counted(
    now: Timestamp,
    out: BTreeSet<Unit>,
    total: u64,
    (window, recent): (i64, &mut RecentlyOut),
    is_there: impl Fn(&Unit) -> bool,
) -> Counted {
    let out_now = out.len() as u64;
    if window == 0 {
        return Counted { out: out_now, total, ..Counted::default() };
    }
    recent.see(now, window, out);
    let back = recent.back().filter(|unit| is_there(unit)).count() as u64;
    let recent_now = (back + recent.inherited()).min(total.saturating_sub(out_now));
    let recent_until = recent.ends(window).map(|(_, last)| last).filter(|_| recent_now > 0);
    Counted { out: out_now + recent_now, total, recent: recent_now, recent_until }
}
