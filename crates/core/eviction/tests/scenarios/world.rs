//! A world of one fleet, one machine, a clock, and somebody who does what the machine wants.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_allocator::Features;
use lazaret_eviction::{
    Capacity, CapacityAnswer, CapacityQuestion, EVENT_REASON, EVICTION_BLOCKED, Effect, EffectId, EffectKind,
    Evict, Eviction, HELD_REASON, Input, Manner, Options, Outcome, PaceKey, Promised, RuleStatus,
    SetLastPublished, SetRuleStatus,
};
use lazaret_fleet::{Fleet, Input as FleetInput, Kind};
use lazaret_model::{
    BreakerStatus, DeviceTaintRule, GuardPreview, ObjectKey, Pod, ResourceClaim, TaintHold, Timestamp,
};

use crate::objects;

pub(crate) struct World {
    pub(crate) now: i64,
    pub(crate) fleet: Fleet,
    pub(crate) machine: Eviction,
    /// The effects that were carried out, one line each.
    pub(crate) log: Vec<String>,
    /// Outcomes to give instead of `Done`, by pod or rule name, in turn. A pod is touched only by `Done`, and by
    /// `Unknown` if `unknown_happens`.
    pub(crate) outcomes: BTreeMap<String, Vec<Outcome>>,
    pub(crate) unknown_happens: bool,
    /// How often a disruption budget still refuses to let a pod be evicted, by pod name.
    pub(crate) refusals: BTreeMap<String, u32>,
    /// When each pod was evicted, in milliseconds.
    pub(crate) evicted_at: Vec<(i64, String)>,
    /// Whose pace let each of them go.
    pub(crate) granted: Vec<(i64, Option<PaceKey>)>,
    /// The annotations written to claims, one line each.
    pub(crate) kept: Vec<String>,
    /// The selections of guards, as their statuses say.
    pub(crate) previews: Vec<GuardPreview>,
    /// The breakers of the statuses of guards that were written.
    pub(crate) breakers: Vec<BreakerStatus>,
    /// The taints that no rule sets and that the last status of a guard listed.
    pub(crate) held_taints: Vec<TaintHold>,
    /// The machine gets no notice that its view is current.
    pub(crate) view_lags: bool,
    /// Answers questions for room, and the number of questions.
    pub(crate) capacity: Capacity,
    pub(crate) questions: usize,
    /// All objects that the fleet got and that still exist.
    pub(crate) objects: BTreeMap<(Kind, ObjectKey), FleetInput>,
}

impl World {
    pub(crate) fn new(options: Options) -> Self {
        let mut world = Self::follower(options);
        world.hear(Input::BecameLeader);
        world
    }

    pub(crate) fn follower(options: Options) -> Self {
        Self {
            now: 0,
            fleet: Fleet::new(),
            machine: Eviction::new(options),
            log: vec![],
            outcomes: BTreeMap::new(),
            unknown_happens: false,
            refusals: BTreeMap::new(),
            evicted_at: vec![],
            granted: vec![],
            kept: vec![],
            previews: vec![],
            breakers: vec![],
            held_taints: vec![],
            view_lags: false,
            capacity: Capacity::new(Features::all()),
            questions: 0,
            objects: BTreeMap::new(),
        }
    }

    pub(crate) fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    pub(crate) fn hear(&mut self, input: Input<'_>) {
        self.machine.handle(Timestamp::from_millis(self.now), &self.fleet, input);
    }

    /// Applies lines of objects, `;` between those that are one event after the other; the machine hears of each.
    pub(crate) fn apply(&mut self, lines: &str) {
        for line in lines.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty()) {
            self.feed(objects::parse(line));
        }
    }

    pub(crate) fn feed(&mut self, input: FleetInput) {
        self.change(input);
        let changes = self.fleet.take_changes();
        self.hear(Input::Changed(&changes));
    }

    /// The fleet hears of it, the machine does not yet.
    pub(crate) fn change(&mut self, input: FleetInput) {
        let name = (input.kind(), input.key());
        if is_gone(&input) {
            self.objects.remove(&name);
        } else {
            self.objects.insert(name, input.clone());
        }
        self.fleet.apply(input);
    }

    /// Takes all effects that there are, does them, and so on until there are none.
    pub(crate) fn work(&mut self) {
        loop {
            let batch: Vec<Effect> = std::iter::from_fn(|| self.machine.poll_effect()).collect();
            let view = if self.view_lags { None } else { self.machine.poll_view() };
            if batch.is_empty() && view.is_none() {
                return;
            }
            if let Some(view) = view {
                self.hear(Input::ViewReached(view.number));
            }
            batch.into_iter().for_each(|effect| self.perform(effect));
        }
    }

    pub(crate) fn perform(&mut self, effect: Effect) {
        match effect.kind {
            EffectKind::Evict(evict) => self.evict(effect.id, &evict),
            EffectKind::SetRuleStatus(status) => self.set_status(effect.id, status),
            EffectKind::SetLastPublished(write) => self.set_last_published(effect.id, write),
            EffectKind::SetGuardStatus(write) => {
                let (clock, guard) = (self.clock(), &write.guard);
                let tripped =
                    write.breaker.map(|breaker| format!("guard {guard} tripped: {}", breaker.tripped));
                let window = write.window.map(|window| format!("guard {guard} window: {window:?}"));
                // A count that changed is no line.
                let is_news = |line: &String| {
                    let what = line.rsplit_once(": ").map_or(&**line, |(what, _)| what);
                    let last = self.log.iter().rev().find(|said| said.contains(what));
                    last.is_none_or(|said| !said.ends_with(line.as_str()))
                };
                let lines: Vec<String> = tripped.into_iter().chain(window).filter(is_news).collect();
                self.log.extend(lines.into_iter().map(|line| format!("{clock} {line}")));
                self.breakers.extend(write.breaker);
                self.previews.push(write.preview);
                self.held_taints = write.held.unwrap_or_default();
                self.hear(Input::Acknowledged { effect: effect.id, outcome: Outcome::Done });
            }
            EffectKind::AskCapacity(question) => self.ask_capacity(effect.id, &question),
            EffectKind::Event(event) => {
                let word = event.message.split([' ', ':']).next().unwrap();
                self.log.push(format!("{} event {} {word}", self.clock(), event.pod.name));
                assert!(
                    [EVENT_REASON, HELD_REASON, EVICTION_BLOCKED].contains(&event.reason),
                    "{}",
                    event.reason
                );
            }
            EffectKind::RuleEvent(event) => {
                self.log.push(format!("{} event {}: {}", self.clock(), event.rule, event.message));
            }
            EffectKind::GuardEvent(event) => {
                self.log.push(format!("{} event {}: {}", self.clock(), event.guard, event.message));
            }
        }
    }

    fn ask_capacity(&mut self, effect: EffectId, question: &CapacityQuestion) {
        self.questions += 1;
        let now = self.at();
        match self.capacity.ask(now, &mut self.fleet.clone(), question) {
            CapacityAnswer::Room(promised) => {
                for Promised { pod, node, devices, .. } in promised {
                    let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
                    self.log.push(format!("{} room {} {node} {}", self.clock(), pod.name, devices.join(" ")));
                }
                self.hear(Input::Acknowledged { effect, outcome: Outcome::Done });
            }
            CapacityAnswer::NoRoom(why) => self.hear(Input::Held { effect, why }),
            CapacityAnswer::Gone => self.hear(Input::Acknowledged { effect, outcome: Outcome::RetryLater }),
        }
    }

    fn clock(&self) -> String {
        if self.now % 1000 == 0 { format!("{}s", self.now / 1000) } else { format!("{}ms", self.now) }
    }

    fn outcome(&mut self, name: &str) -> Outcome {
        match self.outcomes.get_mut(name) {
            Some(list) if !list.is_empty() => list.remove(0),
            _ => Outcome::Done,
        }
    }

    /// Whether a disruption budget refuses this once.
    fn refuses(&mut self, evict: &Evict) -> bool {
        let left = self.refusals.get_mut(evict.pod.name.as_str()).filter(|left| **left > 0);
        left.filter(|_| evict.manner == Manner::Evict).is_some_and(|left| {
            *left -= 1;
            true
        })
    }

    fn evict(&mut self, effect: EffectId, evict: &Evict) {
        if self.refuses(evict) {
            self.log.push(format!("{} evict {} Held", self.clock(), evict.pod.name));
            let why = "The disruption budget web needs 1 healthy pods and has 1 currently".into();
            return self.hear(Input::Held { effect, why });
        }
        let outcome = self.outcome(&evict.pod.name);
        let late = self.now - evict.due.as_millis();
        let late = if late == 0 { String::new() } else { format!(" {late}ms late") };
        let result = if outcome == Outcome::Done { String::new() } else { format!(" {outcome:?}") };
        let manner = match evict.manner {
            Manner::Delete => "evict",
            Manner::Evict => "evict by API",
            Manner::DeleteOverdue => "delete overdue",
        };
        self.log.push(format!("{} {manner} {}{late}{result}", self.clock(), evict.pod.name));
        let touched = outcome == Outcome::Done || (outcome == Outcome::Unknown && self.unknown_happens);
        if touched {
            let at = self.fleet.pod_ix(&evict.pod).expect("evicted pod exists");
            let mut pod = Pod::clone(self.fleet.pod(at).expect("evicted pod exists"));
            assert_eq!(pod.uid, evict.uid);
            assert!(pod.deleting_since.is_none(), "evicted twice: {}", pod.key);
            pod.deleting_since = Some(self.at());
            pod.conditions = vec![evict.condition()];
            pod.evicted_by = Some(Box::new(evict.mark()));
            self.evicted_at.push((self.now, evict.pod.name.to_string()));
            self.granted.push((self.now, evict.granted_by.clone()));
            self.hear(Input::Acknowledged { effect, outcome });
            self.feed(FleetInput::Pod(Arc::new(pod)));
        } else {
            self.hear(Input::Acknowledged { effect, outcome });
        }
    }

    fn set_last_published(&mut self, effect: EffectId, write: SetLastPublished) {
        let outcome = self.outcome(&write.claim.name);
        let names: Vec<&str> = write.devices.iter().map(|one| one.device.name.as_str()).collect();
        let result = if outcome == Outcome::Done { String::new() } else { format!(" {outcome:?}") };
        self.kept.push(format!("{} {} [{}]{result}", self.clock(), write.claim.name, names.join(" ")));
        self.hear(Input::Acknowledged { effect, outcome });
        if outcome == Outcome::Done {
            let at = self.fleet.claim_ix(&write.claim).expect("claim exists");
            let mut claim = ResourceClaim::clone(self.fleet.claim(at).expect("claim exists"));
            assert_eq!(claim.uid, write.uid);
            claim.last_published = write.devices;
            self.feed(FleetInput::Claim(Arc::new(claim)));
        }
    }

    fn set_status(&mut self, effect: EffectId, status: SetRuleStatus) {
        let outcome = self.outcome(&status.rule);
        let SetRuleStatus { rule: name, uid, status } = status;
        let RuleStatus { condition, drained, blocked, expired, held, evictions, evicting, effective_since } =
            status;
        self.log.push(format!(
            "{} status {name} {:?} {}: {}",
            self.clock(),
            condition.status,
            condition.reason,
            condition.message
        ));
        if let Some(blocked) = &blocked {
            let (reason, message) = (&blocked.reason, &blocked.message);
            self.log.push(format!(
                "{} blocked {name} {:?} {reason}: {message}",
                self.clock(),
                blocked.status
            ));
        }
        if let Some(held) = &held {
            let (reason, message) = (&held.reason, &held.message);
            self.log.push(format!("{} held {name} {:?} {reason}: {message}", self.clock(), held.status));
        }
        if outcome == Outcome::Done {
            let rule = self.fleet.rule(&name).expect("rule exists").rule;
            assert_eq!(rule.uid, uid);
            assert_eq!(condition.observed_generation, rule.generation);
            let mut rule = DeviceTaintRule::clone(rule);
            rule.conditions =
                [condition, drained].into_iter().chain(blocked).chain(expired).chain(held).collect();
            rule.evictions = Some(evictions);
            rule.evicting = evicting;
            rule.effective_since = effective_since;
            self.hear(Input::Acknowledged { effect, outcome });
            self.feed(FleetInput::Rule(Arc::new(rule)));
        } else {
            self.hear(Input::Acknowledged { effect, outcome });
        }
    }

    /// Works, sleeps until the next wake-up, and so on, up to an instant.
    pub(crate) fn run_until(&mut self, end_ms: i64) {
        for _ in 0..1_000_000 {
            self.work();
            match self.machine.next_wake() {
                Some(wake) if wake.at.as_millis() <= end_ms => {
                    assert!(wake.at > self.at(), "wakes up for nothing at {:?}: {:?}", wake.at, wake.why);
                    self.now = wake.at.as_millis();
                    self.hear(Input::Tick);
                }
                Some(_) | None => {
                    self.now = self.now.max(end_ms);
                    return;
                }
            }
        }
        panic!("does not come to rest");
    }

    /// The state that the order of events must not change.
    pub(crate) fn end_state(&self) -> Vec<String> {
        let mut state = self.plans();
        for view in self.fleet.rules() {
            let tally = self.machine.tally(&view.rule.name).unwrap();
            let condition = &view.rule.conditions[0];
            state.push(format!(
                "rule {} {tally:?} {:?} {} {}",
                view.rule.name, condition.status, condition.reason, condition.message
            ));
        }
        let mut evicted: Vec<String> =
            self.evicted_at.iter().map(|(_, pod)| format!("evicted {pod}")).collect();
        evicted.sort();
        state.extend(evicted);
        state
    }

    /// The plans of a fresh fleet and a fresh machine for the same objects.
    pub(crate) fn recomputed(&self) -> Vec<String> {
        let mut fresh = Self::follower(Options::default());
        self.objects.values().for_each(|input| fresh.fleet.apply(input.clone()));
        let changes = fresh.fleet.take_changes();
        fresh.now = self.now;
        fresh.hear(Input::Changed(&changes));
        fresh.plans()
    }

    /// The plan of each pod and whom each rule hits.
    pub(crate) fn plans(&self) -> Vec<String> {
        let mut plans: Vec<String> = self
            .machine
            .pending()
            .map(|plan| {
                let reasons: Vec<String> =
                    plan.reasons.iter().map(|r| format!("{r} at {:?}", r.deadline)).collect();
                format!("pending {} due {:?}: {}", plan.pod, plan.due, reasons.join("; "))
            })
            .collect();
        plans.sort();
        for view in self.fleet.rules() {
            let tally = self.machine.tally(&view.rule.name).unwrap();
            plans.push(format!("rule {} hits {} in {}", view.rule.name, tally.pods, tally.namespaces));
        }
        plans
    }
}

fn is_gone(input: &FleetInput) -> bool {
    matches!(
        input,
        FleetInput::SliceGone(_)
            | FleetInput::RuleGone(_)
            | FleetInput::PatchGone(_)
            | FleetInput::ClassGone(_)
            | FleetInput::ClaimGone(_)
            | FleetInput::PodGone(_)
            | FleetInput::NodeGone(_)
    )
}
