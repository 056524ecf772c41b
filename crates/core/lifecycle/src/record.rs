//! The record of hardware over its incidents: how often it came back into service in vain.
//!
//! The newest incident of each piece of hardware carries it, in `status.flaps` and the time of its end. It outlives a restart as incidents do.

use alloc::{format, vec::Vec};

use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    Lifecycle,
    incident::{Incident, Stage},
    machine::open_mut,
    policy::Flaps,
    stages::ITSELF,
};

/// Flaps that are kept: more than any policy can permit.
pub(crate) const FLAPS_MAX: usize = 64;
/// Pieces of hardware whose record is kept. Of more, the one that has been in service for longest is forgotten.
pub(crate) const RECORDS_MAX: usize = 10_000;

/// A piece of hardware: by its identity, or by the name of the device where it has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hardware {
    Known(Text, Text),
    Named(DeviceId),
}

/// The record of a piece of hardware.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// When it last came back into service.
    cleared: Timestamp,
    pub(crate) flaps: Vec<Timestamp>,
}

pub(crate) fn hardware(incident: &Incident) -> Hardware {
    match &incident.hardware {
        Some(hardware) => Hardware::Known(incident.device.driver.clone(), hardware.clone()),
        None => Hardware::Named(incident.device.clone()),
    }
}

/// Whether an incident that is over had its device out of service.
fn was_out(incident: &Incident) -> bool {
    incident.cost.out_of_service_ms > 0
}

impl Lifecycle {
    /// An incident is over: its device is in service again. A leader decided it, or stored it.
    pub(crate) fn remember_return(&mut self, incident: &Incident) {
        if !was_out(incident) {
            return;
        }
        let cleared = incident.times.cleared.unwrap_or(incident.since);
        let hardware = hardware(incident);
        if self.records.get(&hardware).is_some_and(|known| known.cleared > cleared) {
            return;
        }
        self.records.insert(hardware, Record { cleared, flaps: incident.flaps.clone() });
        if self.records.len() > RECORDS_MAX
            && let Some(oldest) =
                self.records.iter().min_by_key(|(_, record)| record.cleared).map(|(of, _)| of.clone())
        {
            self.records.remove(&oldest);
        }
    }

    /// The flaps of the hardware of a new incident.
    pub(crate) fn flaps_of(&self, incident: &Incident) -> Vec<Timestamp> {
        self.records.get(&hardware(incident)).map(|record| record.flaps.clone()).unwrap_or_default()
    }

    /// A device that was in service goes out of it. Where it came back a short time ago it came back in vain; too often, and a person decides.
    pub(crate) fn judge_return(&mut self, now: Timestamp, number: u64) {
        let Some(incident) = self.incidents.get(&number) else { return };
        let is_out = incident.is_enforced && incident.stage.is_out_of_service();
        let policy = self.policies.get(&incident.policy);
        let Some(flaps) = policy.and_then(|policy| policy.trust().flaps).filter(|_| is_out) else { return };
        let is_flap = self
            .records
            .get(&hardware(incident))
            .is_some_and(|record| now.millis_since(record.cleared) <= flaps.within_ms);
        if !is_flap || incident.stage == Stage::Abandoned {
            return;
        }
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        let count = incident.count_flap(now, flaps);
        if is_too_often(count, flaps) {
            self.enter(now, number, Stage::Abandoned, in_vain(count, flaps).into(), &ITSELF.into());
        } else {
            let cause = format!(
                "it came back in vain: flap {count} within {} s, {} are permitted",
                flaps.within_ms / 1_000,
                flaps.at_most
            );
            incident.note(now, cause, &ITSELF.into());
            self.record(number);
        }
    }
}

impl Incident {
    /// Counts a flap; how many there were within the time that counts.
    pub(crate) fn count_flap(&mut self, now: Timestamp, flaps: Flaps) -> usize {
        self.flaps.retain(|at| now.millis_since(*at) <= flaps.within_ms);
        if self.flaps.len() >= FLAPS_MAX {
            self.flaps.remove(0);
        }
        self.flaps.push(now);
        self.flaps.len()
    }
}

pub(crate) fn is_too_often(count: usize, flaps: Flaps) -> bool {
    count > usize::try_from(flaps.at_most).unwrap_or(usize::MAX)
}

pub(crate) fn in_vain(count: usize, flaps: Flaps) -> alloc::string::String {
    format!("it came back {count} times in vain, {} are permitted", flaps.at_most)
}
