//! When.

use lazaret_replacement::{Spec, TaintOption};

use crate::{
    api::{at, option, spec},
    runner::Play,
};

/// The policy of the design document.
fn document() -> Spec {
    Spec {
        node_options: vec![
            option("example.org/maintenance", 7_200),
            option("example.org/disconnected", 1_200),
            option("*", 3_600),
        ],
        replacement_secs: 1_800,
        failure_secs: 7_200,
        ..spec()
    }
}

#[test]
fn the_documents_example_takes_1200_and_1800_seconds() {
    let mut play = Play::with(3, 3);
    play.api.set_policy("p", document());
    play.api.taint("n0", "example.org/disconnected", Some(at(10)));
    play.until(11);
    assert_eq!(play.lines("p"), ["n0 example.org/disconnected NodeTaintDetected"]);
    assert_eq!(play.status("p").pods[0].since, at(10));
    assert_eq!(play.status("p").pods[0].due, at(1_210));
    assert_eq!(play.status("p").pods[0].after, at(3_010));
    play.until(1_209);
    assert_eq!(play.lines("p"), ["n0 example.org/disconnected NodeTaintDetected"]);
    play.until(1_210);
    assert_eq!(play.lines("p"), ["n0 example.org/disconnected NodeTaintReplacing"]);
    play.until(3_009);
    assert_eq!(play.done, [""; 0]);
    play.until(3_020);
    assert_eq!(play.done.len(), 2, "{:?}", play.done);
    assert!(play.done[0].starts_with("3010 release web-"), "{:?}", play.done);
    assert!(play.done[1].contains("delete web-"), "{:?}", play.done);
    assert_eq!(play.lines("p"), [""; 0]);
    let totals = play.status("p").totals;
    assert_eq!((totals.replaced, totals.in_flight, totals.detected, totals.due), (1, 0, 0, 0));
    assert!(play.on("n0").is_empty());
    for reason in ["NodeTaintDetected", "NodeTaintReplacing"] {
        assert_eq!(play.events(reason), 1, "{reason}");
    }
    // On the pod and on the policy.
    for reason in ["TaintReplacementStarted", "TaintReplaced"] {
        assert_eq!(play.events(reason), 2, "{reason}");
    }
}

#[test]
fn the_wildcard_takes_the_keys_that_have_no_entry() {
    let mut play = Play::with(3, 3);
    play.api.set_policy("p", document());
    play.api.taint("n0", "example.org/other", Some(at(10)));
    play.api.taint("n1", "example.org/maintenance", Some(at(10)));
    play.until(3_611);
    assert_eq!(
        play.lines("p"),
        ["n0 example.org/other NodeTaintReplacing", "n1 example.org/maintenance NodeTaintDetected"]
    );
}

#[test]
fn each_taint_has_its_own_timer() {
    let mut play = Play::with(3, 3);
    play.api.set_policy("p", document());
    play.api.taint("n0", "example.org/maintenance", Some(at(10)));
    play.until(2_000);
    // A short taint does not inherit the age of a long one.
    play.api.taint("n0", "example.org/disconnected", None);
    play.until(2_002);
    assert_eq!(
        play.lines("p"),
        ["n0 example.org/disconnected NodeTaintDetected", "n0 example.org/maintenance NodeTaintDetected"]
    );
    assert_eq!(play.status("p").pods[0].since, at(2_001));
    play.until(3_200);
    assert_eq!(play.status("p").totals.due, 0);
    play.until(3_201);
    assert_eq!(play.status("p").totals.due, 1);
    play.until(5_000);
    assert_eq!(play.done, [""; 0]);
    play.until(5_010);
    assert!(play.done[0].starts_with("5001 release"), "{:?}", play.done);
}

#[test]
fn a_taint_that_goes_takes_its_timer_with_it() {
    let mut play = Play::with(3, 3);
    play.api.set_policy("p", document());
    play.api.taint("n0", "example.org/disconnected", None);
    play.until(1_300);
    assert_eq!(play.lines("p"), ["n0 example.org/disconnected NodeTaintReplacing"]);
    play.api.untaint("n0", "example.org/disconnected");
    play.until(1_301);
    assert_eq!(play.lines("p"), [""; 0]);
    assert_eq!(play.events("TaintCleared"), 1);
    // It comes back: everything from the start.
    play.api.taint("n0", "example.org/disconnected", None);
    play.until(1_310);
    assert_eq!(play.lines("p"), ["n0 example.org/disconnected NodeTaintDetected"]);
    play.until(4_300);
    assert_eq!(play.done, [""; 0]);
    play.until(4_310);
    assert!(play.done[0].starts_with("4302 release"), "{:?}", play.done);
}

#[test]
fn first_sight_survives_a_restart() {
    let mut play = Play::with(3, 3);
    play.api.set_policy("p", document());
    play.api.taint("n0", "example.org/disconnected", None);
    play.until(1_000);
    let events = play.api.notes.len();
    play.restart();
    play.until(1_001);
    assert_eq!(play.status("p").pods[0].since, at(6));
    assert_eq!(play.api.notes.len(), events, "nothing is told twice");
    play.until(3_004);
    assert_eq!(play.done, [""; 0]);
    play.until(3_020);
    assert!(play.done[0].starts_with("3006 release"), "{:?}", play.done);
}

#[test]
fn a_pod_that_came_after_the_taint_counts_from_its_own_start() {
    let mut play = Play::with(2, 1);
    play.api.set_policy("p", Spec { node_options: vec![option("a", 100)], ..spec() });
    let node = play.api.pods.values().next().unwrap().pod.node.clone().unwrap();
    play.api.taint(&node, "a", Some(at(-1_000)));
    play.until(6);
    assert_eq!(play.status("p").pods[0].since, play.api.pods.values().next().unwrap().pod.created);
}

#[test]
fn value_and_effect_narrow_an_option() {
    let mut play = Play::with(2, 2);
    let narrowed = |value: &str| TaintOption { value: Some(value.into()), ..option("a", 5) };
    play.api.set_policy("p", Spec { node_options: vec![narrowed("x"), option("*", 1)], ..spec() });
    play.api.taint("n0", "a", None);
    play.until(20);
    assert_eq!(play.lines("p"), [""; 0]);
}

#[test]
fn without_options_nothing_happens() {
    let mut play = Play::with(2, 2);
    play.api.set_policy("p", Spec { failure_secs: 7_200, node_failures: true, ..spec() });
    play.api.taint("n0", "a", Some(at(0)));
    play.until(20_000);
    assert_eq!((play.lines("p").len(), play.done.len()), (0, 0));
    play.api.set_policy("p", Spec { enabled: false, ..document() });
    play.until(20_010);
    assert_eq!((play.lines("p").len(), play.done.len()), (0, 0));
    assert_eq!(
        play.condition("p", "Progressing"),
        "False Disabled: automaticReplacementOptions.enabled is false"
    );
}

#[test]
fn a_failing_node_counts_where_it_was_asked_for() {
    let mut play = Play::with(2, 2);
    play.api.set_policy("p", Spec { node_failures: true, failure_secs: 50, ..spec() });
    let mut node = play.api.nodes["n0"].clone();
    let key = "node.kubernetes.io/unreachable";
    node.failing = Some(lazaret_replacement::FailingNode { key: key.into(), since: at(10) });
    play.api.set_node(node);
    play.until(59);
    assert_eq!(play.lines("p"), [format!("n0 {key} NodeTaintDetected")]);
    assert_eq!(play.done, [""; 0]);
    play.until(60);
    assert!(play.done[0].starts_with("60 release"), "{:?}", play.done);
}
