//! Signals that somebody wrote down and that last until they are deleted: alerts that fire.

use alloc::collections::{BTreeMap, BTreeSet};

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, Text, Timestamp, Uid};

use super::{Reconciler, Report};
use crate::effect::Input as CoreInput;

/// Alerts that fire, by device and name.
#[derive(Debug, Default)]
pub(super) struct Alerts {
    by_device: BTreeMap<DeviceId, BTreeMap<Text, Report>>,
    devices: BTreeMap<Text, DeviceId>,
    /// When they are over although nobody said so.
    ends: BTreeSet<(Timestamp, Text)>,
    /// Those that are over in this way, with their incarnation: to be deleted.
    pub(super) over: BTreeMap<Text, Uid>,
}

impl Reconciler {
    /// An alert fires. A follower takes it in as well: to a new leader, a signal that lasts is not news.
    pub(super) fn alert(&mut self, now: Timestamp, report: Report) {
        let (name, device) = (report.name.clone(), report.signal.device.clone());
        if report.until.is_some_and(|until| until <= now) {
            self.alert_gone(now, &name);
            self.alerts.over.insert(name, report.uid);
            return;
        }
        self.alerts.over.remove(&name);
        let known = self.alerts.devices.get(&name).and_then(|of| self.alerts.by_device.get(of)?.get(&name));
        if let Some(until) = known.and_then(|known| known.until) {
            self.alerts.ends.remove(&(until, name.clone()));
        }
        if let Some(until) = report.until {
            self.alerts.ends.insert((until, name.clone()));
        }
        if self.alerts.devices.get(&name).is_some_and(|known| *known != device) {
            self.alert_gone(now, &name);
        }
        self.alerts.devices.insert(name.clone(), device.clone());
        self.lifecycle.handle(now, CoreInput::Raised(report.signal.clone()));
        self.alerts.by_device.entry(device).or_default().insert(name, report);
    }

    /// An alert is over. Another with the same key may go on.
    pub(super) fn alert_gone(&mut self, now: Timestamp, name: &Text) {
        self.alerts.over.remove(name);
        let Some(device) = self.alerts.devices.remove(name) else { return };
        let Some(alerts) =
            invariant!(self.alerts.by_device.get_mut(&device), "the device of an alert has alerts")
        else {
            return;
        };
        let Some(gone) = invariant!(alerts.remove(name), "an alert is filed under its device") else {
            return;
        };
        if let Some(until) = gone.until {
            self.alerts.ends.remove(&(until, name.clone()));
        }
        let (key, source) = (gone.signal.key, gone.signal.source);
        let other = alerts.values().find(|other| other.signal.key == key && other.signal.source == source);
        let heard = match other {
            Some(other) => CoreInput::Raised(other.signal.clone()),
            None => CoreInput::Lowered { device: device.clone(), key, source },
        };
        if alerts.is_empty() {
            self.alerts.by_device.remove(&device);
        }
        self.lifecycle.handle(now, heard);
    }

    /// Alerts whose end was lost: their signals last no longer than they say themselves.
    pub(super) fn end_alerts(&mut self, now: Timestamp) {
        while let Some((until, name)) = self.alerts.ends.first().cloned()
            && until <= now
        {
            let uid = self.alerts.devices.get(&name).and_then(|device| {
                let report = self.alerts.by_device.get(device)?.get(&name)?;
                Some(report.uid.clone())
            });
            self.alert_gone(now, &name);
            self.alerts.ends.remove(&(until, name.clone()));
            self.alerts.over.extend(uid.map(|uid| (name, uid)));
        }
    }

    /// When the next of them is over.
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        self.alerts.ends.first().map(|(until, _)| *until)
    }

    /// A device is new, or is selected by other policies: alerts that fire are raised for them.
    pub(super) fn raise_alerts(&mut self, now: Timestamp, device: &DeviceId) {
        let signals = self.alerts.by_device.get(device).into_iter().flat_map(|alerts| alerts.values());
        let signals: alloc::vec::Vec<_> = signals.map(|report| report.signal.clone()).collect();
        for signal in signals {
            self.lifecycle.handle(now, CoreInput::Raised(signal));
        }
    }
}
