//! From what is observed of devices to taints and states.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};

use k8s_openapi::api::resource::v1::DeviceTaint;
use lazaret_model::{Effect, Timestamp};

use crate::{DEVICES_MAX, HealthTable, TAINTS_PER_DEVICE_MAX};

/// Conditions of one device that are followed. More would be more taints than a device can have.
const CONDITIONS_PER_DEVICE_MAX: usize = TAINTS_PER_DEVICE_MAX;
/// Of a device's message. Kubelet cuts longer ones.
const MESSAGE_BYTES_MAX: usize = 1024;

/// A device of this driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKey {
    /// Its pool.
    pub pool: String,
    /// Its name in the pool.
    pub device: String,
}

/// Something that is wrong with a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The name, by which the table knows it.
    pub name: String,
    /// What was observed: an error's number, for instance.
    pub detail: String,
}

/// What was observed of one device at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Which.
    pub device: DeviceKey,
    /// What is wrong with it; nothing: it is healthy. `Err` says why it could not be observed.
    pub found: Result<Vec<Condition>, String>,
}

/// The health of a device, as pods show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// Nothing is wrong with it.
    Healthy,
    /// A condition of the table says so.
    Unhealthy,
    /// It could not be observed.
    Unknown,
}

/// The health of a device with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// How it is.
    pub state: DeviceState,
    /// Why; empty if it is healthy.
    pub message: String,
}

/// Follows the conditions of all devices.
#[derive(Debug)]
pub struct Health {
    table: HealthTable,
    devices: BTreeMap<DeviceKey, Observed>,
}

#[derive(Debug, Default)]
struct Observed {
    conditions: BTreeMap<String, (Phase, String)>,
    /// Why it could not be observed the last time.
    unobservable: Option<String>,
    /// Its conditions were observed at least once.
    is_known: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It is there since then, and not yet for long enough.
    Pending(Timestamp),
    /// There is a taint.
    Active,
    /// It is over since then, and not yet for long enough: the taint stays.
    Clearing(Timestamp),
}

impl Health {
    /// Nothing was observed yet.
    #[must_use]
    pub fn new(table: HealthTable) -> Self {
        Self { table, devices: BTreeMap::new() }
    }

    /// Takes note of what was observed. Devices that are not mentioned stay as they are.
    pub fn observe(&mut self, now: Timestamp, observations: &[Observation]) {
        for observation in observations {
            if self.devices.len() >= DEVICES_MAX && !self.devices.contains_key(&observation.device) {
                continue;
            }
            let observed = self.devices.entry(observation.device.clone()).or_default();
            match &observation.found {
                // What was known stays known: a device that cannot be asked has not recovered.
                Err(why) => observed.unobservable = Some(why.clone()),
                Ok(found) => {
                    observed.unobservable = None;
                    observed.found(now, &self.table, found);
                }
            }
        }
        self.tick(now);
    }

    /// Lets time pass: what lasted long enough becomes a taint.
    pub fn tick(&mut self, now: Timestamp) {
        for observed in self.devices.values_mut() {
            for (name, (phase, _)) in &mut observed.conditions {
                if let Phase::Pending(since) = *phase
                    && now.millis_since(since) >= self.table.rule(name).raise_after_ms
                {
                    *phase = Phase::Active;
                }
            }
        }
    }

    /// When time alone changes something.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        let pending = self.devices.values().flat_map(|observed| &observed.conditions);
        let due = pending.filter_map(|(name, (phase, _))| match phase {
            Phase::Pending(since) => Some(since.plus_millis(self.table.rule(name).raise_after_ms)),
            Phase::Active | Phase::Clearing(_) => None,
        });
        due.min()
    }

    /// Forgets devices that are not published any more.
    pub fn retain(&mut self, published: &BTreeSet<DeviceKey>) {
        self.devices.retain(|device, _| published.contains(device));
    }

    /// Whether anything was ever observed of a device.
    #[must_use]
    pub fn knows(&self, device: &DeviceKey) -> bool {
        self.devices.contains_key(device)
    }

    /// The taints of a device, one for each key and effect.
    #[must_use]
    pub fn taints(&self, device: &DeviceKey) -> Vec<DeviceTaint> {
        let mut taints: Vec<DeviceTaint> = Vec::new();
        for (name, detail) in self.tainting(device) {
            let rule = self.table.rule(name);
            let effect = rule.effect.name();
            if taints.iter().any(|taint| taint.key == rule.key && taint.effect == effect) {
                continue;
            }
            let value = Some(self.table.value_of(name, detail)).filter(|value| !value.is_empty());
            taints.push(DeviceTaint {
                key: rule.key.clone(),
                value,
                effect: effect.to_string(),
                time_added: None,
            });
        }
        taints
    }

    /// The health of a device.
    #[must_use]
    pub fn status(&self, device: &DeviceKey) -> Status {
        let Some(observed) = self.devices.get(device) else {
            return Status { state: DeviceState::Unknown, message: String::new() };
        };
        let mut message = String::new();
        let unhealthy = self.tainting(device).filter(|(name, _)| self.table.rule(name).unhealthy);
        for (name, detail) in unhealthy {
            let part = if detail.is_empty() { name.to_string() } else { format!("{name}: {detail}") };
            message = if message.is_empty() { part } else { format!("{message}; {part}") };
        }
        let state = match (&observed.unobservable, message.is_empty()) {
            (Some(why), true) => {
                message.clone_from(why);
                DeviceState::Unknown
            }
            (_, false) => DeviceState::Unhealthy,
            (None, true) => DeviceState::Healthy,
        };
        Status { state, message: cut(message) }
    }

    /// All devices of which something was observed, in order.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceKey> {
        self.devices.keys()
    }

    /// Conditions that are a taint, the worst effect first.
    fn tainting(&self, device: &DeviceKey) -> impl Iterator<Item = (&str, &str)> {
        let conditions = self.devices.get(device).into_iter().flat_map(|observed| &observed.conditions);
        let active = conditions.filter(|(_, (phase, _))| !matches!(phase, Phase::Pending(_)));
        let mut found: Vec<(&str, &str)> =
            active.map(|(name, (_, detail))| (name.as_str(), detail.as_str())).collect();
        found.sort_by_key(|(name, _)| match self.table.rule(name).effect {
            Effect::NoExecute => 0,
            Effect::NoSchedule => 1,
            Effect::None | Effect::Unknown(_) => 2,
        });
        found.into_iter()
    }
}

impl Observed {
    fn found(&mut self, now: Timestamp, table: &HealthTable, found: &[Condition]) {
        // At its first observation a device may have had the condition, and the taint, for long.
        let begin = if self.is_known { Phase::Pending(now) } else { Phase::Active };
        self.is_known = true;
        for condition in found {
            if let Some((phase, detail)) = self.conditions.get_mut(&condition.name) {
                detail.clone_from(&condition.detail);
                if let Phase::Clearing(_) = phase {
                    *phase = Phase::Active;
                }
            } else if self.conditions.len() < CONDITIONS_PER_DEVICE_MAX {
                self.conditions.insert(condition.name.clone(), (begin, condition.detail.clone()));
            }
        }
        self.conditions.retain(|name, (phase, _)| {
            if found.iter().any(|condition| condition.name == *name) {
                return true;
            }
            match *phase {
                Phase::Pending(_) => return false,
                Phase::Active => *phase = Phase::Clearing(now),
                Phase::Clearing(_) => {}
            }
            let Phase::Clearing(since) = *phase else { return true };
            now.millis_since(since) < table.rule(name).clear_after_ms
        });
    }
}

fn cut(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX - 3).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(end);
        message.push_str("...");
    }
    message
}
