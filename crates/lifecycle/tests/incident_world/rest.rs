//! Properties that hold after every step, how a world comes to rest, and properties that hold then.

use std::collections::BTreeSet;

use lazaret_lifecycle::{Child, ChildKind, ChildTarget, Stage};
use lazaret_model::{DeviceId, Text};

use super::{
    SECOND,
    objects::{Event, Mutant, taint_key},
    world::{FOREIGN, World},
};

/// After as many rounds in which nothing happens nothing will.
const QUIET_ROUNDS: usize = 40;

impl World {
    pub(super) fn check(&mut self) {
        if !self.api.foreign.contains(FOREIGN) {
            self.broken = Some("somebody else's rule was touched".to_owned());
        }
        let out = self.out_by_policy();
        if out.len() as u64 > self.api.guard.permitted {
            let permitted = self.api.guard.permitted;
            self.broken = Some(format!("{out:?} are out of service, {permitted} permitted"));
        }
        if let Some(((_, name), times)) = self.api.made.iter().find(|(_, times)| **times > 1) {
            self.broken = Some(format!("{name} was run {times} times"));
        }
    }

    /// Devices that policies keep out of service: what people gave up is theirs.
    pub(super) fn out_by_policy(&self) -> BTreeSet<&DeviceId> {
        let is_by_policy = |child: &&Child| {
            // A leader takes back what one before it wrote too late.
            let is_late = self.api.late.contains(&child.uid);
            self.api.incidents.get(&child.owner.name).is_some_and(|stored| {
                stored.uid == child.owner.uid
                    && !is_late
                    && stored.incident.is_open()
                    && stored.incident.handled.abandoned.is_none()
            })
        };
        let rules = self.api.children.values().filter(is_by_policy);
        rules
            .filter_map(|child| match &child.target {
                ChildTarget::Rule { device, effect, .. } if **effect == *"NoSchedule" => Some(device),
                ChildTarget::Rule { .. }
                | ChildTarget::Drain { .. }
                | ChildTarget::Job { .. }
                | ChildTarget::Claim => None,
            })
            .collect()
    }

    /// Signals end, repairs succeed, nothing is lost: everything comes to rest, also while the breaker is tripped. Where signals go on, what they
    /// want waits for something.
    pub(super) fn rest(&mut self, is_calm: bool) {
        if is_calm {
            for (device, key) in core::mem::take(&mut self.raised) {
                self.api.log.push(Event::Lowered(device, key));
            }
        }
        self.lead(0);
        let mut quiet = 0;
        for _ in 0..2_000 {
            self.rest_pool(is_calm);
            self.hear(0, usize::MAX);
            self.tell_usage(0);
            self.think(0);
            while !self.controllers[0].in_flight.is_empty() {
                self.land(0, true);
            }
            self.pods();
            self.jobs(true);
            self.now += 2 * SECOND;
            if self.mutant == Mutant::UntaintsAbandoned {
                self.untaint_abandoned();
            }
            self.check();
            let is_quiet = self.api.log.len() == self.controllers[0].heard
                && self.pool_is_settled()
                && (!is_calm || self.is_at_rest());
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet > QUIET_ROUNDS {
                return;
            }
        }
    }

    /// The act of a mutant: the taints are removed without an event.
    pub(super) fn untaint_abandoned(&mut self) {
        let incidents = &self.api.incidents;
        let is_abandoned =
            |name: &Text| incidents.get(name).is_some_and(|stored| stored.incident.stage == Stage::Abandoned);
        self.api.children.retain(|(kind, name), _| *kind >= ChildKind::Job || !is_abandoned(name));
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.api
            .incidents
            .values()
            .all(|stored| matches!(stored.incident.stage, Stage::Cleared | Stage::Abandoned))
            && self.orphans().is_empty()
            && self.api.reports.is_empty()
    }

    /// Taints that no open incident explains.
    pub(super) fn orphans(&self) -> Vec<String> {
        let taints = self.api.children.values().filter(|child| child.target.kind() < ChildKind::Job);
        let is_explained = |child: &&Child| {
            self.api
                .incidents
                .get(&child.owner.name)
                .is_some_and(|stored| stored.uid == child.owner.uid && stored.incident.is_open())
        };
        taints.filter(|child| !is_explained(child)).map(|child| format!("{:?}", child.target)).collect()
    }

    pub(super) fn check_rest(&mut self, is_calm: bool) {
        let open = self.api.incidents.values().filter(|stored| stored.incident.is_open());
        let mut devices: Vec<&DeviceId> = open.map(|stored| &stored.incident.device).collect();
        let incidents = devices.len();
        devices.dedup();
        if devices.len() < incidents {
            self.broken = Some("a device has two open incidents".to_owned());
        }
        for stored in self.api.incidents.values() {
            let (stage, name) = (stored.incident.stage, &stored.incident.name);
            let is_over = matches!(stage, Stage::Cleared | Stage::Abandoned);
            let names_what = !stored.incident.waits_for.is_empty();
            if !is_over && (is_calm || !names_what) {
                self.broken =
                    Some(format!("{name} is {stage:?} for ever, waiting for {}", stored.incident.waits_for));
            }
            let has = |kind| self.api.children.contains_key(&(kind, name.clone()));
            let is_kept_away = self.api.children.get(&(ChildKind::Rule, name.clone())).is_some_and(
                |child| matches!(&child.target, ChildTarget::Rule { effect, .. } if **effect != *"None"),
            );
            if stored.incident.held.is_some() && is_kept_away {
                self.broken = Some(format!("{name} is held and keeps its device from others"));
            }
            let wrong_key = [ChildKind::Rule, ChildKind::Drain].into_iter().find_map(|kind| {
                let key = taint_key(self.api.children.get(&(kind, name.clone()))?)?;
                (key != stored.incident.taint.key).then_some(key)
            });
            if let Some(key) = wrong_key {
                let wanted = &stored.incident.taint.key;
                self.broken = Some(format!("{name} taints with {key} instead of {wanted}"));
            }
            if stage == Stage::Abandoned
                && stored.incident.is_enforced
                && !(has(ChildKind::Rule) && has(ChildKind::Drain))
            {
                self.broken = Some(format!("{name} is abandoned and not tainted"));
            }
        }
        if let Some(orphan) = self.orphans().into_iter().next() {
            self.broken = Some(format!("nobody explains {orphan}"));
        }
        self.check_pool_at_rest();
        if !self.api.reports.is_empty() {
            self.broken = Some("a report was not taken in".to_owned());
        }
    }
}
