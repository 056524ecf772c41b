//! Patches: overrides with priority, taints among them.

use alloc::{vec, vec::Vec};

use lazaret_model::{AttrValue, DeviceSelector, ResourceSlicePatch, Text};

use super::build::*;
use crate::{Fleet, Input, Problem};

fn tainted() -> Input {
    slice(
        "s",
        "d/p",
        vec![device("a", &["model=x"], &["sick=own:NoExecute", "old:None"]), device("b", &[], &[])],
    )
    .into()
}

fn attributes(priority: i64, name: &str, values: &[(&str, Option<&str>)]) -> ResourceSlicePatch {
    let mut patch = patch(name, priority, "d/p/*", &[]);
    let value = |(key, value): &(&str, Option<&str>)| {
        (Text::from(*key), value.map(|text| AttrValue::String(text.into())))
    };
    patch.patch.attributes = values.iter().map(value).collect();
    patch
}

fn seen(fleet: &Fleet, device: &str) -> Vec<(Text, AttrValue)> {
    let device = fleet.device(&id(device)).unwrap();
    device.attributes().map(|(key, _, value)| (key.clone(), value.clone())).collect()
}

fn text(value: &str) -> AttrValue {
    AttrValue::String(value.into())
}

#[test]
fn taints_add_up_and_the_same_key_and_effect_override() {
    let inputs = [
        tainted(),
        taint_slice("t", "d/p", &["a sick=slice:NoExecute", "a sick=slice:NoSchedule"]).into(),
        patch("low", 1, "d/p/a", &["sick=low:NoExecute", "low:None"]).into(),
        patch("high", 2, "d/p/*", &["sick=high:NoExecute"]).into(),
        rule("r", Some(names("d/p/a")), "sick=rule:NoExecute").into(),
    ];
    let a = [
        "old:None < s#1",
        "sick=slice:NoSchedule < taints in t#1",
        "sick=high:NoExecute < patch high#0",
        "low:None < patch low#1",
        "sick=rule:NoExecute < rule r",
    ];
    check(&inputs, &[("d/p/a", &a), ("d/p/b", &["sick=high:NoExecute < patch high#0"])]);
}

#[test]
fn of_equal_priority_the_first_name_wins() {
    let inputs = [
        tainted(),
        patch("y", 3, "d/*/*", &["k=y:None"]).into(),
        patch("x", 3, "d/*/*", &["k=x:None"]).into(),
    ];
    check(&inputs, &[("d/p/b", &["k=x:None < patch x#0"])]);
}

#[test]
fn a_changed_priority_moves_the_patch() {
    let inputs = [
        tainted(),
        patch("x", 1, "d/*/b", &["k=x:None"]).into(),
        patch("y", 2, "d/*/b", &["k=y:None", "only:None"]).into(),
        patch("y", 0, "d/*/b", &["k=y:None", "only:None"]).into(),
    ];
    check(&inputs, &[("d/p/b", &["k=x:None < patch x#0", "only:None < patch y#1"])]);
}

#[test]
fn attributes_are_overridden_added_and_removed() {
    let mut fleet = fleet(&[
        tainted(),
        attributes(1, "one", &[("d/model", Some("one")), ("new", Some("one"))]).into(),
        attributes(2, "two", &[("model", Some("two"))]).into(),
    ]);
    assert_eq!(seen(&fleet, "d/p/a"), [("model".into(), text("two")), ("new".into(), text("one"))]);
    assert_eq!(seen(&fleet, "d/p/b"), [("d/model".into(), text("two")), ("new".into(), text("one"))]);
    fleet.apply(attributes(2, "two", &[("model", None)]).into());
    assert_eq!(seen(&fleet, "d/p/a"), [("new".into(), text("one"))]);
    fleet.apply(Input::PatchGone("two".into()));
    fleet.apply(Input::PatchGone("one".into()));
    assert_eq!(seen(&fleet, "d/p/a"), [("model".into(), text("x"))]);
    assert!(seen(&fleet, "d/p/b").is_empty());
}

/// Rules see what patches leave; patches see what the driver published, so that they cannot chase each other.
#[test]
fn rules_see_patches_and_patches_see_the_driver() {
    let expression = r#"device.attributes["d"].?model.orValue("") == "patched""#;
    let chasing = ResourceSlicePatch {
        selector: Some(DeviceSelector { cel: vec![expression.into()], ..DeviceSelector::default() }),
        ..patch("chasing", 9, "*/*/*", &["caught:None"])
    };
    let inputs = [
        tainted(),
        attributes(1, "one", &[("model", Some("patched"))]).into(),
        chasing.into(),
        rule("r", Some(cel(&[expression])), "bad:None").into(),
    ];
    check(&inputs, &[("d/p/b", &["bad:None < rule r"])]);
}

#[test]
fn a_patch_that_cannot_be_evaluated_is_skipped_alone() {
    let mut broken = patch("broken", 1, "*/*/*", &["k:None"]);
    broken.selector = Some(of_class("nowhere"));
    let fleet = fleet(&[tainted(), broken.into(), patch("fine", 1, "*/*/*", &["fine:None"]).into()]);
    assert_eq!(taints(&fleet, "d/p/b"), ["fine:None < patch fine#0"]);
    let problem = fleet.patch("broken").unwrap().problem();
    assert_eq!(problem, Some(Problem::ClassMissing { class: "nowhere".into() }));
}

/// Devices of which nothing but the name is known are patched by name, as rules mean them by name.
#[test]
fn patches_by_name_reach_devices_that_no_slice_has() {
    let inputs = [patch("x", 1, "d/p/a", &["k:NoExecute"]).into(), claim("c", &["d/p/a"], &[]).into()];
    check(&inputs, &[("d/p/a", &["k:NoExecute < patch x#0"])]);
}
