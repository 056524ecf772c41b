//! Pods that are hard to place: their work is bounded, remembered, and shared out among namespaces.

use std::sync::Arc;

use lazaret_model::*;
use lazaret_scheduler::{Effect, EffectKind, Input, Options, Pod, Verdict};

use crate::world::{World, claim, node, pod, slice};

pub(crate) const TURN_UNITS: u64 = 100_000;
/// A selector and its compilation cost no more.
pub(crate) const SELECTOR_UNITS: u64 = 40_000;

pub(crate) fn options() -> Options {
    Options { turn_units: TURN_UNITS, attempt_units: 3 * TURN_UNITS, ..Options::default() }
}

fn world() -> World {
    let mut world = World::new(options());
    world.node("a", 100_000, 8);
    world
}

/// Selectors that are true and cost many units each, no two alike.
pub(crate) fn hard_selectors(pod: usize) -> Vec<Option<Text>> {
    let selector = |at: usize| {
        let list = "[0,1,2,3,4,5,6,7,8,9]";
        let number = 1_000 * pod + at;
        let inner = format!("device.driver.size() + x + y + z + {number} > 0");
        Some(format!("{list}.all(x, {list}.all(y, {list}.all(z, {inner})))").as_str().into())
    };
    (0..32).map(selector).collect()
}

pub(crate) fn in_namespace(namespace: &str, mut pod: Pod) -> Pod {
    pod.key.namespace = namespace.into();
    pod.uid = format!("{namespace}-{}", pod.uid).into();
    pod
}

fn add_hard(world: &mut World, number: usize, devices: i64) {
    let mut claim = claim(&format!("c{number}"), devices);
    claim.key.namespace = "hard".into();
    let mut spec = ClaimSpec::clone(&claim.spec);
    if let RequestKind::Exactly(request) = &mut spec.requests[0].kind {
        request.selectors = hard_selectors(number);
    }
    claim.spec = Arc::new(spec);
    world.add_claim(claim);
    let name = format!("c{number}");
    world.add_pod(in_namespace("hard", pod(&format!("p{number}"), 1, &[&name])));
}

pub(crate) fn add_easy(world: &mut World, namespace: &str) {
    let mut easy = claim("easy", 1);
    easy.key.namespace = namespace.into();
    world.add_claim(easy);
    world.add_pod(in_namespace(namespace, pod("easy", 1, &["easy"])));
}

pub(crate) fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { namespace: namespace.into(), name: name.into() }
}

/// The next effect that has to do with a pod's place, and how often the scheduler let inputs come first.
pub(crate) fn next(world: &mut World, yields: &mut usize) -> Option<Effect> {
    for _ in 0..10_000 {
        match world.scheduler.poll_effect() {
            Some(effect) => return Some(effect),
            None if world.scheduler.next_wake().is_some_and(|wake| wake.at <= world.now) => *yields += 1,
            None => return None,
        }
    }
    panic!("it does not come to rest");
}

/// The units until a pod has a node.
pub(crate) fn units_until_placed(world: &mut World, pod: &ObjectKey) -> u64 {
    let before = world.scheduler.work_units();
    let mut yields = 0;
    while world.scheduler.node_of(pod).is_none() {
        let effect = next(world, &mut yields).unwrap();
        world.perform(effect);
        world.hear();
    }
    world.scheduler.work_units() - before
}

#[test]
fn a_pod_of_another_namespace_has_its_turn_after_one_of_a_pod_that_is_hard_to_place() {
    for namespace in ["others", "hard"] {
        let mut world = world();
        (0..40).for_each(|number| add_hard(&mut world, number, 1));
        // The first turns show that the namespace is expensive.
        let mut yields = 0;
        while yields < 3 {
            assert!(next(&mut world, &mut yields).is_none_or(|effect| {
                world.perform(effect);
                true
            }));
        }
        add_easy(&mut world, namespace);
        let units = units_until_placed(&mut world, &key(namespace, "easy"));
        let turns = if namespace == "others" { 1 } else { 41 };
        assert!(units <= turns * (TURN_UNITS + SELECTOR_UNITS), "{namespace}: {units} units");
    }
}

/// Of a thousand that wait, and were never tried, none comes between the steps of another namespace's pod more than once.
#[test]
fn a_pod_of_another_namespace_is_bound_within_a_few_turns_of_a_thousand_that_are_hard_to_place() {
    let mut world = world();
    (0..1_000).for_each(|number| add_hard(&mut world, number, 1));
    let mut yields = 0;
    while yields < 1 {
        assert!(next(&mut world, &mut yields).is_none_or(|effect| {
            world.perform(effect);
            true
        }));
    }
    add_easy(&mut world, "others");
    let before = world.scheduler.work_units();
    let is_bound =
        |effect: &Effect| matches!(&effect.kind, EffectKind::Bind(bind) if &*bind.pod.namespace == "others");
    let mut bound = false;
    while !bound {
        // Each effect takes as long as a turn: its outcome is seen after the next one.
        let effect = next(&mut world, &mut yields).unwrap();
        bound = is_bound(&effect);
        yields += usize::from(world.scheduler.poll_effect().is_none());
        world.perform(effect);
        world.hear();
    }
    let units = world.scheduler.work_units() - before;
    assert!(units <= 4 * (TURN_UNITS + SELECTOR_UNITS), "{units} units");
    let turn = Options::default().turn_units;
    assert!(turn <= 1_000_000, "what one selector may cost, and not several: {turn}");
}

/// A short regular expression takes as much work as a long selector: each is work of a turn.
#[test]
fn patterns_that_are_large_once_compiled_are_work_of_a_turn() {
    let mut world = world();
    let mut claim = claim("c0", 1);
    claim.key.namespace = "hard".into();
    let mut spec = ClaimSpec::clone(&claim.spec);
    if let RequestKind::Exactly(request) = &mut spec.requests[0].kind {
        let selector =
            |at: usize| Some(format!("!device.driver.matches('(.{{30}}){{10}}{at}')").as_str().into());
        request.selectors = (0..8).map(selector).collect();
    }
    claim.spec = Arc::new(spec);
    world.add_claim(claim);
    world.add_pod(in_namespace("hard", pod("p0", 1, &["c0"])));
    let effect = world.scheduler.poll_effect();
    let first = world.scheduler.work_units();
    assert!((TURN_UNITS..8 * TURN_UNITS).contains(&first), "the first of them is more than a turn: {first}");
    effect.into_iter().for_each(|effect| world.perform(effect));
    world.settle();
    world.seconds(120);
    assert_eq!(world.scheduler.node_of(&key("hard", "p0")).unwrap(), "a");
    assert!(world.scheduler.work_units() > 8 * TURN_UNITS, "{}", world.scheduler.work_units());
}

#[test]
fn a_turn_and_an_attempt_never_exceed_their_budgets_and_the_reason_says_how_far_they_came() {
    let mut world = world();
    add_hard(&mut world, 0, 1);
    let (mut yields, mut before) = (0, world.scheduler.work_units());
    loop {
        let effect = world.scheduler.poll_effect();
        let now = world.scheduler.work_units();
        assert!(now - before <= TURN_UNITS + SELECTOR_UNITS, "{}", now - before);
        before = now;
        if let Some(effect) = effect {
            world.perform(effect);
            continue;
        }
        yields += 1;
        if world.scheduler.next_wake().is_none_or(|wake| wake.at > world.now) {
            break;
        }
    }
    assert!((3..=5).contains(&yields), "{yields} turns");
    assert!(world.scheduler.work_units() <= 3 * (TURN_UNITS + SELECTOR_UNITS));
    let why = world.scheduler.why(&key("hard", "p0")).unwrap();
    assert!(matches!(why.verdict, Verdict::Unfinished { tried: 0, nodes: 1, again_ms: 10_000 }), "{why:?}");
    assert!(why.message().contains("spent after 0 of 1 nodes; it goes on from there within 10 s"), "{why}");
    assert_eq!(why.reason(), "SchedulerError");
}

/// Results are not computed again, neither in the next turn nor in the next attempt.
#[test]
fn an_attempt_goes_on_where_the_last_one_stopped() {
    let mut whole = World::new(Options::default());
    whole.node("a", 100_000, 8);
    add_hard(&mut whole, 0, 1);
    whole.settle();
    assert_eq!(whole.scheduler.node_of(&key("hard", "p0")).unwrap(), "a");
    let all = whole.scheduler.work_units();
    assert!(all > 4 * TURN_UNITS, "{all}: it takes several attempts");

    let mut world = world();
    add_hard(&mut world, 0, 1);
    world.settle();
    assert!(world.scheduler.node_of(&key("hard", "p0")).is_none());
    world.seconds(30);
    assert_eq!(world.scheduler.node_of(&key("hard", "p0")).unwrap(), "a");
    let units = world.scheduler.work_units();
    assert!(units <= all + all / 10, "{units} units in attempts, {all} at once");
    let given = |world: &World| world.claims[&key("hard", "c0")].claim.allocation.clone().unwrap();
    assert_eq!(given(&world).results, given(&whole).results, "the same devices");
}

#[test]
fn a_pod_or_a_claim_that_is_gone_is_noticed_after_the_turn() {
    let gone = |pod: bool| {
        if pod { Input::PodGone(key("hard", "p0")) } else { Input::ClaimGone(key("hard", "c0")) }
    };
    for pod in [true, false] {
        let mut world = world();
        add_hard(&mut world, 0, 1);
        assert!(world.scheduler.poll_effect().is_none());
        let begun = world.scheduler.work_units();
        assert!((TURN_UNITS..=TURN_UNITS + SELECTOR_UNITS).contains(&begun), "{begun}");
        world.tell(gone(pod));
        while let Some(effect) = world.scheduler.poll_effect() {
            assert!(matches!(effect.kind, EffectKind::Event(_) | EffectKind::SetPodCondition(_)));
        }
        assert_eq!(world.scheduler.work_units(), begun, "nothing more is computed");
    }
}

/// A node that was tried in an earlier turn may have changed: then the pod does not wait for an event that has been.
#[test]
fn what_happens_during_an_attempt_is_not_missed() {
    for turns in 1..=16 {
        let mut world = World::new(Options { attempt_units: u64::MAX, ..options() });
        for name in ["a", "b"] {
            world.tell(Input::Node(Arc::new(node(name, 100_000))));
            let mut slice = slice(name, 2);
            // Selectors are asked anew of devices that look different.
            let looks = (Text::from("on"), AttrValue::String(name.into()));
            slice.devices.iter_mut().for_each(|device| device.attributes = vec![looks.clone()]);
            world.tell(Input::Fleet(lazaret_fleet::Input::Slice(Arc::new(slice))));
            world.add_claim(claim(name, 1));
            let mut there = pod(name, 1, &[name]);
            there.spec = Arc::new(PodSpec {
                node_selector: [("kubernetes.io/hostname".into(), name.into())].into(),
                ..PodSpec::clone(&there.spec)
            });
            world.add_pod(there);
        }
        world.settle();
        add_hard(&mut world, 0, 2);
        let mut yields = 0;
        while yields < turns
            && let Some(effect) = next(&mut world, &mut yields)
        {
            world.perform(effect);
        }
        world.remove_pod("a");
        world.settle();
        world.seconds(15);
        let placed = world.scheduler.node_of(&key("hard", "p0"));
        assert_eq!(placed.map(|node| &**node), Some("a"), "after {turns} turns");
    }
}
