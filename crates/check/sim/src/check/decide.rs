//! Each decision as it is made, each write as it arrives, each answer as it is heard.

use std::collections::BTreeSet;

use lazaret_eviction::{
    Effect, EffectId, EffectKind, Evict, Outcome, PaceKey, SetRuleStatus, Source as TaintSource,
};
use lazaret_model::{ConditionStatus, DeviceTaintRule, Timestamp, Uid};

use crate::{
    actors::{controller::identity, writes::Sent},
    check::{Attempt, Braked, groups::is_together},
    coverage::Mark,
    reference::{self, Cause, Source},
    view::{Seen, SeenPod},
    world::World,
};

/// For this time after an edit of a pace, controllers may go by different rates: the longest stall and more.
const LENIENT_MS: u64 = 25_000;
/// The highest rate that a driver's taint can have.
const DRIVER_RATE_MAX: u64 = 20;
/// How long a pod is held that is back on a device, at first and at most: as eviction is set up by default.
const BRAKE_MS_MIN: i64 = 1_000;
const BRAKE_MS_MAX: i64 = 300_000;

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
                self.check_end(number, status);
            }
            EffectKind::SetLastPublished(write) => {
                if !controller.leads() {
                    self.violate(
                        "only a leader decides",
                        format!("controller {number} writes {}", write.claim),
                    );
                }
            }
            EffectKind::SetGuardStatus(write) => {
                if !controller.leads() {
                    self.violate(
                        "only a leader decides",
                        format!("controller {number} writes {}", write.guard),
                    );
                }
            }
            EffectKind::AskCapacity(question) => {
                if !controller.leads() {
                    let pods = question.pods.len();
                    self.violate(
                        "only a leader decides",
                        format!("controller {number} asks about {pods} pods"),
                    );
                }
            }
            EffectKind::Event(_) | EffectKind::RuleEvent(_) | EffectKind::GuardEvent(_) => {}
        }
    }

    /// Whether what the controller had been told justifies that this pod goes now.
    fn check_eviction(&mut self, number: usize, id: EffectId, evict: &Evict) {
        self.coverage.hit(Mark::EvictionDecided);
        self.say(format_args!(
            "controller {number} decides: {} {} by {:?}",
            evict.pod, evict.uid, evict.granted_by
        ));
        let Judgement { complaints, marks, pace } = self.judge(number, evict);
        for (invariant, detail) in complaints {
            self.violate(invariant, detail);
        }
        let Some(pace) = pace else { return };
        // A process that was stopped may decide before it finds out that it has lost the lease: nothing comes of it.
        if self.controllers[number].holds(self.now) {
            self.check_pace(number, evict, pace);
            self.check_room(number, evict);
        }
        self.check_manner(number, evict);
        self.check_guards(number, evict);
        self.check_approval(number, evict);
        self.check_group(number, evict);
        self.check_windows(number, evict);
        self.check_capacity(number, evict);
        self.check_first_attempt(number, id, evict);
        self.check_brake(number, evict);
        marks.into_iter().for_each(|mark| self.coverage.hit(mark));
    }

    /// The reference's verdict on a decision, by the events that the controller had got.
    fn judge(&self, number: usize, evict: &Evict) -> Judgement {
        let mut judgement = Judgement::default();
        let mut complain = |invariant, detail| judgement.complaints.push((invariant, detail));
        let now = self.controllers[number].clock(self.now);
        let seen = self.seen(number);
        let Some(pod) = seen.pod(&evict.pod).filter(|pod| pod.uid == evict.uid) else {
            complain("evicts pods that exist", format!("{} {} is not known", evict.pod, evict.uid));
            return judgement;
        };
        let causes = reference::causes(seen, pod);
        let due: Vec<Cause<'_>> = causes.iter().filter(|cause| cause.deadline <= now).copied().collect();
        let first = causes.iter().map(|cause| cause.deadline).min();
        if due.is_empty() {
            let detail = format!(
                "{} at {now:?}, due {first:?}, node {:?}, {:?}, deleting {:?}, the machine says {:?}",
                evict.pod, pod.node, pod.phase, pod.deleting_since, evict.reasons
            );
            complain("evicts who is due and nobody else", detail);
            return judgement;
        }
        let first = first.unwrap_or(Timestamp::NEVER);
        // A rule was extended or approved, and its status does not say so yet: it is in force since its controller saw that.
        let is_beginning = causes.iter().any(|cause| match cause.source {
            Source::Rule(name, _) => {
                let stored =
                    seen.rules().find(|rule| rule.name == *name).and_then(|rule| rule.effective_since);
                self.controllers[number].in_force.since(seen.rules(), name) != stored
            }
            Source::Device(..) | Source::TaintSlice(..) | Source::Patch(..) => false,
        });
        if evict.due != first && !(is_beginning && evict.due > first) {
            let detail = format!("{}: {:?} instead of {first:?}", evict.pod, evict.due);
            complain("states the right deadline", detail);
        }
        let ours: BTreeSet<&Uid> = due.iter().filter_map(|cause| rule_of(cause.source)).collect();
        let theirs: BTreeSet<&Uid> = evict
            .due_reasons()
            .iter()
            .filter_map(|reason| match &reason.cause.source {
                TaintSource::Rule { uid, .. } => Some(uid),
                TaintSource::Device { .. } | TaintSource::TaintSlice { .. } | TaintSource::Patch { .. } => {
                    None
                }
            })
            .collect();
        if ours != theirs && !is_beginning {
            complain("names the right rules", format!("{}: {theirs:?} instead of {ours:?}", evict.pod));
        }
        judgement.pace = Some(self.pace_of(number, evict, &due));
        cover(seen, pod, &causes, &due, &mut judgement.marks);
        judgement
    }

    /// At which pace a pod may go.
    fn pace_of(&self, number: usize, evict: &Evict, due: &[Cause<'_>]) -> PaceAllowed {
        let default = self.controllers[number].options().default_evictions_per_second.map(i64::from);
        let rate = |cause: &&Cause<'_>| cause.taint.evictions_per_second.or(default);
        let of_key = |cause: &&Cause<'_>| evict.granted_by.as_ref() == Some(&pace_key(cause));
        let long_ago = self.controllers[number].clock(self.now).plus_millis(-500);
        PaceAllowed {
            unpaced: due.iter().any(|cause| rate(&cause).is_none()),
            highest: due.iter().filter(of_key).filter_map(|cause| rate(&cause)).max(),
            late: due.iter().any(|cause| cause.deadline < long_ago),
            grouped: due.iter().any(is_together),
        }
    }

    /// A pod that is back where pods of its owner had to leave goes later each time.
    fn check_brake(&mut self, number: usize, evict: &Evict) {
        let now = self.controllers[number].clock(self.now);
        for key in self.braked(number, evict) {
            let Some((times, last, present)) = self.checker.braked.get(&key) else { continue };
            if present.contains(&evict.uid) {
                continue;
            }
            let held_ms = (BRAKE_MS_MIN << (times - 1).min(30)).min(BRAKE_MS_MAX);
            if now < last.plus_millis(held_ms) {
                let detail =
                    format!("{} at {now:?} after {times} evictions, the last at {last:?}", evict.pod);
                return self.violate("a loop gets slower", detail);
            }
        }
    }

    /// The owner, device and taint of each due reason.
    fn braked(&self, number: usize, evict: &Evict) -> Vec<Braked> {
        let life = self.controllers[number].life;
        let pod = self.seen(number).pod(&evict.pod).filter(|pod| pod.uid == evict.uid);
        let Some(owner) = pod.and_then(|pod| pod.owner.as_ref().map(|owner| owner.uid.clone())) else {
            return Vec::new();
        };
        let cause = |reason: &lazaret_eviction::Reason| {
            format!("{} {} {:?}", reason.cause.source, reason.cause.taint, reason.cause.taint.time_added)
        };
        let due = evict.due_reasons().iter();
        due.map(|reason| (number, life, owner.clone(), reason.device().clone(), cause(reason))).collect()
    }

    /// No pod is evicted twice: a second attempt needs a first that failed or may have failed.
    fn check_first_attempt(&mut self, number: usize, id: EffectId, evict: &Evict) {
        // A leader knows the evictions of its predecessor before it begins.
        let earlier = self.checker.deleted.get(&evict.uid).is_some_and(|term| *term < self.checker.leaders);
        if earlier && self.controllers[number].holds(self.now) {
            self.violate("knows what its predecessor did", format!("wants {} gone again", evict.pod));
        }
        let key = (number, self.controllers[number].life, evict.uid.clone());
        match self.checker.attempts.insert(key, Attempt::UnderWay(id)) {
            None
            | Some(Attempt::Over(
                Outcome::Conflict | Outcome::Held | Outcome::RetryLater | Outcome::Unknown,
            )) => {}
            Some(other) => {
                self.violate("evicts nobody twice", format!("{} again after {other:?}", evict.pod))
            }
        }
    }

    fn check_pace(&mut self, number: usize, evict: &Evict, pace: PaceAllowed) {
        let burst = u64::from(self.config.burst);
        if let Some(ceiling) = self.controllers[number].options().global_per_second {
            let key = PaceKey::Rule("all".into());
            if self.checker.ceiling.charge(&key, self.now, u64::from(ceiling), burst, 0, 0) {
                if pace.grouped {
                    self.checker.ceiling.owe(&key);
                } else {
                    self.violate("keeps the ceiling", format!("{} exceeds {ceiling}/s in all", evict.pod));
                }
            }
        }
        let Some(key) = &evict.granted_by else {
            if !pace.unpaced {
                self.violate("keeps the pace", format!("{} goes unpaced: {:?}", evict.pod, evict.reasons));
            }
            return;
        };
        let Some(highest) = pace.highest else {
            let detail = format!("{} goes by {key}: {:?}", evict.pod, evict.reasons);
            return self.violate("keeps the pace", detail);
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
            if pace.grouped {
                return self.checker.paces.owe(key);
            }
            self.violate(
                "keeps the pace",
                format!("{} exceeds {rate}/s, burst {burst}, of {key}", evict.pod),
            );
        }
        if pace.late {
            self.coverage.hit(Mark::Paced);
        }
    }

    /// Whether a status says of pending pods what the reference counts in the same view.
    fn check_recount(&mut self, number: usize, status: &SetRuleStatus) {
        if status.status.condition.status == ConditionStatus::True {
            self.coverage.hit(Mark::StatusPending);
        }
        let seen = self.seen(number);
        let life = self.controllers[number].life;
        let (mut surely, mut maybe) = (0_u64, 0_u64);
        for pod in seen.pods() {
            let hit = |cause: &Cause<'_>| rule_of(cause.source) == Some(&status.uid);
            if !reference::causes(seen, pod).iter().any(hit) {
                continue;
            }
            maybe += 1;
            if !self.checker.heard_gone.contains(&(number, life, pod.uid.clone())) {
                surely += 1;
            }
        }
        let says = status.status.condition.status == ConditionStatus::True;
        if (says && maybe == 0) || (!says && surely > 0) {
            let detail = format!("{}: says {says} with {surely} to {maybe} pods pending", status.rule);
            self.violate("status says who is pending", detail);
        }
        let stated =
            status.status.condition.message.split(" need").next().and_then(|text| text.split(' ').next());
        let stated: Option<u64> = stated.filter(|_| says).and_then(|number| number.parse().ok());
        if stated.is_some_and(|stated| stated < surely || stated > maybe) {
            let detail = format!(
                "{}: {:?} with {surely} to {maybe} pending",
                status.rule, status.status.condition.message
            );
            self.violate("status counts who is pending", detail);
        }
    }

    /// Only the holder of the lease writes.
    pub(crate) fn check_writer(&mut self, sent: &Sent) {
        let holder = self.api.lease.holder();
        let writer = identity(sent.controller, sent.process);
        if holder != writer {
            let detail = format!("{writer} writes, {holder:?} holds the lease");
            return self.violate("only the lease holder writes", detail);
        }
        let (began, hands) = (self.controllers[sent.controller].began(), self.api.lease.hands);
        if began != hands {
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
        self.check_budget(evict);
        if self.checker.deleted.insert(uid.clone(), self.checker.leaders).is_some() {
            self.violate("evicts nobody twice", format!("{} was deleted before", evict.pod));
        }
        for reason in evict.due_reasons() {
            if let TaintSource::Rule { uid: rule, .. } = &reason.cause.source {
                self.checker.evicted.entry(rule.clone()).or_default().insert(uid.clone());
            }
        }
    }

    /// A machine does not want an eviction any more that nobody has taken.
    pub(crate) fn check_withdrawn(&mut self, number: usize, id: EffectId, evict: &Evict) {
        self.coverage.hit(Mark::Withdrawn);
        let key = (number, self.controllers[number].life, evict.uid.clone());
        if self.checker.attempts.get(&key) == Some(&Attempt::UnderWay(id)) {
            self.checker.attempts.insert(key, Attempt::Over(Outcome::RetryLater));
            self.refund(evict);
        }
    }

    /// An eviction did not come to pass: its permit is given back.
    fn refund(&mut self, evict: &Evict) {
        let burst = u64::from(self.config.burst);
        if let Some(pace) = &evict.granted_by {
            self.checker.paces.refund(pace, burst);
        }
        self.checker.ceiling.refund(&PaceKey::Rule("all".into()), burst);
    }

    /// A controller hears what became of its effect.
    pub(crate) fn check_answer(&mut self, sent: &Sent) {
        let EffectKind::Evict(evict) = &sent.effect.kind else { return };
        let key = (sent.controller, sent.life, evict.uid.clone());
        if matches!(sent.outcome, Outcome::Done | Outcome::Gone) {
            self.checker.heard_gone.insert(key.clone());
        }
        // Only the first answer to the attempt in flight counts; an echo of an earlier one says nothing new.
        if self.checker.attempts.get(&key) == Some(&Attempt::UnderWay(sent.effect.id)) {
            self.checker.attempts.insert(key, Attempt::Over(sent.outcome));
            if sent.outcome == Outcome::Done {
                let now = self.controllers[sent.controller].clock(self.now);
                for key in self.braked(sent.controller, evict) {
                    let of_owner =
                        |pod: &SeenPod<'_>| pod.owner.as_ref().is_some_and(|owner| owner.uid == key.2);
                    let seen = self.seen(sent.controller);
                    let there: BTreeSet<Uid> =
                        seen.pods().filter(of_owner).map(|pod| pod.uid.clone()).collect();
                    let (times, last, present) =
                        self.checker.braked.entry(key).or_insert((0, now, BTreeSet::new()));
                    *present = there;
                    // After a long while without it is no loop any more.
                    if last.plus_millis(2 * BRAKE_MS_MAX) < now {
                        *times = 0;
                    }
                    (*times, *last) = (*times + 1, now);
                }
            }
            match sent.outcome {
                Outcome::Conflict
                | Outcome::Refused
                | Outcome::Held
                | Outcome::RetryLater
                | Outcome::Gone => self.refund(evict),
                Outcome::Done | Outcome::Unknown => {}
            }
        }
        if sent.outcome == Outcome::Unknown {
            self.note_uncertain(evict);
        }
    }

    /// The cause of this pod's end is not known: it was marked, and then perhaps deleted by another writer.
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
        if status.status.condition.reason == "SelectorError" {
            self.coverage.hit(Mark::RuleProblem);
        }
        let (was, is) = (before.evictions.unwrap_or_default().pods, status.status.evictions.pods);
        if is < was {
            self.violate("a count never falls", format!("{}: from {was} to {is}", status.rule));
        }
    }
}

/// The reference's verdict on a decision.
#[derive(Debug, Default)]
struct Judgement {
    complaints: Vec<(&'static str, String)>,
    marks: Vec<Mark>,
    /// `None`: the pod must not go at all.
    pace: Option<PaceAllowed>,
}

/// At which pace a pod may go.
#[derive(Clone, Copy, Debug)]
struct PaceAllowed {
    /// Something has it go that has no pace.
    unpaced: bool,
    /// The highest rate of the pace that let it go, if that has anything to say.
    highest: Option<i64>,
    /// It could have gone a while ago.
    late: bool,
    /// It may have gone together with others.
    grouped: bool,
}

/// The coverage marks that an eviction reaches.
fn cover(seen: Seen<'_>, pod: SeenPod<'_>, causes: &[Cause<'_>], due: &[Cause<'_>], marks: &mut Vec<Mark>) {
    if causes.len() > 1 {
        marks.push(Mark::SeveralCauses);
    }
    if due.iter().any(|cause| cause.taint.time_added != Some(cause.deadline)) {
        marks.push(Mark::AfterToleration);
    }
    for cause in due {
        match cause.source {
            Source::Rule(name, _) => {
                marks.push(Mark::ByRule);
                let selector = seen.rule(name).and_then(|rule| rule.selector.as_ref());
                if selector.is_some_and(|selector| !selector.by_names_only()) {
                    marks.push(Mark::ByExpression);
                    if seen.published(cause.device).is_none() {
                        marks.push(Mark::FromMemory);
                    }
                    let patched = reference::Patched::of(seen, cause.device);
                    if patched.is_some_and(|device| device.is_patched()) {
                        marks.push(Mark::ByPatchedValue);
                    }
                }
            }
            Source::Device(..) => marks.push(Mark::ByDevice),
            Source::TaintSlice(..) => marks.push(Mark::ByTaintSlice),
            Source::Patch(..) => marks.push(Mark::ByPatch),
        }
    }
    if reference::claims(seen, pod).any(|seen| seen.claim.reserved_for.len() > 1) {
        marks.push(Mark::SharedClaim);
    }
    if pod.group.is_some() {
        marks.push(Mark::GroupClaim);
    }
    if pod.extended_claim.is_some() {
        marks.push(Mark::ExtendedResource);
    }
}

pub(super) fn rule_of(source: Source<'_>) -> Option<&Uid> {
    match source {
        Source::Rule(_, uid) => Some(uid),
        Source::Device(..) | Source::TaintSlice(..) | Source::Patch(..) => None,
    }
}

/// The key of the pace that a cause shares.
fn pace_key(cause: &Cause<'_>) -> PaceKey {
    match cause.source {
        Source::Rule(_, uid) => PaceKey::Rule(uid.clone()),
        Source::Patch(name, index) => {
            PaceKey::Patch { name: name.clone(), index: u32::try_from(index).unwrap_or(u32::MAX) }
        }
        Source::Device(..) | Source::TaintSlice(..) => PaceKey::Pool {
            pool: cause.device.id.pool_id(),
            key: cause.taint.key.clone(),
            value: cause.taint.value.clone(),
        },
    }
}
