//! People: what they say of incidents and devices, and how a policy is meant.

use lazaret_lifecycle::{Mode, PersonAct, Report, Signal, Source};
use lazaret_model::Text;

use crate::{actors::health::HealthEvent, api::wall, coverage::Mark, palette, world::World};

/// The same is reported at most as often in a row.
const REPORTS_MAX: u32 = 3;

impl World {
    /// A person says something of an incident, or deletes it.
    pub(crate) fn person(&mut self, number: u32, how: u32) {
        let count = self.health.incidents.len();
        let Some(name) = self.health.incidents.keys().nth(number as usize % count.max(1)).cloned() else {
            return;
        };
        let Some(mut stored) = self.health.incidents.get(&name).cloned() else { return };
        self.coverage.hit(Mark::PersonActed);
        let act = Some(PersonAct { at: wall(self.now), who: "jo".into(), why: Text::default() });
        match how % 8 {
            0 => return self.remove_incident(&name, &stored.uid),
            1 => stored.acts.acknowledged = act,
            2..=4 => stored.acts.repaired = act,
            _ => stored.acts.abandoned = act,
        }
        if let Some(entry) = self.health.stages.get_mut(&stored.uid) {
            entry.1 = true;
        }
        stored.version = self.version();
        self.store_incident(stored);
    }

    /// A person reports trouble of a device, maybe more than once: each time by another object.
    pub(crate) fn report(&mut self, device: u32, key: u32, times: u32) {
        if self.config.healed == 0 {
            return;
        }
        let devices = u32::try_from(self.api.catalog.devices()).unwrap_or(u32::MAX).max(1);
        for _ in 0..=times % REPORTS_MAX {
            let uid = self.api.new_uid();
            let name = Text::from(format!("report-{uid}"));
            let signal = Signal {
                device: self.api.catalog.id(device % devices),
                key: palette::KEYS[key as usize % palette::KEYS.len()].into(),
                value: Text::default(),
                source: Source::Person,
                at: wall(self.now),
                lasts: false,
                message: "heard it".into(),
            };
            let report = Report { name: name.clone(), uid, signal };
            self.coverage.hit(Mark::Reported);
            self.health.reports.insert(name, report.clone());
            self.health_tell(HealthEvent::Report(report));
        }
    }

    /// An administrator changes the mode of the policy.
    pub(crate) fn set_mode(&mut self, observes: bool) {
        let mode = if observes { Mode::Observe } else { Mode::Enforce };
        if self.config.healed != 0 && self.health.mode != mode {
            self.coverage.hit(Mark::ModeChanged);
            self.health.mode = mode;
            self.health_tell(HealthEvent::Mode(mode));
        }
    }
}
