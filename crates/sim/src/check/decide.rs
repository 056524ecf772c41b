//! Each decision as it is made, each write as it arrives, each answer as it is heard.

use std::collections::BTreeSet;

use lazaret_eviction::{
    Effect, EffectId, EffectKind, Evict, Outcome, PaceKey, SetRuleStatus, Source as TaintSource,
};
use lazaret_model::{ConditionStatus, DeviceTaintRule, Pod, Taint, Timestamp, Uid};

use crate::{
    actors::controller::Sent,
    check::{Attempt, stated_count},
    coverage::Mark,
    reference::{self, Cause, Source},
    world::World,
};

/// For so long after an edit of a pace, controllers may go by different rates: the longest stall and more.
const LENIENT_MS: u64 = 25_000;
/// The highest rate that a driver's taint can have.
const DRIVER_RATE_MAX: u64 = 20;
/// Statuses are counted again by the reference in worlds up to this size.
const RECOUNTED_PODS_MAX: u32 = 40;

impl World {
    /// A controller took this effect from its machine.
    pub(crate) fn check_decision(&mut self, number: usize, effect: &Effect) {
        let controller = &self.controllers[number];
        match &effect.kind {
            EffectKind::Evict(evict) => {
                if !controller.leads() {
                    self.violate(
                        "only a leader decides",
                        format!("controller {number} wants {} gone", evict.pod),
                    );
                }
                self.check_eviction(number, effect.id, evict);
            }
            EffectKind::SetRuleStatus(status) => {
                if !controller.leads() {
                    self.violate(
                        "only a leader decides",
                        format!("controller {number} writes about {}", status.rule),
                    );
                }
                self.check_recount(number, status);
            }
            EffectKind::Event(_) => {}
        }
    }

    /// Whether what the controller had been told justifies that this pod goes now.
    fn check_eviction(&mut self, number: usize, id: EffectId, evict: &Evict) {
        self.coverage.hit(Mark::EvictionDecided);
        self.say(format_args!(
            "controller {number} decides: {} {} by {:?}",
            evict.pod, evict.uid, evict.granted_by
        ));
        let now = self.controllers[number].clock(self.now);
        let view = &self.clients[number].view;
        let Some(pod) = view.pods.get(&evict.pod).filter(|pod| pod.uid == evict.uid).cloned() else {
            return self
                .violate("evicts pods that exist", format!("{} {} is not known", evict.pod, evict.uid));
        };
        let causes = reference::causes(view, &pod);
        let due: Vec<&Cause> = causes.iter().filter(|cause| cause.deadline <= now).collect();
        if due.is_empty() {
            let next = causes.iter().map(|cause| cause.deadline).min();
            let detail = format!(
                "{} at {now:?}, due {next:?}, node {:?}, {:?}, deleting {:?}, the machine says {:?}",
                evict.pod, pod.node, pod.phase, pod.deleting_since, evict.reasons
            );
            return self.violate("evicts who is due and nobody else", detail);
        }
        let first = causes.iter().map(|cause| cause.deadline).min().unwrap_or(Timestamp::NEVER);
        if evict.due != first {
            let detail = format!("{}: {:?} instead of {first:?}", evict.pod, evict.due);
            self.violate("states the right deadline", detail);
        }
        let ours: BTreeSet<Uid> = due.iter().filter_map(|cause| rule_of(&cause.source)).collect();
        let theirs: BTreeSet<Uid> = evict
            .due_reasons()
            .iter()
            .filter_map(|reason| match &reason.cause.source {
                TaintSource::Rule { uid, .. } => Some(uid.clone()),
                TaintSource::Device { .. } | TaintSource::TaintSlice { .. } | TaintSource::Patch { .. } => {
                    None
                }
            })
            .collect();
        if ours != theirs {
            self.violate("names the right rules", format!("{}: {theirs:?} instead of {ours:?}", evict.pod));
        }
        let due: Vec<Cause> = due.into_iter().cloned().collect();
        // A process that was stopped may decide before it finds out that it has lost the lease: nothing comes of it.
        if self.controllers[number].holds(self.now) {
            self.check_pace(number, evict, &due);
        }
        self.check_first_attempt(number, id, evict);
        self.cover_eviction(number, &pod, &causes, &due);
    }

    /// Nobody is evicted twice: a second attempt needs a first that failed or may have failed.
    fn check_first_attempt(&mut self, number: usize, id: EffectId, evict: &Evict) {
        // What a predecessor has done, a leader knows before it begins.
        let earlier = self.checker.deleted.get(&evict.uid).is_some_and(|term| *term < self.checker.leaders);
        if earlier && self.controllers[number].holds(self.now) {
            self.violate("knows what its predecessor did", format!("wants {} gone again", evict.pod));
        }
        let key = (number, self.controllers[number].life, evict.uid.clone());
        match self.checker.attempts.insert(key, Attempt::UnderWay(id)) {
            None | Some(Attempt::Over(Outcome::Conflict | Outcome::RetryLater | Outcome::Unknown)) => {}
            Some(other) => {
                self.violate("evicts nobody twice", format!("{} again after {other:?}", evict.pod))
            }
        }
    }

    fn check_pace(&mut self, number: usize, evict: &Evict, due: &[Cause]) {
        let options = self.controllers[number].options();
        let burst = u64::from(self.config.burst);
        let default = options.default_evictions_per_second.map(i64::from);
        let rate = |taint: &Taint| taint.evictions_per_second.or(default);
        if let Some(ceiling) = options.global_per_second {
            let key = PaceKey::Rule("all".into());
            if self.checker.ceiling.charge(&key, self.now, u64::from(ceiling), burst, 0, 0) {
                self.violate("keeps the ceiling", format!("{} exceeds {ceiling}/s in all", evict.pod));
            }
        }
        let Some(key) = &evict.granted_by else {
            if due.iter().all(|cause| rate(&cause.taint).is_some()) {
                self.violate("keeps the pace", format!("{} goes unpaced, due for {due:?}", evict.pod));
            }
            return;
        };
        let of_key: Vec<i64> = due
            .iter()
            .filter(|cause| pace_key(cause) == *key)
            .filter_map(|cause| rate(&cause.taint))
            .collect();
        let Some(highest) = of_key.into_iter().max() else {
            return self.violate("keeps the pace", format!("{} goes by {key}, due for {due:?}", evict.pod));
        };
        let (rate, edits) = match key {
            PaceKey::Rule(uid) => {
                let edits = self.checker.pace_edits.get(uid).map_or(0, |(_, edits)| *edits);
                (u64::try_from(highest).unwrap_or(0), edits)
            }
            // Several taints share it and the highest counts: the reference does not look for it.
            PaceKey::Patch { .. } | PaceKey::Pool { .. } => {
                (DRIVER_RATE_MAX.max(u64::from(self.config.default_pace)), 0)
            }
        };
        if self.checker.paces.charge(key, self.now, rate, burst, edits, LENIENT_MS) {
            self.violate(
                "keeps the pace",
                format!("{} exceeds {rate}/s, burst {burst}, of {key}", evict.pod),
            );
        }
        if due.iter().any(|cause| cause.deadline < self.controllers[number].clock(self.now).plus_millis(-500))
        {
            self.coverage.hit(Mark::Paced);
        }
    }

    fn cover_eviction(&mut self, number: usize, pod: &Pod, causes: &[Cause], due: &[Cause]) {
        let view = &self.clients[number].view;
        let coverage = &mut self.coverage;
        if causes.len() > 1 {
            coverage.hit(Mark::SeveralCauses);
        }
        if due.iter().any(|cause| cause.taint.time_added != Some(cause.deadline)) {
            coverage.hit(Mark::AfterToleration);
        }
        for cause in due {
            match &cause.source {
                Source::Rule(name, _) => {
                    coverage.hit(Mark::ByRule);
                    let selector = view.rules.get(name).and_then(|rule| rule.selector.as_ref());
                    if selector.is_some_and(|selector| !selector.by_names_only()) {
                        coverage.hit(Mark::ByExpression);
                        if view.published(&cause.device).is_none() {
                            coverage.hit(Mark::FromMemory);
                        }
                        let patched = reference::Patched::of(view, &cause.device);
                        if patched.is_some_and(|device| device.is_patched()) {
                            coverage.hit(Mark::ByPatchedValue);
                        }
                    }
                }
                Source::Device(..) => coverage.hit(Mark::ByDevice),
                Source::TaintSlice(..) => coverage.hit(Mark::ByTaintSlice),
                Source::Patch(..) => coverage.hit(Mark::ByPatch),
            }
        }
        if reference::claims(view, pod).iter().any(|claim| claim.reserved_for.len() > 1) {
            coverage.hit(Mark::SharedClaim);
        }
        if pod.group.is_some() {
            coverage.hit(Mark::GroupClaim);
        }
        if pod.extended_claim.is_some() {
            coverage.hit(Mark::ExtendedResource);
        }
    }

    /// Whether a status says of pending pods what the reference counts in the same view.
    fn check_recount(&mut self, number: usize, status: &SetRuleStatus) {
        if status.condition.status == ConditionStatus::True {
            self.coverage.hit(Mark::StatusPending);
        }
        if self.config.pods > RECOUNTED_PODS_MAX {
            return;
        }
        let view = &self.clients[number].view;
        let life = self.controllers[number].life;
        let (mut surely, mut maybe) = (0_u64, 0_u64);
        for pod in view.pods.iter() {
            let hit = |cause: &Cause| rule_of(&cause.source).as_ref() == Some(&status.uid);
            if !reference::causes(view, pod).iter().any(hit) {
                continue;
            }
            maybe += 1;
            if !self.checker.heard_gone.contains(&(number, life, pod.uid.clone())) {
                surely += 1;
            }
        }
        let says = status.condition.status == ConditionStatus::True;
        if (says && maybe == 0) || (!says && surely > 0) {
            let detail = format!("{}: says {says} with {surely} to {maybe} pods pending", status.rule);
            self.violate("status says who is pending", detail);
        }
        let stated = status.condition.message.split(" need").next().and_then(|text| text.split(' ').next());
        let stated: Option<u64> = stated.filter(|_| says).and_then(|number| number.parse().ok());
        if stated.is_some_and(|stated| stated < surely || stated > maybe) {
            let detail =
                format!("{}: {:?} with {surely} to {maybe} pending", status.rule, status.condition.message);
            self.violate("status counts who is pending", detail);
        }
    }

    /// Only the holder of the lease writes.
    pub(crate) fn check_writer(&mut self, sent: &Sent) {
        let holder = self.api.lease.holder;
        let writer = usize::try_from(sent.life).unwrap_or(usize::MAX) * 2 + sent.controller;
        if holder != Some(writer) {
            self.violate(
                "only the lease holder writes",
                format!("{writer} writes, {holder:?} holds the lease"),
            );
        }
        let (began, hands) = (self.controllers[sent.controller].began(), self.api.lease.hands);
        if holder == Some(writer) && began != hands {
            self.violate(
                "leads anew after another had the lease",
                format!("{writer} has led since hand {began} of {hands}"),
            );
        }
    }

    /// A DELETE took effect.
    pub(crate) fn check_deleted(&mut self, evict: &Evict, uid: &Uid) {
        if *uid != evict.uid {
            self.violate(
                "deletes the right incarnation",
                format!("{}: {uid} instead of {}", evict.pod, evict.uid),
            );
        }
        if self.checker.deleted.insert(uid.clone(), self.checker.leaders).is_some() {
            self.violate("evicts nobody twice", format!("{} was deleted before", evict.pod));
        }
        for reason in evict.due_reasons() {
            if let TaintSource::Rule { uid: rule, .. } = &reason.cause.source {
                self.checker.evicted.entry(rule.clone()).or_default().insert(uid.clone());
            }
        }
    }

    /// A controller hears what became of its effect.
    pub(crate) fn check_answer(&mut self, sent: &Sent) {
        let EffectKind::Evict(evict) = &sent.effect.kind else { return };
        let key = (sent.controller, sent.life, evict.uid.clone());
        if matches!(sent.outcome, Outcome::Done | Outcome::Gone) {
            self.checker.heard_gone.insert(key.clone());
        }
        // Only the first answer to the attempt under way counts; an echo of an earlier one says nothing new.
        if self.checker.attempts.get(&key) == Some(&Attempt::UnderWay(sent.effect.id)) {
            self.checker.attempts.insert(key, Attempt::Over(sent.outcome));
            let burst = u64::from(self.config.burst);
            match sent.outcome {
                Outcome::Conflict | Outcome::RetryLater | Outcome::Gone => {
                    if let Some(pace) = &evict.granted_by {
                        self.checker.paces.refund(pace, burst);
                    }
                    self.checker.ceiling.refund(&PaceKey::Rule("all".into()), burst);
                }
                Outcome::Done | Outcome::Unknown => {}
            }
        }
        if sent.outcome == Outcome::Unknown {
            self.note_uncertain(evict);
        }
    }

    /// Nobody can tell whether this pod goes because of the controller: it was marked, and then perhaps deleted by
    /// somebody else.
    pub(crate) fn note_uncertain(&mut self, evict: &Evict) {
        for reason in evict.due_reasons() {
            if let TaintSource::Rule { uid: rule, .. } = &reason.cause.source {
                self.checker.uncertain.entry(rule.clone()).or_default().insert(evict.uid.clone());
            }
        }
    }

    /// A status reaches the server.
    pub(crate) fn check_status(&mut self, before: &DeviceTaintRule, status: &SetRuleStatus) {
        self.coverage.hit(Mark::StatusWritten);
        if status.condition.reason == "SelectorError" {
            self.coverage.hit(Mark::RuleProblem);
        }
        let stored = before.conditions.iter().find(|condition| condition.kind == status.condition.kind);
        let (was, is) =
            (stored.map_or(0, |c| stated_count(&c.message)), stated_count(&status.condition.message));
        if is < was {
            self.violate("a count never falls", format!("{}: from {was} to {is}", status.rule));
        }
    }
}

pub(crate) fn rule_of(source: &Source) -> Option<Uid> {
    match source {
        Source::Rule(_, uid) => Some(uid.clone()),
        Source::Device(..) | Source::TaintSlice(..) | Source::Patch(..) => None,
    }
}

/// What a cause shares its pace with.
fn pace_key(cause: &Cause) -> PaceKey {
    match &cause.source {
        Source::Rule(_, uid) => PaceKey::Rule(uid.clone()),
        Source::Patch(name, index) => {
            PaceKey::Patch { name: name.clone(), index: u32::try_from(*index).unwrap_or(u32::MAX) }
        }
        Source::Device(..) | Source::TaintSlice(..) => PaceKey::Pool {
            pool: cause.device.pool_id(),
            key: cause.taint.key.clone(),
            value: cause.taint.value.clone(),
        },
    }
}
