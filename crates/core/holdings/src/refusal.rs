//! Why an allocation does not fit beside those that there are.

use core::fmt;

use lazaret_model::{DeviceId, ObjectKey, Text};

/// A device that cannot be given, and who is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The device.
    pub device: DeviceId,
    /// The claim that holds it, or what it would need.
    pub holder: ObjectKey,
    /// Why the claim cannot have the device.
    pub reason: Reason,
}

/// Why a claim cannot have a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// One of both holds all of the device.
    Held,
    /// Both want a share of a device, and no slice says that it can be shared.
    NotShared,
    /// Both have a share with this name.
    SameShare(Text),
    /// Together they would take more of this capacity than the device has.
    Capacity(Text),
    /// Together their devices would take more of a counter than the pool has.
    Counter {
        /// The set of counters.
        set: Text,
        /// The counter.
        counter: Text,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, holder, reason } = self;
        match reason {
            Reason::Held => write!(f, "device {device} is allocated to ResourceClaim {holder}"),
            Reason::NotShared => write!(
                f,
                "device {device} is allocated to ResourceClaim {holder}, and no ResourceSlice allows multiple allocations of it"
            ),
            Reason::SameShare(share) => {
                write!(f, "share {share} of device {device} is allocated to ResourceClaim {holder}")
            }
            Reason::Capacity(capacity) => write!(
                f,
                "device {device} does not have as much {capacity} left: another share is allocated to ResourceClaim {holder}"
            ),
            Reason::Counter { set, counter } => write!(
                f,
                "the pool of device {device} does not have as much of counter {counter} in set {set} left: a device that draws from it is allocated to ResourceClaim {holder}"
            ),
        }
    }
}
