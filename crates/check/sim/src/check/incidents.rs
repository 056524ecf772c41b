//! Incidents at rest, by the objects that were made for them, by pools and by time; and what is stored before something is done.

use lazaret_lifecycle::{ChildKind, Incident, Mode, Owner, PoolState, Stage, Stored};
use lazaret_model::{DeviceId, DeviceTaintRule, Effect, PoolId, Text};

use crate::{
    actors::{
        controller::Controller, health::history, health_policy::TORN, health_pools::Torn,
        health_writes::rule_name,
    },
    coverage::Mark,
    palette,
    world::World,
};

/// An invariant, and how it is violated.
type Complaint = (&'static str, String);

impl World {
    /// A repair or a validation begins: its number is stored.
    pub(crate) fn check_run_is_stored(&mut self, owner: &Owner, incident: &Incident) {
        let stored = self.health.incidents.get(&owner.name).filter(|stored| stored.uid == owner.uid);
        if stored.is_some_and(|stored| stored.incident.tries < incident.tries) {
            let detail = format!("{} is to run", incident.task_name());
            self.violate("nothing runs before its incident says so", detail);
        }
    }

    /// A repair or a validation begins: the taint of its incident has an effect, and no claim has the device that had it when the taint was written.
    /// Where others meddle they may have taken the rule away just now.
    pub(crate) fn check_device_is_idle(&mut self, owner: &Owner, incident: &Incident) {
        let rule = self.api.rules.get(&rule_name(ChildKind::Rule, &owner.name));
        let own =
            rule.filter(|rule| self.health.owners.get(&rule.object.uid).is_some_and(|(of, _)| of == owner));
        let is_tainted = own.is_some_and(|rule| rule.object.taint.effect != Effect::None);
        let since = own.and_then(|rule| self.health.tainted.get(&rule.object.uid)).copied().unwrap_or(0);
        if !is_tainted && self.config.healed < 2 {
            self.violate("nothing begins before the taint is in force", incident.task_name().to_string());
        }
        let holds = |claim: &&lazaret_model::ResourceClaim| {
            let results = claim.allocation.iter().flat_map(|given| &given.results);
            results.into_iter().any(|result| result.device == incident.device && !result.admin_access)
        };
        let older = self.api.claims.iter().filter(|claim| claim.version < since);
        let held = older.map(|claim| &**claim.object).find(holds).map(|claim| claim.key.to_string());
        if let Some(claim) = held {
            let detail = format!("{} begins while {claim} has {}", incident.task_name(), incident.device);
            self.violate("nothing begins while a claim has the device", detail);
        }
    }

    /// An incident is opened, and goes further, for a pool that has been incomplete for long, as far as some controller knew at that instant.
    pub(crate) fn check_torn_causes(&mut self, incident: &Incident) {
        let pool = incident.device.pool_id();
        let still = self.health.agents.iter().filter_map(|agent| {
            let since = *agent.torn.get(&pool)?;
            Some(Torn::new(pool.clone(), since, lazaret_model::Timestamp::NEVER))
        });
        let known: Vec<Torn> = still.chain(self.health.torn.iter().cloned()).collect();
        let cause = format!("rule {TORN}");
        let early = incident.timeline.iter().filter(|entry| entry.cause.starts_with(&cause)).find(|entry| {
            !known.iter().any(|torn| torn.pool == pool && torn.from <= entry.at && entry.at <= torn.until)
        });
        if *incident.rule == *TORN {
            self.coverage.hit(Mark::PoolTorn);
        }
        if let Some(early) = early {
            let detail = format!("{} has {early:?}, and {known:?}", incident.name);
            self.violate("a pool is reported when it has been incomplete for long", detail);
        }
    }

    /// At rest: no taint is left that no open incident explains, each incident has what its stage requires, and is over or says what it waits for.
    pub(crate) fn check_incidents_at_rest(&mut self) {
        let mut complaints = self.taints_at_rest();
        complaints.extend(self.stages_at_rest());
        complaints.extend(self.doubles_at_rest());
        complaints.extend(self.recovery_at_rest());
        if let Some(name) = self.health.reports.keys().next() {
            complaints.push(("every report is taken in", format!("{name} is left")));
        }
        for (invariant, detail) in complaints {
            self.violate(invariant, detail);
        }
    }

    /// Taints by the incidents that explain them.
    fn taints_at_rest(&self) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        let observes = |policy: &Text| {
            self.health.policy_named(policy).is_some_and(|policy| policy.mode == Mode::Observe)
        };
        for stored in self.api.rules.iter() {
            let Some((owner, _)) = self.health.owners.get(&stored.object.uid) else { continue };
            let incident = self.health.incidents.get(&owner.name).filter(|known| known.uid == owner.uid);
            let open = incident.filter(|known| known.incident.is_open());
            if open.is_none() {
                let detail = format!("{} is left of {}", stored.object.name, owner.name);
                complaints.push(("every taint of an incident is explained", detail));
            } else if open.is_some_and(|known| observes(&known.incident.policy)) {
                complaints.push(("a policy that observes taints nothing", stored.object.name.to_string()));
            }
            if let Some(Stored { incident, .. }) = incident
                && (&stored.object.taint.key, &stored.object.taint.value)
                    != (&incident.taint.key, &incident.taint.value)
            {
                let detail =
                    format!("{} is {}, not {}", stored.object.name, stored.object.taint, incident.taint);
                complaints.push(("the taint of an incident is the one that it names", detail));
            }
        }
        complaints
    }

    /// Open incidents by their taints and their words.
    fn stages_at_rest(&self) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        for Stored { incident, .. } in self.health.incidents.values().filter(|one| one.incident.is_open()) {
            let (name, stage) = (&incident.name, incident.stage);
            let rule = |kind| self.api.rules.get(&rule_name(kind, name)).map(|stored| stored.object);
            let effect =
                rule(ChildKind::Rule).map(|rule: &std::sync::Arc<DeviceTaintRule>| &rule.taint.effect);
            if incident.held.is_some() && effect.is_some_and(|effect| *effect != Effect::None) {
                complaints.push(("an incident that is held keeps nobody away", name.to_string()));
            }
            let is_out = stage.is_out_of_service();
            let wanted = if is_out { Effect::NoSchedule } else { Effect::None };
            let drains = is_out && stage != Stage::Quarantined;
            if incident.is_enforced && (effect != Some(&wanted) || drains != rule(ChildKind::Drain).is_some())
            {
                let detail = format!("{name} is {stage:?}, and its rule is {effect:?}");
                complaints.push(("an incident has the taints of its stage", detail));
            }
            if incident.waits_for.is_empty() {
                let detail = format!("{name} is {stage:?}");
                complaints.push(("an incident is over or says what it waits for", detail));
            }
            // Another policy may want what a guard holds.
            let wants = incident.held.as_ref().map_or(&incident.policy, |held| &held.policy);
            let has_policy = self.health.policy_named(wants).is_some();
            if !has_policy && !incident.waits_for.contains("a person") {
                let detail = format!("{name} is {stage:?}, waiting for {}", incident.waits_for);
                complaints.push(("an incident without a policy is left to people", detail));
            }
        }
        complaints
    }

    fn doubles_at_rest(&self) -> Option<Complaint> {
        let open = self.health.incidents.values().filter(|one| one.incident.is_open());
        let mut open: Vec<&DeviceId> = open.map(|one| &one.incident.device).collect();
        open.sort();
        let twice = open.windows(2).find(|two| two[0] == two[1])?;
        Some(("a device has one open incident", format!("{} has two", twice[0])))
    }

    /// Devices that are calm and idle are well, whatever guards say; those of incomplete pools, and those that are gone,
    /// have incidents; and what has been over for long is removed.
    fn recovery_at_rest(&self) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        let Some(leader) = self.controllers.iter().position(Controller::leads) else { return complaints };
        let (now, keep_ms) = (self.controllers[leader].clock(self.now), history(&self.config).keep_ms);
        let incidents = || self.health.incidents.values().map(|stored| &stored.incident);
        // Those whose flaps count are kept for longer.
        let returned = |one: &&Incident| one.cost.out_of_service_ms > 0;
        let is_old = |one: &&Incident| !one.is_open() && one.since.plus_millis(keep_ms) < now;
        for old in incidents().filter(|one| is_old(one) && !returned(one)) {
            complaints.push(("incidents are kept for their time", format!("{} is left", old.name)));
        }
        // Incidents wait for a person, and none is opened.
        if self.health.policy.is_none() {
            return complaints;
        }
        let (fleet, seen) = (&self.clients[leader].fleet, self.seen(leader));
        let minds_slices = self.config.healed > 1;
        let torn = seen.pools().filter(|(_, state)| minds_slices && *state == PoolState::Incomplete);
        let torn: Vec<PoolId> = torn.map(|(pool, _)| pool).collect();
        for incident in incidents().filter(|one| one.is_open() && one.stage != Stage::Abandoned) {
            let is_calm = fleet.effective_taints(&incident.device).all(|found| {
                matches!(found.origin, lazaret_fleet::Origin::Rule { .. })
                    || !palette::KEYS.contains(&&*found.taint.key)
            });
            let is_missed = minds_slices && !seen.lists(&incident.device);
            let is_calm = is_calm && !is_missed && !torn.contains(&incident.device.pool_id());
            let is_idle = fleet.holders(&incident.device).next().is_none();
            // Its policy has fewer steps now: a person has to repair it.
            let steps = self.health.policy_named(&incident.policy).map_or(0, |policy| policy.steps.len());
            let is_persons = incident.stage == Stage::Repairing && steps <= incident.step;
            // Its driver publishes two devices with one identity, or it is gone with its node.
            let is_persons = is_persons || incident.twin.is_some() || incident.gone_since.is_some();
            // A held verdict is carried out when its guard permits it, and a rule that is held waits for its approval.
            let waits_for_guard = incident.held.is_some()
                || self
                    .api
                    .rules
                    .get(&rule_name(ChildKind::Rule, &incident.name))
                    .is_some_and(|rule| rule.object.is_held());
            if is_calm && is_idle && !is_persons && !waits_for_guard {
                let (name, stage) = (&incident.name, incident.stage);
                let detail = format!("{name} is {stage:?}, waiting for {}", incident.waits_for);
                complaints.push(("recovery waits for no guard", detail));
            }
        }
        // Of a policy that is new nobody knows which devices it would have selected, but for those that claims hold.
        let is_old = self.coverage.count(Mark::PolicyDeleted) == 0;
        for device in 0..self.api.catalog.devices() {
            let id = self.api.catalog.id(u32::try_from(device).unwrap_or(u32::MAX));
            let has_node = self.api.nodes.get(&id.pool).is_some();
            let is_held = fleet.holders(&id).next().is_some() && has_node;
            // A device whose hardware is published under another name is not missed.
            let mut pools = self.drivers.pools.iter();
            let pool = pools.find(|pool| (&pool.driver, &pool.name) == (&id.driver, &id.pool));
            let twins: Vec<DeviceId> = pool.into_iter().flat_map(|pool| pool.twins_of(&id.device)).collect();
            let is_held = is_held && !twins.iter().any(|twin| seen.lists(twin));
            let is_gone = is_held || is_old && self.health.agents[leader].levels.is_vanished(&id);
            let complaint = match (seen.lists(&id), torn.contains(&id.pool_id())) {
                (true, true) if fleet.device(&id).is_some() => "a pool that stays incomplete is noticed",
                (false, _) if minds_slices && is_gone => "a device that is gone is missed",
                (true | false, _) => continue,
            };
            // It was published under the other name when it left this one, and its hardware has one incident.
            let of_hardware = |device: &DeviceId| *device == id || !seen.lists(&id) && twins.contains(device);
            if !incidents().any(|one| one.is_open() && of_hardware(&one.device)) {
                complaints.push((complaint, format!("{id} has no incident")));
            }
        }
        complaints
    }
}
