//! The properties that must hold when faults have ended and nothing is left to do.

use std::{collections::BTreeSet, sync::Arc};

use lazaret_eviction::{DRAINED, EVICTION_IN_PROGRESS, EffectKind, Eviction, Input};
use lazaret_fleet::Fleet;
use lazaret_model::{ConditionStatus, DeviceTaintRule, EvictionCount};

use crate::{
    actors::{client::fleet_kind, controller::Controller},
    api::Kind,
    check::compare::{Beside, device_differs, taints_differ},
    reference,
    view::{Listed, View},
    world::{CLIENTS, World},
};

impl World {
    /// Everything, in the order in which a failure is easiest to read.
    pub(crate) fn check_at_rest(&mut self) {
        for number in 0..CLIENTS {
            for kind in Kind::ALL {
                if self.clients[number].view.behind(&self.api, kind) {
                    self.violate(
                        "watches catch up",
                        format!("client {number} has not heard all of {kind:?}"),
                    );
                }
            }
        }
        self.check_devices_at_rest();
        self.check_pods_at_rest();
        self.check_rules_at_rest();
        self.check_incidents_at_rest();
        self.check_claims_at_rest();
        self.check_given_once_at_rest();
        self.check_kubelets_at_rest();
        self.check_nodes_at_rest();
        self.check_questions_at_rest();
        self.check_placement_at_rest();
        self.check_owners_at_rest();
        self.check_replacement_at_rest();
        self.check_fresh();
        self.check_fixed_point();
    }

    /// All fleets see the same taints, and so does the reference: the scheduler and the eviction agree.
    fn check_devices_at_rest(&mut self) {
        for device in 0..self.api.catalog.devices() {
            let id = self.api.catalog.id(u32::try_from(device).unwrap_or(u32::MAX));
            for number in 0..CLIENTS {
                let (seen, fleet) = (self.seen(number), &self.clients[number].fleet);
                let device = seen.device(&id);
                let differs = taints_differ(&reference::taints(seen, device), fleet, device)
                    .or_else(|| device_differs(seen, fleet, device));
                if let Some(detail) = differs {
                    self.violate("fleets agree on every device", format!("client {number}: {detail}"));
                }
            }
        }
    }

    fn check_pods_at_rest(&mut self) {
        for number in 0..self.controllers.len() {
            let pods: Vec<u32> = self.seen(number).pods().map(|pod| pod.place).collect();
            pods.into_iter().for_each(|pod| self.compare(number, pod, Beside::Devices));
            if !self.controllers[number].leads() {
                continue;
            }
            let seen = self.seen(number);
            let left = seen.pods().find_map(|pod| {
                let causes = reference::causes(seen, pod);
                (!causes.is_empty()).then(|| format!("{} {} is still there: {causes:?}", pod.key, pod.uid))
            });
            if let Some(detail) = left {
                self.violate("who must go is gone", detail);
            }
        }
    }

    fn check_rules_at_rest(&mut self) {
        let rules: Vec<Arc<DeviceTaintRule>> =
            self.api.rules.iter().map(|stored| Arc::clone(stored.object)).collect();
        for rule in rules {
            let Some(condition) = rule.conditions.iter().find(|c| c.kind == EVICTION_IN_PROGRESS) else {
                self.violate("every rule has a status", format!("{} has none", rule.name));
                continue;
            };
            if condition.status != ConditionStatus::False || condition.observed_generation != rule.generation
            {
                let detail = format!("{}: {condition:?} at generation {}", rule.name, rule.generation);
                self.violate("every rule comes to an end", detail);
            }
            self.check_count(&rule);
            self.check_drained(&rule);
        }
    }

    /// A status counts the pods that left because of the rule, however its leaders ended. It says that there may have been more only if the answer
    /// to an eviction is unknown, or a pod vanished that a leader had named and its successor had not evicted. A pod that was named or marked and
    /// then deleted by another writer may be counted: nobody can tell.
    fn check_count(&mut self, rule: &DeviceTaintRule) {
        let none = BTreeSet::new();
        let evicted = self.checker.evicted.get(&rule.uid).unwrap_or(&none);
        let uncertain = self.checker.uncertain.get(&rule.uid).unwrap_or(&none);
        let EvictionCount { pods: stated, at_least, .. } = rule.evictions.unwrap_or_default();
        let truth = evicted.len() as u64;
        let least = match (at_least, self.checker.abrupt_ends == 0) {
            (false, _) => truth,
            (true, true) => evicted.difference(uncertain).count() as u64,
            (true, false) => 0,
        };
        let [gone, stayed] = self.checker.named.get(&rule.uid).cloned().unwrap_or_default();
        let unsure = uncertain.union(&gone).filter(|pod| !evicted.contains(*pod)).count() as u64;
        if at_least && uncertain.is_empty() && stayed.is_empty() {
            let detail = format!("{}: {stated} of {truth} pods, and nothing is unknown", rule.name);
            self.violate("a count is exact", detail);
        }
        if stated > truth + unsure || stated < least {
            let detail = format!(
                "{}: states {stated}, at least: {at_least}; {truth} pods left, {least} are known, {unsure} unsure",
                rule.name
            );
            self.violate("status counts match history", detail);
        }
    }

    /// A leader begins: what became of the pods that statuses name is for it to find out.
    pub(crate) fn note_named(&mut self) {
        for rule in self.api.rules.iter().map(|stored| Arc::clone(stored.object)) {
            for uid in &rule.evicting {
                let stays = self.api.pods.iter().any(|stored| stored.object.uid == *uid);
                let named = self.checker.named.entry(rule.uid.clone()).or_default();
                named[usize::from(stays)].insert(uid.clone());
            }
        }
    }

    /// Devices are said to be idle where no claim has one that the rule selects.
    fn check_drained(&mut self, rule: &DeviceTaintRule) {
        let Some(leader) = self.controllers.iter().position(Controller::leads) else { return };
        let selection = self.clients[leader].fleet.rule_selection(&rule.name);
        let in_use = selection.held().next().is_some();
        let said = rule.conditions.iter().find(|condition| condition.kind == DRAINED);
        let expected = match (in_use, selection.problem().is_some()) {
            (true, _) => ConditionStatus::False,
            (false, true) => ConditionStatus::Unknown,
            (false, false) => ConditionStatus::True,
        };
        if said.is_none_or(|said| said.status != expected) {
            let detail = format!("{}: {said:?}, in use: {in_use}", rule.name);
            self.violate("status says whether devices are idle", detail);
        }
    }

    /// No controller has anything to do, however long it waits, also after it has listed everything once more.
    fn check_fixed_point(&mut self) {
        for number in 0..self.controllers.len() {
            for kind in Kind::ALL {
                let client = &mut self.clients[number];
                let objects = client.view.list(&self.api, kind, Listed::Everything);
                client.fleet.relist(fleet_kind(kind), objects);
            }
            let changes = self.clients[number].fleet.take_changes();
            let now = self.controllers[number].clock(self.now);
            let eviction = &mut self.controllers[number].eviction;
            let fleet = &self.clients[number].fleet;
            eviction.handle(now, fleet, Input::Changed(&changes));
            eviction.handle(now.plus_secs(3600), fleet, Input::Tick);
            while let Some(request) = eviction.poll_view() {
                eviction.handle(now.plus_secs(3600), fleet, Input::ViewReached(request.number));
            }
            if let Some(effect) = eviction.poll_effect() {
                self.violate("a world at rest stays so", format!("controller {number}: {effect:?}"));
            }
        }
    }

    /// A machine that starts now has nothing to do and sees the same.
    fn check_fresh(&mut self) {
        let number = usize::from(!self.controllers[0].leads());
        let (mut fleet, mut view) = (Fleet::new(), View::default());
        for kind in Kind::ALL {
            let objects = view.list(&self.api, kind, Listed::Everything);
            fleet.relist(fleet_kind(kind), objects);
        }
        let mut eviction = Eviction::new(self.controllers[number].options().clone());
        let now = self.controllers[number].clock(self.now).plus_secs(3600);
        let changes = fleet.take_changes();
        eviction.handle(now, &fleet, Input::Changed(&changes));
        eviction.handle(now, &fleet, Input::BecameLeader);
        eviction.handle(now.plus_secs(60), &fleet, Input::Tick);
        while let Some(request) = eviction.poll_view() {
            eviction.handle(now.plus_secs(60), &fleet, Input::ViewReached(request.number));
        }
        while let Some(effect) = eviction.poll_effect() {
            let seen = view.of(&self.api);
            let stored = match &effect.kind {
                EffectKind::SetRuleStatus(status) => seen.rule(&status.rule).map(|rule| &rule.conditions),
                EffectKind::Evict(_)
                | EffectKind::SetLastPublished(_)
                | EffectKind::SetGuardStatus(_)
                | EffectKind::AskCapacity(_)
                | EffectKind::Event(_)
                | EffectKind::RuleEvent(_)
                | EffectKind::GuardEvent(_) => None,
            };
            let detail = format!("{effect:?}, stored {stored:?}");
            self.violate("a fresh controller agrees", detail);
        }
    }
}
