//! When devices are to be looked at again.

use alloc::collections::{BTreeMap, BTreeSet};

use lazaret_model::{DeviceId, Timestamp};

/// One instant for each device, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    by_device: BTreeMap<DeviceId, Timestamp>,
    by_time: BTreeSet<(Timestamp, DeviceId)>,
}

impl Wakes {
    pub(crate) fn insert(&mut self, device: DeviceId, at: Timestamp) {
        self.remove(&device);
        self.by_time.insert((at, device.clone()));
        self.by_device.insert(device, at);
    }

    pub(crate) fn remove(&mut self, device: &DeviceId) {
        if let Some((device, at)) = self.by_device.remove_entry(device) {
            self.by_time.remove(&(at, device));
        }
    }

    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes out a device whose instant has come.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<DeviceId> {
        if self.first()? > now {
            return None;
        }
        let (_, device) = self.by_time.pop_first()?;
        self.by_device.remove(&device);
        Some(device)
    }
}
