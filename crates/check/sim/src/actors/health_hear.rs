//! The inputs of health controllers: incidents, jobs and reports by their own watches, devices and rules by those of the eviction controller beside
//! them.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_fleet::Fleet;
use lazaret_lifecycle::{
    Child, ChildKind, ChildTarget, Input as CoreInput, Mode, Notice, Reconciler, Stored,
};
use lazaret_model::{Text, Timestamp};
use lazaret_signals::Levels;

use crate::{
    actors::{
        health::{Health, HealthAgent, HealthEvent},
        health_devices,
        health_policy::{Beside, POLICY, PolicySpec},
    },
    api::Kind,
    mutant::Mutant,
    world::World,
};

impl World {
    /// Passes on the events of incidents and jobs since its last turn, all or those that its watch has delivered; a new controller gets all objects.
    pub(super) fn hear_incidents(&mut self, number: usize, now: Timestamp, hears_all: bool) {
        let Health { agents, incidents, jobs, reports, tallies, log, policy, beside, .. } = &mut self.health;
        let HealthAgent {
            core, heard, delivered, policy: known, beside: known_beside, fleet, levels, ..
        } = &mut agents[number];
        let mutant = self.mutant;
        let as_seen = |spec: PolicySpec| as_mutant(spec, mutant);
        let before = *heard;
        let until = before.filter(|_| !hears_all).map_or(log.len(), |before| before.max(*delivered));
        *heard = Some(until);
        let Some(before) = before else {
            *known = policy.map(as_seen);
            if let Some(spec) = known {
                core.handle(now, Notice::Core(CoreInput::Policy(Box::new(spec.policy()))));
                health_devices::select(POLICY, fleet, levels);
            }
            see_beside(now, (Beside::default(), *beside), mutant, (&mut *core, &mut *fleet, &mut *levels));
            *known_beside = *beside;
            let is_heard = |stored: &&Stored| match mutant {
                Some(Mutant::ForgetIncidents) => false,
                Some(Mutant::UnseenEnd) => stored.incident.is_open(),
                Some(_) | None => true,
            };
            let counts = tallies.iter().map(|(policy, tallies)| {
                Notice::Core(CoreInput::Counted { policy: policy.clone(), tallies: tallies.clone() })
            });
            let incidents = incidents.values().filter(is_heard);
            let incidents = incidents.map(|stored| Notice::Stored(Box::new(stored.clone())));
            let jobs = jobs.values().map(|job| Notice::Child(job.clone()));
            let reports = reports.values().map(|report| Notice::Report(report.clone()));
            let all = counts.chain(incidents).chain(jobs).chain(reports);
            all.for_each(|notice| core.handle(now, notice));
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
                HealthEvent::Beside(beside) => {
                    let before = core::mem::replace(known_beside, beside);
                    see_beside(now, (before, beside), mutant, (&mut *core, &mut *fleet, &mut *levels));
                    continue;
                }
                HealthEvent::Policy(None) if mutant == Some(Mutant::UnseenPolicyEnd) => continue,
                HealthEvent::Policy(None) => {
                    *known = None;
                    health_devices::select_nothing(POLICY, fleet, levels);
                    Notice::Core(CoreInput::PolicyGone(POLICY.into()))
                }
                HealthEvent::Policy(Some(spec)) => {
                    let spec = as_seen(spec);
                    *known = Some(spec);
                    health_devices::select(POLICY, fleet, levels);
                    Notice::Core(CoreInput::Policy(Box::new(spec.policy())))
                }
            };
            core.handle(now, notice);
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
            (Some(Mutant::UnseenHold), ChildTarget::Rule { held, .. }) => *held = None,
            (Some(Mutant::TaintHeld), ChildTarget::Rule { effect, .. }) if stored.incident.held.is_some() => {
                *effect = "None".into();
            }
            _ => {}
        }
        child
    }

    /// Passes on which devices of open incidents are in use.
    pub(super) fn hear_usage(&mut self, number: usize, now: Timestamp) {
        let HealthAgent { core, fleet, usage, .. } = &mut self.health.agents[number];
        for mut heard in usage.settle(fleet, core.lifecycle()) {
            if let (Some(Mutant::UnseenUse), CoreInput::InUse { is_used, .. }) = (self.mutant, &mut heard) {
                *is_used = false;
            }
            core.handle(now, Notice::Core(heard));
        }
    }
}

/// The policy as a mutant has it.
fn as_mutant(mut spec: PolicySpec, mutant: Option<Mutant>) -> PolicySpec {
    if mutant == Some(Mutant::IgnoreObserve) {
        spec.mode = Mode::Enforce;
    }
    spec
}

/// Policies beside the first one come and go.
fn see_beside(
    now: Timestamp,
    (before, now_there): (Beside, Beside),
    mutant: Option<Mutant>,
    (core, fleet, levels): (&mut Reconciler, &mut Fleet, &mut Levels),
) {
    let names =
        |beside: Beside| beside.policies(mutant).map(|policy| policy.name).collect::<BTreeSet<Text>>();
    let (before, kept) = (names(before), names(now_there));
    for gone in before.difference(&kept) {
        health_devices::select_nothing(gone, fleet, levels);
        core.handle(now, Notice::Core(CoreInput::PolicyGone(gone.clone())));
    }
    for policy in now_there.policies(mutant).filter(|policy| !before.contains(&policy.name)) {
        health_devices::select(&policy.name, fleet, levels);
        core.handle(now, Notice::Core(CoreInput::Policy(Box::new(policy))));
    }
}
