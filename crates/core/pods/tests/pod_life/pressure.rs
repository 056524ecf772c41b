//! Pods that go because the node is short of something.

use std::collections::BTreeMap;

use lazaret_pods::{
    Action, Amounts, ConditionKind, ContainerUse, ContainerView, Kind, Phase, PodUse, PodView, PressureKind,
    Resources, Restart, Signal,
};

use crate::world::{SOFT_GRACE_MS, SOFT_PIDS, TRANSITION_MS, World, container, pod};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A pod of one container that asks for this much memory and disk.
fn asks(uid: &str, priority: i32, memory: u64, storage: u64) -> PodView {
    let requests = Amounts { memory, ephemeral_storage: storage, cpu_milli: 0 };
    let resources = Resources { requests, limits: Amounts::default() };
    let container = ContainerView { resources, ..container("c", Kind::Main) };
    let is_best_effort = requests == Amounts::default();
    PodView { priority, requests, is_best_effort, ..pod(uid, vec![container], Restart::Always) }
}

fn uses(memory: u64, storage: u64) -> PodUse {
    let containers = BTreeMap::from([("c".to_owned(), ContainerUse { memory, storage })]);
    PodUse { memory, storage, inodes: storage / 4_096, pids: 1, containers, violation: None }
}

fn evicted(world: &World) -> Vec<&str> {
    let is_evicted = |uid: &&String| world.statuses[*uid].reason.as_deref() == Some("Evicted");
    world.statuses.keys().filter(is_evicted).map(String::as_str).collect()
}

/// A pod: its name, priority, request and usage.
type Row = (&'static str, i32, u64, u64);

/// In which order pods go when memory, or disk, is short for ever. Critical ones stay.
#[test]
fn pods_go_one_at_a_time_in_kubelets_order() {
    let rows: &[(&[Row], &[&str])] = &[
        // Beyond what it asked for, before priority.
        (&[("within", 0, 200, 100), ("beyond", 1_000, 100, 101)], &["beyond", "within"]),
        // Priority, before how much.
        (&[("low", 0, 0, 1), ("high", 5, 0, 900)], &["low", "high"]),
        // How much beyond, not how much.
        (&[("big", 0, 800, 900), ("greedy", 0, 0, 101)], &["greedy", "big"]),
        (&[("node-critical", 2_000_001_000, 0, 900), ("cluster-critical", 2_000_000_000, 0, 9)], &[]),
        (&[("negative", -7, 0, 1), ("none", 0, 0, 900)], &["negative", "none"]),
    ];
    for signal in [Signal::MemoryAvailable, Signal::NodefsAvailable] {
        for (pods, order) in rows {
            let mut world = World::new();
            for (uid, priority, asked, used) in *pods {
                world.add(asks(uid, *priority, asked * MIB, asked * MIB));
                world.uses.insert((*uid).to_owned(), uses(used * MIB, used * MIB));
            }
            world.pass(1_000);
            world.level(signal).available = 50 * MIB;
            let mut found: Vec<String> = Vec::new();
            for _ in 0..100 {
                world.pass(1_000);
                let new: Vec<&str> =
                    evicted(&world).into_iter().filter(|uid| !found.iter().any(|old| old == uid)).collect();
                assert!(new.len() <= 1, "{new:?} go at once");
                found.extend(new.into_iter().map(str::to_owned).collect::<Vec<_>>());
            }
            assert_eq!(found, *order, "{signal:?}");
        }
    }
}

#[test]
fn an_evicted_pod_says_why_and_leaves_nothing_that_takes_room() {
    let mut world = World::new();
    world.add(asks("a", 0, 10 * MIB, 0));
    world.uses.insert("a".into(), uses(200 * MIB, 0));
    world.pass(1_000);
    world.level(Signal::MemoryAvailable).available = 50 * MIB;
    world.pass(20_000);
    let status = &world.statuses["a"];
    let message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container c was \
                   using 200Mi, request is 10Mi, has larger consumption of memory. ";
    assert_eq!((status.phase, status.message.as_deref()), (Phase::Failed, Some(message)));
    let target = status.conditions.iter().find(|one| one.kind == ConditionKind::DisruptionTarget).unwrap();
    assert_eq!(
        (target.is_true, target.reason, target.message.as_deref()),
        (true, Some("TerminationByKubelet"), Some(message))
    );
    assert_eq!(world.said("Evicted"), 1);
    assert_eq!(world.node_events, ["EvictionThresholdMet: Attempting to reclaim memory"]);
    assert!(world.sandboxes.is_empty() && world.volumes.is_empty(), "its room is there for others");
    assert!(world.api.contains_key("a"), "it stays in the API until somebody deletes it");
    world.delete("a", 30);
    world.pass(1_000);
    assert!(world.machine.is_empty() && world.api.is_empty());
}

#[test]
fn images_go_before_pods_do() {
    let mut world = World::new();
    world.add(asks("a", 0, 0, 0));
    world.uses.insert("a".into(), uses(0, GIB));
    world.pass(1_000);
    world.unused_images = 10 * GIB;
    world.level(Signal::NodefsAvailable).available = GIB;
    world.pass(60_000);
    assert_eq!((world.reclaims, evicted(&world)), (1, vec![]), "images were enough");
    world.level(Signal::NodefsAvailable).available = GIB;
    world.pass(10_000);
    assert_eq!((world.reclaims, evicted(&world)), (2, vec!["a"]));
}

#[test]
fn a_condition_outlasts_what_caused_it_and_pods_are_refused_meanwhile() {
    let mut world = World::new();
    let kinds = |world: &World| world.machine.pressure().map(|(kind, _)| kind).collect::<Vec<_>>();
    world.pass(1_000);
    world.level(Signal::MemoryAvailable).available = MIB;
    world.pass(10_000);
    assert_eq!(kinds(&world), [PressureKind::Memory]);
    world.level(Signal::MemoryAvailable).available = GIB;
    world.pass(TRANSITION_MS - 15_000);
    assert_eq!(kinds(&world), [PressureKind::Memory]);
    world.add(asks("best-effort", 0, 0, 0));
    world.add(asks("burstable", 0, MIB, 0));
    world.add(asks("critical", 2_000_000_000, 0, 0));
    world.add(PodView { tolerates_memory_pressure: true, ..asks("tolerates", 0, 0, 0) });
    world.pass(1_000);
    let refused = &world.statuses["best-effort"];
    let message = "Pod was rejected: The node had condition: [MemoryPressure]. ";
    assert_eq!((refused.reason.as_deref(), refused.message.as_deref()), (Some("Evicted"), Some(message)));
    for uid in ["burstable", "critical", "tolerates"] {
        assert_eq!(world.phase(uid), Phase::Running, "{uid}");
    }
    world.pass(30_000);
    assert_eq!(kinds(&world), []);
    world.level(Signal::NodefsInodesFree).available = 1;
    world.pass(10_000);
    world.add(asks("any", 0, MIB, 0));
    world.pass(1_000);
    let message = "Pod was rejected: The node had condition: [DiskPressure]. ";
    assert_eq!(world.statuses["any"].message.as_deref(), Some(message));
}

/// A pod that fills the disk goes, whatever the node has left, and its neighbour stays.
#[test]
fn a_pod_goes_that_uses_more_of_the_disk_than_it_may() {
    let mut world = World::new();
    world.add(asks("greedy", 0, 0, 0));
    world.add(asks("neighbour", 0, 0, 0));
    world.pass(1_000);
    let text = "Usage of EmptyDir volume \"scratch\" exceeds the limit \"1Mi\". ";
    world.uses.insert("greedy".into(), PodUse { violation: Some(text.into()), ..uses(0, 2 * MIB) });
    world.pass(45_000);
    assert_eq!(evicted(&world), ["greedy"]);
    let status = &world.statuses["greedy"];
    assert_eq!(status.message.as_deref(), Some(text));
    assert!(status.conditions.iter().all(|one| one.kind != ConditionKind::DisruptionTarget));
    assert_eq!(world.phase("neighbour"), Phase::Running);
    assert_eq!(world.machine.pressure().count(), 0);
}

/// A pod that does not go keeps the next one for 30 s, not for ever.
#[test]
fn the_next_pod_waits_for_the_one_before_for_a_while() {
    let mut world = World::new();
    for uid in ["a", "b"] {
        world.add(asks(uid, 0, 0, 0));
    }
    world.pass(1_000);
    world.level(Signal::PidAvailable).available = 1;
    // The stop is never answered.
    world.now += 10_000;
    world.tick();
    let stuck = |world: &World| {
        let is_stop = |action: &lazaret_pods::Action| matches!(action, lazaret_pods::Action::Stop { .. });
        world.pending.iter().position(|(_, action)| !is_stop(action))
    };
    for second in 0..60 {
        while let Some(place) = stuck(&world) {
            world.perform(place, crate::world::ActionResult::Works);
        }
        let going = world.said("Evicted");
        assert!(second >= 20 || going == 1, "the second one goes after {second} s");
        world.now += 1_000;
        world.tick();
    }
    assert_eq!(world.said("Evicted"), 2);
}

#[test]
fn a_soft_threshold_evicts_after_its_grace_and_leaves_pods_time_to_end() {
    let mut world = World::new();
    world.add(asks("a", 0, 0, 0));
    world.pass(1_000);
    let soft = |world: &mut World| world.level(Signal::PidAvailable).available = SOFT_PIDS - 1;
    let enough = |world: &mut World| world.level(Signal::PidAvailable).available = SOFT_PIDS;
    soft(&mut world);
    world.pass(20_000);
    let kinds: Vec<PressureKind> = world.machine.pressure().map(|(kind, _)| kind).collect();
    assert_eq!((kinds, evicted(&world)), (vec![PressureKind::Pids], vec![]), "the Node says so at once");
    // A signal that recovers in between starts its grace period anew.
    enough(&mut world);
    world.pass(20_000);
    soft(&mut world);
    world.pass(SOFT_GRACE_MS - 5_000);
    assert_eq!(world.said("Evicted"), 0);
    // The stop stays unanswered, so that it can be examined.
    let until = world.now + 30_000;
    let stop = loop {
        let stop = world.pending.iter().find_map(|(_, action)| match action {
            Action::Stop { grace_ms, .. } => Some(*grace_ms),
            _ => None,
        });
        if let Some(grace_ms) = stop {
            break grace_ms;
        }
        assert!(world.now < until, "it is not evicted");
        match world.pending.is_empty() {
            true => {
                world.now += 1_000;
                world.tick();
            }
            false => world.perform(0, crate::world::ActionResult::Works),
        }
    };
    assert_eq!(stop, 20_000, "of its own 30 s");
    world.settle();
    world.pass(1_000);
    assert_eq!(evicted(&world), ["a"]);
}
