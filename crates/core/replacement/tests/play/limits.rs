//! How many at a time.

use lazaret_model::Text;
use lazaret_replacement::{Input, Share, Spec};

use crate::{
    api::{Kind, option, quick},
    runner::Play,
};

#[test]
fn one_at_a_time_the_longest_due_first() {
    let mut play = Play::with(4, 4);
    play.api.ready_secs = 10;
    play.api.set_policy("p", quick());
    let order = ["n2", "n0"];
    let mut pods = Vec::new();
    for (i, node) in order.iter().enumerate() {
        pods.push(play.on(node)[0].key.name.to_string());
        play.api.taint(node, "a", None);
        play.until(7 + i64::try_from(i).unwrap());
    }
    for _ in 0..60 {
        play.until(play.now.as_secs() + 1);
        assert!(play.machine.figures().in_flight <= 1);
    }
    let released: Vec<&str> =
        play.done.iter().filter_map(|done| done.split_once(" release ")).map(|d| d.1).collect();
    assert_eq!(released, pods.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(play.status("p").totals.replaced, 2);
}

#[test]
fn two_policies_over_one_pod_share_their_slots() {
    let mut play = Play::with(6, 4);
    play.api.ready_secs = 20;
    play.api.set_policy("p", Spec { max_concurrent: 3, ..quick() });
    play.api.set_policy("q", Spec { node_options: vec![option("b", 10)], ..quick() });
    for node in ["n0", "n1", "n2", "n3"] {
        play.api.taint(node, if node < "n2" { "a" } else { "b" }, None);
    }
    let mut most = 0;
    for _ in 0..300 {
        play.until(play.now.as_secs() + 1);
        most = most.max(play.machine.figures().in_flight);
    }
    // `p` would let three go, `q` only one; both select every pod.
    assert_eq!(most, 1);
    assert_eq!(play.status("p").totals.replaced + play.status("q").totals.replaced, 4);
}

#[test]
fn counted_in_each_fault_domain() {
    let mut play = Play::with(8, 6);
    play.api.ready_secs = 20;
    play.api.set_policy("p", Spec { fault_domain_key: Some("zone".into()), ..quick() });
    for node in ["n0", "n1", "n2", "n3"] {
        play.api.taint(node, "a", None);
    }
    play.until(30);
    let under_way: Vec<Text> =
        play.status("p").replacements.iter().map(|entry| entry.record.node.clone()).collect();
    assert_eq!(under_way, ["n0", "n1"], "one in each zone");
    play.until(200);
    assert_eq!(play.status("p").totals.replaced, 4);
}

/// Its label went with the Node: the replacement may be in any fault domain.
#[test]
fn a_replacement_on_a_node_that_is_gone_is_counted_in_each_fault_domain() {
    let mut play = Play::with(8, 6);
    play.api.ready_secs = 20;
    play.api.set_policy("p", Spec { fault_domain_key: Some("zone".into()), ..quick() });
    play.api.taint("n0", "a", None);
    play.until(15);
    play.api.taint("n2", "a", None);
    play.until(27);
    assert_eq!(play.machine.figures().in_flight, 1);
    play.machine.tell(Input::NodeGone("n0".into()));
    play.until(37);
    assert_eq!(play.machine.figures().in_flight, 1, "nothing is begun on n2, which is in the zone of n0");
    play.until(200);
    assert_eq!(play.status("p").totals.replaced, 2);
}

#[test]
fn nothing_is_begun_in_a_fault_domain_that_is_not_known() {
    let mut play = Play::with(1, 0);
    play.api.taint_device("n0", "d", None);
    play.api.add_set("gpu", Kind::ReplicaSet, 1, true);
    let zoned =
        Spec { device_options: vec![option("d", 10)], fault_domain_key: Some("zone".into()), ..quick() };
    play.api.set_policy("p", zoned);
    play.until(10);
    play.machine.tell(Input::NodeGone("n0".into()));
    play.api.taint_device("n0", "d", Some(None));
    play.until(40);
    assert_eq!(play.lines("p"), ["n0 d DeviceTaintReplacing"]);
    assert_eq!(play.machine.figures().in_flight, 0);
    play.api.taint("n0", "other", None);
    play.until(42);
    assert_eq!(play.machine.figures().in_flight, 1, "the Node is back");
}

/// A policy that came later counts a replacement as long as it selects the pod.
#[test]
fn a_slot_of_a_later_policy_is_free_when_the_pod_is_deleted() {
    let mut play = Play::with(4, 4);
    play.api.ready_secs = 1_000;
    play.api.set_policy("p", Spec { max_concurrent: 2, ..quick() });
    play.api.taint("n0", "a", None);
    play.until(27);
    let released = play.on("n0")[0].key.clone();
    play.api.set_policy("q", Spec { node_options: vec![option("b", 10)], ..quick() });
    play.api.taint("n1", "a", None);
    play.until(60);
    assert_eq!(play.machine.figures().in_flight, 1, "q permits one");
    play.api.remove(&released);
    play.until(62);
    assert_eq!(play.machine.figures().in_flight, 2, "{:?}", play.done);
}

/// A pod broke soon before the first replacement began, which waits for it; the second one knows that it is broken and waits for none: the first does
/// not take its pod for one that is still to come.
#[test]
fn a_replacement_that_has_its_pod_is_not_waited_for() {
    let mut play = Play::with(8, 4);
    play.api.set_policy("p", Spec { max_concurrent: 2, ..quick() });
    let mut broken = play.api.pods[&play.on("n2")[0].key].clone();
    broken.pod.ready = false;
    play.api.put(broken);
    let [first, second] = ["n0", "n1"].map(|node| play.on(node)[0].key.name.clone());
    play.api.taint("n0", "a", None);
    play.until(400);
    play.api.taint("n1", "a", None);
    play.until(440);
    let did = |what: &str, pod: &Text| play.done.iter().any(|done| done.ends_with(&format!(" {what} {pod}")));
    assert!(did("release", &first) && did("delete", &second), "{:?}", play.done);
    assert!(!did("delete", &first), "three of four serve: {:?}", play.done);
}

#[test]
fn a_slot_is_free_when_the_node_of_a_replacement_moves_to_another_fault_domain() {
    let mut play = Play::with(8, 6);
    play.api.ready_secs = 1_000;
    play.api.set_policy("p", Spec { fault_domain_key: Some("zone".into()), ..quick() });
    play.api.taint("n0", "a", None);
    play.until(15);
    play.api.taint("n2", "a", None);
    play.until(60);
    let released = play.on("n0")[0].key.clone();
    play.api.remove(&released);
    play.until(62);
    assert_eq!(play.machine.figures().in_flight, 1, "one in each zone");
    play.api.add_node("n0", "third");
    play.until(64);
    assert_eq!(play.machine.figures().in_flight, 2, "{:?}", play.done);
}

#[test]
fn the_breaker_holds_what_is_new_and_nothing_else() {
    let mut play = Play::with(6, 6);
    play.api.ready_secs = 15;
    play.api.set_policy("p", Spec { max_domains_tainted: Some(Share::Count(1)), ..quick() });
    play.api.taint("n0", "a", None);
    play.until(27);
    assert_eq!(play.machine.figures().in_flight, 1);
    assert!(play.condition("p", "BreakerTripped").starts_with("False WithinLimit: 1 of 6"));
    play.api.taint("n1", "a", None);
    play.api.taint("n2", "a", None);
    play.until(29);
    assert_eq!(
        play.condition("p", "BreakerTripped"),
        "True TooManyFaultDomains: 3 of 6 fault domains are tainted, more than maxFaultDomainsTainted 1: nothing new is begun",
    );
    assert_eq!((play.events("BreakerTripped"), play.machine.figures().tripped), (1, 1));
    play.until(300);
    // The replacement in flight is finished; no other has begun.
    assert_eq!(play.status("p").totals.replaced, 1);
    assert_eq!(play.done.iter().filter(|done| done.contains("release")).count(), 1);
    play.api.untaint("n2", "a");
    play.until(350);
    assert_eq!(play.events("BreakerReset"), 1);
    assert!(play.on("n1").is_empty());
    assert!(play.condition("p", "Progressing").starts_with("False NoTaints"));
}

#[test]
fn a_share_of_the_domains_is_one_at_least() {
    let rows = [
        (Share::Count(3), 10, 3),
        (Share::Count(0), 10, 0),
        (Share::Percent(10), 5, 1),
        (Share::Percent(50), 5, 2),
        (Share::Percent(100), 5, 5),
        (Share::Percent(0), 5, 0),
    ];
    for (share, all, wanted) in rows {
        assert_eq!(share.of(all), wanted, "{share} of {all}");
    }
}

#[test]
fn a_restart_half_way_goes_on_and_stays_within_the_limit() {
    let mut play = Play::with(6, 6);
    play.api.ready_secs = 30;
    play.api.set_policy("p", quick());
    play.api.add_set("db", Kind::StatefulSet, 1, false);
    for node in ["n0", "n1", "n2"] {
        play.api.taint(node, "a", None);
    }
    let mut most = 0;
    for second in 6..400 {
        play.until(second);
        if second % 7 == 0 {
            play.restart();
        }
        most = most.max(play.machine.figures().in_flight);
    }
    assert_eq!(most, 1);
    let status = play.status("p");
    assert_eq!(
        status.totals.replaced,
        u64::try_from(play.done.iter().filter(|d| !d.contains("delete")).count()).unwrap()
    );
    assert!(status.pods.is_empty(), "{:?}", status.pods);
}

/// Thousand nodes with ten pods each, and a policy for all of them.
fn big(spec: Spec) -> Play {
    let mut play = Play::in_one_zone(1_000);
    for pod in 0..10_000 {
        let labels = std::sync::Arc::new([("app".into(), "web".into())].into());
        let pod = lazaret_replacement::Pod {
            key: crate::api::key(&format!("p{pod}")),
            node: Some(format!("n{}", pod % 1_000).into()),
            ready: true,
            labels,
            ..lazaret_replacement::Pod::default()
        };
        play.api.create(play.now, pod);
    }
    play.api.set_policy("p", spec);
    play.until(2);
    assert_eq!(play.status("p").totals.selected, 10_000);
    play
}

#[test]
fn work_is_in_proportion_to_the_pods_on_the_tainted_node() {
    let mut play = big(Spec { replacement_secs: 1_000, ..quick() });
    let before = play.machine.figures().looks;
    play.api.taint("n7", "a", None);
    play.settle();
    // Each of its ten pods is looked at, and written down once.
    assert_eq!(play.machine.figures().looks - before, 20);
    assert_eq!(play.machine.figures().tainted, 10);
}

#[test]
fn those_who_wait_already_cost_nothing() {
    // No pod becomes Ready: one replacement stays in flight, thousands of pods are due.
    let mut play = big(quick());
    play.api.ready_secs = 100_000;
    for node in 0..500 {
        play.api.taint(&format!("n{node}"), "a", Some(play.now));
    }
    play.until(100);
    let totals = play.status("p").totals;
    assert_eq!((totals.due, totals.in_flight, totals.detected), (5_000, 1, 0));
    let before = play.machine.figures().looks;
    play.api.taint("n700", "a", None);
    play.until(101);
    let looks = play.machine.figures().looks - before;
    // Ten pods that are new, and the part of the list that is written, twice at most.
    assert!(looks <= 10 + 2 * lazaret_replacement::PODS_LISTED_MAX as u64, "{looks}");
    assert_eq!(play.status("p").totals.detected, 10);
}
