//! Errors of pools that can be found before a server refuses them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
};
use core::fmt;

use lazaret_model::{NameError, validate_dns_label, validate_pool_name};

use crate::{DEVICES_MAX, Pool, Scope, TAINTS_PER_DEVICE_MAX};

/// Why pools cannot be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// The name of a pool is not one.
    PoolName(String, NameError),
    /// The name of a device is not one.
    DeviceName(String, NameError),
    /// A pool has two devices of the same name.
    DuplicateDevice(String, String),
    /// A pool has two counter sets of the same name.
    DuplicateCounterSet(String, String),
    /// A device consumes a counter that its pool does not have.
    UnknownCounter {
        /// The pool.
        pool: String,
        /// The device.
        device: String,
        /// The counter, with its set.
        counter: String,
    },
    /// A device has more taints than allowed.
    TooManyTaints(String, String),
    /// There are more devices than kubelet can follow.
    TooManyDevices(usize),
    /// The scope is one pool, and others were given.
    NotTheOnlyPool {
        /// The pool of the scope.
        only: String,
        /// How many were given.
        found: usize,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PoolName(name, why) => write!(f, "pool name {name:?}: {why}"),
            Self::DeviceName(name, why) => write!(f, "device name {name:?}: {why}"),
            Self::DuplicateDevice(pool, device) => write!(f, "pool {pool} has device {device} twice"),
            Self::DuplicateCounterSet(pool, set) => write!(f, "pool {pool} has counter set {set} twice"),
            Self::UnknownCounter { pool, device, counter } => {
                write!(f, "device {device} of pool {pool} consumes {counter}, which the pool does not have")
            }
            Self::TooManyTaints(pool, device) => {
                write!(f, "device {device} of pool {pool} has more than {TAINTS_PER_DEVICE_MAX} taints")
            }
            Self::TooManyDevices(count) => {
                write!(f, "{count} devices, at most {DEVICES_MAX} can be published")
            }
            Self::NotTheOnlyPool { only, found } => {
                write!(f, "found {found} pools; expected exactly one pool with the name {only}")
            }
        }
    }
}

impl core::error::Error for PoolError {}

/// Checks pools of a scope.
///
/// # Errors
/// The first thing that is wrong.
pub fn validate(scope: &Scope, pools: &BTreeMap<String, Pool>) -> Result<(), PoolError> {
    if let Some(only) = scope.only_pool()
        && pools.keys().any(|name| name != only)
    {
        return Err(PoolError::NotTheOnlyPool { only: only.into(), found: pools.len() });
    }
    let count = pools.values().map(|pool| pool.devices.len()).sum();
    if count > DEVICES_MAX {
        return Err(PoolError::TooManyDevices(count));
    }
    for (name, pool) in pools {
        validate_pool_name(name).map_err(|why| PoolError::PoolName(name.clone(), why))?;
        check(name, pool)?;
    }
    Ok(())
}

fn check(name: &str, pool: &Pool) -> Result<(), PoolError> {
    let mut sets = BTreeMap::new();
    for set in &pool.shared_counters {
        if sets.insert(set.name.as_str(), &set.counters).is_some() {
            return Err(PoolError::DuplicateCounterSet(name.into(), set.name.clone()));
        }
    }
    let mut devices = BTreeSet::new();
    for device in &pool.devices {
        validate_dns_label(&device.name).map_err(|why| PoolError::DeviceName(device.name.clone(), why))?;
        if !devices.insert(device.name.as_str()) {
            return Err(PoolError::DuplicateDevice(name.into(), device.name.clone()));
        }
        if device.taints.as_ref().is_some_and(|taints| taints.len() > TAINTS_PER_DEVICE_MAX) {
            return Err(PoolError::TooManyTaints(name.into(), device.name.clone()));
        }
        for consumption in device.consumes_counters.iter().flatten() {
            let set = sets.get(consumption.counter_set.as_str());
            let missing = consumption
                .counters
                .keys()
                .find(|counter| !set.is_some_and(|set| set.contains_key(*counter)));
            if let Some(counter) = missing {
                let counter = alloc::format!("{}/{counter}", consumption.counter_set);
                let (pool, device) = (name.into(), device.name.clone());
                return Err(PoolError::UnknownCounter { pool, device, counter });
            }
        }
    }
    Ok(())
}
