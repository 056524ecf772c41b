//! Which policy governs an incident: of those that enforce, that of the worst rule. Policies that observe are apart.

use alloc::{format, sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    Lifecycle,
    incident::{Incident, Stage},
    machine::open_mut,
    policy::{Flaps, Mode, Target},
    stages::{ITSELF, Wish, stage_of, waits_for},
    watcher::Fired,
};

/// The verdicts of the policies that select a device now: of those that enforce, and of those that observe.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    pub(crate) enforced: Verdict,
    pub(crate) observed: Verdict,
    /// Policies that enforce with a rule that demands to drain the device, by the first such rule.
    pub(crate) drained: Vec<(Text, Fired)>,
    /// When to look again.
    pub(crate) wake: Option<Timestamp>,
}

/// The worst rule that has held long enough, with its policy, and whether some rule goes on holding.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) worst: Option<(Text, Fired)>,
    pub(crate) is_ill: bool,
}

impl Verdict {
    fn add(&mut self, policy: &Text, fired: Fired) {
        if self.worst.as_ref().is_none_or(|(_, before)| before.target < fired.target) {
            self.worst = Some((policy.clone(), fired));
        }
    }
}

impl Lifecycle {
    /// Asks all rules about a device.
    pub(crate) fn verdicts(&mut self, now: Timestamp, device: &DeviceId) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let Some(known) = self.devices.get_mut(device) else { return verdicts };
        for (name, watcher) in known.watchers.iter_mut() {
            // The policy was deleted, or is yet to come.
            let Some(policy) = self.policies.get(name) else { continue };
            let look = watcher.look(policy, now);
            verdicts.wake = [verdicts.wake, look.wake].into_iter().flatten().min();
            let verdict = match policy.mode {
                Mode::Enforce => &mut verdicts.enforced,
                Mode::Observe => &mut verdicts.observed,
            };
            verdict.is_ill |= look.is_ill;
            let demand = look.fired.iter().find(|fired| fired.target == Target::Drained);
            if let Some(fired) = demand.filter(|_| policy.mode == Mode::Enforce) {
                verdicts.drained.push((name.clone(), fired.clone()));
            }
            look.fired.into_iter().for_each(|fired| verdict.add(name, fired));
        }
        verdicts
    }

    /// Carries out what the rules say. A policy that observes neither opens nor changes an incident where one that enforces has its own, and is no
    /// reason that such a device is not calm. Returns whether the device is ill, as far as its incident is concerned.
    pub(crate) fn carry_out(&mut self, now: Timestamp, device: &DeviceId, verdicts: &Verdicts) -> bool {
        if let Some((policy, fired)) = &verdicts.enforced.worst {
            self.end_observed(now, device, policy);
            self.fire(now, device, policy, fired);
            self.note_demands(now, device, &verdicts.drained);
        }
        let is_observed = self.is_observed(device);
        if let Some((policy, fired)) = verdicts.observed.worst.as_ref().filter(|_| is_observed) {
            self.fire(now, device, policy, fired);
        }
        verdicts.enforced.is_ill || is_observed && verdicts.observed.is_ill
    }

    /// Whether no policy that enforces has, or had, an incident of the device.
    pub(crate) fn is_observed(&self, device: &DeviceId) -> bool {
        let incident = self.devices.get(device).and_then(|known| self.incidents.get(&known.incident?));
        incident.is_none_or(|incident| {
            self.policies.get(&incident.policy).is_some_and(|policy| policy.mode == Mode::Observe)
        })
    }

    /// An incident that was only observed ends where a policy that enforces opens its own.
    fn end_observed(&mut self, now: Timestamp, device: &DeviceId, policy: &Text) {
        let Some(number) = self.devices.get(device).and_then(|known| known.incident) else { return };
        // A device that a person gave up is for a person to decide.
        let is_given_up = self.incidents.get(&number).is_some_and(|one| one.stage == Stage::Abandoned);
        if self.is_observed(device) && !is_given_up {
            let cause = format!("DeviceHealthPolicy {policy} enforces, and has an incident of its own");
            let signals = self.devices.get(device).and_then(|known| known.signals);
            self.enter(now, number, Stage::Cleared, cause.into(), &ITSELF.into());
            // They are what the next incident comes from.
            if let Some(known) = self.devices.get_mut(device) {
                known.signals = signals;
            }
        }
    }

    /// A worse rule takes an incident further: its policy governs from now on. Returns the cause, which says so.
    pub(crate) fn govern(&mut self, number: u64, wish: Wish) -> Text {
        let Wish { policy, rule, taint, stage, cause } = wish;
        let Some(incident) = invariant!(open_mut(&mut self.incidents, number), "an open incident is there")
        else {
            return cause;
        };
        if stage == Stage::Draining {
            incident.drop_demand(&policy);
        }
        (incident.rule, incident.taint) = (rule, taint);
        let before = core::mem::replace(&mut incident.policy, policy);
        if before == incident.policy {
            return cause;
        }
        // Steps are those of its own policy.
        (incident.step, incident.attempts) = (0, 0);
        format!(
            "{cause}; DeviceHealthPolicy {} governs the incident from now on, not {before}",
            incident.policy
        )
        .into()
    }

    /// A rule holds during the probation: its policy governs from now on unless the rule that took the incident furthest was worse. Returns the
    /// cause, and how many flaps the policy that governs permits.
    pub(crate) fn govern_flap(
        &mut self,
        number: u64,
        wish: Wish,
        flaps: Option<Flaps>,
    ) -> (Text, Option<Flaps>) {
        let Some(incident) = self.incidents.get(&number).map(Arc::clone) else { return (wish.cause, flaps) };
        let policy = self.policies.get(&incident.policy).filter(|_| incident.policy != wish.policy);
        let Some(policy) = policy else { return (wish.cause, flaps) };
        let worst = policy.rules.iter().find(|rule| rule.name == incident.rule).map(|rule| rule.target);
        if worst.map(stage_of) >= Some(wish.stage) {
            return (wish.cause, policy.trust().flaps);
        }
        (self.govern(number, wish), flaps)
    }

    /// Whether something keeps the next repair or validation of an incident from beginning. It does not use up the time that the task has.
    pub(crate) fn keep(&mut self, now: Timestamp, number: u64, is_kept: bool) {
        let Some(device) = self.incidents.get(&number).map(|incident| incident.device.clone()) else {
            return;
        };
        let Some(known) = self.devices.get_mut(&device) else { return };
        let was_kept = core::mem::replace(&mut known.is_kept, is_kept);
        if was_kept == is_kept {
            return;
        }
        if was_kept && let Some(incident) = open_mut(&mut self.incidents, number) {
            incident.restart_task(now);
            self.record(number);
        }
        self.look(now, &device);
    }

    /// Says what an incident waits for: this, or what its stage waits for.
    pub(crate) fn explain(&mut self, number: u64, why: Option<Text>) {
        let Some(incident) = self.incidents.get(&number) else { return };
        let Some(policy) = self.policies.get(&incident.policy) else { return };
        let why = why.filter(|_| incident.held.is_none() && incident.is_enforced);
        let text = why.unwrap_or_else(|| waits_for(policy, incident));
        if incident.waits_for == text {
            return;
        }
        let text = self.texts.share(text);
        if let Some(incident) = open_mut(&mut self.incidents, number) {
            incident.waits_for = text;
            self.record(number);
        }
    }

    /// The taint is in force and nobody uses the device: what its policy does to it may begin.
    pub(crate) fn idle(&mut self, now: Timestamp, number: u64) {
        let Some(incident) = self.incidents.get(&number) else { return };
        let policy = self.policies.get(&incident.policy);
        let acts = incident.is_enforced && policy.is_some_and(|policy| policy.mode == Mode::Enforce);
        let device = incident.device.clone();
        let is_used = self.devices.get(&device).is_none_or(|known| known.is_used != Some(false));
        if incident.stage != Stage::Draining || !acts || is_used {
            return;
        }
        self.enter(now, number, Stage::Repairing, "no pod uses the device".into(), &ITSELF.into());
        self.look(now, &device);
    }
}

/// Whether a policy has a part in an incident: it governs it, or wants what a guard holds.
pub(crate) fn concerns(policy: &Text, incident: &Incident) -> bool {
    incident.policy == *policy || incident.held.as_ref().is_some_and(|held| held.policy == *policy)
}
