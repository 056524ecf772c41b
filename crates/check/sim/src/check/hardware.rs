//! Hardware under its names: an incident leaves a device that is published by recovery alone, and flaps are counted over incidents.

use std::collections::BTreeMap;

use lazaret_lifecycle::{Incident, Stage, Stored};
use lazaret_model::{DeviceId, Text};

use crate::{coverage::Mark, world::World};

/// A machine begins to lead: incidents may have moved while another one did.
pub(crate) fn note_devices_of_incidents(world: &mut World, number: usize) {
    let open = world.health.incidents.values().map(|stored| &stored.incident);
    let open = open.filter(|incident| incident.is_open());
    world.health.agents[number].devices =
        open.map(|incident| (incident.name.clone(), incident.device.clone())).collect();
}

impl World {
    /// An open incident has another device than before: its machine knows that nobody publishes the old one.
    pub(crate) fn check_moved(&mut self, number: usize) {
        let agent = &mut self.health.agents[number];
        let open = agent.core.lifecycle().incidents();
        let now: BTreeMap<Text, DeviceId> =
            open.map(|incident| (incident.name.clone(), incident.device.clone())).collect();
        let before = core::mem::replace(&mut agent.devices, now);
        let freed = before.iter().find(|(name, device)| {
            agent.devices.get(*name).is_some_and(|now| now != *device) && agent.fleet.device(device).is_some()
        });
        if let Some((name, device)) = freed {
            let detail = format!("{name} leaves {device}, which is published");
            self.violate("a device that is published is freed only by its own recovery", detail);
        }
    }

    /// A device goes out of service that came back before: its incident has the flaps of the one before, and one more.
    pub(super) fn check_flaps(&mut self, stored: &Stored, incident: &Incident) {
        let was_in_service = stored.incident.waits_for.is_empty() || stored.incident.stage == Stage::Suspect;
        let goes_out = was_in_service && incident.is_enforced && incident.stage.is_out_of_service();
        // The count of a policy changes with it, and two leaders may have written at a time.
        let unclear = [Mark::PolicyWritten, Mark::PolicyDeleted, Mark::ModeChanged, Mark::LateWrite];
        let is_clear = unclear.iter().all(|mark| self.coverage.count(*mark) == 0);
        // A device that a person said was repaired, or gave up, did not come back in vain.
        let is_persons = incident.handled.repaired.is_some() || incident.handled.abandoned.is_some();
        if !goes_out || !is_clear || is_persons {
            return;
        }
        let same = |other: &&Incident| {
            other.stage == Stage::Cleared
                && other.cost.out_of_service_ms > 0
                && other.hardware == incident.hardware
                && other.hardware.is_some()
        };
        let all = self.health.incidents.values().map(|stored| &stored.incident);
        let Some(last) = all.filter(same).max_by_key(|other| other.times.cleared) else { return };
        if incident.flaps.len() <= last.flaps.len() {
            let (name, flaps) = (&incident.name, incident.flaps.len());
            let detail =
                format!("{name} has {flaps} flaps, and {} before it {}", last.name, last.flaps.len());
            self.violate("flaps are counted for the hardware, over incidents", detail);
        }
    }
}
