//! Specs that are invalid, and permissions that are missing.

use lazaret_machine::Machine as _;
use lazaret_replacement::{Input, ReadAccess, Source, Spec};

use crate::{
    api::{option, spec},
    runner::Play,
};

#[test]
fn every_bad_field_is_named() {
    let rows: &[(Spec, &str)] = &[
        (
            Spec { device_options: vec![option("*", 1), option("a", 1), option("*", 2)], ..spec() },
            "spec.automaticReplacementOptions.deviceTaintReplacementOptions[2].key: there must be only one * entry: remove this one or the one before it",
        ),
        (
            Spec { node_options: vec![option("a", 1), option("a", 2)], ..spec() },
            "spec.automaticReplacementOptions.taintReplacementOptions[1]: the same key, value and effect as an entry before it: a",
        ),
    ];
    for (spec, wanted) in rows {
        let mut play = Play::with(2, 2);
        play.api.set_policy("p", spec.clone());
        play.api.taint("n0", "a", None);
        play.until(100);
        assert_eq!(play.condition("p", "Degraded"), format!("True InvalidSpec: {wanted}"));
        assert_eq!(play.done, [""; 0]);
    }
}

#[test]
fn a_selector_that_selects_nothing_is_said() {
    let mut play = Play::with(2, 2);
    let mut nobody = Spec { node_options: vec![option("a", 1)], ..spec() };
    nobody.selector.requirements[0].key = "nobody".into();
    play.api.set_policy("p", nobody);
    play.until(6);
    assert!(play.condition("p", "Progressing").starts_with("False NothingSelected: spec.podSelector"));
}

#[test]
fn a_policy_that_is_made_again_counts_every_pod_once() {
    let mut play = Play::with(3, 6);
    let spec =
        Spec { node_options: vec![option("a", 1_000)], fault_domain_key: Some("zone".into()), ..spec() };
    play.api.set_policy("p", spec.clone());
    play.api.taint("n0", "a", None);
    play.until(7);
    let before = play.status("p").totals;
    assert_eq!((before.selected, before.detected, before.domains, before.domains_tainted), (6, 2, 2, 1));
    // The machine hears of all this at once.
    let sound = play.on("n1")[0].key.clone();
    play.api.remove(&sound);
    play.api.remove_policy("p");
    play.api.set_policy("p", spec);
    play.until(12);
    assert_eq!(play.status("p").totals, before, "another pod was started");
}

#[test]
fn without_access_to_nodes_it_says_so_and_begins_nothing_on_old_news() {
    let mut play = Play::with(2, 2);
    play.api.set_policy("p", Spec { node_options: vec![option("a", 10)], ..spec() });
    play.api.taint("n0", "a", None);
    play.until(10);
    let why = "not allowed to list and watch nodes";
    play.machine.tell(Input::Access(Source::Nodes, ReadAccess::Barred(why.into())));
    play.until(100);
    assert_eq!(play.condition("p", "Degraded"), format!("True MissingPermission: {why}"));
    assert_eq!((play.lines("p").len(), play.done.len()), (0, 0));
    play.machine.tell(Input::Access(Source::Nodes, ReadAccess::Clear));
    play.until(101);
    assert_eq!(play.condition("p", "Degraded"), "False AsExpected: Nothing is in the way");
    assert_eq!(play.lines("p").len(), 1);
}

#[test]
fn a_duration_of_for_ever_is_detected_and_never_due() {
    let mut play = Play::with(2, 2);
    play.api.set_policy("p", Spec { node_options: vec![option("a", i64::MAX)], ..spec() });
    play.api.taint("n0", "a", None);
    play.until(20_000);
    assert_eq!(play.lines("p"), ["n0 a NodeTaintDetected"]);
    assert_eq!(play.machine.next_wake(), None);
}
