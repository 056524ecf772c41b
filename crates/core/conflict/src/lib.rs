//! When two claims cannot have a device at the same time: one rule for nodes, drivers and simulated nodes.
//!
//! **Invariant.** The rule is symmetric, and follows from what the two allocations say alone. Parts of a device that overlap have names of their own: that they do
//! only their driver knows.
//!
//! It must never know who holds a device, or since when.
#![no_std]

/// A device as a claim was given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceUse<'a> {
    /// Its driver.
    pub driver: &'a str,
    /// Its pool.
    pub pool: &'a str,
    /// Its name in the pool.
    pub device: &'a str,
    /// Of a device that is shared, which share.
    pub share: Option<&'a str>,
    /// For administration: the device is not used by it.
    pub is_admin: bool,
}

impl DeviceUse<'_> {
    /// Whether two claims cannot both have it: the device is the same, none of them has it for administration, and they are not different shares of it.
    #[must_use]
    pub fn excludes(&self, other: &DeviceUse<'_>) -> bool {
        let is_same = (self.driver, self.pool, self.device) == (other.driver, other.pool, other.device);
        is_same && !self.is_admin && !other.is_admin && shares_exclude(self.share, other.share)
    }
}

/// Whether two claims cannot have the same device by these shares. Without a share a claim has all of it.
#[must_use]
pub fn shares_exclude(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other,
        (None, _) | (_, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: DeviceUse<'static> =
        DeviceUse { driver: "d", pool: "p", device: "gpu-0", share: None, is_admin: false };

    #[test]
    fn a_device_has_one_claim_unless_it_is_shared_or_looked_after() {
        let share = |name| DeviceUse { share: Some(name), ..WHOLE };
        let admin = DeviceUse { is_admin: true, ..WHOLE };
        let rows = [
            (WHOLE, WHOLE, true),
            (WHOLE, DeviceUse { device: "gpu-1", ..WHOLE }, false),
            (WHOLE, DeviceUse { pool: "q", ..WHOLE }, false),
            (WHOLE, DeviceUse { driver: "e", ..WHOLE }, false),
            (WHOLE, admin, false),
            (admin, admin, false),
            (WHOLE, share("a"), true),
            (share("a"), share("a"), true),
            (share("a"), share("b"), false),
        ];
        for (one, other, excludes) in rows {
            assert_eq!(one.excludes(&other), excludes, "{one:?} {other:?}");
            assert_eq!(other.excludes(&one), excludes, "{other:?} {one:?}");
        }
    }
}
