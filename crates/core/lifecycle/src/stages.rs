//! The stages of an incident, and how it passes from one to the next.

use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    Lifecycle,
    effect::{Act, Effect, JobResult, Repair},
    identity::ends_with_its_device,
    incident::{
        Cost, GONE_MS, Handled, Held, HeldReason, Incident, POLICY_GONE, Stage, Times, incident_name,
    },
    limits::{is_guarded, is_out},
    machine::{cause_of, enforces, open_mut},
    policy::{Flaps, Mode, Policy, Recovery, TaintKeyValue, Target},
    probation::{Proof, too_long},
    record::{FLAPS_MAX, in_vain, is_too_often},
    watcher::Fired,
};

/// The actor when no person acts.
pub(crate) const ITSELF: &str = "lazaret";

impl Lifecycle {
    /// A rule has held long enough.
    pub(crate) fn fire(&mut self, now: Timestamp, device: &DeviceId, policy_name: &Text, fired: &Fired) {
        let Some(policy) =
            invariant!(self.policies.get(policy_name), "the policy of a rule that fired is known")
        else {
            return;
        };
        let Some(rule) = invariant!(policy.rules.get(fired.rule), "a rule that fired is in its policy")
        else {
            return;
        };
        let (stage, Recovery { flaps, probation_ms, .. }) = (stage_of(fired.target), policy.trust());
        let open = self.devices.get(device).and_then(|known| known.incident);
        let incident = open.and_then(|number| self.incidents.get(&number));
        let is_orphan = incident.is_some_and(|incident| !self.policies.contains_key(&incident.policy));
        // A rule goes on to hold at every look.
        let is_news = |incident: &Arc<Incident>| {
            if is_orphan {
                // Its policy is gone: another one that demands as much goes on with it.
                return incident.stage != Stage::Abandoned && (stage == Stage::Draining || !is_out(incident));
            }
            is_news(incident, stage, fired, (now, probation_ms))
        };
        if incident.is_some_and(|incident| !is_news(incident)) {
            return;
        }
        // A held verdict goes first: it is worse, or came first and is another policy's.
        let held = incident.and_then(|one| one.held.as_ref()).filter(|held| enforces(self, &held.policy));
        let goes_first = |held: &Held| held.stage == stage && held.policy != *policy_name;
        if held.is_some_and(|held| held.stage > stage || goes_first(held)) {
            return;
        }
        let is_asked =
            policy.mode == Mode::Enforce && is_guarded(stage) && !incident.is_some_and(|one| is_out(one));
        let refusal = if is_asked { self.limits.refusal(device, false) } else { None };
        let (rule, taint, cause) = (rule.name.clone(), rule.taint.clone(), cause_of(policy, fired));
        let wish = Wish { policy: policy_name.clone(), rule, taint, stage, cause };
        let Some((number, incident)) = open.zip(incident) else {
            self.open(now, device, policy_name, (wish, refusal));
            return;
        };
        if incident.stage == Stage::Probation && !is_orphan {
            let actor = format!("policy {policy_name}").into();
            let (cause, flaps) = self.govern_flap(number, wish, flaps);
            return self.flap(now, number, flaps, cause, &actor);
        }
        pass_to(self, now, number, wish, refusal);
    }

    fn open(
        &mut self,
        now: Timestamp,
        device: &DeviceId,
        policy: &Text,
        (wish, refusal): (Wish, Option<Refusal>),
    ) {
        // A device that a guard does not permit to be taken out of service is only suspect.
        let stage = if refusal.is_some() { Stage::Suspect } else { wish.stage };
        let (number, serial) = (self.new_number(), self.new_serial(device));
        let Some((device, _)) =
            invariant!(self.devices.get_key_value(device), "a device that a rule fired for is known")
        else {
            return;
        };
        let device = &device.clone();
        let Some(known) = invariant!(self.devices.get_mut(device), "a device that a rule fired for is known")
        else {
            return;
        };
        (known.incident, known.calm_from) = (Some(number), None);
        let detected = Some(known.signals.take().map_or(now, |(first, _)| first));
        let mut incident = Incident {
            number,
            serial,
            name: incident_name(device, serial),
            device: device.clone(),
            hardware: known.hardware.clone(),
            policy: policy.clone(),
            rule: wish.rule.clone(),
            stage,
            since: now,
            waits_for: Text::default(),
            step: 0,
            attempts: 0,
            tries: 0,
            taint: wish.taint.clone(),
            // Guards were asked.
            is_enforced: self.policies.get(policy).is_some_and(|policy| policy.mode == Mode::Enforce),
            flaps: Vec::new(),
            calm_since: None,
            gone_since: None,
            twin: None,
            is_validated: false,
            acknowledged_by: None,
            timeline: Vec::new(),
            folded: 0,
            times: Times { detected, decided: Some(now), ..Times::default() },
            cost: Cost::default(),
            handled: Handled::default(),
            held: None,
            demands: Box::default(),
            task: None,
        };
        incident.flaps = self.flaps_of(&incident);
        self.incidents.insert(number, Arc::new(incident));
        // While it is open, it says itself what came before it. One that is only observed leaves that to the next one.
        if !self.is_observed(device) {
            self.past.remove(device);
        }
        let actor = format!("policy {policy}").into();
        self.enter(now, number, stage, wish.cause.clone(), &actor);
        match refusal {
            Some(refusal) => self.hold(now, number, wish.held(refusal)),
            None => self.judge_return(now, number),
        }
        self.follow_device(now, device);
    }

    /// Trouble while the device had to prove that it is well.
    fn flap(&mut self, now: Timestamp, number: u64, flaps: Option<Flaps>, cause: Text, actor: &Text) {
        let Some(incident) = invariant!(open_mut(&mut self.incidents, number), "an open incident is there")
        else {
            return;
        };
        let Some(flaps) = flaps else {
            if incident.flaps.len() >= FLAPS_MAX {
                incident.flaps.remove(0);
            }
            incident.flaps.push(now);
            return self.enter(now, number, Stage::Draining, cause, actor);
        };
        let count = incident.count_flap(now, flaps);
        if is_too_often(count, flaps) {
            let why = format!("{cause}; {}", in_vain(count, flaps));
            self.enter(now, number, Stage::Abandoned, why.into(), actor);
        } else {
            self.enter(now, number, Stage::Draining, cause, actor);
        }
    }

    /// Goes on where nobody has to say anything: calm, nobody left, a repair to begin, a time that is over. When to look again.
    pub(crate) fn advance(&mut self, now: Timestamp, device: &DeviceId, is_ill: bool) -> Option<Timestamp> {
        let known = self.devices.get(device)?;
        // An obstacle of the next task does not use its time up.
        let is_kept = known.is_kept;
        let number = known.incident?;
        let incident = self.incidents.get(&number)?;
        if let Some(gone) = incident.gone_since.filter(|_| ends_with_its_device(incident.stage)) {
            return self.end_with_its_device(now, number, gone);
        }
        let policy = self.policies.get(&incident.policy)?;
        let (steps, is_blocked) = (policy.steps.len(), policy.blocked.is_some());
        // Nothing is done to the device, by its policy or because a guard does not permit it.
        let is_observed = policy.mode == Mode::Observe || !incident.is_enforced;
        let last = self.last_match(device);
        let calm_since = last.unwrap_or(incident.since).max(incident.times.decided.unwrap_or(incident.since));
        let calm_at = calm_since.plus_millis(policy.clear_after_ms);
        // A held verdict is yet to be carried out, however calm the device is meanwhile: a fatal signal may come once.
        let is_calm = !is_ill && now >= calm_at && incident.held.is_none();
        let since = incident.since;
        let timeout = policy.steps.get(incident.step).map(|step| since.plus_millis(step.timeout_ms));
        let actor: Text = ITSELF.into();
        let calm = || format!("calm for {} s", policy.clear_after_ms / 1_000).into();
        let calm_wake = (!is_ill && incident.held.is_none()).then_some(calm_at);
        match incident.stage {
            Stage::Suspect if is_calm => self.enter(now, number, Stage::Cleared, calm(), &actor),
            Stage::Quarantined if is_calm && policy.recovery.is_none() => {
                self.enter(now, number, Stage::Cleared, calm(), &actor);
            }
            Stage::Quarantined if is_calm && !is_observed => {
                self.enter(now, number, Stage::Probation, calm(), &actor);
            }
            // Nothing was done to the device, so nothing is to be undone.
            Stage::Quarantined | Stage::Draining | Stage::Repairing | Stage::Probation
                if is_calm && is_observed =>
            {
                self.enter(now, number, Stage::Cleared, calm(), &actor);
            }
            Stage::Suspect | Stage::Quarantined => return calm_wake,
            Stage::Draining | Stage::Repairing | Stage::Probation if is_observed => return calm_wake,
            Stage::Draining | Stage::Abandoned | Stage::Cleared => return None,
            Stage::Repairing if steps == 0 || is_blocked || is_kept => return None,
            Stage::Repairing => match timeout {
                Some(end) if now >= end => {
                    let repair = Repair { step: incident.step, attempt: incident.attempts };
                    let why = too_long(policy, incident);
                    self.effects.push_back(Effect::StopRepair { incident: number, repair });
                    self.repaired(now, number, repair, Err(why));
                }
                timeout => return timeout,
            },
            Stage::Probation => match self.probation(now, number, (is_ill, last, is_kept)) {
                Proof::Waits(wake) => return wake,
                Proof::Failed(why) => self.validated(now, number, Err(why)),
                Proof::Given if self.hand_over(now, number, "probation is over") => return None,
                Proof::Given => self.enter(now, number, Stage::Cleared, "probation is over".into(), &actor),
            },
        }
        // It has changed: look at it once more.
        self.advance(now, device, is_ill)
    }

    /// Nothing is repaired that does not exist: an incident whose device has been gone for long ends.
    fn end_with_its_device(&mut self, now: Timestamp, number: u64, gone: Timestamp) -> Option<Timestamp> {
        let end = gone.plus_millis(GONE_MS);
        if now < end {
            return Some(end);
        }
        let cause = format!("its device and its node have been gone for {} h", GONE_MS / 3_600_000);
        self.enter(now, number, Stage::Cleared, cause.into(), &ITSELF.into());
        None
    }

    /// A repair has ended, well or not.
    pub(crate) fn repaired(&mut self, now: Timestamp, number: u64, repair: Repair, result: JobResult) {
        // It is over.
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        let current = Repair { step: incident.step, attempt: incident.attempts };
        // An older one, which nobody waits for any more.
        if incident.stage != Stage::Repairing || current != repair {
            return;
        }
        // The policy was deleted, or has fewer steps now.
        let Some(policy) = self.policies.get(&incident.policy) else { return };
        let Some(step) = policy.steps.get(incident.step) else { return };
        let (actor, device): (Text, _) = (ITSELF.into(), incident.device.clone());
        match result {
            Ok(()) => {
                incident.times.repaired.get_or_insert(now);
                let cause = format!("repair {} is done", step.name);
                self.enter(now, number, Stage::Probation, cause.into(), &actor);
            }
            Err(why) => {
                incident.step += 1;
                if incident.step >= policy.steps.len() {
                    (incident.step, incident.attempts) = (0, incident.attempts + 1);
                }
                let cause: Text = format!("repair {} failed: {why}", step.name).into();
                let is_over = incident.attempts >= policy.attempts_max;
                let next = if is_over { Stage::Abandoned } else { Stage::Repairing };
                self.enter(now, number, next, cause, &actor);
            }
        }
        self.look(now, &device);
    }

    /// A validation has ended, well or not.
    pub(crate) fn validated(&mut self, now: Timestamp, number: u64, result: JobResult) {
        // It is over.
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        if incident.stage != Stage::Probation || incident.is_validated {
            return;
        }
        let (actor, device): (Text, _) = (ITSELF.into(), incident.device.clone());
        match result {
            Ok(()) => {
                incident.is_validated = true;
                incident.note(now, "validation passed", &actor);
                self.show(number);
            }
            Err(why) => {
                let flaps = self.policies.get(&incident.policy).and_then(|policy| policy.trust().flaps);
                self.flap(now, number, flaps, format!("validation failed: {why}").into(), &actor);
            }
        }
        self.look(now, &device);
    }

    /// A person did something.
    pub(crate) fn person(
        &mut self,
        now: Timestamp,
        (number, act, at): (u64, Act, Timestamp),
        who: &Text,
        why: &Text,
    ) {
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        let device = incident.device.clone();
        let handled = match act {
            Act::Acknowledge => &mut incident.handled.acknowledged,
            Act::Repaired => &mut incident.handled.repaired,
            Act::Abandon => &mut incident.handled.abandoned,
        };
        // A clock that was ahead dated the act before: another instant is another act.
        if handled.is_some_and(|before| before == at || before > at && before <= now) {
            return;
        }
        *handled = Some(at);
        let cause = |done: &str| -> Text {
            if why.is_empty() { done.into() } else { format!("{done}: {why}").into() }
        };
        match act {
            Act::Acknowledge => {
                incident.acknowledged_by = Some(who.clone());
                incident.note(now, cause("acknowledged"), who);
                self.show(number);
            }
            Act::Repaired if !self.policies.contains_key(&incident.policy) => {
                // Nothing says how it would have to prove itself.
                incident.times.repaired.get_or_insert(now);
                self.enter(now, number, Stage::Cleared, cause("repaired"), who);
            }
            Act::Repaired if may_be_repaired(incident) => {
                // Actions of people are carried out, whatever guards permit.
                incident.is_enforced = true;
                incident.times.repaired.get_or_insert(now);
                incident.flaps.clear();
                // A person answers for what any policy demanded.
                incident.demands = Box::default();
                (incident.step, incident.attempts) = (0, 0);
                self.enter(now, number, Stage::Probation, cause("repaired"), who);
            }
            Act::Repaired => {
                let refused = "said to be repaired, which is possible only while it is Repairing, in Probation or Abandoned, or held by a guard";
                incident.note(now, cause(refused), who);
                self.show(number);
            }
            Act::Abandon => {
                incident.is_enforced = true;
                self.enter(now, number, Stage::Abandoned, cause("abandoned"), who);
            }
        }
        self.look(now, &device);
    }

    /// Passes to a stage, and says so.
    pub(crate) fn enter(&mut self, now: Timestamp, number: u64, stage: Stage, cause: Text, actor: &Text) {
        let Some(incident) = invariant!(open_mut(&mut self.incidents, number), "an open incident is there")
        else {
            return;
        };
        if incident.stage == Stage::Draining && stage == Stage::Repairing {
            incident.times.drained.get_or_insert(now);
        }
        if stage == Stage::Probation || stage == Stage::Draining {
            incident.is_validated = false;
        }
        if stage == Stage::Draining
            && let Some(known) = self.devices.get(&incident.device)
        {
            incident.cost.note(&known.users);
        }
        if matches!(stage, Stage::Repairing | Stage::Probation) {
            incident.begin_task();
        }
        (incident.stage, incident.since) = (stage, now);
        incident.note(now, self.texts.share(cause), &self.texts.share(actor.clone()));
        incident.held = None;
        let policy = self.policies.get(&incident.policy);
        let mode = policy.map(|policy| policy.mode);
        if let Some(mode) = mode {
            // Only where guards were asked a device goes out of service.
            incident.is_enforced =
                mode == Mode::Enforce && (incident.is_enforced || !stage.is_out_of_service());
        }
        let is_asked = mode == Some(Mode::Enforce) && !incident.is_enforced;
        if let Some(known) = self.devices.get_mut(&incident.device).filter(|_| stage == Stage::Probation) {
            for (policy, watcher) in known.watchers.iter_mut() {
                watcher.forget_counts();
                self.tallies.forget(policy, &incident.device);
            }
        }
        let cost = &mut incident.cost;
        if stage.is_out_of_service() && incident.is_enforced {
            cost.out_since.get_or_insert(now);
        } else {
            cost.out_of_service_ms = cost.out_of_service_ms_until(now);
            cost.out_since = None;
        }
        let waits_for = policy.map_or_else(|| POLICY_GONE.into(), |policy| waits_for(policy, incident));
        incident.waits_for = self.texts.share(waits_for);
        if stage == Stage::Cleared {
            incident.times.cleared = Some(now);
        }
        // An observed incident is no reason to distrust a device.
        let cleared = (mode != Some(Mode::Observe)).then_some(now);
        let (device, serial) = (incident.device.clone(), incident.serial);
        if stage == Stage::Probation {
            self.take_identity(now, number);
        }
        self.note_service(number);
        if is_asked {
            self.enforce(now, number);
        }
        self.show(number);
        if stage != Stage::Cleared {
            return;
        }
        let ended = self.incidents.remove(&number);
        self.remember(&device, serial, cleared);
        if let Some(known) = self.devices.get_mut(&device) {
            known.incident = None;
            known.signals = None;
            known.is_kept = false;
        }
        if let Some(ended) = ended {
            self.remember_return(&ended);
            self.unindex_incident(ended.hardware.as_ref(), &device);
        }
    }

    /// Says what the stage of an incident means for its device. Doing it again changes nothing.
    pub(crate) fn act_again(&mut self, number: u64) {
        let Some(incident) = invariant!(self.incidents.get(&number), "an incident that is acted on is there")
        else {
            return;
        };
        let (device, taint) = (incident.device.clone(), incident.taint.clone());
        let Some(policy) = self.policies.get(&incident.policy) else {
            // The policy was deleted: the device stays as it is, until a person ends that.
            if incident.stage == Stage::Cleared && incident.is_enforced {
                self.effects.push_back(Effect::Taint { device, effects: &[], taint });
            }
            return;
        };
        if policy.mode == Mode::Observe || !incident.is_enforced {
            return;
        }
        let effects: &'static [&'static str] = match incident.stage {
            Stage::Suspect => &["None"],
            Stage::Quarantined | Stage::Draining => &["NoSchedule"],
            Stage::Repairing | Stage::Probation | Stage::Abandoned => &["NoSchedule", "NoExecute"],
            Stage::Cleared => &[],
        };
        self.effects.push_back(Effect::Taint { device: device.clone(), effects, taint });
        match incident.stage {
            Stage::Draining => self.effects.push_back(Effect::Drain { incident: number, device }),
            Stage::Repairing if policy.blocked.is_none() => {
                if let Some(step) = policy.steps.get(incident.step) {
                    let repair = Repair { step: incident.step, attempt: incident.attempts };
                    let name = step.name.clone();
                    self.effects.push_back(Effect::Repair { incident: number, repair, name });
                }
            }
            Stage::Probation if policy.validates() && !incident.is_validated && incident.twin.is_none() => {
                self.effects.push_back(Effect::Validate { incident: number, device });
            }
            Stage::Suspect
            | Stage::Quarantined
            | Stage::Repairing
            | Stage::Probation
            | Stage::Cleared
            | Stage::Abandoned => {}
        }
    }
}

/// Why a guard does not permit something: the guard, the reason, and the same in words.
pub(crate) type Refusal = (Text, HeldReason, Text);

/// The target of a rule for a device.
pub(crate) struct Wish {
    pub(crate) policy: Text,
    pub(crate) rule: Text,
    pub(crate) taint: TaintKeyValue,
    pub(crate) stage: Stage,
    pub(crate) cause: Text,
}

impl Wish {
    pub(crate) fn held(self, (guard, reason, message): Refusal) -> Held {
        let Self { policy, rule, taint, stage, .. } = self;
        Held { stage, policy, rule, taint, guard, reason, message }
    }
}

/// A worse verdict takes an incident further, where guards permit it.
pub(crate) fn go_further(lifecycle: &mut Lifecycle, now: Timestamp, number: u64, wish: Wish) {
    let Some(incident) = lifecycle.incidents.get(&number) else { return };
    let is_asked = is_guarded(wish.stage) && !is_out(incident);
    let refusal = if is_asked { lifecycle.limits.refusal(&incident.device, false) } else { None };
    pass_to(lifecycle, now, number, wish, refusal);
}

fn pass_to(lifecycle: &mut Lifecycle, now: Timestamp, number: u64, wish: Wish, refusal: Option<Refusal>) {
    let was_suspect = lifecycle.incidents.get(&number).is_some_and(|one| one.stage == Stage::Suspect);
    if let Some(refusal) = refusal {
        return lifecycle.hold(now, number, wish.held(refusal));
    }
    let (stage, actor) = (wish.stage, format!("policy {}", wish.policy).into());
    let cause = lifecycle.govern(number, wish);
    lifecycle.enter(now, number, stage, cause, &actor);
    if was_suspect {
        lifecycle.judge_return(now, number);
    }
}

/// Whether a rule that holds changes anything about an incident.
fn is_news(incident: &Incident, stage: Stage, fired: &Fired, (now, probation_ms): (Timestamp, i64)) -> bool {
    match incident.stage {
        Stage::Suspect | Stage::Quarantined => incident.stage < stage,
        // A rule that held already when the probation began has this time to end: the device is not calm meanwhile.
        Stage::Probation => fired.since >= incident.since || now >= incident.since.plus_millis(probation_ms),
        Stage::Draining | Stage::Repairing | Stage::Abandoned | Stage::Cleared => false,
    }
}

/// Whether a person may say that the device is repaired: there is something to repair, or to prove, or a guard keeps everything from beginning.
fn may_be_repaired(incident: &Incident) -> bool {
    matches!(incident.stage, Stage::Repairing | Stage::Probation | Stage::Abandoned)
        || incident.held.is_some()
}

pub(crate) fn stage_of(target: Target) -> Stage {
    match target {
        Target::Suspect => Stage::Suspect,
        Target::Quarantined => Stage::Quarantined,
        Target::Drained => Stage::Draining,
    }
}

/// Whether the stage of an incident goes on with a repair or a validation.
fn needs_task(policy: &Policy, incident: &Incident) -> bool {
    match incident.stage {
        Stage::Repairing => incident.step < policy.steps.len(),
        Stage::Probation => needs_proof(policy, incident),
        Stage::Suspect | Stage::Quarantined | Stage::Draining | Stage::Cleared | Stage::Abandoned => false,
    }
}

/// Whether a validation has to pass before the device is trusted. It means one device by its identity.
fn needs_proof(policy: &Policy, incident: &Incident) -> bool {
    incident.stage == Stage::Probation && policy.trust().validates && !incident.is_validated
}

/// The condition that an incident waits for, in words.
pub(crate) fn waits_for(policy: &Policy, incident: &Incident) -> Text {
    if let Some(held) = &incident.held {
        return held.message.clone();
    }
    if incident.gone_since.is_some() && ends_with_its_device(incident.stage) {
        let hours = GONE_MS / 3_600_000;
        return format!("its device to be published again: the node is gone, and after {hours} h it ends")
            .into();
    }
    if let Some(twin) = incident.twin.as_ref().filter(|_| needs_proof(policy, incident)) {
        return format!(
            "one of two published devices with the identity {}: {twin} and its own",
            incident.hardware.as_deref().unwrap_or_default()
        )
        .into();
    }
    if let Some(why) = policy.blocked.as_ref().filter(|_| needs_task(policy, incident)) {
        return why.clone();
    }
    let calm = || format!("calm for {} s", policy.clear_after_ms / 1_000);
    let text: String = match incident.stage {
        Stage::Suspect | Stage::Quarantined => calm(),
        Stage::Draining if policy.mode == Mode::Observe => calm(),
        Stage::Draining => "its pods to leave".into(),
        Stage::Repairing => policy.steps.get(incident.step).map_or_else(
            || "a person to repair it and say so".into(),
            |step| format!("repair {}", step.name),
        ),
        Stage::Probation => {
            let Recovery { probation_ms, validates, .. } = policy.trust();
            let proof = if validates { ", and its validation" } else { "" };
            format!("{} s without a signal{proof}", probation_ms / 1_000)
        }
        Stage::Abandoned => "a person".into(),
        Stage::Cleared => String::new(),
    };
    match incident.stage {
        Stage::Draining | Stage::Repairing | Stage::Probation => (text + &incident.follows()).into(),
        Stage::Suspect | Stage::Quarantined | Stage::Cleared | Stage::Abandoned => text.into(),
    }
}
