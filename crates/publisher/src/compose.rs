//! The one way from what a driver wants to what is published: pools with the taints of health in them.

use alloc::{collections::BTreeMap, string::String};

use crate::{DeviceKey, Health, Pool, TAINTS_PER_DEVICE_MAX};

/// The pools with the taints that health adds to those of the driver. A driver's own taint with the same key and effect
/// stays as the driver set it; where there are too many, those of health are the first to stay.
#[must_use]
pub fn compose(pools: &BTreeMap<String, Pool>, health: &Health) -> BTreeMap<String, Pool> {
    let mut composed = pools.clone();
    for (name, pool) in &mut composed {
        for device in &mut pool.devices {
            let key = DeviceKey { pool: name.clone(), device: device.name.clone() };
            let own = device.taints.take().unwrap_or_default();
            let mut taints = health.taints(&key);
            taints.retain(|taint| {
                !own.iter().any(|other| other.key == taint.key && other.effect == taint.effect)
            });
            taints.extend(own);
            taints.truncate(TAINTS_PER_DEVICE_MAX);
            device.taints = Some(taints).filter(|taints| !taints.is_empty());
        }
    }
    composed
}
