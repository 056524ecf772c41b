//! Patches compiled to policies, on a cluster whose scheduler does not read patches.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use lazaret_machine::Machine;
use lazaret_model::{
    AttrValue, DevicePatch, DeviceSelector, Effect, ResourceSlicePatch, Taint, Text, Timestamp,
};
use lazaret_policies::{
    EffectId, Outcome, OwnedPolicy, Owner, PatchEffect, PatchInput, PatchReport, Patches, WantedPolicy,
    compile_patch,
};

fn taint(key: &str, effect: Effect) -> Taint {
    Taint { key: key.into(), effect, ..Taint::default() }
}

fn patch(taints: Vec<Taint>) -> ResourceSlicePatch {
    ResourceSlicePatch {
        name: "p".into(),
        uid: "u".into(),
        selector: Some(DeviceSelector { class: Some("gpu".into()), ..DeviceSelector::default() }),
        patch: DevicePatch { taints, ..DevicePatch::default() },
        ..ResourceSlicePatch::default()
    }
}

/// The machine, and a cluster that does what it says and shows it.
#[derive(Default)]
struct World {
    patches: Patches,
    policies: BTreeMap<Text, OwnedPolicy>,
    reports: Vec<PatchReport>,
    now: i64,
    uids: u32,
}

impl World {
    fn leading() -> Self {
        let mut world = Self::default();
        world.hear(PatchInput::Leads(true));
        world
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    fn hear(&mut self, input: PatchInput) {
        self.patches.handle(self.time(), &(), input);
    }

    fn effects(&mut self) -> Vec<(EffectId, PatchEffect)> {
        self.hear(PatchInput::Tick);
        std::iter::from_fn(|| self.patches.poll_effect()).map(|effect| (effect.id, effect.kind)).collect()
    }

    /// Until nothing is left to do.
    fn settle(&mut self) {
        loop {
            let effects = self.effects();
            if effects.is_empty() {
                return;
            }
            for (id, effect) in effects {
                // The watch shows it after that.
                self.hear(PatchInput::Acknowledged(id, Outcome::Done));
                self.perform(effect);
            }
        }
    }

    fn perform(&mut self, effect: PatchEffect) {
        match effect {
            PatchEffect::Create(said) => {
                self.uids += 1;
                assert!(!self.policies.contains_key(&said.name), "made twice");
                let uid = format!("uid-{}", self.uids);
                self.show(OwnedPolicy { uid: uid.as_str().into(), said });
            }
            PatchEffect::Change(uid, said) => {
                assert_eq!(self.policies[&said.name].uid, uid);
                self.show(OwnedPolicy { uid, said });
            }
            PatchEffect::Delete(name, uid) => {
                let gone = self.policies.remove(&name);
                assert_eq!(gone.map(|policy| policy.uid), Some(uid));
                self.hear(PatchInput::PolicyGone(name));
            }
            PatchEffect::Report(report) => {
                let of = |policy: &&OwnedPolicy| policy.said.owner == report.patch;
                let there = self.policies.values().filter(of).count();
                assert!(report.policies <= there, "a status says no more than there is: {report:?}");
                self.reports.push(report);
            }
        }
    }

    fn show(&mut self, policy: OwnedPolicy) {
        self.policies.insert(policy.said.name.clone(), policy.clone());
        self.hear(PatchInput::Policy(policy));
    }

    fn shown(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.policies.values().map(|one| one.said.taint.to_string()).collect();
        lines.sort();
        lines
    }
}

#[test]
fn each_taint_becomes_a_policy_and_attributes_are_named() {
    let mut world = World::leading();
    let mut said = patch(vec![
        taint("a", Effect::NoSchedule),
        taint("b", Effect::NoExecute),
        taint("a", Effect::NoSchedule),
    ]);
    said.patch.attributes = vec![("model".into(), Some(AttrValue::Bool(true))), ("old".into(), None)];
    world.hear(PatchInput::Patch(3, said));
    world.settle();
    assert_eq!(world.shown(), ["a:NoSchedule", "b:NoExecute"]);
    let selectors: Vec<_> = world.policies.values().map(|one| one.said.selector.class.clone()).collect();
    assert_eq!(selectors, [Some("gpu".into()), Some("gpu".into())]);
    let [report] = world.reports.as_slice() else { panic!("{:?}", world.reports) };
    assert_eq!((report.generation, report.policies, report.taken.len()), (3, 2, 0));
    assert_eq!(report.not_applied, ["model", "old"].map(Text::from));
}

#[test]
fn a_patch_without_a_filter_selects_nothing() {
    let without = ResourceSlicePatch { selector: None, ..patch(vec![taint("a", Effect::NoSchedule)]) };
    assert_eq!(compile_patch(&without).policies, Vec::new());
}

#[test]
fn policies_follow_their_patch_and_go_with_it() {
    let mut world = World::leading();
    world.hear(PatchInput::Patch(1, patch(vec![taint("a", Effect::NoSchedule)])));
    world.settle();
    let uid = world.policies.values().next().unwrap().uid.clone();
    // Another selection: the same policy says it.
    let mut wider = patch(vec![taint("a", Effect::NoSchedule)]);
    wider.selector = Some(DeviceSelector { driver: Some("d".into()), ..DeviceSelector::default() });
    world.hear(PatchInput::Patch(2, wider));
    world.settle();
    let [one] = world.policies.values().collect::<Vec<_>>()[..] else { panic!("{:?}", world.policies) };
    assert_eq!((one.uid.clone(), one.said.selector.driver.clone()), (uid, Some("d".into())));
    world.hear(PatchInput::Patch(3, patch(vec![taint("c", Effect::NoSchedule)])));
    world.settle();
    assert_eq!(world.shown(), ["c:NoSchedule"]);
    world.hear(PatchInput::PatchGone("p".into()));
    world.settle();
    assert_eq!(world.shown(), Vec::<String>::new());
}

#[test]
fn what_somebody_changed_is_changed_back_and_what_is_of_another_patch_is_made_anew() {
    let mut world = World::leading();
    world.hear(PatchInput::Patch(1, patch(vec![taint("a", Effect::NoSchedule)])));
    world.settle();
    let mut theirs = world.policies.values().next().unwrap().clone();
    theirs.said.taint.value = "edited".into();
    world.show(theirs.clone());
    world.settle();
    assert_eq!(world.shown(), ["a:NoSchedule"]);
    theirs.said.owner = Owner { name: "p".into(), uid: "before".into() };
    world.show(theirs);
    world.settle();
    assert_eq!(world.policies.values().next().unwrap().said.owner.uid, "u");
}

#[test]
fn a_name_that_somebody_else_has_is_reported_and_the_object_left_alone() {
    let mut world = World::leading();
    world.hear(PatchInput::Patch(1, patch(vec![taint("a", Effect::NoSchedule)])));
    let effects = world.effects();
    let made: Vec<&WantedPolicy> = effects
        .iter()
        .filter_map(|(_, effect)| if let PatchEffect::Create(policy) = effect { Some(policy) } else { None })
        .collect();
    let [wanted] = made[..] else { panic!("{effects:?}") };
    let name = wanted.name.clone();
    for (id, effect) in effects {
        let outcome = match effect {
            PatchEffect::Create(_) => Outcome::Conflict,
            PatchEffect::Change(..) | PatchEffect::Delete(..) | PatchEffect::Report(_) => Outcome::Done,
        };
        world.hear(PatchInput::Acknowledged(id, outcome));
    }
    let effects = world.effects();
    let [(_, PatchEffect::Report(report))] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((report.policies, report.taken.as_slice()), (0, [name].as_slice()));
    // It is tried again later, by creation alone.
    world.now = 600;
    let again = world.effects();
    assert!(matches!(again.as_slice(), [(_, PatchEffect::Create(_))]), "{again:?}");
}

#[test]
fn what_fails_is_tried_again_later_and_a_follower_does_nothing() {
    let mut world = World::leading();
    world.hear(PatchInput::Patch(1, patch(vec![taint("a", Effect::NoSchedule)])));
    let first = world.effects();
    let [(id, PatchEffect::Create(_))] = first.as_slice() else { panic!("{first:?}") };
    world.hear(PatchInput::Acknowledged(*id, Outcome::RetryLater));
    let said = world.effects();
    let [(id, PatchEffect::Report(PatchReport { policies: 0, overdue: 1, .. }))] = said.as_slice() else {
        panic!("{said:?}")
    };
    world.hear(PatchInput::Acknowledged(*id, Outcome::Done));
    assert!(world.effects().is_empty());
    assert_eq!(world.patches.next_wake().map(|wake| wake.at), Some(Timestamp::from_millis(500)));
    world.now = 500;
    assert_eq!(world.effects().len(), 1);
    world.hear(PatchInput::Leads(false));
    world.hear(PatchInput::Patch(2, patch(vec![taint("b", Effect::NoSchedule)])));
    assert!(world.effects().is_empty());
    assert_eq!(world.patches.next_wake(), None);
}

/// A status that counts policies counts those that the watch showed.
#[test]
fn a_status_says_nothing_of_policies_that_are_being_made() {
    let mut world = World::leading();
    world.hear(PatchInput::Patch(1, patch(vec![taint("a", Effect::NoSchedule)])));
    let effects = world.effects();
    let [(id, PatchEffect::Create(said))] = effects.as_slice() else { panic!("no report: {effects:?}") };
    world.hear(PatchInput::Acknowledged(*id, Outcome::Done));
    assert!(world.effects().is_empty(), "the watch did not show it");
    world.show(OwnedPolicy { uid: "made".into(), said: said.clone() });
    let effects = world.effects();
    let [(_, PatchEffect::Report(PatchReport { policies: 1, overdue: 0, .. }))] = effects.as_slice() else {
        panic!("{effects:?}")
    };
}

#[test]
fn a_time_is_as_an_object_shows_it() {
    let at = |ms| Some(Timestamp::from_millis(ms));
    let said = patch(vec![Taint { time_added: at(1_700), ..taint("a", Effect::NoSchedule) }]);
    assert_eq!(compile_patch(&said).policies[0].taint.time_added, at(1_000));
}
