//! The counts of rules within their times, stored so that a restart does not lose them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{Lifecycle, rule_index::IndexedPolicy, watcher::Lasting};

/// Entries that are kept of a policy's counts, those with the newest signals. Each takes about 300 bytes of the policy's status.
pub const TALLIES_MAX: usize = 256;

/// The counts on one device for one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The device.
    pub device: DeviceId,
    /// The name of the rule.
    pub rule: Text,
    /// When signals came, the newest last.
    pub hits: Vec<Timestamp>,
    /// Signals that lasted then and were counted: key, source and value.
    pub lasting: Vec<Lasting>,
}

/// The counts of all policies.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    /// Devices on which something was counted, and how often that changed.
    counting: BTreeMap<Text, (BTreeSet<DeviceId>, u64)>,
    /// The counts of earlier machines, until the device is known.
    restored: BTreeMap<(Text, DeviceId), Vec<Tally>>,
}

impl Tallies {
    /// Something was counted.
    pub(crate) fn count(&mut self, policy: &Text, device: &DeviceId) {
        let (devices, version) = self.counting.entry(policy.clone()).or_default();
        devices.insert(device.clone());
        *version += 1;
    }

    /// The counted signals last no longer.
    pub(crate) fn changed(&mut self, policy: &Text, device: &DeviceId) {
        if let Some((devices, version)) = self.counting.get_mut(policy)
            && devices.contains(device)
        {
            *version += 1;
        }
    }

    /// Drops the counts of a device.
    pub(crate) fn forget(&mut self, policy: &Text, device: &DeviceId) {
        if let Some((devices, version)) = self.counting.get_mut(policy)
            && devices.remove(device)
        {
            *version += 1;
        }
    }

    /// Rules changed: what was counted for them means nothing any more.
    pub(crate) fn forget_policy(&mut self, policy: &Text) {
        self.restored.retain(|(of, _), _| of != policy);
        if let Some((devices, version)) = self.counting.get_mut(policy) {
            devices.clear();
            *version += 1;
        }
    }

    /// A policy is gone, and with it what was counted for it.
    pub(crate) fn drop_policy(&mut self, policy: &Text) {
        self.restored.retain(|(of, _), _| of != policy);
        self.counting.remove(policy);
    }

    pub(crate) fn take_restored(&mut self, policy: &Text, device: &DeviceId) -> Vec<Tally> {
        if self.restored.is_empty() {
            return Vec::new();
        }
        self.restored.remove(&(policy.clone(), device.clone())).unwrap_or_default()
    }
}

impl Lifecycle {
    /// An earlier machine counted this for a policy that is known.
    pub(crate) fn restore_tallies(&mut self, now: Timestamp, policy: &Text, tallies: Vec<Tally>) {
        for tally in tallies.into_iter().take(TALLIES_MAX) {
            let device = tally.device.clone();
            self.tallies.restored.entry((policy.clone(), device.clone())).or_default().push(tally);
            if self.devices.get(&device).is_some_and(|known| known.watchers.get(policy).is_some()) {
                self.restore_watcher(now, policy, &device);
            }
        }
    }

    /// A watcher was made: it goes on from what was counted before.
    pub(crate) fn restore_watcher(&mut self, now: Timestamp, policy: &Text, device: &DeviceId) {
        let restored = self.tallies.take_restored(policy, device);
        if restored.is_empty() {
            return;
        }
        // The policy is yet to come.
        let Some(found) = self.policies.get(policy) else { return };
        let void_until = void_until(self, now, device);
        let Some(watcher) = invariant!(
            self.devices.get_mut(device).and_then(|known| known.watchers.get_mut(policy)),
            "a watcher that was made is there"
        ) else {
            return;
        };
        for tally in restored {
            if let Some((index, within_ms)) = counting_rule(found, &tally.rule) {
                let recent: Vec<Timestamp> = tally
                    .hits
                    .into_iter()
                    .filter(|at| Some(*at) > void_until && *at <= now && now < at.plus_millis(within_ms))
                    .collect();
                watcher.restore(index, &recent, &tally.lasting);
                self.tallies.count(policy, device);
            }
        }
    }

    /// How often the counts of each policy changed.
    pub fn tally_versions(&self) -> impl Iterator<Item = (&Text, u64)> {
        self.tallies.counting.iter().map(|(policy, (_, version))| (policy, *version))
    }

    /// The counts for a policy, the newest first; at most [`TALLIES_MAX`].
    pub fn tallies(&mut self, policy: &Text, now: Timestamp) -> Vec<Tally> {
        let (Some(found), Some((devices, _))) =
            (self.policies.get(policy), self.tallies.counting.get_mut(policy))
        else {
            return Vec::new();
        };
        let mut all = Vec::new();
        devices.retain(|device| {
            let before = all.len();
            let watcher = self.devices.get(device).and_then(|known| known.watchers.get(policy));
            for (index, hits, lasting) in watcher.into_iter().flat_map(|watcher| watcher.counts(found, now)) {
                let rule = found.rules[index].name.clone();
                all.push(Tally { device: device.clone(), rule, hits, lasting });
            }
            all.len() > before
        });
        all.sort_by(|one, other| other.hits.last().cmp(&one.hits.last()));
        all.truncate(TALLIES_MAX);
        all
    }
}

fn counting_rule(policy: &IndexedPolicy, name: &Text) -> Option<(usize, i64)> {
    let index = policy.rules.iter().position(|rule| rule.name == *name)?;
    Some((index, policy.rules[index].count?.within_ms))
}

/// Until when counts on a device are from before a repair. The clock of an earlier machine may have been ahead.
fn void_until(lifecycle: &Lifecycle, now: Timestamp, device: &DeviceId) -> Option<Timestamp> {
    let open = lifecycle.devices.get(device).and_then(|known| known.incident);
    let open = open.and_then(|number| lifecycle.incidents.get(&number)?.void_until());
    let past = lifecycle.past.get(device).and_then(|past| past.void_until);
    open.max(past).map(|until| until.min(now))
}

/// An incident was found. The counts of its policies were stored apart from it, perhaps before the repair: then they are void.
pub(crate) fn void_counts(lifecycle: &mut Lifecycle, now: Timestamp, device: &DeviceId) {
    let Some(until) = void_until(lifecycle, now, device) else { return };
    // No policy selects it yet: what was counted comes later.
    let Some(known) = lifecycle.devices.get_mut(device) else { return };
    for (policy, watcher) in known.watchers.iter_mut() {
        watcher.forget_counts_until(until);
        lifecycle.tallies.changed(policy, device);
    }
}
