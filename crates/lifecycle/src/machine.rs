//! The machine.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    effect::{Effect, Input},
    incident::Incident,
    policy::Policy,
    watcher::{Fired, Watcher},
};

/// From a signal to a healthy device.
#[derive(Debug, Default)]
pub struct Lifecycle {
    pub(crate) policies: BTreeMap<Text, Policy>,
    pub(crate) devices: BTreeMap<DeviceId, Known>,
    /// Open ones, by number.
    pub(crate) incidents: BTreeMap<u64, Incident>,
    /// Since when devices are well whose incidents were cleared: one that comes soon after is a flap.
    pub(crate) cleared: BTreeMap<DeviceId, Timestamp>,
    pub(crate) effects: VecDeque<Effect>,
    pub(crate) wakes: BTreeMap<DeviceId, Timestamp>,
    next_number: u64,
}

/// Devices whose incidents were cleared, kept to tell flaps. The oldest is forgotten first.
const CLEARED_MAX: usize = 10_000;

/// What is known of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) hardware: Option<Text>,
    pub(crate) watchers: BTreeMap<Text, Watcher>,
    /// `None`: not heard yet.
    pub(crate) is_used: Option<bool>,
    pub(crate) incident: Option<u64>,
    /// When something was first noticed of it, while nothing has come of it.
    pub(crate) first_signal: Option<Timestamp>,
}

impl Lifecycle {
    /// Takes in news.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        match input {
            Input::Policy(policy) => {
                for known in self.devices.values_mut() {
                    if let Some(watcher) = known.watchers.get_mut(&policy.name) {
                        watcher.reset();
                    }
                }
                self.policies.insert(policy.name.clone(), *policy);
            }
            Input::PolicyGone(name) => drop(self.policies.remove(&name)),
            Input::Device { id, hardware, policies } => self.see_device(now, id, hardware, policies),
            Input::DeviceGone(id) => self.lose_device(&id),
            Input::Raised(signal) => {
                let device = signal.device.clone();
                if let Some(known) = self.devices.get_mut(&device) {
                    known.first_signal.get_or_insert(signal.at);
                    for (name, watcher) in &mut known.watchers {
                        let Some(policy) = self.policies.get(name) else { continue };
                        for (rule, error) in watcher.raise(policy, &signal, now) {
                            self.effects.push_back(Effect::Broken { policy: name.clone(), rule, error });
                        }
                    }
                }
                self.look(now, &device);
            }
            Input::Lowered { device, key, source } => {
                if let Some(known) = self.devices.get_mut(&device) {
                    known.watchers.values_mut().for_each(|watcher| watcher.lower(&key, source));
                }
                self.look(now, &device);
            }
            Input::InUse { device, is_used } => {
                if let Some(known) = self.devices.get_mut(&device) {
                    known.is_used = Some(is_used);
                }
                self.look(now, &device);
            }
            Input::Repaired { incident, repair, result } => self.repaired(now, incident, repair, result),
            Input::Validated { incident, result } => self.validated(now, incident, result),
            Input::Person { incident, act, who } => self.person(now, incident, act, &who),
            Input::Found(incident) => self.found(*incident),
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Timestamp) {
        while let Some(device) = self.wakes.iter().find(|(_, at)| **at <= now).map(|(id, _)| id.clone()) {
            self.wakes.remove(&device);
            self.look(now, &device);
        }
    }

    /// Something to do.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Lifecycle::tick`] is to be called, if nothing is heard before.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        self.wakes.values().min().copied()
    }

    /// The open incidents.
    pub fn incidents(&self) -> impl Iterator<Item = &Incident> {
        self.incidents.values()
    }

    fn see_device(&mut self, now: Timestamp, id: DeviceId, hardware: Option<Text>, policies: Vec<Text>) {
        let renamed = hardware.as_ref().and_then(|hardware| {
            let is_it = |incident: &&Incident| incident.hardware.as_ref() == Some(hardware);
            self.incidents.values().find(is_it).map(|incident| incident.number)
        });
        let known = self.devices.entry(id.clone()).or_default();
        known.hardware = hardware;
        known.watchers.retain(|name, _| policies.contains(name));
        for name in policies {
            known.watchers.entry(name).or_default();
        }
        if let Some(number) = renamed
            && known.incident != Some(number)
            && known.incident.is_none()
        {
            known.incident = Some(number);
            if let Some(incident) = self.incidents.get_mut(&number) {
                let before = core::mem::replace(&mut incident.device, id.clone());
                if before != id {
                    incident.note(now, alloc::format!("the device was {before} before"), &"lazaret".into());
                    self.release_name(&before);
                    self.show(number);
                }
            }
        }
        self.look(now, &id);
    }

    /// The device has another name now: nothing is left on the old one.
    fn release_name(&mut self, before: &DeviceId) {
        if let Some(known) = self.devices.get_mut(before) {
            known.incident = None;
        }
        let (device, value) = (before.clone(), Text::default());
        self.effects.push_back(Effect::Taint { device, effects: &[], value });
    }

    fn lose_device(&mut self, id: &DeviceId) {
        if self.devices.get(id).is_some_and(|known| known.incident.is_none()) {
            self.devices.remove(id);
            self.wakes.remove(id);
        }
    }

    fn found(&mut self, incident: Incident) {
        self.next_number = self.next_number.max(incident.number);
        if !incident.is_open() {
            self.remember_cleared(incident.device, incident.since);
            return;
        }
        let known = self.devices.entry(incident.device.clone()).or_default();
        known.incident = Some(incident.number);
        known.hardware.clone_from(&incident.hardware);
        known.watchers.entry(incident.policy.clone()).or_default();
        let (number, device) = (incident.number, incident.device.clone());
        self.wakes.insert(device, incident.since);
        self.incidents.insert(number, incident);
        self.act_again(number);
    }

    pub(crate) fn remember_cleared(&mut self, device: DeviceId, at: Timestamp) {
        if self.cleared.len() >= CLEARED_MAX
            && let Some(oldest) = self.cleared.iter().min_by_key(|(_, at)| **at).map(|(id, _)| id.clone())
        {
            self.cleared.remove(&oldest);
        }
        self.cleared.insert(device, at);
    }

    pub(crate) fn new_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Looks at a device: which rules hold, and what follows for its incident.
    pub(crate) fn look(&mut self, now: Timestamp, device: &DeviceId) {
        let (mut worst, mut wake, mut is_ill) = (None::<(Text, Fired)>, None::<Timestamp>, false);
        if let Some(known) = self.devices.get_mut(device) {
            for (name, watcher) in &mut known.watchers {
                let Some(policy) = self.policies.get(name) else { continue };
                let look = watcher.look(policy, now);
                wake = [wake, look.wake].into_iter().flatten().min();
                is_ill |= look.is_ill;
                for one in look.fired {
                    if worst.as_ref().is_none_or(|(_, before)| before.target < one.target) {
                        worst = Some((name.clone(), one));
                    }
                }
            }
        }
        if let Some((policy, fired)) = &worst {
            self.fire(now, device, policy, fired);
        }
        let again = self.advance(now, device, is_ill);
        wake = [wake, again].into_iter().flatten().min();
        match wake {
            Some(at) => drop(self.wakes.insert(device.clone(), at)),
            None => drop(self.wakes.remove(device)),
        }
    }

    /// Writes an incident, and what its stage means for the device.
    pub(crate) fn show(&mut self, number: u64) {
        if let Some(incident) = self.incidents.get(&number) {
            self.effects.push_back(Effect::Record(Box::new(incident.clone())));
        }
        self.act_again(number);
    }
}

/// A rule and its message, as a timeline has it.
pub(crate) fn cause_of(policy: &Policy, fired: &Fired) -> Text {
    let rule = policy.rules.get(fired.rule).map_or("", |rule| &*rule.name);
    let mut text = alloc::format!("rule {rule}");
    if !fired.message.is_empty() {
        text.push_str(": ");
        text.push_str(&fired.message);
    }
    text.into()
}
