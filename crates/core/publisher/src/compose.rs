//! The one way from what a driver wants to what is published: pools with the taints of health in them.

use alloc::{collections::BTreeMap, string::String};

use k8s_openapi::api::resource::v1::Device;

use crate::{DeviceKey, Health, Pool, TAINTS_PER_DEVICE_MAX};

/// The pools with the taints that health adds to those of the driver. A driver's own taint with the same key and effect
/// stays as the driver set it; where there are too many, those of health are the first to stay. Devices that are withheld
/// are left out.
#[must_use]
pub fn compose(
    pools: &BTreeMap<String, Pool>,
    health: &Health,
    is_withheld: impl Fn(&DeviceKey) -> bool,
) -> BTreeMap<String, Pool> {
    let mut composed = pools.clone();
    for (name, pool) in &mut composed {
        let key = |device: &Device| DeviceKey { pool: name.clone(), device: device.name.clone() };
        pool.devices.retain(|device| !is_withheld(&key(device)));
        for device in &mut pool.devices {
            let key = key(device);
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
