//! Devices, shares and capacity that an allocation gives to a claim.

use alloc::vec::Vec;

use lazaret_model::{Allocation, DeviceId, Quantity, Text};

/// A device, or a share of one, that is given to a claim. Access for administration is not: it takes nothing from anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Which device.
    pub device: DeviceId,
    /// Which share of it; `None`: all of it.
    pub share: Option<Text>,
    /// How much a share takes, by capacity.
    pub consumed: Vec<(Text, Quantity)>,
}

impl Given {
    /// All that an allocation gives.
    #[must_use]
    pub fn all(allocation: &Allocation) -> Vec<Self> {
        let results = allocation.results.iter().filter(|result| !result.admin_access);
        let given = |result: &lazaret_model::DeviceResult| Self {
            device: result.device.clone(),
            share: result.share_id.clone(),
            consumed: result.consumed_capacity.clone(),
        };
        results.map(given).collect()
    }

    /// How much of a capacity it takes.
    pub(crate) fn takes(&self, capacity: &Text) -> Option<&Quantity> {
        self.consumed.iter().find(|(name, _)| name == capacity).map(|(_, amount)| amount)
    }
}
