//! Which hardware a device is. Names change; hardware keeps its incident, once nobody publishes it under the old name.

use alloc::{format, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    Lifecycle,
    effect::Effect,
    incident::{Stage, incident_name},
    machine::{Known, open_mut},
    policy::TaintKeyValue,
    signal::{PUBLISHED_KEY, Signal, Source},
    stages::{ITSELF, waits_for},
};

/// Devices of one identity that are looked at. More of them are an error in the driver or in the policy's `identityAttribute`.
const SAME_MAX: usize = 16;

/// Names of incidents that passed to other devices: as many as incidents are kept.
const NAMES_MAX: usize = 10_000;

/// Whether the device of an open incident exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A ResourceSlice lists it.
    Published,
    /// No ResourceSlice lists it, and its node exists.
    Unpublished,
    /// Neither a ResourceSlice nor a node of it exists.
    Gone,
}

impl Lifecycle {
    /// A device has this identity from now on.
    pub(crate) fn note_hardware(&mut self, id: &DeviceId, hardware: Option<Text>) {
        let Some(known) = self.devices.get_mut(id) else { return };
        if known.hardware == hardware {
            return;
        }
        let before = core::mem::replace(&mut known.hardware, hardware.clone());
        if let Some(before) = before {
            self.unindex(&before, id);
        }
        if let Some(hardware) = hardware {
            self.by_hardware.insert((hardware, id.clone()));
        }
    }

    /// Drops a device from the index of an identity, unless it has the identity or its open incident names it.
    fn unindex(&mut self, hardware: &Text, id: &DeviceId) {
        let is_named = self.devices.get(id).is_some_and(|known| {
            known.hardware.as_ref() == Some(hardware)
                || known.incident.and_then(|number| self.incidents.get(&number)?.hardware.as_ref())
                    == Some(hardware)
        });
        if !is_named {
            self.by_hardware.remove(&(hardware.clone(), id.clone()));
        }
    }

    /// An incident of a device is over, or is another device's.
    pub(crate) fn unindex_incident(&mut self, hardware: Option<&Text>, id: &DeviceId) {
        if let Some(hardware) = hardware {
            self.unindex(hardware, id);
        }
        self.limits.note_gone(id, false);
    }

    /// A device that is neither selected nor missed and has no incident is not remembered.
    pub(crate) fn drop_if_unknown(&mut self, id: &DeviceId) {
        let is_unknown = |known: &Known| !known.is_selected && !known.is_vanished && known.incident.is_none();
        if self.devices.get(id).is_some_and(is_unknown) {
            let known = self.devices.remove(id);
            self.wakes.remove(id);
            if let Some(hardware) = known.and_then(|known| known.hardware) {
                self.by_hardware.remove(&(hardware, id.clone()));
            }
        }
    }

    /// The devices with one identity have changed. An incident follows its hardware to another name once the old name is not published; until then
    /// the two published devices are a problem of their own, which the incident names.
    pub(crate) fn follow(&mut self, now: Timestamp, driver: &Text, hardware: &Text) {
        if self.is_paused {
            return;
        }
        let devices = same(self, driver, hardware);
        for device in &devices {
            let number = self.devices.get(device).and_then(|known| known.incident);
            let incident = number.and_then(|number| self.incidents.get(&number));
            let Some(incident) = incident.filter(|one| one.hardware.as_ref() == Some(hardware)) else {
                continue;
            };
            let number = incident.number;
            let other = devices.iter().find(|one| *one != device && is_published_as(self, one, hardware));
            match other {
                Some(other) if has_left(self, device, hardware) => self.rename(now, number, other),
                Some(_) | None => self.set_twin(now, number, other),
            }
        }
    }

    /// The same for the identity that a device has now.
    pub(crate) fn follow_device(&mut self, now: Timestamp, id: &DeviceId) {
        if let Some(hardware) = self.devices.get(id).and_then(|known| known.hardware.clone()) {
            self.follow(now, &id.driver, &hardware);
        }
    }

    /// Another published device has the identity of an incident's device, or none has.
    fn set_twin(&mut self, now: Timestamp, number: u64, twin: Option<&DeviceId>) {
        let is_known = |known: Option<&DeviceId>| known == twin;
        if self.incidents.get(&number).is_none_or(|one| is_known(one.twin.as_deref())) {
            return;
        }
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        let hardware = incident.hardware.clone().unwrap_or_default();
        let cause = match twin {
            Some(twin) => format!(
                "{twin} is published with the same identity {hardware}: correct the driver, or spec.identityAttribute of the policy"
            ),
            None => format!("no other published device has the identity {hardware}"),
        };
        incident.twin = twin.cloned().map(alloc::boxed::Box::new);
        incident.note(now, cause, &ITSELF.into());
        if let Some(policy) = self.policies.get(&incident.policy) {
            incident.waits_for = waits_for(policy, incident);
        }
        self.show(number);
    }

    /// The device of an incident has another name now: nothing is left on the old one.
    fn rename(&mut self, now: Timestamp, number: u64, id: &DeviceId) {
        // It is over.
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        let before = core::mem::replace(&mut incident.device, id.clone());
        if before == *id {
            return;
        }
        self.moves += 1;
        (incident.twin, incident.gone_since) = (None, None);
        let (serial, hardware, name) = (incident.serial, incident.hardware.clone(), incident.name.clone());
        incident.note(now, format!("the device was {before} before"), &ITSELF.into());
        if let Some(policy) = self.policies.get(&incident.policy) {
            incident.waits_for = waits_for(policy, incident);
        }
        if let Some(known) = self.devices.get_mut(&before) {
            known.incident = None;
            // A name that is not published any more is no device of its own.
            let is_left = matches!(known.presence, Some(Presence::Unpublished | Presence::Gone));
            known.is_selected &= !is_left;
            known.is_vanished &= !is_left;
        }
        self.unindex_incident(hardware.as_ref(), &before);
        self.drop_if_unknown(&before);
        // Its name is that of the incident of another device from now on.
        self.take_name(name);
        self.remember(&before, serial, None);
        self.limits.note(&before, false);
        self.effects.push_back(Effect::Taint {
            device: before,
            effects: &[],
            taint: TaintKeyValue::default(),
        });
        let Some(known) =
            invariant!(self.devices.get_mut(id), "a device that an incident follows is published")
        else {
            return;
        };
        known.presence = Some(Presence::Published);
        // Its signals come under its new name after this.
        known.calm_from = Some(now);
        let holder = known.incident.replace(number);
        self.note_service(number);
        self.show(number);
        if let Some(holder) = holder {
            self.close_double(now, id, number, holder);
        }
    }

    /// An incident of this name is stored. Where its device has another name now, the name is that of no other incident.
    pub(crate) fn note_name(&mut self, name: &Text, device: &DeviceId, serial: u32) {
        if incident_name(device, serial) != *name {
            self.take_name(name.clone());
        }
    }

    fn take_name(&mut self, name: Text) {
        if self.taken_names.len() >= NAMES_MAX {
            self.taken_names.pop_first();
        }
        self.taken_names.insert(name);
    }

    /// No slice lists a device any more: no incident passes to it.
    pub(crate) fn see_left(&mut self, device: &DeviceId) {
        if let Some(known) = self.devices.get_mut(device) {
            known.presence = Some(Presence::Unpublished);
        }
    }

    /// Whether the device of an open incident exists.
    pub(crate) fn see_presence(&mut self, now: Timestamp, device: &DeviceId, presence: Presence) {
        let Some(known) = self.devices.get_mut(device) else { return };
        known.presence = Some(presence);
        let Some(number) = known.incident else { return };
        let is_gone = presence == Presence::Gone;
        self.is_freed |= is_gone;
        self.limits.note_gone(device, is_gone);
        self.set_gone(now, number, is_gone);
        let hardware = self.incidents.get(&number).and_then(|incident| incident.hardware.clone());
        if let Some(hardware) = hardware {
            self.follow(now, &device.driver, &hardware);
        }
        // Others that went or came back at the same time count for its guards, and its signals come after this.
        self.wakes.insert(device.clone(), Timestamp::EPOCH);
    }

    /// The device of an incident is gone with its node, or is back.
    fn set_gone(&mut self, now: Timestamp, number: u64, is_gone: bool) {
        if self.incidents.get(&number).is_none_or(|incident| incident.gone_since.is_some() == is_gone) {
            return;
        }
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        incident.gone_since = is_gone.then_some(now);
        let cause = if is_gone { "the device and its node are gone" } else { "the device is back" };
        incident.note(now, cause, &ITSELF.into());
        if !is_gone {
            // A repair that was withdrawn has its whole time.
            incident.restart_repair(now);
            // A device that did not exist was not calm. Its signals come after this.
            let known = self.devices.get_mut(&incident.device);
            known.into_iter().for_each(|known| known.calm_from = Some(now));
        }
        if let Some(policy) = self.policies.get(&incident.policy) {
            incident.waits_for = waits_for(policy, incident);
        }
        self.show(number);
    }

    /// Notes whether a device is missed by its slices. `None`: the signal is about something else.
    pub(crate) fn note_vanished(
        &mut self,
        now: Timestamp,
        signal: (&DeviceId, &Text, Source),
        is_raised: bool,
    ) {
        let (device, key, source) = signal;
        if source != Source::Vanished || **key != *PUBLISHED_KEY {
            return;
        }
        if let Some(known) = self.devices.get_mut(device)
            && known.is_vanished != is_raised
        {
            known.is_vanished = is_raised;
            // A device that is published again was an input of its own before.
            if is_raised {
                self.follow_device(now, device);
            }
        }
    }

    /// A rule took a device out of service that has another identity than the incident says: other hardware is in its place.
    pub(crate) fn take_identity(&mut self, now: Timestamp, number: u64) {
        let Some(incident) = self.incidents.get(&number) else { return };
        let Some(known) = self.devices.get(&incident.device) else { return };
        let Some(hardware) = known.hardware.clone().filter(|_| known.hardware != incident.hardware) else {
            return;
        };
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        let (before, device) = (incident.hardware.replace(hardware.clone()), incident.device.clone());
        let was = before.as_deref().unwrap_or("not known");
        incident.note(now, format!("the identity of the device is {hardware}, it was {was}"), &ITSELF.into());
        self.unindex_incident(before.as_ref(), &device);
    }
}

/// Devices of a driver with this identity, by their own word or by that of their incidents; at most [`SAME_MAX`].
fn same(lifecycle: &Lifecycle, driver: &Text, hardware: &Text) -> Vec<DeviceId> {
    let first = (hardware.clone(), DeviceId::new("", "", ""));
    let all = lifecycle.by_hardware.range(first..).take_while(|(of, _)| of == hardware);
    let theirs = all.map(|(_, id)| id).filter(|id| id.driver == *driver);
    theirs.take(SAME_MAX).cloned().collect()
}

/// Whether a device is published with this identity.
fn is_published_as(lifecycle: &Lifecycle, id: &DeviceId, hardware: &Text) -> bool {
    lifecycle.devices.get(id).is_some_and(|known| {
        let is_there = !matches!(known.presence, Some(Presence::Unpublished | Presence::Gone));
        is_there && known.is_selected && !known.is_vanished && known.hardware.as_ref() == Some(hardware)
    })
}

/// Whether hardware is not published under this name any more.
fn has_left(lifecycle: &Lifecycle, id: &DeviceId, hardware: &Text) -> bool {
    lifecycle.devices.get(id).is_none_or(|known| {
        matches!(known.presence, Some(Presence::Unpublished | Presence::Gone))
            || known.hardware.as_ref().is_some_and(|other| other != hardware)
    })
}

/// The parts of a signal that say whether it is about a device that is not published.
pub(crate) fn of_signal(signal: &Signal) -> (&DeviceId, &Text, Source) {
    (&signal.device, &signal.key, signal.source)
}

/// Whether an incident in this stage ends when its device has been gone for long. A person decides about one that is Abandoned.
pub(crate) fn ends_with_its_device(stage: Stage) -> bool {
    !matches!(stage, Stage::Abandoned | Stage::Cleared)
}
