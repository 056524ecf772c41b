//! The effect of rules on slices. The first part has the names of the cases that Kubernetes' own slice tracker is tested with; each runs in every
//! order of its inputs.

use alloc::{format, sync::Arc, vec, vec::Vec};

use super::build::*;
use crate::{Input, Problem};

const BAD: &str = "bad:NoSchedule";

fn two_slices() -> [Input; 2] {
    [
        slice("s1", "d1/p1", vec![device("a", &[], &[]), device("b", &[], &[])]).into(),
        slice("s2", "d2/p2", vec![device("a", &[], &[])]).into(),
    ]
}

fn with(extra: impl IntoIterator<Item = Input>) -> Vec<Input> {
    two_slices().into_iter().chain(extra).collect()
}

#[test]
fn add_slices_no_patches() {
    check(&two_slices(), &[("d1/p1/a", &[]), ("d2/p2/a", &[])]);
}

#[test]
fn update_slices_no_patches() {
    let update = slice("s1", "d1/p1", vec![device("a", &[], &["own:None"])]);
    check(&with([update.into()]), &[("d1/p1/a", &["own:None < s1#0"]), ("d1/p1/b", &[])]);
}

#[test]
fn delete_slices() {
    let mut fleet = fleet(&with([Input::SliceGone("s1".into()), Input::SliceGone("s2".into())]));
    assert_eq!(fleet.snapshot().pool_count(), 0);
    assert!(fleet.device(&id("d1/p1/a")).is_none());
}

/// An absent selector means nothing, for the scheduler as for eviction; an empty one means everything.
#[test]
fn patch_all_slices() {
    let nothing = rule("r", None, BAD);
    check(&with([nothing.into()]), &[("d1/p1/a", &[]), ("d2/p2/a", &[])]);
    let all = rule("r", Some(names("*/*/*")), BAD);
    let hit: &[&str] = &["bad:NoSchedule < rule r"];
    check(&with([all.into()]), &[("d1/p1/a", hit), ("d1/p1/b", hit), ("d2/p2/a", hit)]);
}

#[test]
fn update_patch() {
    let rules = ["*/p1/*", "*/p2/*"].map(|selector| Input::from(rule("r", Some(names(selector)), BAD)));
    check(&with(rules), &[("d1/p1/a", &[]), ("d2/p2/a", &["bad:NoSchedule < rule r"])]);
}

#[test]
fn remove_patch_known_and_unknown_deleted_rule() {
    let all: Input = rule("r", Some(names("*/*/*")), BAD).into();
    check(&with([all, Input::RuleGone("r".into())]), &[("d1/p1/a", &[]), ("d2/p2/a", &[])]);
    check(&with([Input::RuleGone("never there".into())]), &[("d1/p1/a", &[])]);
}

/// In every order, so this is `merge-taints-reversed` as well.
#[test]
fn merge_taints_and_merge_taints_reversed() {
    let inputs = [
        slice("s", "d/p", vec![device("a", &[], &["own:NoExecute", "more=1:None"])]).into(),
        rule("r2", Some(names("d/*/*")), "own:NoExecute").into(),
        rule("r1", Some(names("*/p/*")), "new:Odd").into(),
    ];
    let all = ["own:NoExecute < s#0", "more=1:None < s#1", "new:Odd < rule r1", "own:NoExecute < rule r2"];
    check(&inputs, &[("d/p/a", &all)]);
}

#[test]
fn add_taint_for_driver_pool_device() {
    let hit: &[&str] = &["bad:NoSchedule < rule r"];
    let cases: [(&str, [&[&str]; 3]); 5] = [
        ("d1/*/*", [hit, hit, &[]]),
        ("*/p1/*", [hit, hit, &[]]),
        ("*/*/a", [hit, &[], hit]),
        ("d2/*/a", [&[], &[], hit]),
        ("d1/p2/*", [&[], &[], &[]]),
    ];
    for (selector, [a, b, other]) in cases {
        let inputs = with([rule("r", Some(names(selector)), BAD).into()]);
        check(&inputs, &[("d1/p1/a", a), ("d1/p1/b", b), ("d2/p2/a", other)]);
    }
}

#[test]
fn filter_all_criteria() {
    let inputs = with([rule("r", Some(names("d1/p1/b")), BAD).into()]);
    check(&inputs, &[("d1/p1/a", &[]), ("d1/p1/b", &["bad:NoSchedule < rule r"]), ("d2/p2/a", &[])]);
}

#[test]
fn update_patched_slice() {
    let lists: [&[&str]; 3] = [&["x", "b"], &["b"], &["b", "y", "x"]];
    let updates = lists.map(|list| {
        Input::from(slice("s1", "d1/p1", list.iter().map(|name| device(name, &[], &[])).collect()))
    });
    let inputs: Vec<Input> =
        updates.into_iter().chain([rule("r", Some(names("*/*/b")), BAD).into()]).collect();
    check(&inputs, &[("d1/p1/b", &["bad:NoSchedule < rule r"]), ("d1/p1/x", &[]), ("d1/p1/y", &[])]);
}

/// A slice that is written again and says the same of its devices, only its labels being new, is no news.
#[test]
fn update_slice_labels() {
    let mut fleet = fleet(&with([rule("r", Some(names("*/*/*")), BAD).into()]));
    let before = fleet.snapshot();
    drop(fleet.take_changes());
    two_slices().into_iter().for_each(|slice| fleet.apply(slice));
    assert!(fleet.take_changes().is_empty());
    assert!(Arc::ptr_eq(&before, &fleet.snapshot()));
}

// === Selection by attributes ===

fn models() -> Input {
    let devices = vec![device("a", &["model=x"], &[]), device("b", &["model=y"], &[]), device("c", &[], &[])];
    slice("s", "d/p", devices).into()
}

const IS_X: &str = r#"device.attributes["d"].model == "x""#;

#[test]
fn add_attribute_for_selector() {
    let hit: &[&str] = &["bad:NoSchedule < rule r"];
    check(&[models(), rule("r", Some(cel(&[IS_X])), BAD).into()], &[("d/p/a", hit), ("d/p/b", &[])]);
}

#[test]
fn selector_does_not_match() {
    let inputs = [models(), rule("r", Some(cel(&["true", "false", "true"])), BAD).into()];
    check(&inputs, &[("d/p/a", &[]), ("d/p/b", &[])]);
}

#[test]
fn runtime_cel_errors_skip_devices() {
    let fleet = fleet(&[models(), rule("r", Some(cel(&["true", IS_X])), BAD).into()]);
    assert_eq!(taints(&fleet, "d/p/a"), ["bad:NoSchedule < rule r"]);
    assert!(taints(&fleet, "d/p/c").is_empty());
    let problem = fleet.rule("r").unwrap().problem();
    let Some(Problem::FailedOnDevices { devices: 1, example, message }) = problem else {
        panic!("{problem:?}")
    };
    assert_eq!(example, id("d/p/c"));
    assert!(message.contains("selector #1") && message.contains("no such key"), "{message}");
}

/// Each selector of a rule could cost as much as one may; so may all of them together, and no more.
#[test]
fn the_selectors_of_a_rule_have_one_budget_for_a_device() {
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let inner = format!("{list}.all(y, {list}.all(z, device.driver.size() + w + x + y + z > 0))");
    let hard = format!("{list}.all(w, {list}.all(x, {inner}))");
    for (copies, is_meant) in [(1, true), (32, false)] {
        let all: Vec<&str> = (0..copies).map(|_| hard.as_str()).collect();
        let fleet = fleet(&[models(), rule("r", Some(cel(&all)), BAD).into()]);
        assert_eq!(taints(&fleet, "d/p/a").is_empty(), !is_meant, "{copies}");
        match fleet.rule("r").unwrap().problem() {
            None => assert!(is_meant),
            Some(Problem::FailedOnDevices { devices: 3, message, .. }) => {
                assert!(!is_meant && message.contains("cost"), "{message}");
            }
            Some(other) => panic!("{other:?}"),
        }
    }
}

/// A rule that cannot be read is skipped alone: slices stay, other rules apply.
#[test]
fn invalid_cel_expression_throws_error() {
    let mut fleet = fleet(&[
        rule("bad", Some(cel(&["true", "device.nope =="])), BAD).into(),
        rule("good", Some(names("*/*/a")), "seen:None").into(),
        models(),
    ]);
    assert_eq!(taints(&fleet, "d/p/a"), ["seen:None < rule good"]);
    assert_eq!(fleet.snapshot().pool_count(), 1);
    let problem = fleet.rule("bad").unwrap().problem();
    assert!(matches!(problem, Some(Problem::BadExpression { selector: 1, .. })), "{problem:?}");
    assert!(fleet.rule("good").unwrap().problem().is_none());
}

#[test]
fn add_taint_for_device_class() {
    let hit: &[&str] = &["bad:NoSchedule < rule r"];
    let inputs = [
        models(),
        rule("r", Some(of_class("xs")), BAD).into(),
        class("xs", &[r#"device.driver == "d""#]).into(),
    ];
    check(&inputs, &[("d/p/a", hit), ("d/p/c", hit)]);
    let then = [Input::from(class("xs", &[r#"device.attributes["d"].?model.orValue("") == "y""#]))];
    let inputs: Vec<Input> = inputs.into_iter().chain(then).collect();
    check(&inputs, &[("d/p/a", &[]), ("d/p/b", hit), ("d/p/c", &[])]);
}

#[test]
fn missing_class_is_a_problem_until_it_appears() {
    let mut fleet = fleet(&[models(), rule("r", Some(of_class("xs")), BAD).into()]);
    assert_eq!(fleet.rule("r").unwrap().problem(), Some(Problem::ClassMissing { class: "xs".into() }));
    fleet.take_changes();
    fleet.apply(class("other", &["true"]).into());
    assert!(fleet.take_changes().rules.is_empty(), "a class that no rule uses concerns no rule");
    fleet.apply(class("xs", &["true"]).into());
    assert_eq!(fleet.take_changes().rules, ["r"]);
    assert_eq!(fleet.rule("r").unwrap().problem(), None);
    assert_eq!(taints(&fleet, "d/p/b"), ["bad:NoSchedule < rule r"]);
    fleet.apply(Input::ClassGone("xs".into()));
    assert!(taints(&fleet, "d/p/b").is_empty());
}

/// Attribute names that a rule asks for may be published for the first time after the rule was made.
#[test]
fn names_seen_later_are_understood() {
    let first: Input = slice("s0", "d/other", vec![device("z", &["colour=red"], &[])]).into();
    let selector = cel(&[r#"device.attributes["d"].?model.orValue("") == "x""#]);
    check(
        &[rule("r", Some(selector), BAD).into(), first, models()],
        &[("d/p/a", &["bad:NoSchedule < rule r"]), ("d/other/z", &[])],
    );
}

// === Slices of taints ===

#[test]
fn taint_slices_come_after_own_taints_and_before_rules() {
    let inputs = [
        slice("s", "d/p", vec![device("a", &[], &["own:None"]), device("b", &[], &[])]).into(),
        taint_slice("t2", "d/p", &["a sick:NoExecute", "a old:NoSchedule"]).into(),
        taint_slice("t1", "d/p", &["nobody sick:NoExecute", "a first:None"]).into(),
        taint_slice("t1", "d/elsewhere", &["a sick:NoExecute"]).into(),
        taint_slice("t1", "d/p", &["nobody sick:NoExecute", "a first:None"]).into(),
        rule("r", Some(names("d/*/*")), BAD).into(),
    ];
    let a = [
        "own:None < s#0",
        "first:None < taints in t1#1",
        "sick:NoExecute < taints in t2#0",
        "old:NoSchedule < taints in t2#1",
        "bad:NoSchedule < rule r",
    ];
    check(&inputs, &[("d/p/a", &a), ("d/p/b", &["bad:NoSchedule < rule r"])]);
}

// === Cost ===

/// A status that somebody writes into a rule touches no slice and no claim.
#[test]
fn status_of_a_rule_is_cheap_to_take_in() {
    let mut fleet =
        fleet(&[models(), claim("c", &["d/p/a"], &[]).into(), rule("r", Some(names("*/*/*")), BAD).into()]);
    fleet.take_changes();
    let mut seen = rule("r", Some(names("*/*/*")), BAD);
    seen.conditions.push(lazaret_model::Condition::default());
    fleet.apply(seen.into());
    let changes = fleet.take_changes();
    assert_eq!(changes.rules, ["r"]);
    assert!(changes.claims.is_empty() && changes.pools.is_empty());
}

#[test]
fn what_is_not_touched_is_shared_between_snapshots() {
    let mut fleet = fleet(&two_slices());
    let before = fleet.snapshot();
    assert!(alloc::sync::Arc::ptr_eq(&before, &fleet.snapshot()), "nothing happened");
    fleet.apply(rule("r", Some(names("d1/p1/a")), BAD).into());
    let after = fleet.snapshot();
    assert!(after.revision() > before.revision());
    let pool = |snapshot: &crate::Snapshot, device| snapshot.pool(&id(device).pool_id()).unwrap().clone();
    assert!(alloc::sync::Arc::ptr_eq(&pool(&before, "d2/p2/a"), &pool(&after, "d2/p2/a")));
    let (old, new) = (pool(&before, "d1/p1/a"), pool(&after, "d1/p1/a"));
    assert!(old.same_devices(&new) && !alloc::sync::Arc::ptr_eq(&old, &new));
    assert_eq!((old.slices[0].tainted_bits(), new.slices[0].tainted_bits()), (0, 1));
}
