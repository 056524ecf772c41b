//! Policies that demand to drain a device beside the one that governs its incident: the repair and the proof of each follow, one after the other.
//!
//! A demand is stored in the incident until it is met: a fatal signal may come once, and another leader does not see it. A policy that is deleted or only
//! observes demands nothing. A person who says that the device is repaired answers for all of them.

use alloc::{format, string::String, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    Lifecycle,
    incident::{DEMANDS_MAX, Demand, Incident, Stage},
    limits::is_out,
    machine::{cause_of, enforces, open_mut},
    policy::{TaintKeyValue, Target},
    record::{in_vain, is_too_often},
    stages::{ITSELF, Wish},
    watcher::Fired,
};

/// Whether an incident in this stage goes on to a repair and a proof, or has one of them.
fn is_drained(incident: &Incident) -> bool {
    let is_held = incident.held.as_ref().is_some_and(|held| held.stage == Stage::Draining);
    is_held || matches!(incident.stage, Stage::Draining | Stage::Repairing | Stage::Probation)
}

impl Lifecycle {
    /// Notes which of these policies demand to drain a device beside the one that governs its incident, or is to.
    pub(crate) fn note_demands(&mut self, now: Timestamp, device: &DeviceId, drained: &[(Text, Fired)]) {
        let Some(number) = self.devices.get(device).and_then(|known| known.incident) else { return };
        for (policy, fired) in drained {
            let Some(incident) = self.incidents.get(&number).filter(|one| is_drained(one)) else { return };
            let governs = incident.held.as_ref().map_or(&incident.policy, |held| &held.policy);
            if governs != policy {
                let Some(known) = self.policies.get(policy) else { continue };
                let rule = known.rules.get(fired.rule).map(|rule| rule.name.clone()).unwrap_or_default();
                let cause = cause_of(known, fired);
                demand(self, now, number, (policy, rule, cause));
            }
        }
    }

    /// The policy that governs has done its repair and has its proof. Returns whether another one goes on with the incident.
    pub(crate) fn hand_over(&mut self, now: Timestamp, number: u64, why: &str) -> bool {
        let Some(incident) = invariant!(self.incidents.get(&number), "an open incident is there") else {
            return false;
        };
        let before = Demand { policy: incident.policy.clone(), rule: incident.rule.clone(), is_met: true };
        if !self.pass_on(now, number, why) {
            return false;
        }
        if let Some(incident) = open_mut(&mut self.incidents, number) {
            let mut demands = Vec::from(core::mem::take(&mut incident.demands));
            demands.retain(|demand| demand.policy != before.policy);
            demands.push(before);
            incident.demands = demands.into_boxed_slice();
            self.record(number);
        }
        true
    }

    /// The next policy that demands a repair governs the incident from now on, if there is one.
    pub(crate) fn pass_on(&mut self, now: Timestamp, number: u64, why: &str) -> bool {
        let Some(incident) = self.incidents.get(&number).filter(|one| one.stage != Stage::Abandoned) else {
            return false;
        };
        let Some(demand) = next_demand(self, incident) else { return false };
        let (device, is_out) = (incident.device.clone(), is_out(incident));
        let Demand { policy, rule, .. } = demand;
        let taint = taint_of(self, &policy, &rule).unwrap_or_else(|| incident.taint.clone());
        let cause = format!("{why}; DeviceHealthPolicy {policy} demands Drained for its rule {rule}").into();
        let wish = Wish { policy: policy.clone(), rule, taint, stage: Stage::Draining, cause };
        // Where its policy has gone while a guard held it, the device is in service.
        let refusal = if is_out { None } else { self.limits.refusal(&device, false) };
        if let Some(incident) = open_mut(&mut self.incidents, number) {
            incident.drop_demand(&policy);
        }
        if let Some(refusal) = refusal {
            self.hold(now, number, wish.held(refusal));
            return true;
        }
        let cause = self.govern(number, wish);
        self.enter(now, number, Stage::Draining, cause, &format!("policy {policy}").into());
        true
    }

    /// The policy that wanted what a guard holds does not want it any more. Returns whether another one demands the same.
    pub(crate) fn hold_for_next(&mut self, number: u64) -> bool {
        let Some(incident) = self.incidents.get(&number) else { return false };
        let drains = incident.held.as_ref().is_some_and(|held| held.stage == Stage::Draining);
        let Some(Demand { policy, rule, .. }) = next_demand(self, incident).filter(|_| drains) else {
            return false;
        };
        let taint = taint_of(self, &policy, &rule).unwrap_or_else(|| incident.taint.clone());
        if let Some(incident) = open_mut(&mut self.incidents, number) {
            incident.drop_demand(&policy);
        }
        let held = open_mut(&mut self.incidents, number).and_then(|incident| incident.held.as_mut());
        if let Some(held) = held {
            (held.policy, held.rule, held.taint) = (policy, rule, taint);
        }
        self.record(number);
        true
    }

    /// An incident was found: policies may have gone, or only observe, since it was written.
    pub(crate) fn settle_demands(&mut self, now: Timestamp, number: u64) {
        let Some(incident) = self.incidents.get(&number).filter(|one| !one.demands.is_empty()) else {
            return;
        };
        let demanding = incident.demands.iter().map(|one| &one.policy);
        let idle: Vec<Text> = demanding.filter(|policy| !enforces(self, policy)).cloned().collect();
        let is_orphan = !enforces(self, &incident.policy);
        for policy in idle {
            if let Some(incident) = open_mut(&mut self.incidents, number) {
                incident.drop_demand(&policy);
            }
        }
        if is_orphan {
            self.pass_on(now, number, "its policy does not enforce any more");
        }
    }

    /// A policy is gone or only observes: it demands nothing.
    pub(crate) fn drop_demands(&mut self, policy: &Text) {
        let demands = |incident: &Incident| incident.demands.iter().any(|demand| demand.policy == *policy);
        let theirs = self.incidents.values().filter(|incident| demands(incident));
        let numbers: Vec<u64> = theirs.map(|incident| incident.number).collect();
        for number in numbers {
            if let Some(incident) = open_mut(&mut self.incidents, number) {
                incident.drop_demand(policy);
            }
            self.explain(number, None);
            self.record(number);
        }
    }
}

/// Notes that a policy demands to drain a device, unless it governs its incident, or is to.
pub(crate) fn demand_beside(lifecycle: &mut Lifecycle, now: Timestamp, number: u64, wish: Wish) {
    let Some(incident) = lifecycle.incidents.get(&number).filter(|one| is_drained(one)) else { return };
    let governs = incident.held.as_ref().map_or(&incident.policy, |held| &held.policy);
    if *governs != wish.policy {
        demand(lifecycle, now, number, (&wish.policy, wish.rule, wish.cause));
    }
}

/// A policy that enforces has a verdict that the incident does not have yet, or has again.
fn demand(
    lifecycle: &mut Lifecycle,
    now: Timestamp,
    number: u64,
    (policy, rule, cause): (&Text, Text, Text),
) {
    let flaps = lifecycle.policies.get(policy).and_then(|known| known.trust().flaps);
    let Some(incident) = open_mut(&mut lifecycle.incidents, number) else { return };
    let is_full = incident.demands.len() >= DEMANDS_MAX;
    let was_met = match incident.demands.iter_mut().find(|demand| demand.policy == *policy) {
        // Its rule goes on to hold, or more are noted than can be.
        Some(demand) if !demand.is_met => return,
        None if is_full => return,
        Some(demand) => {
            (demand.rule, demand.is_met) = (rule, false);
            true
        }
        None => {
            let mut demands = Vec::from(core::mem::take(&mut incident.demands));
            demands.push(Demand { policy: policy.clone(), rule, is_met: false });
            incident.demands = demands.into_boxed_slice();
            false
        }
    };
    let cause = format!("{cause}; the repair and the proof of DeviceHealthPolicy {policy} follow");
    incident.note(now, cause, &format!("policy {policy}").into());
    // Its own proof was given, in vain.
    let count = flaps.filter(|_| was_met).map(|flaps| (incident.count_flap(now, flaps), flaps));
    if let Some((count, flaps)) = count.filter(|(count, flaps)| is_too_often(*count, *flaps)) {
        return lifecycle.enter(now, number, Stage::Abandoned, in_vain(count, flaps).into(), &ITSELF.into());
    }
    lifecycle.explain(number, None);
    lifecycle.show(number);
}

/// The taint of a rule, or of another one that drains where the policy has that rule no more.
fn taint_of(lifecycle: &Lifecycle, policy: &Text, rule: &Text) -> Option<TaintKeyValue> {
    let rules = &lifecycle.policies.get(policy)?.rules;
    let draining = || rules.iter().find(|rule| rule.target == Target::Drained);
    rules.iter().find(|one| one.name == *rule).or_else(draining).map(|rule| rule.taint.clone())
}

/// The first demand that is not met, of a policy that enforces.
fn next_demand(lifecycle: &Lifecycle, incident: &Incident) -> Option<Demand> {
    // The policy of an incident that is only suspect demands what a guard holds for another one.
    let is_carried_out =
        |demand: &&Demand| incident.stage >= Stage::Draining && demand.policy == incident.policy;
    let mut open = incident.demands.iter().filter(|demand| !demand.is_met && !is_carried_out(demand));
    open.find(|demand| enforces(lifecycle, &demand.policy)).cloned()
}

impl Incident {
    /// A policy governs from now on, or demands nothing any more.
    pub(crate) fn drop_demand(&mut self, policy: &Text) {
        let left = self.demands.iter().filter(|demand| demand.policy != *policy).cloned();
        self.demands = left.collect();
    }

    /// The demands that follow, for people; empty where there are none.
    pub(crate) fn follows(&self) -> String {
        let open = self.demands.iter().filter(|demand| !demand.is_met && demand.policy != self.policy);
        let names: Vec<&str> = open.map(|demand| &*demand.policy).collect();
        if names.is_empty() {
            return String::new();
        }
        format!("; then the repair and the proof of DeviceHealthPolicy {}", names.join(", "))
    }
}
