//! The publisher against a server that refuses, forgets, and is edited by others.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod any;
mod health;
mod server;

use k8s_openapi::{
    api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm},
    api::resource::v1::{Counter, CounterSet, Device, DeviceCapacity, DeviceCounterConsumption},
    apimachinery::pkg::api::resource::Quantity,
};
use lazaret_machine::{Effect, Machine, Outcome, Turn};
use lazaret_publisher::{Answer, EffectKind, Gate, Nodes, Pool, PoolError, Problem, Scope};
use server::{DRIVER, NODE, World, device, devices, leading, pools, taint};

fn started(count: usize) -> World {
    let mut world = World::new();
    world.want(pools(&[("pool", devices(count))]));
    world.list();
    world.settle();
    world
}

fn with_taint(mut devices: Vec<Device>, index: usize, value: &str) -> Vec<Device> {
    devices[index].taints = Some(vec![taint("gpu.example.com/xid", value)]);
    devices
}

#[test]
fn creates_what_is_wanted_and_then_nothing() {
    let mut world = World::new();
    world.list();
    assert_eq!(world.settle(), [""; 0], "nothing is done before the driver said what it wants");
    world.want(pools(&[("pool", devices(65))]));
    assert_eq!(world.settle(), ["create @1", "create 1@1"]);
    let first = world.slices.values().next().unwrap();
    assert_eq!(first.metadata.generate_name.as_deref(), Some("00000-gpu.example.com-node-1-"));
    assert_eq!(first.spec.node_name.as_deref(), Some(NODE));
    assert_eq!(first.spec.driver, DRIVER);
    assert_eq!(first.spec.pool.resource_slice_count, 2);
    let owner = &first.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("Node", "node-uid", Some(true)));
    world.want(pools(&[("pool", devices(65))]));
    assert_eq!(world.settle(), [""; 0], "unchanged");
    world.restart();
    world.want(pools(&[("pool", devices(65))]));
    assert_eq!(world.settle(), [""; 0], "unchanged after a restart");
}

#[test]
fn a_pool_without_devices_is_one_empty_slice_and_no_pool_is_none() {
    let mut world = started(0);
    assert_eq!(world.generations(), [1]);
    world.want(pools(&[]));
    assert_eq!(world.settle(), ["delete "]);
    assert!(world.slices.is_empty());
    // Slices of a pool that a process before this one had.
    let mut world = started(70);
    world.restart();
    world.want(pools(&[("other", devices(1))]));
    assert_eq!(world.settle(), ["create @1", "delete ", "delete 1"]);
}

#[test]
fn one_changed_slice_is_updated_in_place_and_several_are_a_new_generation() {
    let mut world = started(200);
    assert_eq!(world.generations(), [1; 4]);
    world.want(pools(&[("pool", with_taint(devices(200), 70, "79"))]));
    assert_eq!(world.settle(), ["update 1@1"]);
    let both = with_taint(with_taint(devices(200), 70, "79"), 150, "13");
    world.want(pools(&[("pool", with_taint(both.clone(), 0, "13"))]));
    assert_eq!(world.settle(), ["update @2", "update 1@2", "update 2@2", "update 3@2"]);
    world.want(pools(&[("pool", with_taint(both[..100].to_vec(), 0, "13"))]));
    assert_eq!(world.settle(), ["delete 2", "delete 3", "update @3", "update 1@3"]);
    assert_eq!(world.visible("pool").unwrap().len(), 100);
}

#[test]
fn one_taint_of_a_thousand_devices_is_one_write() {
    let mut world = started(1_000);
    assert_eq!(world.slices.len(), 16);
    world.want(pools(&[("pool", with_taint(devices(1_000), 777, "79"))]));
    assert_eq!(world.settle(), ["update c@1"]);
}

#[test]
fn a_driver_can_ask_for_a_higher_generation() {
    let mut world = started(1);
    let asked = Pool { generation: 7, ..Pool::of(devices(1)) };
    world.want([("pool".to_owned(), asked)].into());
    assert_eq!(world.settle(), ["update @7"]);
    world.want(pools(&[("pool", devices(1))]));
    assert_eq!(world.settle(), [""; 0], "it never goes back");
}

#[test]
fn the_time_of_an_unchanged_taint_is_kept() {
    let time = |world: &World, device: &str| {
        let visible = world.visible("pool").unwrap();
        let taints = visible.iter().find(|other| other.name == device).unwrap().taints.clone().unwrap();
        taints[0].time_added.as_ref().unwrap().0.as_second()
    };
    let mut world = started(70);
    world.want(pools(&[("pool", with_taint(devices(70), 65, "79"))]));
    world.settle();
    assert_eq!(time(&world, "gpu-65"), 1_000);
    world.now = world.now.plus_secs(100);
    // Another device of the same slice gets a taint; then a device in front moves all others.
    world.want(pools(&[("pool", with_taint(with_taint(devices(70), 65, "79"), 66, "13"))]));
    assert_eq!(world.settle(), ["update 1@1"]);
    assert_eq!((time(&world, "gpu-65"), time(&world, "gpu-66")), (1_000, 1_100));
    let mut moved = with_taint(with_taint(devices(70), 65, "79"), 66, "13");
    moved.insert(0, device("first"));
    moved.swap(1, 66);
    world.now = world.now.plus_secs(100);
    world.want(pools(&[("pool", moved.clone())]));
    assert_eq!(world.settle().len(), 2);
    assert_eq!((time(&world, "gpu-65"), time(&world, "gpu-66")), (1_000, 1_100), "also in another slice");
    // Another value is another taint.
    world.want(pools(&[("pool", with_taint(moved, 1, "80"))]));
    world.settle();
    assert_eq!(time(&world, "gpu-65"), 1_200);
    // A time that the driver gives is used as it is.
    let mut given = with_taint(devices(1), 0, "79");
    let at = k8s_openapi::jiff::Timestamp::from_second(500).unwrap();
    given[0].taints.as_mut().unwrap()[0].time_added =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at));
    world.want(pools(&[("pool", given)]));
    world.settle();
    assert_eq!(time(&world, "gpu-0"), 500);
}

#[test]
fn dropped_taints_are_reported_with_their_gate_and_not_written_for_ever() {
    let mut world = started(1);
    world.drops_taints = true;
    world.want(pools(&[("pool", with_taint(devices(1), 0, "79"))]));
    assert_eq!(world.settle_in_time(), ["update @1"]);
    let Problem::Dropped(dropped) = &world.problems[0] else { panic!("{:?}", world.problems) };
    assert_eq!((dropped.pool.as_str(), dropped.index), ("pool", 0));
    assert_eq!(dropped.gates, [Gate::DeviceTaints]);
    assert!(dropped.to_string().contains("DRADeviceTaints"), "{dropped}");
    assert_eq!(world.problems.len(), 1);
    // The driver reacts: it withdraws the device. Then the server learns taints, and the driver tries again.
    world.want(pools(&[("pool", vec![])]));
    assert_eq!(world.settle(), ["update @1"]);
    world.drops_taints = false;
    world.want(pools(&[("pool", with_taint(devices(1), 0, "79"))]));
    assert_eq!(world.settle(), ["update @1"]);
    assert!(world.visible("pool").unwrap()[0].taints.is_some());
}

#[test]
fn edits_of_others_are_repaired_at_once_and_then_ever_more_slowly() {
    let mut world = started(70);
    world.edit(0, |slice| slice.spec.devices.as_mut().unwrap()[3].name = "mine".into());
    assert_eq!(world.settle(), ["update @1"]);
    world.delete(1);
    assert_eq!(world.settle(), [""; 0], "somebody does it again");
    assert_eq!(world.publisher.next_wake().map(|wake| wake.at), Some(world.now.plus_millis(1_000)));
    assert_eq!(world.settle_in_time(), ["create 1@1"]);
    assert_eq!(world.visible("pool").unwrap().len(), 70);
    for _ in 0..10 {
        world.delete(0);
        world.settle_in_time();
    }
    world.delete(0);
    world.settle();
    let pause = world.publisher.next_wake().map(|wake| wake.at).unwrap().millis_since(world.now);
    assert!((16_000..=30_000).contains(&pause), "{pause}");
    // The driver's own changes do not wait.
    world.want(pools(&[("pool", devices(3))]));
    assert!(!world.settle().is_empty());
    world.now = world.now.plus_secs(120);
    world.delete(0);
    assert!(!world.settle().is_empty(), "it is forgotten after a while");
}

#[test]
fn slices_are_published_again_when_the_node_came_back_as_another() {
    let mut world = started(1);
    world.node_uid = "another".into();
    world.delete(0);
    assert_eq!(world.settle(), ["create @1"]);
    let owner = &world.slices.values().next().unwrap().metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(owner.uid, "another");
    // The wipe of an agent takes all of them.
    world.now = world.now.plus_secs(100);
    world.delete(0);
    assert_eq!(world.settle(), ["create @1"]);
}

#[test]
fn names_of_others_and_twins_are_obsolete() {
    let mut world = started(1);
    let mut slice = world.slices.values().next().unwrap().clone();
    slice.metadata.name = Some("gpu-example-com-node-1-abc".into());
    slice.metadata.uid = Some("x".into());
    world.store(slice.clone());
    slice.metadata.name = Some("00000-gpu.example.com-node-1-zzzzz".into());
    slice.metadata.uid = Some("y".into());
    world.store(slice.clone());
    slice.metadata.name = Some("00005-gpu.example.com-node-1-zzzzz".into());
    slice.metadata.uid = Some("z".into());
    world.store(slice);
    let mut log = world.settle();
    log.sort();
    assert_eq!(log, ["delete ", "delete 5", "delete gpu"]);
    assert_eq!(world.slices.len(), 1);
}

#[test]
fn slices_of_other_drivers_nodes_and_scopes_are_not_touched() {
    let mut world = started(1);
    let slice = world.slices.values().next().unwrap().clone();
    for (name, change) in [
        (
            "00000-a",
            (|slice| slice.spec.driver = "other.com".into())
                as fn(&mut k8s_openapi::api::resource::v1::ResourceSlice),
        ),
        ("00000-b", |slice| slice.spec.node_name = Some("node-2".into())),
        ("00000-c", |slice| slice.spec.node_name = None),
    ] {
        let mut other = slice.clone();
        other.metadata.name = Some(name.into());
        other.metadata.uid = Some(name.into());
        change(&mut other);
        world.store(other);
    }
    world.restart();
    world.want(pools(&[]));
    assert_eq!(world.settle(), ["delete "]);
    assert_eq!(world.slices.len(), 3);
}

#[test]
fn the_newest_desired_state_is_reached_through_failures() {
    let mut world = started(1);
    for _ in 0..20 {
        world.faults.push_back(Answer::Failed("timeout".into()));
    }
    world.want(pools(&[("pool", with_taint(devices(1), 0, "1"))]));
    assert_eq!(world.settle(), ["failed update @1"]);
    // Meanwhile the driver wants other things; they wait for the same retry.
    for value in ["2", "3", "4"] {
        world.want(pools(&[("pool", with_taint(devices(1), 0, value))]));
        assert_eq!(world.settle(), [""; 0]);
    }
    let log = world.settle_in_time();
    assert_eq!(log.len(), 20, "{log:?}");
    let taints = world.visible("pool").unwrap()[0].taints.clone().unwrap();
    assert_eq!(taints[0].value.as_deref(), Some("4"));
    let pauses: Vec<i64> = world
        .problems
        .iter()
        .filter_map(|problem| match problem {
            Problem::Failed { retry_in_ms, .. } => Some(*retry_in_ms),
            Problem::Invalid(_) | Problem::Dropped(_) => None,
        })
        .collect();
    assert_eq!(pauses[..4], [200, 400, 800, 1_600]);
    assert_eq!(pauses.last(), Some(&30_000));
}

#[test]
fn what_was_refused_is_tried_at_once_when_the_driver_wants_something_else() {
    let mut world = started(1);
    world.faults.push_back(Answer::Refused("invalid".into()));
    world.want(pools(&[("pool", with_taint(devices(1), 0, "1"))]));
    world.settle();
    world.want(pools(&[("pool", with_taint(devices(1), 0, "2"))]));
    assert_eq!(world.settle(), ["update @1"]);
}

#[test]
fn a_conflict_is_planned_anew_from_what_is_there() {
    let mut world = started(1);
    world.want(pools(&[("pool", with_taint(devices(1), 0, "1"))]));
    world.publisher.handle(world.now, &(), Turn::Tick);
    let Effect { id, .. } = world.publisher.poll_effect().unwrap();
    world.edit(0, |slice| slice.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into()));
    world.publisher.acknowledge(world.now, id, Answer::Conflict("modified".into()));
    assert_eq!(world.settle_in_time(), ["update @1"]);
    let slice = world.slices.values().next().unwrap();
    assert_eq!(slice.metadata.labels.as_ref().unwrap()["a"], "b", "labels of others stay");
}

#[test]
fn a_list_that_is_older_than_a_write_does_not_make_a_twin() {
    let mut world = World::new();
    world.list();
    world.want(pools(&[("pool", devices(1))]));
    world.settle();
    world.publisher.list(world.now, vec![], "0");
    assert_eq!(world.settle_in_time(), [""; 0]);
    world.publisher.list(world.now, vec![], "999");
    assert_eq!(world.settle_in_time(), ["create @1"], "gone while nobody watched");
}

#[test]
fn equal_amounts_are_equal_however_they_are_written() {
    let mut large = devices(1);
    large[0].capacity = Some(
        [("memory".to_owned(), DeviceCapacity { value: Quantity("1024Mi".into()), request_policy: None })]
            .into(),
    );
    let mut world = World::new();
    world.list();
    world.want(pools(&[("pool", large)]));
    world.settle();
    world.edit(0, |slice| {
        let capacity = slice.spec.devices.as_mut().unwrap()[0].capacity.as_mut().unwrap();
        capacity.get_mut("memory").unwrap().value = Quantity("1Gi".into());
    });
    assert_eq!(world.settle_in_time(), [""; 0]);
}

#[test]
fn mistakes_are_named_and_leave_what_was_wanted() {
    let mut world = started(1);
    let counters = |name: &str| CounterSet {
        name: name.into(),
        counters: [("memory".to_owned(), Counter { value: Quantity("1".into()) })].into(),
    };
    let consumes = |set: &str, counter: &str| {
        let counters = [(counter.to_owned(), Counter { value: Quantity("1".into()) })].into();
        let consumption = DeviceCounterConsumption {
            counter_set: set.into(),
            counters,
            ..DeviceCounterConsumption::default()
        };
        vec![Device { consumes_counters: Some(vec![consumption]), ..device("gpu-0") }]
    };
    let mut many = devices(1);
    many[0].taints = Some((0..17).map(|number| taint("a", &number.to_string())).collect());
    let rows = [
        (Pool::of(vec![device("a"), device("a")]), "has device a twice"),
        (Pool::of(vec![device("GPU 0")]), "device name"),
        (Pool::of(many), "more than 16 taints"),
        (
            Pool { shared_counters: vec![counters("s"), counters("s")], ..Pool::default() },
            "counter set s twice",
        ),
        (Pool::of(consumes("s", "memory")), "consumes s/memory"),
        (
            Pool { shared_counters: vec![counters("s")], ..Pool::of(consumes("s", "cores")) },
            "consumes s/cores",
        ),
        (Pool::of(devices(16_385)), "at most 16384"),
    ];
    for (pool, part) in rows {
        let error: PoolError = world.publisher.want([("pool".to_owned(), pool)].into()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(world.publisher.want(pools(&[("Pool!", vec![])])).is_err());
    let good = Pool { shared_counters: vec![counters("s")], ..Pool::of(consumes("s", "memory")) };
    assert_eq!(world.settle(), [""; 0]);
    world.want([("pool".to_owned(), good)].into());
    assert_eq!(world.settle().len(), 2, "counters and devices are in slices of their own");
}

#[test]
fn pools_of_a_cluster_have_no_node_and_no_owner() {
    let mut publisher = leading(Scope::Cluster);
    publisher.list(lazaret_model::Timestamp::EPOCH, vec![], "1");
    let selected = Pool { nodes: Nodes::All, ..Pool::of(devices(1)) };
    publisher.want([("fabric".to_owned(), selected)].into()).unwrap();
    publisher.handle(lazaret_model::Timestamp::EPOCH, &(), Turn::Tick);
    let Some(Effect { kind: EffectKind::Create(slice), .. }) = publisher.poll_effect() else { panic!() };
    assert_eq!(slice.metadata.generate_name.as_deref(), Some("00000-gpu.example.com-"));
    assert_eq!((slice.metadata.owner_references, slice.spec.node_name), (None, None));
    assert_eq!(slice.spec.all_nodes, Some(true));
}

#[test]
fn one_pool_of_several_owners_is_left_to_its_owner() {
    let scope = Scope::Pool { owner: NODE.into(), pool: "mine".into() };
    let mut publisher = leading(scope);
    let now = lazaret_model::Timestamp::EPOCH;
    let other = {
        let mut world = World::new();
        world.publisher = leading(Scope::Cluster);
        world.want(pools(&[("theirs", devices(1))]));
        world.list();
        world.settle();
        world.slices.into_values().next().unwrap()
    };
    publisher.list(now, vec![other], "1");
    for wrong in [pools(&[("theirs", devices(1))]), pools(&[("mine", devices(1)), ("theirs", vec![])])] {
        let error = publisher.want(wrong).unwrap_err();
        assert!(error.to_string().contains("expected exactly one pool with the name mine"), "{error}");
    }
    publisher.want(pools(&[])).unwrap();
    publisher.handle(now, &(), Turn::Tick);
    let Some(Effect { id, kind: EffectKind::ReadOwner { name } }) = publisher.poll_effect() else { panic!() };
    assert_eq!(name, NODE);
    publisher.acknowledge(now, id, Answer::Owner("uid".into()));
    publisher.handle(now, &(), Turn::Tick);
    assert_eq!(publisher.poll_effect(), None, "the other's slice is not deleted");
    publisher.want(pools(&[("mine", devices(1))])).unwrap();
    publisher.handle(now, &(), Turn::Tick);
    let Some(Effect { kind: EffectKind::Create(slice), .. }) = publisher.poll_effect() else { panic!() };
    assert_eq!(slice.metadata.generate_name.as_deref(), Some("00000-gpu.example.com-node-1-"));
    assert_eq!(slice.metadata.owner_references.as_ref().unwrap()[0].uid, "uid");
    assert_eq!((slice.spec.node_name.as_ref(), slice.spec.all_nodes), (None, Some(true)));
}

#[test]
fn from_where_a_pool_is_reached_can_change() {
    let selector = |zone: &str| {
        let requirement = NodeSelectorRequirement {
            key: "zone".into(),
            operator: "In".into(),
            values: Some(vec![zone.into()]),
        };
        let term = NodeSelectorTerm { match_expressions: Some(vec![requirement]), match_fields: None };
        NodeSelector { node_selector_terms: vec![term] }
    };
    let mut world = World::new();
    world.publisher = leading(Scope::Cluster);
    world.list();
    let pool = |nodes: Nodes| [("fabric".to_owned(), Pool { nodes, ..Pool::of(devices(1)) })].into();
    world.want(pool(Nodes::Selected(selector("a"))));
    assert_eq!(world.settle(), ["create @1"]);
    world.want(pool(Nodes::Selected(selector("b"))));
    assert_eq!(world.settle(), ["update @1"]);
    let spec = &world.slices.values().next().unwrap().spec;
    assert_eq!((&spec.node_selector, spec.all_nodes), (&Some(selector("b")), None));
    world.want(pool(Nodes::PerDevice));
    assert_eq!(world.settle(), ["update @1"]);
    let spec = &world.slices.values().next().unwrap().spec;
    assert_eq!((&spec.node_selector, spec.per_device_node_selection), (&None, Some(true)));
}

#[test]
fn a_publisher_without_leadership_writes_nothing_and_hears_what_becomes_of_its_writes() {
    let mut world = started(2);
    world.want(pools(&[("pool", devices(3))]));
    world.publisher.handle(world.now, &(), Turn::LostLeadership);
    assert_eq!((world.publisher.poll_effect(), world.publisher.next_wake()), (None, None));
    world.publisher.handle(world.now, &(), Turn::BecameLeader);
    let Effect { id, .. } = world.publisher.poll_effect().unwrap();
    world.publisher.handle(world.now, &(), Turn::LostLeadership);
    let refused = Turn::Acknowledged(id, Outcome::RetryLater.into());
    world.publisher.handle(world.now, &(), refused.clone());
    world.publisher.handle(world.now, &(), refused);
    assert_eq!((world.publisher.poll_effect(), world.publisher.next_wake()), (None, None));
    assert!(!world.publisher.is_settled());
    world.publisher.handle(world.now, &(), Turn::BecameLeader);
    let wake = world.publisher.next_wake().unwrap();
    assert_eq!((wake.at, wake.why), (world.now.plus_millis(200), "a pool is written again, or repaired"));
    world.publisher.handle(wake.at, &(), Turn::Tick);
    assert!(matches!(world.publisher.poll_effect(), Some(Effect { kind: EffectKind::Update(_), .. })));
}
