//! Policies become rules of Kubernetes: which, when, and what is done about rules that are not as they should be.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[allow(dead_code, unreachable_pub, reason = "made for other tests")]
#[path = "../../eviction/tests/scenarios/objects.rs"]
mod objects;

use std::{collections::BTreeMap, sync::Arc};

use lazaret_fleet::{Fleet, Input as Told};
use lazaret_machine::Machine;
use lazaret_model::{Condition, ConditionStatus, Effect as TaintEffect, Timestamp, Uid};
use lazaret_policies::{
    Effect, EffectKind, Input, Outcome, Owned, Owner, Policies, RULES_PER_POLICY_MAX, Report, Wanted, compile,
};

const SLICE: &str = "slice worker a[model=big] b[model=small] c[model=big]";
const POLICY: &str = r#"rule p cel=device.attributes["some-driver"].model=="big" taint=k=v:NoExecute@0~2"#;

/// A cluster as far as the machine can see it, whose server carries out every effect.
struct World {
    fleet: Fleet,
    policies: Policies,
    rules: BTreeMap<String, Owned>,
    now: i64,
    uids: u64,
    reports: Vec<String>,
}

impl World {
    fn new(lines: &[&str]) -> Self {
        let mut world = Self {
            fleet: Fleet::default(),
            policies: Policies::default(),
            rules: BTreeMap::new(),
            now: 0,
            uids: 0,
            reports: Vec::new(),
        };
        lines.iter().for_each(|line| world.say(line));
        world.hear(Input::ApprovalWanted(false));
        world.hear(Input::BecameLeader);
        world
    }

    fn say(&mut self, line: &str) {
        self.apply(objects::parse(line));
    }

    fn apply(&mut self, input: Told) {
        self.fleet.apply(input);
        let changed = self.fleet.take_changes().rules;
        self.hear(Input::Changed(changed));
    }

    fn hear(&mut self, input: Input) {
        self.policies.handle(Timestamp::from_millis(self.now), &self.fleet, input);
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.policies.poll_effect()).collect()
    }

    /// Does everything until nothing is left to do, and tells the machine.
    fn settle(&mut self) {
        for _ in 0..1_000 {
            let effects = self.effects();
            if effects.is_empty() {
                return;
            }
            for Effect { id, kind } in effects {
                let news = self.perform(kind);
                self.hear(Input::Acknowledged(id, Outcome::Done));
                news.into_iter().for_each(|news| self.hear(news));
            }
        }
        panic!("it never settles");
    }

    fn perform(&mut self, kind: EffectKind) -> Option<Input> {
        match kind {
            EffectKind::Create(wanted) => {
                assert!(!self.rules.contains_key(wanted.name.as_str()), "{} is there", wanted.name);
                self.uids += 1;
                let rule = owned(&wanted, &format!("r{}", self.uids));
                self.rules.insert(wanted.name.to_string(), rule.clone());
                Some(Input::Rule(rule))
            }
            EffectKind::Retaint(uid, wanted) => {
                assert_eq!(self.rules[wanted.name.as_str()].uid, uid);
                let rule = owned(&wanted, &uid);
                self.rules.insert(wanted.name.to_string(), rule.clone());
                Some(Input::Rule(rule))
            }
            EffectKind::Delete(name, uid) => {
                assert_eq!(self.rules.remove(name.as_str()).unwrap().uid, uid);
                Some(Input::RuleGone(name))
            }
            EffectKind::Report(Report { policy, rules, left_out, overdue, .. }) => {
                // A status says no more than there is.
                let there = self.rules.values().filter(|rule| rule.owner == policy).count();
                assert!(rules <= there, "{rules} of {there}");
                let late = if overdue > 0 { format!(", {overdue} overdue") } else { String::new() };
                self.reports.push(format!("{}: {rules} rules, {left_out} left out{late}", policy.name));
                None
            }
        }
    }

    /// Somebody deletes a rule, or changes its taint or its owner.
    fn meddle(&mut self, how: u64, which: u64) {
        let Some(name) = self.rules.keys().nth(usize::try_from(which).unwrap()).cloned() else { return };
        let mut rule = self.rules[&name].clone();
        match how {
            0 => {
                self.rules.remove(&name);
                return self.hear(Input::RuleGone(name.as_str().into()));
            }
            1 => rule.effect = TaintEffect::NoExecute,
            2 => rule.owner.uid = "of-before".into(),
            _ => rule.owner = Owner { name: "p1".into(), uid: "of-before".into() },
        }
        self.rules.insert(name, rule.clone());
        self.hear(Input::Rule(rule));
    }

    /// An effect fails, is done and shows, or is done and shows before its answer.
    fn answer(&mut self, Effect { id, kind }: Effect, how: u64) {
        let is_current = match &kind {
            EffectKind::Create(wanted) => !self.rules.contains_key(wanted.name.as_str()),
            EffectKind::Retaint(uid, wanted) => {
                self.rules.get(wanted.name.as_str()).is_some_and(|rule| rule.uid == *uid)
            }
            EffectKind::Delete(name, uid) => {
                self.rules.get(name.as_str()).is_some_and(|rule| rule.uid == *uid)
            }
            EffectKind::Report(_) => return self.hear(Input::Acknowledged(id, Outcome::Done)),
        };
        if how == 0 || !is_current {
            return self.hear(Input::Acknowledged(id, Outcome::Conflict));
        }
        let news = self.perform(kind);
        if how == 1 {
            self.hear(Input::Acknowledged(id, Outcome::Done));
        }
        news.into_iter().for_each(|news| self.hear(news));
        if how == 2 {
            self.hear(Input::Acknowledged(id, Outcome::Done));
        }
    }

    /// The statuses after all reports. No other effect may be left.
    fn told(&mut self) -> Vec<String> {
        for Effect { id, kind } in self.effects() {
            assert!(matches!(kind, EffectKind::Report(_)), "{kind:?}");
            self.perform(kind);
            self.hear(Input::Acknowledged(id, Outcome::Done));
        }
        std::mem::take(&mut self.reports)
    }

    /// The rules, one line each.
    fn shown(&self) -> Vec<String> {
        let part = |name: &Option<lazaret_model::Text>| name.clone().unwrap_or_else(|| "*".into());
        let mut lines: Vec<String> = self
            .rules
            .values()
            .map(|rule| {
                let selector = &rule.selector;
                let names =
                    [&selector.driver, &selector.pool, &selector.device].map(|name| part(name).to_string());
                format!("{} {}={}:{}", names.join("/"), rule.key, rule.value, rule.effect.name())
            })
            .collect();
        lines.sort();
        lines
    }

    /// The policy says that its devices are idle.
    fn drained(&mut self, generation: i64) {
        let mut policy = (**self.fleet.rule("p").unwrap().rule).clone();
        policy.generation = generation;
        policy.conditions = vec![Condition {
            kind: "Drained".into(),
            status: ConditionStatus::True,
            reason: "Idle".into(),
            message: "".into(),
            observed_generation: 1,
            last_transition: None,
        }];
        self.apply(Told::Rule(Arc::new(policy)));
        self.settle();
    }
}

fn owned(wanted: &Wanted, uid: &str) -> Owned {
    Owned {
        name: wanted.name.clone(),
        uid: uid.into(),
        owner: wanted.owner.clone(),
        selector: wanted.selector.clone(),
        key: wanted.key.clone(),
        value: wanted.value.clone(),
        effect: wanted.effect.clone(),
    }
}

/// Where a guard wants approval, a policy becomes rules once its status says that it is not held.
#[test]
fn a_policy_of_which_nothing_is_decided_becomes_nothing() {
    let mut world = World::new(&[SLICE, POLICY]);
    world.hear(Input::ApprovalWanted(true));
    world.settle();
    assert_eq!(world.shown(), Vec::<String>::new());
    world.hear(Input::ApprovalWanted(false));
    world.settle();
    let shown = world.shown();
    assert_eq!(shown.len(), 2);
    world.hear(Input::ApprovalWanted(true));
    world.settle();
    assert_eq!(world.shown(), shown, "what it is stays until something is decided");
}

#[test]
fn each_selected_device_has_a_rule_that_evicts_nobody() {
    let mut world = World::new(&[SLICE, POLICY]);
    world.settle();
    assert_eq!(world.shown(), ["some-driver/worker/a k=v:NoSchedule", "some-driver/worker/c k=v:NoSchedule"]);
    assert_eq!(world.reports, ["p: 2 rules, 0 left out"]);
}

#[test]
fn rules_follow_the_devices() {
    let mut world = World::new(&[SLICE, POLICY]);
    world.settle();
    world.say("slice worker a[model=small] b[model=big]");
    // Newly selected devices are tainted before those no longer selected are freed.
    let kinds: Vec<&str> = world
        .effects()
        .iter()
        .map(|effect| match effect.kind {
            EffectKind::Create(_) => "create",
            EffectKind::Retaint(..) => "retaint",
            EffectKind::Delete(..) => "delete",
            EffectKind::Report(_) => "report",
        })
        .collect();
    assert_eq!(kinds, ["create", "delete", "delete"]);
    let mut world = World::new(&[SLICE, POLICY]);
    world.settle();
    world.say("slice worker a[model=small] b[model=big]");
    world.settle();
    assert_eq!(world.shown(), ["some-driver/worker/b k=v:NoSchedule"]);
    world.say("rule- p");
    world.settle();
    assert_eq!(world.shown(), Vec::<String>::new());
}

#[test]
fn a_selector_by_names_stays_one_rule() {
    let mut world = World::new(&[SLICE, "rule p driver=some-driver pool=worker taint=k:NoSchedule@0"]);
    world.settle();
    assert_eq!(world.shown(), ["some-driver/worker/* k=:NoSchedule"]);
}

#[test]
fn a_rule_evicts_only_when_its_policy_says_that_nobody_is_left() {
    let mut world = World::new(&[SLICE, POLICY]);
    world.settle();
    world.drained(1);
    assert_eq!(world.shown(), ["some-driver/worker/a k=v:NoExecute", "some-driver/worker/c k=v:NoExecute"]);
    // A condition for another generation of the policy does not count.
    world.drained(2);
    assert!(world.shown().iter().all(|line| line.ends_with("NoSchedule")), "{:?}", world.shown());
}

#[test]
fn a_policy_has_only_so_many_rules_and_says_what_was_left_out() {
    // A slice has at most 128 devices.
    let slice = |name: &str| {
        let devices: String = (0..100).map(|at| format!(" d{at}[model=big]")).collect();
        format!("slice {name} pool={name}{devices}")
    };
    let (one, two, three) = (slice("one"), slice("two"), slice("three"));
    let mut world = World::new(&[&one, &two, &three, POLICY]);
    world.settle();
    assert_eq!(world.rules.len(), RULES_PER_POLICY_MAX);
    let left_out = 300 - RULES_PER_POLICY_MAX;
    assert_eq!(world.reports, [format!("p: {RULES_PER_POLICY_MAX} rules, {left_out} left out")]);
}

#[test]
fn what_somebody_changed_is_changed_back_and_what_is_of_another_policy_is_made_anew() {
    let mut world = World::new(&[SLICE, POLICY]);
    world.settle();
    let (name, rule) = world.rules.iter().next().map(|(name, rule)| (name.clone(), rule.clone())).unwrap();
    let changed = Owned { effect: TaintEffect::NoExecute, ..rule.clone() };
    world.rules.insert(name.clone(), changed.clone());
    world.hear(Input::Rule(changed));
    world.settle();
    assert_eq!(world.rules[&name].effect, TaintEffect::NoSchedule);
    let other = Owned { owner: Owner { name: "p".into(), uid: Uid::from("before") }, ..rule };
    world.rules.insert(name.clone(), other.clone());
    world.hear(Input::Rule(other));
    world.settle();
    assert_eq!(world.rules[&name].owner.uid, world.fleet.rule("p").unwrap().rule.uid);
}

#[test]
fn what_fails_is_tried_again_later_and_what_was_done_is_not_done_twice() {
    let mut world = World::new(&[SLICE, POLICY]);
    let first = world.effects();
    assert_eq!(first.len(), 2, "two rules");
    for effect in &first {
        world.hear(Input::Acknowledged(effect.id, Outcome::RetryLater));
    }
    assert_eq!(world.told(), ["p: 0 rules, 0 left out, 2 overdue"]);
    let wake = world.policies.next_wake().unwrap();
    assert_eq!(wake.at, Timestamp::from_millis(500));
    world.now = 500;
    world.hear(Input::Tick);
    let second = world.effects();
    assert_eq!(second.len(), 2);
    for effect in &second {
        world.hear(Input::Acknowledged(effect.id, Outcome::Done));
    }
    // The watch is late: nothing is written meanwhile, whatever changes.
    world.hear(Input::Changed(vec!["p".into()]));
    assert!(world.effects().is_empty());
    world.now = 5_600;
    world.hear(Input::Tick);
    let third = world.effects();
    assert_eq!(third.len(), 2, "the rules never came, which the status says already: {third:?}");
}

/// A status that counts rules counts those that the watch showed.
#[test]
fn a_status_says_nothing_of_rules_that_are_being_made() {
    let mut world = World::new(&[SLICE, POLICY]);
    let creations = world.effects();
    assert_eq!(creations.len(), 2, "no report: {creations:?}");
    let mut made = Vec::new();
    for Effect { id, kind } in creations {
        made.extend(world.perform(kind));
        world.hear(Input::Acknowledged(id, Outcome::Done));
        assert_eq!(world.told(), Vec::<String>::new(), "the watch showed none");
    }
    world.hear(made.remove(0));
    assert_eq!(world.told(), Vec::<String>::new(), "one is missing");
    world.hear(made.remove(0));
    assert_eq!(world.told(), ["p: 2 rules, 0 left out"]);

    // One more device: the status stays until its rule is there.
    world.say("slice worker a[model=big] b[model=big] c[model=big]");
    let [Effect { id, kind }] = &world.effects()[..] else { panic!("one rule is missing, and nothing else") };
    let news = world.perform(kind.clone()).unwrap();
    world.hear(Input::Acknowledged(*id, Outcome::Done));
    assert_eq!(world.told(), Vec::<String>::new());
    world.hear(news);
    assert_eq!(world.told(), ["p: 3 rules, 0 left out"]);
}

/// A write that was done and does not show is as good as none: the status says so after a while, and not before.
#[test]
fn a_rule_that_never_shows_is_said_to_be_missing() {
    let mut world = World::new(&[SLICE, POLICY]);
    for effect in world.effects() {
        world.hear(Input::Acknowledged(effect.id, Outcome::Done));
    }
    let wake = world.policies.next_wake().unwrap();
    assert_eq!(wake.at, Timestamp::from_millis(5_000));
    world.now = 4_999;
    world.hear(Input::Tick);
    assert_eq!(world.told(), Vec::<String>::new());
    world.now = 5_000;
    world.hear(Input::Tick);
    let kinds = world.effects();
    let [Effect { kind: EffectKind::Create(_), .. }, Effect { kind: EffectKind::Create(_), .. }, report] =
        &kinds[..]
    else {
        panic!("{kinds:?}")
    };
    let EffectKind::Report(Report { rules: 0, overdue: 2, .. }) = report.kind else { panic!("{report:?}") };
}

/// A rule of another owner has the name: it is left alone, and the policy says so until the name is free.
#[test]
fn a_name_that_is_taken_is_reported_and_tried_again_by_creation_alone() {
    let mut world = World::new(&[SLICE, "rule p driver=some-driver pool=worker taint=k:NoSchedule@0"]);
    for effect in world.effects() {
        let is_create = matches!(effect.kind, EffectKind::Create(_));
        let outcome = if is_create { Outcome::Conflict } else { Outcome::Done };
        world.hear(Input::Acknowledged(effect.id, outcome));
    }
    let effects = world.effects();
    let [Effect { kind: EffectKind::Report(Report { rules: 0, taken, overdue: 0, .. }), .. }] =
        effects.as_slice()
    else {
        panic!("{effects:?}")
    };
    assert_eq!(taken.len(), 1);
    world.now = 500;
    world.hear(Input::Tick);
    let again = world.effects();
    assert!(matches!(again.as_slice(), [Effect { kind: EffectKind::Create(_), .. }]), "{again:?}");
}

#[test]
fn a_follower_does_nothing() {
    let mut world = World::new(&[SLICE, POLICY]);
    world.hear(Input::LostLeadership);
    world.say("slice worker a[model=big]");
    assert!(world.effects().is_empty());
    assert_eq!(world.policies.next_wake(), None);
}

#[test]
fn names_are_names_of_objects_and_differ_by_what_they_select() {
    let world = World::new(&[SLICE, POLICY]);
    let policy = world.fleet.rule("p").unwrap().rule.clone();
    let rules = compile(&world.fleet, &policy).rules;
    assert_ne!(rules[0].name, rules[1].name);
    assert!(rules.iter().all(|rule| rule.name.starts_with("p-") && rule.name.len() == 18));
    let long = lazaret_policies::rule_name(&"x".repeat(253), &rules[0].selector);
    assert_eq!(long.len(), 253);
}

#[test]
fn a_change_of_one_policy_of_many_is_looked_at_alone() {
    let mut world = World::new(&[SLICE]);
    for number in 0..500 {
        world.say(&format!("rule p{number} driver=some-driver pool=pool-{number} taint=k:NoSchedule@0"));
    }
    world.settle();
    assert_eq!(world.rules.len(), 500);
    let before = world.policies.looks();
    world.say("rule p7 driver=some-driver pool=pool-7 taint=k=other:NoSchedule@0");
    world.settle();
    let looks = world.policies.looks() - before;
    assert!(looks <= 6, "{looks} looks for one change of one policy");
}

/// The rules of a machine at rest follow from the policies, whatever came before: policies come and go, others change rules, writes fail.
#[test]
fn at_rest_there_are_the_rules_that_policies_want_and_no_others() {
    for seed in 1..=400_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut draw = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut world = World::new(&[SLICE]);
        for _ in 0..60 {
            let name = format!("p{}", draw(3));
            match draw(9) {
                0 => world.say(&format!("rule {name} driver=some-driver pool=worker taint=k:NoSchedule@0")),
                1 => world.say(&format!(
                    r#"rule {name} cel=device.attributes["some-driver"].model=="big" taint=k=v:NoExecute@0~2"#
                )),
                2 => world.say(&format!("rule- {name}")),
                3 => {
                    let model = |big: u64| if big == 0 { "big" } else { "small" };
                    let (a, b) = (model(draw(2)), model(draw(2)));
                    world.say(&format!("slice worker a[model={a}] b[model={b}]"));
                }
                4 => world.hear(Input::ApprovalWanted(draw(2) == 0)),
                5 => world.meddle(draw(4), draw(3)),
                6 => {
                    world.now += i64::try_from(draw(7_000)).unwrap();
                    world.hear(Input::Tick);
                }
                7 => world.hear(if draw(3) == 0 { Input::LostLeadership } else { Input::BecameLeader }),
                _ => {
                    for effect in world.effects() {
                        world.answer(effect, draw(3));
                    }
                }
            }
        }
        world.hear(Input::ApprovalWanted(false));
        world.hear(Input::BecameLeader);
        for _ in 0..20 {
            world.settle();
            world.now += 60_000;
            world.hear(Input::Tick);
        }
        let wanted = world.fleet.rules().flat_map(|view| compile(&world.fleet, view.rule).rules);
        let wanted: BTreeMap<String, Wanted> = wanted.map(|rule| (rule.name.to_string(), rule)).collect();
        let is_as = |(one, owned): (&String, &Owned)| {
            let rule = &wanted[one];
            (&owned.owner, &owned.selector, &owned.effect) == (&rule.owner, &rule.selector, &rule.effect)
        };
        assert!(world.rules.keys().eq(wanted.keys()), "seed {seed}: {:?}", world.shown());
        assert!(world.rules.iter().all(is_as), "seed {seed}: {:?}", world.shown());
        assert_eq!(world.policies.next_wake(), None, "seed {seed}: nothing is left to do");
    }
}
