//! From what is observed of devices to taints and states.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};

use k8s_openapi::{api::resource::v1::DeviceTaint, apimachinery::pkg::apis::meta::v1::Time, jiff};
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
    /// The observed detail: an error's number, for instance.
    pub detail: String,
}

/// The observation of one device at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Which.
    pub device: DeviceKey,
    /// The conditions that it has; none: it is healthy. `Err` says why it could not be observed.
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

/// How long what is shown of a condition stays, whatever else is observed of it. A count that rises with every look, or an error
/// that changes its number a thousand times a second, is one write of a slice and of a pod's status in this time.
const DETAIL_EVERY_MS: i64 = 10_000;

/// A condition of a device.
#[derive(Debug)]
struct TrackedCondition {
    phase: Phase,
    /// The detail in the taint, since when, and the last one observed after that.
    detail: String,
    shown_since: Timestamp,
    newest: Option<String>,
    /// Since when there is a taint.
    raised_at: Timestamp,
    /// Something else was shown of it before.
    has_changed: bool,
}

impl TrackedCondition {
    fn new(phase: Phase, detail: &str, now: Timestamp) -> Self {
        let detail = detail.to_string();
        Self { phase, detail, shown_since: now, newest: None, raised_at: now, has_changed: false }
    }

    /// Since when its taint is there. With another value it would be another taint to the server and begin anew: who tolerates
    /// it for ten minutes would tolerate it for as long as an error's number changes.
    fn time_added(&self) -> Option<Time> {
        let at = jiff::Timestamp::from_second(self.raised_at.as_secs()).ok();
        at.map(Time).filter(|_| self.has_changed)
    }

    fn observe(&mut self, now: Timestamp, detail: &str) {
        self.newest = Some(detail.to_string()).filter(|newest| *newest != self.detail);
        self.show_newest(now);
        if let Phase::Clearing(_) = self.phase {
            self.phase = Phase::Active;
        }
    }

    /// A taint that is not there yet has nothing to keep.
    fn newest_at(&self) -> Option<Timestamp> {
        let is_shown = !matches!(self.phase, Phase::Pending(_));
        let at = self.shown_since.plus_millis(if is_shown { DETAIL_EVERY_MS } else { 0 });
        self.newest.as_ref().map(|_| at)
    }

    fn show_newest(&mut self, now: Timestamp) {
        if self.newest_at().is_some_and(|at| at <= now)
            && let Some(newest) = self.newest.take()
        {
            self.detail = newest;
            self.shown_since = now;
            self.has_changed = !matches!(self.phase, Phase::Pending(_));
        }
    }
}

#[derive(Debug, Default)]
struct Observed {
    conditions: BTreeMap<String, TrackedCondition>,
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
                // Known conditions stay: a device that cannot be asked has not recovered.
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
            for (name, followed) in &mut observed.conditions {
                followed.show_newest(now);
                if let Phase::Pending(since) = followed.phase
                    && now.millis_since(since) >= self.table.rule(name).raise_after_ms
                {
                    followed.phase = Phase::Active;
                    (followed.shown_since, followed.raised_at) = (now, now);
                }
            }
        }
    }

    /// When time alone changes something.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        let all = self.devices.values().flat_map(|observed| &observed.conditions);
        let due = all.flat_map(|(name, followed)| {
            let raised = match followed.phase {
                Phase::Pending(since) => Some(since.plus_millis(self.table.rule(name).raise_after_ms)),
                Phase::Active | Phase::Clearing(_) => None,
            };
            [raised, followed.newest_at()]
        });
        due.flatten().min()
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
        for (name, followed) in self.tainting(device) {
            let rule = self.table.rule(name);
            let effect = rule.effect.name();
            if taints.iter().any(|taint| taint.key == rule.key && taint.effect == effect) {
                continue;
            }
            let value = Some(self.table.value_of(name, &followed.detail)).filter(|value| !value.is_empty());
            taints.push(DeviceTaint {
                key: rule.key.clone(),
                value,
                effect: effect.to_string(),
                time_added: followed.time_added(),
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
        for (name, TrackedCondition { detail, .. }) in unhealthy {
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
    fn tainting(&self, device: &DeviceKey) -> impl Iterator<Item = (&str, &TrackedCondition)> {
        let conditions = self.devices.get(device).into_iter().flat_map(|observed| &observed.conditions);
        let active = conditions.filter(|(_, followed)| !matches!(followed.phase, Phase::Pending(_)));
        let mut found: Vec<(&str, &TrackedCondition)> =
            active.map(|(name, followed)| (name.as_str(), followed)).collect();
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
            if let Some(followed) = self.conditions.get_mut(&condition.name) {
                followed.observe(now, &condition.detail);
            } else if self.conditions.len() < CONDITIONS_PER_DEVICE_MAX {
                let followed = TrackedCondition::new(begin, &condition.detail, now);
                self.conditions.insert(condition.name.clone(), followed);
            }
        }
        self.conditions.retain(|name, TrackedCondition { phase, .. }| {
            if found.iter().any(|condition| condition.name == *name) {
                return true;
            }
            let since = match *phase {
                Phase::Pending(_) => return false,
                Phase::Active => now,
                Phase::Clearing(since) => since,
            };
            *phase = Phase::Clearing(since);
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
