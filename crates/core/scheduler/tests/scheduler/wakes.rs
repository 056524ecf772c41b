//! Whatever ends the reason for which a pod waits wakes it. A pod that is only tried again because it has waited long
//! enough was forgotten: here that is never.

use std::sync::Arc;

use lazaret_fleet as fleet;
use lazaret_model::*;
use lazaret_scheduler::{
    DeviceStatus, EffectKind, Input, LabelSelector, Node, Options, Outcome, Pod, Reply, Spread,
};

use crate::world::{DRIVER, World, claim, node, pod, slice};

/// No pod is tried again just because time has passed.
fn world() -> World {
    World::new(Options { flush_ms: i64::MAX / 4, ..Options::default() })
}

fn conditional(world: &mut World, node: &str, devices: usize) {
    let mut slice = slice(node, devices);
    for device in &mut slice.devices {
        device.binding_conditions = Some(vec!["Ready".into()]);
        device.binding_failure_conditions = Some(vec!["Broken".into()]);
    }
    world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(slice))));
}

/// A pod whose claim is reserved, and whose device is not ready yet.
fn reserved() -> World {
    let mut world = world();
    world.node("a", 10_000, 0);
    conditional(&mut world, "a", 1);
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    world
}

/// Carries out effects but for those of one kind, which are answered to be tried later.
fn put_off(world: &mut World, kind: impl Fn(&EffectKind) -> bool) {
    for _ in 0..10 {
        let Some(effect) = world.scheduler.poll_effect() else { break };
        if kind(&effect.kind) {
            world.tell(Input::Acknowledged(effect.id, Reply::of(Outcome::RetryLater)));
        } else {
            world.perform(effect);
        }
    }
}

/// A driver sets a condition of each device of a claim.
fn say(world: &mut World, claim: &str, condition: &str) {
    let of = |result: &DeviceResult| DeviceStatus {
        device: result.device.clone(),
        is_true: vec![condition.into()],
    };
    world.change_claim(claim, |claim| {
        claim.devices = claim.claim.allocation.iter().flat_map(|given| &given.results).map(of).collect();
    });
}

/// Carries out effects, and lets the scheduler see the changes before the replies.
fn settle_watch_first(world: &mut World) {
    for _ in 0..10_000 {
        let Some(effect) = world.scheduler.poll_effect() else {
            if world.scheduler.next_wake().is_none_or(|wake| wake.at > world.now) {
                return;
            }
            continue;
        };
        world.log.push(effect.kind.clone());
        if let EffectKind::Event(_) = effect.kind {
            continue;
        }
        let reply = world.carry_out(&effect.kind);
        world.hear();
        // Time for a decision between what is seen and what is answered.
        let held: Vec<_> = std::iter::from_fn(|| world.scheduler.poll_effect()).collect();
        world.tell(Input::Acknowledged(effect.id, reply));
        for other in held {
            world.perform(other);
            world.hear();
        }
    }
    panic!("it does not come to rest");
}

#[test]
fn a_pod_is_woken_when_its_devices_are_given_back_even_if_that_is_seen_before_it_is_answered() {
    let mut world = world();
    world.node("a", 10_000, 0);
    conditional(&mut world, "a", 3);
    for at in 0..3 {
        world.add_claim(claim(&format!("c{at}"), 1));
        world.add_pod(pod(&format!("p{at}"), 100, &[&format!("c{at}")]));
    }
    settle_watch_first(&mut world);
    for at in 0..3 {
        say(&mut world, &format!("c{at}"), "Broken");
    }
    for _ in 0..30 {
        settle_watch_first(&mut world);
        world.tick(1_000);
    }
    settle_watch_first(&mut world);
    for at in 0..3 {
        say(&mut world, &format!("c{at}"), "Ready");
    }
    settle_watch_first(&mut world);
    for at in 0..3 {
        let name = format!("p{at}");
        assert_eq!(world.node_of(&name).as_deref(), Some("a"), "{}", world.message_of(&name));
    }
}

/// Each answer to the write that gives devices back: the pod gets others in the end.
#[test]
fn a_pod_is_woken_whatever_becomes_of_giving_its_devices_back() {
    for outcome in [Outcome::Gone, Outcome::Conflict, Outcome::RetryLater, Outcome::Unknown] {
        let mut world = reserved();
        say(&mut world, "c", "Broken");
        world.settle();
        world.tick(2_000);
        let gives_back =
            |kind: &EffectKind| matches!(kind, EffectKind::ReleaseClaim(release) if release.deallocate);
        for _ in 0..20 {
            let Some(effect) = world.scheduler.poll_effect() else { break };
            if gives_back(&effect.kind) {
                if outcome == Outcome::Unknown {
                    world.carry_out(&effect.kind);
                }
                world.tell(Input::Acknowledged(effect.id, Reply::of(outcome)));
                break;
            }
            world.perform(effect);
        }
        world.seconds(60);
        assert!(world.log.iter().any(gives_back) || outcome == Outcome::Unknown, "{outcome:?}");
        say(&mut world, "c", "Ready");
        world.settle();
        assert_eq!(world.node_of("p").as_deref(), Some("a"), "{outcome:?}: {}", world.message_of("p"));
    }
}

#[test]
fn a_pod_that_waits_for_devices_of_others_hears_what_drivers_say_of_them() {
    let mut world = reserved();
    say(&mut world, "c", "Ready");
    world.settle();
    assert!(world.node_of("p").is_some());
    // The claim is in use, so its devices are not released.
    say(&mut world, "c", "Broken");
    world.add_pod(pod("q", 100, &["c"]));
    world.settle();
    assert_eq!(world.node_of("q"), None);
    world.pass(60_000);
    say(&mut world, "c", "Ready");
    world.settle();
    assert_eq!(world.node_of("q").as_deref(), Some("a"), "{}", world.message_of("q"));
}

#[test]
fn a_pod_that_is_one_too_many_for_a_claim_is_woken_when_another_does_not_come_after_all() {
    let mut world = world();
    world.tell(Input::Node(Arc::new(Node { pods_max: 1_000, ..node("a", 1_000_000) })));
    world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(slice("a", 1)))));
    world.add_claim(claim("c", 1));
    for at in 0..255 {
        world.add_pod(pod(&format!("p{at:03}"), 1, &["c"]));
    }
    world.settle();
    world.add_pod(pod("coming", 1, &["c"]));
    let write = world.scheduler.poll_effect().unwrap();
    world.add_pod(pod("waiting", 1, &["c"]));
    while let Some(effect) = world.scheduler.poll_effect() {
        world.perform(effect);
    }
    assert!(world.message_of("waiting").contains("256 pods"), "{}", world.message_of("waiting"));
    // It leaves before its reservation is written.
    world.pods.remove(&ObjectKey::new("ns", "coming"));
    world.tell(Input::PodGone(ObjectKey::new("ns", "coming")));
    world.tell(Input::Acknowledged(write.id, Reply::of(Outcome::RetryLater)));
    world.seconds(20);
    assert_eq!(world.node_of("waiting").as_deref(), Some("a"), "{}", world.message_of("waiting"));
}

#[test]
fn a_pod_that_waits_for_devices_is_woken_when_a_claim_is_given_others_by_somebody_else() {
    let mut world = world();
    world.node("a", 10_000, 1);
    world.node("b", 10_000, 1);
    world.add_claim(claim("c", 1));
    world.add_claim(claim("d", 2));
    world.add_pod(pod("p", 100, &["c"]));
    let write = world.scheduler.poll_effect().unwrap();
    let EffectKind::ReserveClaim(reserve) = &write.kind else { panic!("{write:?}") };
    let decided = reserve.allocation.clone().unwrap();
    world.add_claim(claim("q", 1));
    world.add_claim(claim("r", 1));
    world.add_pod(pod("q", 100, &["q"]));
    world.add_pod(pod("r", 100, &["r"]));
    let others: Vec<_> = std::iter::from_fn(|| world.scheduler.poll_effect()).collect();
    let waiting =
        ["q", "r"].into_iter().filter(|name| world.scheduler.node_of(&ObjectKey::new("ns", *name)).is_none());
    assert_eq!(waiting.count(), 1);
    // Another client allocates a device of an unknown pool to the claim.
    let elsewhere = |result: &DeviceResult| DeviceResult {
        device: DeviceId::new(DRIVER, "elsewhere", "gpu-0"),
        ..result.clone()
    };
    let given = Allocation {
        results: decided.results.iter().map(elsewhere).collect(),
        node_selector: None,
        ..Allocation::clone(&decided)
    };
    world.change_claim("c", |taken| Arc::make_mut(&mut taken.claim).allocation = Some(Arc::new(given)));
    world.tell(Input::Acknowledged(write.id, Reply::of(Outcome::Conflict)));
    for effect in others {
        world.perform(effect);
    }
    world.seconds(20);
    for name in ["p", "q", "r"] {
        assert!(world.node_of(name).is_some(), "{name}: {}", world.message_of(name));
    }
}

#[test]
fn a_pod_that_is_spread_is_woken_when_another_begins_to_leave() {
    let spread = |name: &str| {
        let mut pod = pod(name, 100, &[]);
        pod.labels = Arc::new([("app".into(), "x".into())].into());
        Arc::make_mut(&mut pod.spec).spread = vec![Spread {
            skew_max: 1,
            topology: "kubernetes.io/hostname".into(),
            required: true,
            selector: Some(LabelSelector {
                requirements: vec![Requirement {
                    key: "app".into(),
                    operator: Operator::In,
                    values: vec!["x".into()],
                }],
            }),
            domains_min: 1,
            ..Spread::default()
        }];
        pod
    };
    let mut world = world();
    world.node("a", 1_000, 0);
    world.node("b", 50, 0);
    world.add_pod(spread("p"));
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
    world.add_pod(spread("q"));
    world.settle();
    assert_eq!(world.node_of("q"), None, "b has no room, and a has one more than b");
    world.pass(20_000);
    let leaving = Pod { deleting: true, node: Some("a".into()), ..spread("p") };
    world.add_pod(leaving);
    world.settle();
    assert_eq!(world.node_of("q").as_deref(), Some("a"), "{}", world.message_of("q"));
}

#[test]
fn a_pod_for_which_another_could_not_be_made_to_leave_is_tried_again() {
    let mut world = world();
    world.node("a", 1_000, 0);
    world.add_pod(pod("low", 1_000, &[]));
    world.settle();
    let mut high = pod("high", 1_000, &[]);
    Arc::make_mut(&mut high.spec).priority = 10;
    world.add_pod(high);
    put_off(&mut world, |kind| matches!(kind, EffectKind::Evict(_)));
    world.seconds(20);
    assert_eq!(world.node_of("high").as_deref(), Some("a"), "{}", world.message_of("high"));
}

#[test]
fn a_pod_whose_old_claim_for_extended_resources_could_not_be_deleted_is_tried_again() {
    let mut world = world();
    world.node("a", 1_000, 1);
    let class = DeviceClass {
        name: "gpu".into(),
        selectors: vec![Some(format!("device.driver == \"{DRIVER}\"").as_str().into())],
        extended_resource_name: Some("example.com/gpu".into()),
        ..DeviceClass::default()
    };
    world.tell(Input::Fleet(fleet::Input::Class(Arc::new(class))));
    let left = ResourceClaim {
        owner: Some(Owner { kind: "Pod".into(), name: "p".into(), uid: "uid-p".into(), ..Owner::default() }),
        extended_resource: true,
        ..claim("left", 1)
    };
    world.add_claim(left);
    let mut wanting = pod("p", 100, &[]);
    Arc::make_mut(&mut wanting.spec).containers = vec![lazaret_scheduler::Container {
        name: "c".into(),
        index: 0,
        role: lazaret_scheduler::Role::Main,
        extended: [("example.com/gpu".into(), lazaret_scheduler::Extended { amount: 1, place: 0 })].into(),
    }];
    world.add_pod(wanting);
    put_off(&mut world, |kind| matches!(kind, EffectKind::DeleteExtendedClaim(_)));
    world.seconds(20);
    assert_eq!(world.node_of("p").as_deref(), Some("a"), "{}", world.message_of("p"));
}

/// The claim is taken away while its devices are made ready: the pod is not bound without.
#[test]
fn a_pod_whose_claim_is_given_back_by_somebody_else_is_decided_on_anew() {
    for gone in [false, true] {
        let mut world = reserved();
        let key = ObjectKey::new("ns", "c");
        if gone {
            world.claims.remove(&key);
            world.tell(Input::ClaimGone(key.clone()));
        } else {
            world.change_claim("c", |taken| {
                let inner = Arc::make_mut(&mut taken.claim);
                inner.allocation = None;
                inner.reserved_for.clear();
            });
        }
        world.settle();
        assert_eq!(world.node_of("p"), None, "gone: {gone}");
        if gone {
            world.add_claim(claim("c", 1));
        }
        world.seconds(20);
        say(&mut world, "c", "Ready");
        world.settle();
        assert_eq!(world.node_of("p").as_deref(), Some("a"), "{}", world.message_of("p"));
    }
}

/// A claim with devices that broke is not released as long as a pod of the group has it; then it is.
#[test]
fn a_pod_of_a_group_is_woken_when_the_last_other_one_leaves() {
    let mut world = world();
    world.node("a", 10_000, 0);
    conditional(&mut world, "a", 1);
    let entry = PodClaim { name: "c".into(), source: ClaimSource::Claim("c".into()) };
    world.tell(Input::Group(Arc::new(PodGroup {
        key: ObjectKey::new("ns", "g"),
        uid: "uid-g".into(),
        claims: vec![entry],
        ..PodGroup::default()
    })));
    world.add_claim(claim("c", 1));
    let member = |name: &str| Pod { group: Some("g".into()), ..pod(name, 100, &["c"]) };
    world.add_pod(member("p"));
    world.settle();
    say(&mut world, "c", "Ready");
    world.settle();
    assert!(world.node_of("p").is_some());
    say(&mut world, "c", "Broken");
    world.add_pod(member("q"));
    world.settle();
    world.pass(20_000);
    assert_eq!(world.node_of("q"), None);
    world.remove_pod("p");
    world.seconds(30);
    say(&mut world, "c", "Ready");
    world.settle();
    assert_eq!(world.node_of("q").as_deref(), Some("a"), "{}", world.message_of("q"));
}

/// The outcome of the claim's release is unknown, and the watch is late: the claim is reserved once more before the pod is
/// bound.
#[test]
fn a_claim_that_may_have_been_taken_from_a_pod_is_reserved_for_it_once_more() {
    let mut world = world();
    world.node("a", 1_000, 1);
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    let mut late = None;
    for _ in 0..25 {
        world.tick(1_000);
        while let Some(effect) = world.scheduler.poll_effect() {
            match &effect.kind {
                // Bindings fail until the claim is released, which is done with an unknown outcome.
                EffectKind::Bind(_) if late.is_none() => {
                    world.tell(Input::Acknowledged(effect.id, Reply::of(Outcome::RetryLater)));
                }
                EffectKind::ReleaseClaim(_) if late.is_none() => {
                    world.carry_out(&effect.kind);
                    late = Some(std::mem::take(&mut world.news));
                    world.tell(Input::Acknowledged(effect.id, Reply::of(Outcome::Unknown)));
                }
                EffectKind::Bind(_) => panic!("the claim is not reserved for the pod"),
                EffectKind::ReserveClaim(_)
                | EffectKind::ReleaseClaim(_)
                | EffectKind::CreateExtendedClaim(_)
                | EffectKind::DeleteExtendedClaim(_)
                | EffectKind::SetExtendedClaim(_)
                | EffectKind::SetNodeAllocatable(_)
                | EffectKind::SetPodCondition(_)
                | EffectKind::Evict(_)
                | EffectKind::ChangeClassicClaim(_)
                | EffectKind::Event(_) => world.perform(effect),
            }
            if late.is_none() {
                world.hear();
            }
        }
    }
    late.expect("the claim was given back").into_iter().for_each(|input| world.tell(input));
    world.seconds(20);
    assert_eq!(world.node_of("p").as_deref(), Some("a"), "{}", world.message_of("p"));
}

/// A pod waits for its reservation when the claim is released, and another pod gets devices for it elsewhere before
/// the first one's write is answered: it must not go where the devices were.
#[test]
fn a_pod_does_not_go_where_the_devices_of_its_claim_were() {
    let on = |name: &str, node: &str| {
        let mut pod = pod(name, 100, &["c"]);
        Arc::make_mut(&mut pod.spec).node_selector = [("kubernetes.io/hostname".into(), node.into())].into();
        pod
    };
    let mut world = world();
    world.node("a", 1_000, 1);
    world.node("b", 1_000, 1);
    world.add_claim(claim("c", 1));
    world.add_pod(on("first", "a"));
    world.settle();
    assert_eq!(world.node_of("first").as_deref(), Some("a"));
    world.add_pod(on("second", "a"));
    let reserve = world.scheduler.poll_effect().unwrap();
    assert!(matches!(reserve.kind, EffectKind::ReserveClaim(_)), "{reserve:?}");
    // The first pod is removed, the claim is released, and the third decides on it.
    world.remove_pod("first");
    world.hear();
    world.add_pod(on("third", "b"));
    let effects: Vec<_> = std::iter::from_fn(|| world.scheduler.poll_effect()).collect();
    world.perform(reserve);
    effects.into_iter().for_each(|effect| world.perform(effect));
    world.seconds(20);
    let claim = &world.claims[&ObjectKey::new("ns", "c")].claim;
    let pool = claim.allocation.as_ref().unwrap().results[0].device.pool.to_string();
    for name in ["second", "third"] {
        let node = world.node_of(name);
        assert!(
            node.is_none() || node.as_deref() == Some(pool.as_str()),
            "{name} is on {node:?}, not on {pool}"
        );
    }
    let bound = ["second", "third"].iter().filter(|name| world.node_of(name).is_some()).count();
    assert_eq!(bound, 1);
}

/// The release of the devices is decided while the reservation of the pod is being removed, which fails.
#[test]
fn devices_are_given_back_although_the_claim_could_not_be_taken_from_the_pod() {
    let mut world = reserved();
    say(&mut world, "c", "Broken");
    let release = std::iter::from_fn(|| world.scheduler.poll_effect())
        .find(|effect| matches!(effect.kind, EffectKind::ReleaseClaim(_)))
        .unwrap();
    world.pass(2_000);
    world.tell(Input::Acknowledged(release.id, Reply::of(Outcome::RetryLater)));
    world.seconds(30);
    say(&mut world, "c", "Ready");
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("a"), "{}", world.message_of("p"));
    assert_eq!(world.scheduler.sizes().claims_in_flight, 0);
}

/// It is unknown whether the claim was allocated, and it was not: a pod that was refused for these devices is woken.
#[test]
fn a_pod_is_woken_when_an_allocation_turns_out_not_to_have_been_written() {
    let mut world = world();
    world.node("a", 1_000, 1);
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    for outcome in [Outcome::Unknown, Outcome::RetryLater] {
        let effect = std::iter::from_fn(|| world.scheduler.poll_effect())
            .find(|effect| matches!(effect.kind, EffectKind::ReserveClaim(_)))
            .unwrap();
        world.tell(Input::Acknowledged(effect.id, Reply::of(outcome)));
        world.tick(1_000);
    }
    world.remove_pod("p");
    world.settle();
    world.add_pod(pod("filler", 1_000, &[]));
    world.settle();
    assert_eq!(world.node_of("filler").as_deref(), Some("a"));
    world.node("b", 1_000, 1);
    world.add_pod(pod("q", 100, &["c"]));
    world.settle();
    let refused = "0/2 nodes are available: 1 Insufficient cpu, 1 resourceclaim not available on the node.";
    assert!(world.message_of("q").starts_with(refused), "{}", world.message_of("q"));
    world.pass(31_000);
    assert_eq!(world.node_of("q").as_deref(), Some("b"), "{}", world.message_of("q"));
}
