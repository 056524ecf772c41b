//! The machine.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    effect::{Effect, Input},
    incident::{Incident, NAMESPACES_MAX, Stage},
    policy::{Mode, Policy},
    signal::Signal,
    stages::waits_for,
    wakes::Wakes,
    watcher::{Fired, Watcher},
};

/// From a signal to a healthy device.
#[derive(Debug, Default)]
pub struct Lifecycle {
    pub(crate) policies: BTreeMap<Text, Policy>,
    pub(crate) devices: BTreeMap<DeviceId, Known>,
    /// Open ones, by number.
    pub(crate) incidents: BTreeMap<u64, Incident>,
    /// What is known of the incidents that devices had.
    pub(crate) past: BTreeMap<DeviceId, Past>,
    pub(crate) effects: VecDeque<Effect>,
    pub(crate) wakes: Wakes,
    next_number: u64,
    /// Signals are counted, and nothing follows from them.
    is_paused: bool,
}

/// Devices whose incidents were cleared, kept to tell flaps. The oldest is forgotten first.
const PAST_MAX: usize = 10_000;

/// What an incident waits for whose policy was deleted.
pub(crate) const POLICY_GONE: &str = "its policy is gone: a person decides";

/// What is known of the incidents that a device had.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past {
    /// Since when it is well: an incident soon after is a flap.
    pub(crate) cleared: Option<Timestamp>,
    /// The serial number of the last one.
    pub(crate) serial: u32,
}

/// What is known of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) hardware: Option<Text>,
    pub(crate) watchers: BTreeMap<Text, Watcher>,
    /// `None`: not heard yet.
    pub(crate) is_used: Option<bool>,
    pub(crate) incident: Option<u64>,
    /// When the first and the last signal came that a rule means, while nothing has come of them.
    pub(crate) signals: Option<(Timestamp, Timestamp)>,
}

impl Lifecycle {
    /// Takes in news.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        match input {
            Input::Policy(policy) => self.see_policy(now, *policy),
            Input::PolicyGone(name) => self.lose_policy(&name),
            Input::Device { id, hardware, policies } => self.see_device(now, id, hardware, policies),
            Input::DeviceGone(id) => self.lose_device(&id),
            Input::Raised(signal) => self.raise(now, &signal),
            Input::Lowered { device, key, source } => {
                if let Some(known) = self.devices.get_mut(&device) {
                    known.watchers.values_mut().for_each(|watcher| watcher.lower(&key, source));
                }
                self.look(now, &device);
            }
            Input::InUse { device, is_used, namespaces } => self.used(now, &device, is_used, namespaces),
            Input::Evicted { incident, pods } => self.evicted(incident, pods),
            Input::Repaired { incident, repair, result } => self.repaired(now, incident, repair, result),
            Input::Validated { incident, result } => self.validated(now, incident, result),
            Input::Person { incident, act, who, why, at } => {
                self.person(now, (incident, act, at), &who, &why)
            }
            Input::Found(incident) => {
                self.adopt(now, *incident);
            }
            Input::Forgotten { incident } => self.forget(now, incident),
            Input::Begin => self.begin(),
            Input::Pause => self.is_paused = true,
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Timestamp) {
        while let Some(device) = self.wakes.take_due(now) {
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
        self.wakes.first()
    }

    /// An open incident.
    #[must_use]
    pub fn incident(&self, number: u64) -> Option<&Incident> {
        self.incidents.get(&number)
    }

    /// The open incident of a device.
    #[must_use]
    pub fn incident_of(&self, device: &DeviceId) -> Option<&Incident> {
        self.incidents.get(&self.devices.get(device)?.incident?)
    }

    /// A policy.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<&Policy> {
        self.policies.get(name)
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

    fn raise(&mut self, now: Timestamp, signal: &Signal) {
        let Some(known) = self.devices.get_mut(&signal.device) else { return };
        let datum = signal.datum();
        for (name, watcher) in &mut known.watchers {
            let Some(policy) = self.policies.get(name) else { continue };
            let raised = watcher.raise(policy, signal, &datum, now);
            if raised.is_meant {
                // After a calm it is another trouble.
                let is_over =
                    |(_, last): &(Timestamp, Timestamp)| now.millis_since(*last) > policy.clear_after_ms;
                let first = known.signals.filter(|both| !is_over(both)).map_or(signal.at, |(first, _)| first);
                known.signals = Some((first, now));
            }
            for (rule, error) in raised.errors {
                self.effects.push_back(Effect::Broken { policy: name.clone(), rule, error });
            }
        }
        self.look(now, &signal.device);
    }

    fn lose_policy(&mut self, name: &Text) {
        self.policies.remove(name);
        let theirs = self.incidents.values_mut().filter(|incident| incident.policy == *name);
        let mut numbers = Vec::new();
        for incident in theirs {
            incident.waits_for = POLICY_GONE.into();
            numbers.push(incident.number);
        }
        numbers.into_iter().for_each(|number| self.record(number));
    }

    fn see_policy(&mut self, now: Timestamp, policy: Policy) {
        let (name, is_enforced) = (policy.name.clone(), policy.mode == Mode::Enforce);
        for known in self.devices.values_mut() {
            if let Some(watcher) = known.watchers.get_mut(&name) {
                watcher.reset();
            }
        }
        let changed = |incident: &&mut Incident| {
            incident.policy == name
                && (incident.is_enforced != is_enforced || incident.waits_for == POLICY_GONE)
        };
        let mut numbers = Vec::new();
        for incident in self.incidents.values_mut().filter(changed) {
            incident.is_enforced = is_enforced;
            incident.waits_for = waits_for(&policy, incident);
            let mode = if is_enforced { "Enforce" } else { "Observe" };
            incident.note(now, alloc::format!("mode is {mode} now"), &alloc::format!("policy {name}").into());
            numbers.push((incident.number, incident.device.clone()));
        }
        self.policies.insert(name, policy);
        for (number, device) in numbers {
            self.show(number);
            self.look(now, &device);
        }
    }

    fn used(&mut self, now: Timestamp, device: &DeviceId, is_used: bool, namespaces: Vec<Text>) {
        let Some(known) = self.devices.get_mut(device) else { return };
        known.is_used = Some(is_used);
        let incident = known.incident.and_then(|number| self.incidents.get_mut(&number));
        if let Some(incident) = incident.filter(|incident| incident.stage == Stage::Draining) {
            let before = incident.cost.namespaces.len();
            for namespace in namespaces {
                if let Err(at) = incident.cost.namespaces.binary_search(&namespace)
                    && incident.cost.namespaces.len() < NAMESPACES_MAX
                {
                    incident.cost.namespaces.insert(at, namespace);
                }
            }
            if incident.cost.namespaces.len() != before {
                let number = incident.number;
                self.record(number);
            }
        }
        self.look(now, device);
    }

    fn evicted(&mut self, number: u64, pods: u64) {
        let Some(incident) = self.incidents.get_mut(&number) else { return };
        if incident.cost.pods_evicted < pods {
            incident.cost.pods_evicted = pods;
            self.record(number);
        }
    }

    /// Another machine may have acted: all that is known of incidents comes from what it wrote. Signals that last are not news.
    fn begin(&mut self) {
        self.is_paused = false;
        self.incidents.clear();
        self.past.clear();
        self.effects.clear();
        self.wakes = Wakes::default();
        for (id, known) in &mut self.devices {
            known.incident = None;
            known.watchers.values_mut().for_each(Watcher::stand);
            self.wakes.insert(id.clone(), Timestamp::EPOCH);
        }
    }

    /// An incident that another machine began, under the number that it has here. `None`: it is over, or its device has another.
    pub fn adopt(&mut self, now: Timestamp, mut incident: Incident) -> Option<u64> {
        let cleared = (!incident.is_open()).then_some(incident.since);
        self.remember(&incident.device, incident.serial, cleared);
        if cleared.is_some() {
            return None;
        }
        if incident.number == 0 {
            incident.number = self.new_number();
        }
        self.next_number = self.next_number.max(incident.number);
        // Its first status was not written any more.
        let is_bare = incident.waits_for.is_empty();
        if let Some(policy) = self.policies.get(&incident.policy).filter(|_| is_bare) {
            incident.is_enforced = policy.mode == Mode::Enforce;
            incident.waits_for = waits_for(policy, &incident);
            let out = incident.stage.is_out_of_service() && incident.is_enforced;
            incident.cost.out_since = out.then_some(incident.since);
        }
        let number = incident.number;
        let known = self.devices.entry(incident.device.clone()).or_default();
        let other = known.incident.replace(number);
        known.hardware.clone_from(&incident.hardware);
        known.watchers.entry(incident.policy.clone()).or_default();
        let device = incident.device.clone();
        self.wakes.insert(device.clone(), incident.since);
        self.incidents.insert(number, incident);
        if let Some(other) = other.filter(|other| *other != number) {
            self.close_double(now, &device, number, other);
            return self.incidents.contains_key(&number).then_some(number);
        }
        if is_bare {
            self.record(number);
        }
        self.act_again(number);
        Some(number)
    }

    /// A device has one incident: the older one stays open.
    fn close_double(&mut self, now: Timestamp, device: &DeviceId, one: u64, other: u64) {
        let serial = |number: u64| self.incidents.get(&number).map_or(0, |incident| incident.serial);
        let (kept, closed) = if serial(one) < serial(other) { (one, other) } else { (other, one) };
        self.enter(
            now,
            closed,
            Stage::Cleared,
            "the device has another open incident".into(),
            &"lazaret".into(),
        );
        if let Some(known) = self.devices.get_mut(device) {
            known.incident = Some(kept);
        }
        self.act_again(kept);
    }

    /// Another machine has written the incident since: what this one thought of it is void.
    pub(crate) fn disown(&mut self, number: u64) {
        let Some(incident) = self.incidents.remove(&number) else { return };
        if let Some(known) = self.devices.get_mut(&incident.device) {
            known.incident = None;
            self.wakes.insert(incident.device, Timestamp::EPOCH);
        }
    }

    fn forget(&mut self, now: Timestamp, number: u64) {
        let Some(incident) = self.incidents.remove(&number) else { return };
        let Some(known) = self.devices.get_mut(&incident.device) else { return };
        known.incident = None;
        known.signals = None;
        self.effects.push_back(Effect::Taint {
            device: incident.device.clone(),
            effects: &[],
            value: Text::default(),
        });
        self.look(now, &incident.device);
    }

    /// A device had incidents, the last of them with this serial number.
    pub(crate) fn remember(&mut self, device: &DeviceId, serial: u32, cleared: Option<Timestamp>) {
        let past = self.past.entry(device.clone()).or_default();
        past.serial = past.serial.max(serial);
        past.cleared = past.cleared.max(cleared);
        self.bound_past();
    }

    pub(crate) fn remember_cleared(&mut self, device: DeviceId, at: Timestamp) {
        self.past.entry(device).or_default().cleared = Some(at);
        self.bound_past();
    }

    fn bound_past(&mut self) {
        if self.past.len() > PAST_MAX
            && let Some(oldest) =
                self.past.iter().min_by_key(|(_, past)| past.cleared).map(|(id, _)| id.clone())
        {
            self.past.remove(&oldest);
        }
    }

    pub(crate) fn new_serial(&mut self, device: &DeviceId) -> u32 {
        let past = self.past.entry(device.clone()).or_default();
        past.serial = past.serial.saturating_add(1);
        past.serial
    }

    pub(crate) fn new_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Looks at a device: which rules hold, and what follows for its incident.
    pub(crate) fn look(&mut self, now: Timestamp, device: &DeviceId) {
        if self.is_paused {
            return;
        }
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
            Some(at) => self.wakes.insert(device.clone(), at),
            None => self.wakes.remove(device),
        }
    }

    /// Writes an incident, and what its stage means for the device.
    pub(crate) fn show(&mut self, number: u64) {
        self.record(number);
        self.act_again(number);
    }

    /// Writes an incident.
    fn record(&mut self, number: u64) {
        if let Some(incident) = self.incidents.get(&number) {
            self.effects.push_back(Effect::Record(Box::new(incident.clone())));
        }
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
