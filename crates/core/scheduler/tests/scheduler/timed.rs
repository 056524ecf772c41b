//! Tolerations that end: a pod is not put where it will have to leave, as long as there is another place; and never where it would have to
//! leave at once.

use std::sync::Arc;

use lazaret_allocator::Features;
use lazaret_fleet as fleet;
use lazaret_model::*;
use lazaret_scheduler::{Input, Options};

use crate::world::{DRIVER, World, claim, pod};

/// When the worlds begin.
const START: i64 = 1_000;

/// A rule that taints one device, or all of a node, since some instant.
fn rule(node: &str, device: Option<&str>, since_s: i64) -> Input {
    let selector = DeviceSelector {
        driver: Some(DRIVER.into()),
        pool: Some(node.into()),
        device: device.map(Text::from),
        ..DeviceSelector::default()
    };
    let time_added = Some(Timestamp::from_secs(since_s));
    let taint = Taint { key: "sick".into(), effect: Effect::NoExecute, time_added, ..Taint::default() };
    let name: Text = format!("{node}-{}", device.unwrap_or("all")).into();
    let rule = DeviceTaintRule {
        uid: name.as_str().into(),
        name,
        selector: Some(selector),
        taint,
        ..DeviceTaintRule::default()
    };
    Input::Fleet(fleet::Input::Rule(Arc::new(rule)))
}

/// A claim that tolerates everything for `seconds`.
fn tolerant(name: &str, count: i64, seconds: Option<i64>) -> ResourceClaim {
    let mut claim = claim(name, count);
    let spec = Arc::make_mut(&mut claim.spec);
    let RequestKind::Exactly(request) = &mut spec.requests[0].kind else { panic!("one request") };
    request.tolerations =
        vec![Toleration { operator: TolerationOperator::Exists, seconds, ..Toleration::default() }];
    claim
}

fn devices_of(world: &World, claim: &str) -> Vec<String> {
    let claim = &world.claims[&ObjectKey::new("ns", claim)].claim;
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
    results.map(|result| format!("{}/{}", result.device.pool, result.device.device)).collect()
}

#[test]
fn a_device_that_is_tolerated_for_a_time_comes_last_on_its_node_and_over_all_nodes() {
    let mut world = World::new(Options::default());
    // The node with more room is the better one, and has nothing but tainted devices.
    world.node("a", 64_000, 2);
    world.node("b", 4_000, 2);
    world.tell(rule("a", None, START));
    world.tell(rule("b", Some("gpu-0"), START));
    for name in ["p", "q"] {
        world.add_claim(tolerant(name, 1, Some(60)));
        world.add_pod(pod(name, 100, &[name]));
        world.settle();
    }
    assert_eq!(devices_of(&world, "p"), ["b/gpu-1"], "the only one that it can keep");
    assert_eq!(world.node_of("q").as_deref(), Some("a"), "then any, the better node first");
}

#[test]
fn of_two_devices_one_may_be_one_that_is_tolerated_for_a_time() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 3);
    world.tell(rule("a", Some("gpu-0"), START));
    world.tell(rule("a", Some("gpu-1"), START));
    world.add_claim(tolerant("c", 2, Some(60)));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    assert_eq!(devices_of(&world, "c"), ["a/gpu-2", "a/gpu-0"]);
}

#[test]
fn a_device_whose_toleration_is_over_is_not_given_out_while_the_taint_lasts() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 1);
    world.tell(rule("a", None, START));
    for attempt in ["first", "second", "third"] {
        world.add_claim(tolerant(attempt, 1, Some(2)));
        world.add_pod(pod(attempt, 100, &[attempt]));
        world.settle();
        let placed = world.node_of(attempt);
        assert_eq!(placed.is_some(), attempt == "first", "{attempt}");
        if placed.is_none() {
            assert!(world.message_of(attempt).contains("tainted sick:NoExecute by rule a-all"), "{attempt}");
        }
        world.pass(2_000);
        // It is evicted when its two seconds are over, and its owner makes the next one.
        world.remove_pod(attempt);
        world.settle();
    }
    world.add_claim(tolerant("again", 1, Some(2)));
    world.add_pod(pod("again", 100, &["again"]));
    world.tell(Input::Fleet(fleet::Input::RuleGone("a-all".into())));
    world.settle();
    assert!(world.node_of("again").is_some());
}

/// `tolerationSeconds` is for taints that evict: on others it is ignored, however long ago they were set.
#[test]
fn seconds_mean_nothing_for_a_taint_that_does_not_evict() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 1);
    let mut tainted = crate::world::slice("a", 1);
    let time_added = Some(Timestamp::from_secs(START - 500));
    tainted.devices[0].taints =
        vec![Taint { key: "sick".into(), effect: Effect::NoSchedule, time_added, ..Taint::default() }];
    world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(tainted))));
    world.add_claim(tolerant("c", 1, Some(2)));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    assert_eq!(devices_of(&world, "c"), ["a/gpu-0"]);
}

#[test]
fn a_toleration_without_an_end_changes_nothing() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 2);
    world.tell(rule("a", Some("gpu-0"), START - 1_000));
    world.add_claim(tolerant("c", 1, None));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    assert_eq!(devices_of(&world, "c"), ["a/gpu-0"], "as in Kubernetes, the first");
}

/// Two pods that share a claim with a device whose toleration is over: the second would be evicted as soon as it is bound.
#[test]
fn a_shared_claim_whose_toleration_is_over_is_reserved_for_nobody_else() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 1);
    world.add_claim(tolerant("c", 1, Some(2)));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    world.tell(rule("a", None, START));
    world.pass(2_000);
    world.add_pod(pod("q", 100, &["c"]));
    world.settle();
    assert!(world.message_of("q").contains("untolerated taint sick:NoExecute"), "{}", world.message_of("q"));
}

#[test]
fn gates_turn_rules_and_taints_off() {
    let rules_off = Features { device_taint_rules: false, ..Features::kubernetes_1_37() };
    let taints_off = Features { device_taints: false, ..rules_off };
    for (features, from_rule, from_slice) in
        [(Features::kubernetes_1_37(), false, false), (rules_off, true, false), (taints_off, true, true)]
    {
        for (by_rule, expected) in [(true, from_rule), (false, from_slice)] {
            let mut world = World::new(Options { features, ..Options::default() });
            world.node("a", 4_000, 1);
            if by_rule {
                world.tell(rule("a", None, START));
            } else {
                let mut tainted = crate::world::slice("a", 1);
                tainted.devices[0].taints =
                    vec![Taint { key: "sick".into(), effect: Effect::NoSchedule, ..Taint::default() }];
                world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(tainted))));
            }
            world.add_claim(claim("c", 1));
            world.add_pod(pod("p", 100, &["c"]));
            world.settle();
            assert_eq!(world.node_of("p").is_some(), expected, "{features:?}, by rule: {by_rule}");
        }
    }
}
