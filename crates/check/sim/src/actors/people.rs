//! People: what they say of incidents and devices, and what they do to the objects of incidents.

use lazaret_lifecycle::{ChildKind, PersonAct, Report, Signal, Source};
use lazaret_model::{DeviceTaintRule, Effect, Text};

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
            let report = Report { name: name.clone(), uid, until: None, signal };
            self.coverage.hit(Mark::Reported);
            self.health.reports.insert(name, report.clone());
            self.health_tell(HealthEvent::Report(report));
        }
    }

    /// Somebody else takes an object away that was made for an incident, or the effect of its taint.
    pub(crate) fn take_away(&mut self, number: u32, how: u32) {
        let owner = |rule: &DeviceTaintRule| self.health.owners.get(&rule.uid).map(|(_, kind)| *kind);
        let rules = self.api.rules.iter().map(|stored| stored.object);
        let rules = rules.filter_map(|rule| Some((owner(rule)?, rule.name.clone())));
        let jobs = self.health.jobs.keys().map(|name| (ChildKind::Job, name.clone()));
        let all: Vec<(ChildKind, Text)> = rules.chain(jobs).collect();
        let Some((kind, name)) = all.get(number as usize % all.len().max(1)).cloned() else { return };
        self.coverage.hit(Mark::TakenAway);
        if let Some(job) = self.health.jobs.get(&name) {
            // It runs again: nobody knows how the first one ended.
            self.health.made.remove(&(job.owner.uid.clone(), name.clone()));
            self.remove_job(&name);
        } else if kind == ChildKind::Rule && how.is_multiple_of(3) {
            self.api.edit_rule(self.now, &name, |rule| rule.taint.effect = Effect::None);
        } else {
            self.api.rules.remove(&mut self.api.versions, &name);
        }
    }
}
