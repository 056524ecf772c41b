//! Incidents that another machine began: what is known of them comes from what it wrote.

use alloc::sync::Arc;

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, Timestamp};

use crate::{
    Effect, Lifecycle,
    incident::{Incident, POLICY_GONE, Stage},
    limits::is_guarded,
    machine::{end_untouched, open_mut},
    policy::{Mode, TaintKeyValue},
    record::hardware,
    stages::waits_for,
    tallies::void_counts,
    wakes::Wakes,
    watcher::Watcher,
};

/// Whether nothing was done for an incident that was found, and nothing is held: its policy observed.
fn is_untouched(incident: &Incident, is_tainted: bool) -> bool {
    let is_persons = incident.stage == Stage::Abandoned || incident.waits_for == POLICY_GONE;
    let may_be_out = is_tainted && incident.waits_for.is_empty();
    !(incident.is_enforced || incident.held.is_some() || is_persons || may_be_out)
}

/// Devices whose incidents were cleared, kept to number the next ones. The oldest is forgotten first.
const PAST_MAX: usize = 10_000;

impl Lifecycle {
    /// Another machine may have acted: all that is known of incidents comes from what it wrote. Signals that last are not news.
    pub(crate) fn begin(&mut self) {
        self.is_paused = false;
        self.incidents.clear();
        self.limits.begin();
        self.past.clear();
        self.taken_names.clear();
        self.effects.clear();
        self.wakes = Wakes::default();
        for (id, known) in &mut self.devices {
            (known.incident, known.presence, known.is_kept) = (None, None, false);
            known.watchers.values_mut().for_each(Watcher::stand);
            self.wakes.insert(id.clone(), Timestamp::EPOCH);
        }
    }

    /// An incident that another machine began, under the number that it has here, and whether its own taint keeps the device from new claims. `None`: it
    /// is over, or its device has another.
    pub(crate) fn adopt(&mut self, now: Timestamp, mut incident: Incident, is_tainted: bool) -> Option<u64> {
        if !incident.is_open() {
            self.remember_return(&incident);
            // An observed incident is no reason to distrust a device.
            let cleared = incident.is_enforced.then_some(incident.since);
            self.remember(&incident.device, incident.serial, cleared);
            if let Some(past) = self.past.get_mut(&incident.device) {
                past.void_until = past.void_until.max(incident.void_until());
            }
            void_counts(self, now, &incident.device);
            return None;
        }
        self.share_incident(&mut incident);
        let stored = incident.clone();
        incident.set_back(now);
        let is_set_back = incident != stored;
        if incident.number == 0 {
            incident.number = self.new_number();
        }
        self.next_number = self.next_number.max(incident.number);
        // Its first status was not written any more.
        let is_bare = incident.waits_for.is_empty();
        let (number, device) = (incident.number, incident.device.clone());
        self.note_name(&incident.name, &device, incident.serial);
        let known = self.devices.entry(device.clone()).or_default();
        let other = known.incident.replace(number);
        known.calm_from = Some(incident.calm_since.unwrap_or(now));
        if known.hardware.is_none() {
            known.hardware.clone_from(&incident.hardware);
        }
        let hardware = incident.hardware.clone();
        if let Some(hardware) = &hardware {
            self.by_hardware.insert((hardware.clone(), device.clone()));
        }
        let (policy, since) = (incident.policy.clone(), incident.since);
        let found = Arc::new(incident);
        let before = self.incidents.insert(number, Arc::clone(&found));
        self.moves += u64::from(before.is_some_and(|before| before.device != device));
        self.watch(now, &policy, &device);
        void_counts(self, now, &device);
        self.wakes.insert(device.clone(), since);
        if is_bare {
            self.complete(number, is_tainted);
        }
        let is_alone = other.is_none_or(|other| other == number);
        if is_alone && is_untouched(&stored, is_tainted) && !self.policies.contains_key(&policy) {
            end_untouched(self, now, number, "its policy is gone, and nothing was done to the device");
            return self.incidents.contains_key(&number).then_some(number);
        }
        self.sync_mode(now, number);
        self.settle_demands(now, number);
        if is_bare {
            self.judge_return(now, number);
        }
        // It had no status, or its policy has changed since, or a guard.
        if is_set_back || self.incidents.get(&number).is_some_and(|incident| *incident != found) {
            self.record(number);
        }
        if let Some(other) = other.filter(|other| *other != number) {
            self.close_double(now, &device, number, other);
            return self.incidents.contains_key(&number).then_some(number);
        }
        self.act_again(number);
        if let Some(hardware) = hardware {
            self.follow(now, &device.driver, &hardware);
        }
        self.incidents.contains_key(&number).then_some(number)
    }

    /// Shares what an incident that was read has in common with others, and with its device.
    pub(crate) fn share_incident(&mut self, incident: &mut Incident) {
        self.texts.share_incident(incident);
        if let Some((device, known)) = self.devices.get_key_value(&incident.device) {
            incident.device = device.clone();
            if known.hardware == incident.hardware {
                incident.hardware.clone_from(&known.hardware);
            }
        }
    }

    /// Fills in the fields that the first status of an incident would have had. Guards were asked where it is tainted.
    fn complete(&mut self, number: u64, is_tainted: bool) {
        let Some(incident) = invariant!(open_mut(&mut self.incidents, number), "an open incident is there")
        else {
            return;
        };
        // The policy was deleted.
        let Some(policy) = self.policies.get(&incident.policy) else { return };
        let flaps = self.records.get(&hardware(incident)).map(|record| record.flaps.clone());
        incident.flaps = flaps.unwrap_or_default();
        let is_asked = is_tainted || !incident.stage.is_out_of_service();
        incident.is_enforced = policy.mode == Mode::Enforce && is_asked;
        incident.waits_for = waits_for(policy, incident);
        let out = incident.stage.is_out_of_service() && incident.is_enforced;
        incident.cost.out_since = out.then_some(incident.since);
    }

    /// Brings an incident to the mode of its policy. Guards are asked again about what a leader before this one may have begun too late: a
    /// device that is tainted already counts as it did.
    pub(crate) fn sync_mode(&mut self, now: Timestamp, number: u64) {
        // It is over.
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        let Some(policy) = self.policies.get(&incident.policy) else {
            incident.lose_policy();
            self.note_service(number);
            return;
        };
        // A device that a person gave up is out of service, whatever guards permit.
        let is_persons = incident.stage == Stage::Abandoned && incident.handled.abandoned.is_some();
        let is_out = incident.stage.is_out_of_service() && !is_persons;
        match policy.mode {
            Mode::Observe => {
                incident.is_enforced = false;
                incident.held = None;
                incident.waits_for = waits_for(policy, incident);
                self.note_service(number);
            }
            Mode::Enforce if is_out && (!incident.is_enforced || is_guarded(incident.stage)) => {
                self.enforce(now, number);
            }
            Mode::Enforce => {
                incident.is_enforced = true;
                incident.waits_for = waits_for(policy, incident);
                self.note_service(number);
            }
        }
    }

    /// The repair or validation that runs is not wanted any more, in the stage that it was begun in. Its number is used: wanted again, it runs
    /// under the next one.
    pub(crate) fn withdraw(&mut self, number: u64) {
        let Some(incident) = invariant!(open_mut(&mut self.incidents, number), "an open incident is there")
        else {
            return;
        };
        incident.begin_task();
        self.record(number);
    }

    /// Another machine has written the incident since: what this one thought of it is void.
    pub(crate) fn disown(&mut self, number: u64) {
        let Some(incident) = self.incidents.remove(&number) else { return };
        self.remember(&incident.device, incident.serial, None);
        self.limits.note(&incident.device, false);
        if let Some(known) = self.devices.get_mut(&incident.device) {
            known.incident = None;
            self.unindex_incident(incident.hardware.as_ref(), &incident.device);
            self.wakes.insert(incident.device.clone(), Timestamp::EPOCH);
        }
    }

    pub(crate) fn forget(&mut self, now: Timestamp, number: u64) {
        let Some(incident) = self.incidents.remove(&number) else { return };
        self.remember(&incident.device, incident.serial, None);
        self.limits.note(&incident.device, false);
        let Some(known) =
            invariant!(self.devices.get_mut(&incident.device), "the device of an incident is known")
        else {
            return;
        };
        known.incident = None;
        known.signals = None;
        self.unindex_incident(incident.hardware.as_ref(), &incident.device);
        self.effects.push_back(Effect::Taint {
            device: incident.device.clone(),
            effects: &[],
            taint: TaintKeyValue::default(),
        });
        self.look(now, &incident.device);
    }

    /// A device that has none now had incidents, the last of them with this serial number.
    pub(crate) fn remember(&mut self, device: &DeviceId, serial: u32, cleared: Option<Timestamp>) {
        let past = self.past.entry(device.clone()).or_default();
        past.serial = past.serial.max(serial);
        past.cleared = past.cleared.max(cleared);
        if self.past.len() > PAST_MAX
            && let Some(oldest) =
                self.past.iter().min_by_key(|(_, past)| past.cleared).map(|(id, _)| id.clone())
        {
            self.past.remove(&oldest);
        }
    }
}
