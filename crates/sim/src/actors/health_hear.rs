//! The inputs of health controllers: incidents, jobs and reports by their own watches, devices and rules by those of the eviction controller beside
//! them.

use std::collections::BTreeMap;

use lazaret_fleet::Origin;
use lazaret_lifecycle::{Child, ChildKind, Input as CoreInput, Mode, Notice, Signal, Source};
use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    actors::health::{Health, HealthAgent, HealthEvent, POLICY, policy},
    api::Kind,
    mutant::Mutant,
    world::World,
};

impl World {
    /// Passes on the events of incidents and jobs since its last turn; a new controller gets all objects.
    pub(super) fn hear_incidents(&mut self, number: usize, now: Timestamp) {
        let Health { agents, incidents, jobs, reports, tallies, log, mode, .. } = &mut self.health;
        let agent = &mut agents[number];
        let is_deaf = self.mutant == Some(Mutant::IgnoreObserve);
        let mode = if is_deaf { Mode::Enforce } else { *mode };
        let Some(heard) = agent.heard.replace(log.len()) else {
            agent.core.handle(now, Notice::Core(CoreInput::Policy(Box::new(policy(mode)))));
            let tallies = tallies.clone();
            agent.core.handle(now, Notice::Core(CoreInput::Counted { policy: POLICY.into(), tallies }));
            for stored in incidents.values() {
                agent.core.handle(now, Notice::Stored(Box::new(stored.clone())));
            }
            for job in jobs.values() {
                agent.core.handle(now, Notice::Child(job.clone()));
            }
            for report in reports.values() {
                agent.core.handle(now, Notice::Report(report.clone()));
            }
            return;
        };
        for event in &log[heard..] {
            if is_deaf && matches!(event, HealthEvent::Mode(_)) {
                continue;
            }
            let notice = match event.clone() {
                HealthEvent::Incident(stored) => Notice::Stored(stored),
                HealthEvent::IncidentGone(name, uid) => Notice::StoredGone(name, uid),
                HealthEvent::Job(job) => Notice::Child(job),
                HealthEvent::JobGone(name) => Notice::ChildGone(ChildKind::Job, Text::default(), name),
                HealthEvent::Report(report) => Notice::Report(report),
                HealthEvent::ReportGone(name) => Notice::ReportGone(name),
                HealthEvent::Mode(mode) => Notice::Core(CoreInput::Policy(Box::new(policy(mode)))),
            };
            agent.core.handle(now, notice);
        }
    }

    /// Devices that are published, and what drivers and administrators taint them with.
    pub(super) fn hear_devices(&mut self, number: usize, now: Timestamp) {
        let (fleet, agent) = (&self.clients[number].fleet, &mut self.health.agents[number]);
        let HealthAgent { core, revision, raised, .. } = agent;
        if revision.replace(fleet.revision()) == Some(fleet.revision()) {
            return;
        }
        for device in 0..self.api.catalog.devices() {
            let id = self.api.catalog.id(u32::try_from(device).unwrap_or(u32::MAX));
            let known = raised.get(&id);
            let mut levels = BTreeMap::new();
            if fleet.device(&id).is_some() {
                for found in fleet.effective_taints(&id) {
                    if !matches!(found.origin, Origin::Rule { .. }) {
                        levels.entry(found.taint.key.clone()).or_insert_with(|| found.taint.value.clone());
                    }
                }
                if known.is_none() {
                    let hardware = Some(id.to_string().into());
                    let input = CoreInput::Device { id: id.clone(), hardware, policies: vec![POLICY.into()] };
                    core.handle(now, Notice::Core(input));
                }
            } else if known.is_none() {
                continue;
            }
            if known == Some(&levels) {
                continue;
            }
            let before = raised.insert(id.clone(), levels.clone()).unwrap_or_default();
            for (key, value) in levels.iter().filter(|(key, value)| before.get(*key) != Some(value)) {
                let signal = Signal {
                    device: id.clone(),
                    key: key.clone(),
                    value: value.clone(),
                    source: Source::Taint,
                    at: now,
                    lasts: true,
                    message: Text::default(),
                };
                core.handle(now, Notice::Core(CoreInput::Raised(signal)));
            }
            for key in before.keys().filter(|key| !levels.contains_key(*key)) {
                let (device, key) = (id.clone(), key.clone());
                let input = CoreInput::Lowered { device, key, source: Source::Taint };
                core.handle(now, Notice::Core(input));
            }
        }
    }

    /// Rules that were made for incidents, as its watch has shown them.
    pub(super) fn hear_children(&mut self, number: usize, now: Timestamp) {
        let view = &self.clients[number].view;
        let position = view.position(Kind::Rule);
        // No rule is an incident's but from its first write on.
        if self.health.agents[number].children_at.replace(position) == Some(position) {
            return;
        }
        let seen = view.of(&self.api);
        let found = seen.rules().filter_map(|rule| self.health.child(rule));
        let found: BTreeMap<(ChildKind, Text), Child> =
            found.map(|child| ((child.target.kind(), child.name.clone()), child)).collect();
        let agent = &mut self.health.agents[number];
        let before = core::mem::replace(&mut agent.children, found);
        for (kind, name) in before.keys().filter(|place| !agent.children.contains_key(*place)) {
            agent.core.handle(now, Notice::ChildGone(*kind, Text::default(), name.clone()));
        }
        for (place, child) in &agent.children {
            if before.get(place) != Some(child) {
                agent.core.handle(now, Notice::Child(child.clone()));
            }
        }
    }

    /// Passes on which devices of open incidents are in use.
    pub(super) fn hear_usage(&mut self, number: usize, now: Timestamp) {
        let (fleet, agent) = (&self.clients[number].fleet, &mut self.health.agents[number]);
        let mut devices: Vec<DeviceId> =
            agent.core.lifecycle().incidents().map(|incident| incident.device.clone()).collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            let is_used = fleet.holders(&device).next().is_some();
            let namespaces = Vec::new();
            agent.core.handle(now, Notice::Core(CoreInput::InUse { device, is_used, namespaces }));
        }
    }
}
