//! Devices in use whose slices are gone.

use alloc::{vec, vec::Vec};

use lazaret_model::{AttrValue, LastPublished, ObjectKey, ResourceClaim};

use super::build::*;
use crate::{Fleet, Input, Presence};

const IS_X: &str = r#"device.attributes["d"].model == "x""#;

fn published() -> Input {
    slice("s", "d/p", vec![device("a", &["model=x"], &["own:NoExecute"]), device("b", &["model=y"], &[])])
        .into()
}

fn held(fleet: &Fleet, claim: &str) -> Vec<(Presence, Vec<alloc::string::String>)> {
    let claim = fleet.claim_ix(&ObjectKey::new("ns", claim)).unwrap();
    fleet.held(claim).map(|held| (held.presence, held.taints().map(say).collect())).collect()
}

fn words(list: &[&str]) -> Vec<alloc::string::String> {
    list.iter().map(|&text| text.into()).collect()
}

/// Rules by name need no slice, not even one that was ever there.
#[test]
fn rules_by_name_apply_without_any_slice() {
    let rules = ["d/p/a", "*/p/*", "*/*/*", "*/*/b"];
    let inputs: Vec<Input> = rules
        .iter()
        .zip(["r1", "r2", "r3", "r4"])
        .map(|(selector, name)| rule(name, Some(names(selector)), "bad:NoExecute").into())
        .chain([claim("c", &["d/p/a"], &[]).into()])
        .collect();
    let expected = ["bad:NoExecute < rule r1", "bad:NoExecute < rule r2", "bad:NoExecute < rule r3"];
    check(&inputs, &[("d/p/a", &expected)]);
    let fleet = fleet(&inputs);
    assert_eq!(held(&fleet, "c"), [(Presence::Unknown, words(&expected))]);
    assert_eq!(fleet.rule_selection("r1").published_count(), 0);
    assert_eq!(fleet.rule_selection("r1").held().count(), 1);
}

#[test]
fn attributes_are_remembered_while_a_claim_holds_the_device() {
    let mut fleet = fleet(&[published(), claim("c", &["d/p/a"], &[]).into(), Input::SliceGone("s".into())]);
    assert_eq!(held(&fleet, "c"), [(Presence::Remembered, vec![])], "its own taints went with the slice");
    fleet.apply(rule("r", Some(cel(&[IS_X])), "bad:NoExecute").into());
    assert_eq!(held(&fleet, "c"), [(Presence::Remembered, words(&["bad:NoExecute < rule r from memory"]))]);
    let selected: Vec<_> =
        fleet.rule_selection("r").held().map(|held| (held.result, held.from_memory)).collect();
    assert_eq!(selected, [(0, true)]);
    assert_eq!(fleet.rule_selection("r").unpublished().count(), 1);

    fleet.apply(claim("c2", &["d/p/a"], &[]).into());
    fleet.apply(Input::ClaimGone(ObjectKey::new("ns", "c")));
    assert_eq!(held(&fleet, "c2")[0].0, Presence::Remembered, "another claim holds it still");
    fleet.apply(Input::ClaimGone(ObjectKey::new("ns", "c2")));
    fleet.apply(claim("c3", &["d/p/a"], &[]).into());
    assert_eq!(held(&fleet, "c3"), [(Presence::Unknown, vec![])], "nobody held it for a while");

    fleet.apply(published());
    let now = words(&["own:NoExecute < s#0", "bad:NoExecute < rule r"]);
    assert_eq!(held(&fleet, "c3"), [(Presence::Published, now)]);
}

/// Rules by name do not claim to know it from memory.
#[test]
fn only_selection_by_attributes_is_from_memory() {
    let inputs = [published(), claim("c", &["d/p/a"], &[]).into(), Input::SliceGone("s".into())];
    let mut fleet = fleet(&inputs);
    fleet.apply(rule("r", Some(names("d/*/*")), "bad:NoExecute").into());
    assert_eq!(held(&fleet, "c"), [(Presence::Remembered, words(&["bad:NoExecute < rule r"]))]);
    assert!(fleet.rule_selection("r").held().all(|held| !held.from_memory));
}

/// The same claim written again (a status, a reservation) must not make the fleet forget.
#[test]
fn a_claim_that_changes_keeps_what_it_remembers() {
    let mut fleet = fleet(&[published(), claim("c", &["d/p/a"], &[]).into(), Input::SliceGone("s".into())]);
    fleet.apply(claim("c", &["d/p/b", "d/p/a"], &["someone"]).into());
    assert_eq!(
        held(&fleet, "c").iter().map(|held| held.0).collect::<Vec<_>>(),
        [Presence::Unknown, Presence::Remembered]
    );
}

/// A claim with the record of a device, as it was written when the device's slice was deleted.
fn saying(name: &str, held: &str, model: &str) -> ResourceClaim {
    let attributes = vec![("model".into(), AttrValue::String(model.into()))];
    let last_published = vec![LastPublished::new(&id(held), attributes, vec![], false)];
    ResourceClaim { last_published, ..claim(name, &[held], &[]) }
}

#[test]
fn a_fleet_that_starts_late_knows_what_the_claim_says() {
    let rule = rule("r", Some(cel(&[IS_X])), "bad:NoExecute");
    let remembered = [(Presence::Remembered, words(&["bad:NoExecute < rule r from memory"]))];
    for inputs in [
        vec![rule.clone().into(), saying("c", "d/p/a", "x").into()],
        vec![saying("c", "d/p/a", "x").into(), rule.clone().into()],
        vec![claim("c", &["d/p/a"], &[]).into(), rule.clone().into(), saying("c", "d/p/a", "x").into()],
        vec![claim("b", &["d/p/a"], &[]).into(), saying("c", "d/p/a", "x").into(), rule.clone().into()],
        vec![saying("c", "d/p/a", "x").into(), rule.clone().into(), saying("c", "d/p/a", "y").into()],
    ] {
        let fleet = fleet(&inputs);
        assert_eq!(held(&fleet, "c"), remembered, "{inputs:?}");
        let claim = fleet.claim_ix(&ObjectKey::new("ns", "c")).unwrap();
        assert_eq!(fleet.last_published(claim), saying("c", "d/p/a", "x").last_published);
    }
    let other = fleet(&[rule.into(), saying("c", "d/p/b", "x").into(), claim("e", &["d/p/a"], &[]).into()]);
    assert_eq!(held(&other, "e"), [(Presence::Unknown, vec![])], "another device");
}

#[test]
fn what_a_slice_says_counts_more_than_what_a_claim_says() {
    let mut fleet = fleet(&[saying("c", "d/p/a", "z").into(), published()]);
    let claim = fleet.claim_ix(&ObjectKey::new("ns", "c")).unwrap();
    assert_eq!(fleet.last_published(claim), [], "it is published");
    fleet.apply(Input::SliceGone("s".into()));
    assert_eq!(fleet.last_published(claim), saying("c", "d/p/a", "x").last_published);
}
