//! A count is exact however its leaders end: a status names pods before they are evicted.

use lazaret_eviction::{EffectKind, Input, Options, Outcome, RuleTally};

use crate::world::World;

const PODS: usize = 40;
const PACED: &str = "rule evict driver=some-driver taint=k=v:NoExecute@0~2";

fn recording() -> Options {
    Options { records_evictions: true, ..Options::default() }
}

fn pods(world: &mut World, from: usize, to: usize) {
    for i in from..to {
        world.apply(&format!("claim c-{i} device=d-{i} for=p-{i}:u-{i}; pod p-{i} uid=u-{i} claim=c-{i}"));
    }
}

/// A machine that finds the same objects and knows nothing else. Pods that were evicted are gone by then, or terminate.
fn successor(world: &World, are_gone: bool) -> World {
    let mut next = World::follower(recording());
    next.now = world.now + 1_000;
    world.objects.values().for_each(|input| next.feed(input.clone()));
    if are_gone {
        world.evicted_at.iter().for_each(|(_, pod)| next.apply(&format!("pod- {pod}")));
    }
    next.hear(Input::BecameLeader);
    next
}

fn tally(world: &World) -> (u64, bool) {
    let RuleTally { evicted, at_least, .. } = world.machine.tally("evict").unwrap();
    (evicted, at_least)
}

fn written(world: &World) -> (u64, bool, usize) {
    let rule = world.fleet.rule("evict").unwrap().rule;
    let count = rule.evictions.unwrap_or_default();
    (count.pods, count.at_least, rule.evicting.len())
}

/// Carries out one effect or waits for the next wake-up; false when there is nothing left to do.
fn step(world: &mut World) -> bool {
    if let Some(view) = world.machine.poll_view() {
        world.hear(Input::ViewReached(view.number));
        return true;
    }
    if let Some(effect) = world.machine.poll_effect() {
        world.perform(effect);
        return true;
    }
    let Some(wake) = world.machine.next_wake() else { return false };
    world.now = wake.at.as_millis();
    world.hear(Input::Tick);
    true
}

#[test]
fn a_leader_that_is_killed_at_any_step_leaves_an_exact_count() {
    for rule in [PACED, "rule evict driver=some-driver taint=k=v:NoExecute@0"] {
        for are_gone in [false, true] {
            let mut world = World::new(recording());
            pods(&mut world, 0, PODS);
            world.apply(rule);
            let mut steps = 0;
            while step(&mut world) {
                steps += 1;
                let mut next = successor(&world, are_gone);
                next.run_until(world.now + 120_000);
                let said = format!("{rule}, step {steps}, gone: {are_gone}: {:?}", next.log.last());
                assert_eq!(tally(&next), (PODS as u64, false), "{said}");
                assert_eq!(written(&next), (PODS as u64, false, 0), "{said}");
            }
            assert_eq!(written(&world), (PODS as u64, false, 0));
        }
    }
}

/// Pods that were named stay, for the rule has expired. Each machine numbers pods in the order in which it got them.
#[test]
fn a_leader_that_got_pods_in_another_order_does_not_write_their_names_again() {
    let mut world = World::new(recording());
    pods(&mut world, 0, PODS);
    world.apply(&format!("{PACED} expires=5"));
    world.run_until(4_000);
    let mut next = successor(&world, true);
    next.run_until(20_000);
    assert!(written(&next).2 > 1, "{:?}", next.log);
    let mut third = World::follower(recording());
    third.now = 30_000;
    next.objects.values().rev().for_each(|input| third.feed(input.clone()));
    third.hear(Input::BecameLeader);
    third.run_until(90_000);
    let statuses: Vec<&String> = third.log.iter().filter(|line| line.contains(" status evict ")).collect();
    assert_eq!(statuses, Vec::<&String>::new());
}

/// The second leader is killed as well, with what it took over not written yet.
#[test]
fn what_two_leaders_did_is_counted_once() {
    let mut world = World::new(recording());
    pods(&mut world, 0, PODS);
    world.apply(PACED);
    for _ in 0..24 {
        step(&mut world);
    }
    let evicted = world.evicted_at.clone();
    let mut second = successor(&world, true);
    for steps in 0..20 {
        let mut third = successor(&second, true);
        evicted.iter().for_each(|(_, pod)| third.apply(&format!("pod- {pod}")));
        third.run_until(world.now + 200_000);
        assert_eq!(written(&third), (PODS as u64, false, 0), "{steps}");
        step(&mut second);
    }
}

#[test]
fn a_leader_that_ends_in_good_order_leaves_an_exact_count() {
    let mut world = World::new(recording());
    pods(&mut world, 0, PODS);
    world.apply(PACED);
    world.run_until(5_000);
    world.hear(Input::Closing);
    world.work();
    assert!(!world.machine.has_final_writes());
    let (so_far, at_least, named) = written(&world);
    assert_eq!((so_far, at_least, named), (world.evicted_at.len() as u64, false, 0));
    let mut next = successor(&world, true);
    next.run_until(120_000);
    assert_eq!(written(&next), (PODS as u64, false, 0));
}

#[test]
fn evictions_of_an_outage_are_counted_when_their_pods_are_gone() {
    let mut world = World::new(recording());
    pods(&mut world, 0, 3);
    world.unknown_happens = false;
    world.outcomes = (0..3).map(|i| (format!("p-{i}"), vec![Outcome::Unknown])).collect();
    world.apply("rule evict driver=some-driver taint=k=v:NoExecute@0");
    world.work();
    (0..3).for_each(|i| world.apply(&format!("pod- p-{i}; claim- c-{i}")));
    world.run_until(60_000);
    assert_eq!(written(&world), (3, false, 0));
}

#[test]
fn a_status_names_many_pods_so_that_naming_costs_few_writes() {
    for (count, rule, at_most) in [
        (60, "rule evict driver=some-driver taint=k=v:NoExecute@0", 4),
        (1_000, "rule evict driver=some-driver taint=k=v:NoExecute@0", 14),
        (60, PACED, 6),
    ] {
        let mut world = World::new(recording());
        pods(&mut world, 0, count);
        world.apply(rule);
        world.run_until(120_000);
        assert_eq!(written(&world), (count as u64, false, 0));
        let writes = world.log.iter().filter(|line| line.contains(" status evict ")).count();
        assert!(writes <= at_most, "{count} pods, {rule}: {writes} writes");
    }
}

/// A status that the server refuses keeps nobody for long.
#[test]
fn pods_leave_though_their_rule_has_no_status() {
    let mut world = World::new(recording());
    pods(&mut world, 0, 3);
    world.outcomes.insert("evict".into(), vec![Outcome::Refused; 1_000]);
    world.apply("rule evict driver=some-driver taint=k=v:NoExecute@0");
    world.run_until(5_000);
    assert_eq!(world.evicted_at.len(), 3);
}

/// No write comes before the first eviction but the status, which is due then.
#[test]
fn a_pod_is_named_before_it_is_evicted() {
    let mut world = World::new(recording());
    pods(&mut world, 0, 2);
    world.apply("rule evict driver=some-driver taint=k=v:NoExecute@0");
    let first = world.machine.poll_effect().unwrap();
    let EffectKind::SetRuleStatus(write) = &first.kind else { panic!("{first:?}") };
    assert_eq!(write.status.evicting.len(), 2);
    assert!(world.machine.poll_effect().is_none());
    world.perform(first);
    let then: Vec<_> = std::iter::from_fn(|| world.machine.poll_effect()).collect();
    assert!(
        then.len() == 2 && then.iter().all(|effect| matches!(effect.kind, EffectKind::Evict(_))),
        "{then:?}"
    );
}
