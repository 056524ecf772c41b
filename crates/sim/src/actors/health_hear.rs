//! The inputs of health controllers: incidents, jobs and reports by their own watches, devices and rules by those of the eviction controller beside
//! them.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_fleet::Origin;
use lazaret_lifecycle::{
    Child, ChildKind, ChildTarget, Input as CoreInput, Mode, Notice, Reconciler, Signal, Source, Stored,
};
use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    actors::{
        health::{Health, HealthAgent, HealthEvent},
        health_absent,
        health_policy::{POLICY, PolicySpec},
        health_pools,
    },
    api::Kind,
    mutant::Mutant,
    palette,
    world::World,
};

/// The values of taints, by key.
type Levels = BTreeMap<Text, Text>;

impl World {
    /// Passes on the events of incidents and jobs since its last turn, all or those that its watch has delivered; a new controller gets all objects.
    pub(super) fn hear_incidents(&mut self, number: usize, now: Timestamp, hears_all: bool) {
        let Health { agents, incidents, jobs, reports, tallies, log, policy, .. } = &mut self.health;
        let HealthAgent { core, heard, delivered, policy: known, is_all, revision, .. } = &mut agents[number];
        let mutant = self.mutant;
        let as_seen = |mut spec: PolicySpec| match mutant {
            Some(Mutant::IgnoreObserve) => {
                spec.mode = Mode::Enforce;
                spec
            }
            Some(_) | None => spec,
        };
        let before = *heard;
        let until = before.filter(|_| !hears_all).map_or(log.len(), |before| before.max(*delivered));
        *heard = Some(until);
        let Some(before) = before else {
            *known = policy.map(as_seen);
            if let Some(spec) = known {
                core.handle(now, Notice::Core(CoreInput::Policy(Box::new(spec.policy()))));
                let tallies = tallies.clone();
                core.handle(now, Notice::Core(CoreInput::Counted { policy: POLICY.into(), tallies }));
            }
            let is_heard = |stored: &&Stored| match mutant {
                Some(Mutant::ForgetIncidents) => false,
                Some(Mutant::UnseenEnd) => stored.incident.is_open(),
                Some(_) | None => true,
            };
            for stored in incidents.values().filter(is_heard) {
                core.handle(now, Notice::Stored(Box::new(stored.clone())));
            }
            for job in jobs.values() {
                core.handle(now, Notice::Child(job.clone()));
            }
            for report in reports.values() {
                core.handle(now, Notice::Report(report.clone()));
            }
            return;
        };
        for event in &log[before..until] {
            let notice = match event.clone() {
                HealthEvent::Incident(stored)
                    if mutant == Some(Mutant::UnseenEnd) && !stored.incident.is_open() =>
                {
                    continue;
                }
                HealthEvent::Incident(stored) => Notice::Stored(stored),
                HealthEvent::IncidentGone(name, uid) => Notice::StoredGone(name, uid),
                HealthEvent::Job(job) => Notice::Child(job),
                HealthEvent::JobGone(name) => Notice::ChildGone(ChildKind::Job, Text::default(), name),
                HealthEvent::Report(report) => Notice::Report(report),
                HealthEvent::ReportGone(name) => Notice::ReportGone(name),
                HealthEvent::Policy(None) if mutant == Some(Mutant::UnseenPolicyEnd) => continue,
                HealthEvent::Policy(None) => {
                    *known = None;
                    Notice::Core(CoreInput::PolicyGone(POLICY.into()))
                }
                HealthEvent::Policy(Some(spec)) => {
                    let spec = as_seen(spec);
                    (*known, *revision, *is_all) = (Some(spec), None, true);
                    Notice::Core(CoreInput::Policy(Box::new(spec.policy())))
                }
            };
            core.handle(now, notice);
        }
    }

    /// Devices that are published, what drivers and administrators taint them with, and those that are not published any more.
    pub(super) fn hear_devices(&mut self, number: usize, now: Timestamp) {
        let seen = self.clients[number].view.of(&self.api);
        let (fleet, agent) = (&self.clients[number].fleet, &mut self.health.agents[number]);
        let HealthAgent { core, revision, raised, pools, policy, vanished, is_all, .. } = agent;
        if policy.is_none() {
            *revision = None;
            let gone: Vec<DeviceId> = raised.keys().filter(|id| !vanished.contains(id)).cloned().collect();
            for id in gone {
                raised.remove(&id);
                core.handle(now, Notice::Core(CoreInput::DeviceGone(id)));
            }
            return;
        }
        if revision.replace(fleet.revision()) == Some(fleet.revision()) {
            return;
        }
        let is_all = core::mem::take(is_all);
        let is_missed = self.config.healed > 1;
        let is_told = self.mutant != Some(Mutant::OverlookVanished);
        for device in 0..self.api.catalog.devices() {
            let id = self.api.catalog.id(u32::try_from(device).unwrap_or(u32::MAX));
            let (known, is_published) = (raised.get(&id), fleet.device(&id).is_some());
            if !is_published && known.is_none() {
                continue;
            }
            let is_news = known.is_none() || is_all;
            let mut levels = BTreeMap::new();
            if is_published {
                for found in fleet.effective_taints(&id) {
                    if !matches!(found.origin, Origin::Rule { .. }) {
                        levels.entry(found.taint.key.clone()).or_insert_with(|| found.taint.value.clone());
                    }
                }
                if is_news {
                    let hardware = Some(id.to_string().into());
                    let input = CoreInput::Device { id: id.clone(), hardware, policies: vec![POLICY.into()] };
                    core.handle(now, Notice::Core(input));
                }
            }
            let is_listed = seen.lists(&id);
            if is_listed && vanished.remove(&id) {
                health_absent::lower(core, now, &id);
            }
            if is_news || known != Some(&levels) {
                let before =
                    raised.insert(id.clone(), levels.clone()).filter(|_| !is_all).unwrap_or_default();
                tell_difference(core, now, &id, &before, &levels);
            }
            if !is_listed && is_missed && (vanished.insert(id.clone()) || is_all) && is_told {
                health_absent::raise(core, now, &id);
            }
            if is_news && pools.is_raised(&id.pool_id()) {
                health_pools::raise(core, now, &id);
            }
            let is_node_gone = seen.node(&id.pool).is_none() && *id.driver != *palette::FABRIC_DRIVER;
            if is_node_gone && vanished.remove(&id) {
                // A device goes with its node.
                raised.remove(&id);
                health_absent::lower(core, now, &id);
                core.handle(now, Notice::Core(CoreInput::DeviceGone(id)));
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
        let found = found.map(|child| self.child_as_seen(child));
        let found: BTreeMap<(ChildKind, Text), Child> =
            found.map(|child| ((child.target.kind(), child.name.clone()), child)).collect();
        let agent = &mut self.health.agents[number];
        let before = core::mem::replace(&mut agent.children, found);
        let incidents = &self.health.incidents;
        let is_unseen = |name: &Text| {
            let is_wanted = |stored: &Stored| stored.incident.is_open() && stored.incident.is_enforced;
            self.mutant == Some(Mutant::UnseenRemoval) && incidents.get(name).is_some_and(is_wanted)
        };
        let agent = &mut self.health.agents[number];
        let is_gone = |(_, name): &&(ChildKind, Text)| !is_unseen(name);
        for (kind, name) in before.keys().filter(|place| !agent.children.contains_key(*place)).filter(is_gone)
        {
            agent.core.handle(now, Notice::ChildGone(*kind, Text::default(), name.clone()));
        }
        for (place, child) in &agent.children {
            if before.get(place) != Some(child) {
                agent.core.handle(now, Notice::Child(child.clone()));
            }
        }
    }

    /// A rule of an incident as a mutant shows it.
    fn child_as_seen(&self, mut child: Child) -> Child {
        let Some(stored) = self.health.incidents.get(&child.owner.name) else { return child };
        match (self.mutant, &mut child.target) {
            (
                Some(Mutant::ForgetTaintKeys),
                ChildTarget::Rule { taint, .. } | ChildTarget::Drain { taint, .. },
            ) => taint.clone_from(&stored.incident.taint),
            (Some(Mutant::TaintHeld), ChildTarget::Rule { effect, .. }) if stored.incident.held.is_some() => {
                *effect = "None".into();
            }
            _ => {}
        }
        child
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
            let namespace = |claim| Some(fleet.claim(claim)?.key.namespace.clone());
            let holders = fleet.holders(&device).filter(|_| self.config.healed > 1);
            let namespaces: BTreeSet<Text> = holders.filter_map(namespace).collect();
            let namespaces = namespaces.into_iter().collect();
            agent.core.handle(now, Notice::Core(CoreInput::InUse { device, is_used, namespaces }));
        }
    }
}

/// Raises signals that are new or have another value, and lowers those that ended.
fn tell_difference(core: &mut Reconciler, now: Timestamp, id: &DeviceId, before: &Levels, levels: &Levels) {
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
        core.handle(now, Notice::Core(CoreInput::Lowered { device, key, source: Source::Taint }));
    }
}
