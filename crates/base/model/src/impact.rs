//! How much a rule or a taint reaches.

use core::fmt;

/// How much a rule reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Impact {
    /// Pods that it evicts, or would.
    pub pods: u64,
    /// Namespaces of those pods.
    pub namespaces: u64,
    /// Devices that it taints, or would.
    pub devices: u64,
}

impl Impact {
    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            pods: self.pods.max(other.pods),
            namespaces: self.namespaces.max(other.namespaces),
            devices: self.devices.max(other.devices),
        }
    }

    /// Whether something that was approved as it reached this much may reach so much now: it has grown by no more than a tenth.
    #[must_use]
    pub fn covers(self, now: Self) -> bool {
        let within = |now: u64, seen: u64| now.saturating_mul(10) <= seen.saturating_mul(11);
        within(now.pods, self.pods)
            && within(now.namespaces, self.namespaces)
            && within(now.devices, self.devices)
    }
}

impl fmt::Display for Impact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pods, namespaces, devices } = *self;
        let several = |count: u64| if count == 1 { "" } else { "s" };
        write!(
            f,
            "{pods} pod{} in {namespaces} namespace{} on {devices} device{}",
            several(pods),
            several(namespaces),
            several(devices)
        )
    }
}
