//! Requests for the status of pools: what is answered, when, and what is deleted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use lazaret_fleet::{Fleet, Input as Object};
use lazaret_machine::{Machine, Outcome};
use lazaret_model::{
    Allocation, AttrValue, CapacityValue, CounterConsumption, CounterSet, Device, DeviceId, DeviceResult,
    DeviceSelector, DeviceTaintRule, Effect as TaintEffect, NodeScope, ObjectKey, PoolSpec, Quantity,
    ResourceClaim, ResourceSlice, Taint, Text, Timestamp,
};
use lazaret_pools::{EffectKind, Input, PoolStatus, Pools, Progress, Request, Slice, Status};

const DRIVER: &str = "gpu.example.com";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(1_000_000 + seconds)
}

fn request(name: &str) -> Request {
    Request {
        name: name.into(),
        uid: name.into(),
        version: "1".into(),
        created: Some(at(0)),
        driver: DRIVER.into(),
        pool: None,
        pools_max: 100,
        partition_attribute: None,
        progress: Progress::Pending,
    }
}

fn slice(name: &str, pool: &str, devices: Vec<Device>) -> ResourceSlice {
    ResourceSlice {
        name: name.into(),
        driver: DRIVER.into(),
        pool: PoolSpec { name: pool.into(), generation: 1, slice_count: 1 },
        nodes: NodeScope::Node("node-1".into()),
        devices,
        ..ResourceSlice::default()
    }
}

fn device(name: &str) -> Device {
    Device { name: name.into(), ..Device::default() }
}

fn tainted(name: &str, effect: TaintEffect) -> Device {
    Device { taints: vec![Taint { key: "a".into(), effect, ..Taint::default() }], ..device(name) }
}

/// A device of a type that takes an amount of the counter `memory` of the set `set`.
fn partition(name: &str, key: &str, kind: &str, memory: i64) -> Device {
    Device {
        attributes: vec![(key.into(), AttrValue::String(kind.into()))],
        consumes_counters: vec![CounterConsumption {
            counter_set: "set".into(),
            counters: vec![("memory".into(), Quantity::from_i64(memory))],
            compatibility_groups: vec![],
        }],
        ..device(name)
    }
}

fn counters(name: &str, pool: &str, memory: i64) -> ResourceSlice {
    let counters = vec![("memory".into(), Quantity::from_i64(memory))];
    ResourceSlice {
        shared_counters: vec![CounterSet { name: "set".into(), counters }],
        ..slice(name, pool, vec![])
    }
}

fn result(pool: &str, device: &str) -> DeviceResult {
    DeviceResult {
        request: "r".into(),
        device: DeviceId::new(DRIVER, pool, device),
        admin_access: false,
        tolerations: vec![],
        binding_conditions: vec![],
        binding_failure_conditions: vec![],
        share_id: None,
        consumed_capacity: vec![],
        skip_node_operations: vec![],
    }
}

fn claim(name: &str, results: Vec<DeviceResult>) -> ResourceClaim {
    let allocation = Some(Arc::new(Allocation { results, ..Allocation::default() }));
    ResourceClaim { key: ObjectKey::new("n", name), uid: name.into(), allocation, ..ResourceClaim::default() }
}

/// The machine with what its shell keeps for it.
#[derive(Default)]
struct World {
    fleet: Fleet,
    pools: Pools,
    now: i64,
}

impl World {
    fn leading() -> Self {
        let mut world = Self::default();
        world.tell(Input::BecameLeader);
        world
    }

    fn tell(&mut self, input: Input) {
        self.pools.handle(at(self.now), &self.fleet, input);
    }

    fn slice(&mut self, slice: ResourceSlice) {
        self.typed_slice(slice, None);
    }

    fn typed_slice(&mut self, slice: ResourceSlice, attribute: Option<&str>) {
        let slice = Arc::new(slice);
        self.fleet.apply(Object::Slice(slice.clone()));
        self.tell(Input::Slice(Slice { slice, partition_attribute: attribute.map(Text::from) }));
    }

    fn claim(&mut self, claim: ResourceClaim) {
        self.fleet.apply(Object::Claim(Arc::new(claim)));
    }

    /// Grants every view that is wanted.
    fn see_all(&mut self) {
        while let Some(number) = self.pools.poll_view() {
            self.tell(Input::ViewReached(number));
        }
    }

    /// Everything that is to be done, each done with this outcome.
    fn run(&mut self, outcome: Outcome) -> Vec<EffectKind> {
        let mut done = Vec::new();
        while let Some(effect) = self.pools.poll_effect() {
            done.push(effect.kind);
            self.tell(Input::Acknowledged(effect.id, outcome));
        }
        done
    }

    fn answer(&mut self, request: Request) -> Option<Status> {
        self.tell(Input::Request(request));
        self.see_all();
        match self.run(Outcome::Done).pop()? {
            EffectKind::SetStatus(write) => Some(write.status),
            EffectKind::Delete(_) => None,
        }
    }

    /// The effects, in short.
    fn steps(&mut self, outcome: Outcome) -> String {
        let show = |effect: EffectKind| match effect {
            EffectKind::SetStatus(write) => format!("answer {}@{}", write.request, write.version),
            EffectKind::Delete(delete) => format!("delete {}", delete.request),
        };
        self.run(outcome).into_iter().map(show).collect::<Vec<_>>().join(", ")
    }
}

/// `pool: total allocated available unavailable`.
fn counts(pool: &PoolStatus) -> String {
    let counts = pool.counts;
    format!(
        "{}: {} {} {} {}",
        pool.pool, counts.total, counts.allocated, counts.available, counts.unavailable
    )
}

#[test]
fn devices_are_counted_by_what_can_be_done_with_them() {
    let mut world = World::leading();
    world.slice(slice(
        "s",
        "a",
        vec![
            device("0"),
            device("1"),
            tainted("2", TaintEffect::NoSchedule),
            tainted("3", TaintEffect::None),
            device("4"),
        ],
    ));
    world.slice(slice("t", "b", vec![device("0")]));
    world.slice(ResourceSlice { driver: "other".into(), ..slice("u", "a", vec![device("0")]) });
    // Two claims share a device, a third only watches one.
    world.claim(claim("c", vec![result("a", "0")]));
    world.claim(claim("d", vec![result("a", "0"), result("b", "0")]));
    world.claim(claim("e", vec![DeviceResult { admin_access: true, ..result("a", "1") }]));
    world.fleet.apply(Object::Rule(Arc::new(DeviceTaintRule {
        name: "rule".into(),
        selector: Some(DeviceSelector {
            driver: Some(DRIVER.into()),
            device: Some("4".into()),
            ..DeviceSelector::default()
        }),
        taint: Taint { key: "b".into(), effect: TaintEffect::NoExecute, ..Taint::default() },
        ..DeviceTaintRule::default()
    })));
    let status = world.answer(request("r")).unwrap();
    assert_eq!(status.pools.iter().map(counts).collect::<Vec<_>>(), ["a: 5 1 2 2", "b: 1 1 0 0"]);
    assert_eq!((status.pool_count, &*status.message), (2, "Calculated status for 2 pools"));
    assert_eq!(status.pools[0].node.as_deref(), Some("node-1"));
    assert!(status.pools.iter().all(|pool| pool.shareable.is_none() && pool.partitions.is_empty()));

    let only_b = world.answer(Request { pool: Some("b".into()), ..request("only-b") }).unwrap();
    assert_eq!(only_b.pools.iter().map(counts).collect::<Vec<_>>(), ["b: 1 1 0 0"]);
    let first = world.answer(Request { pools_max: 1, ..request("first") }).unwrap();
    assert_eq!((first.pool_count, first.pools.len()), (2, 1));
    let none = world.answer(Request { driver: "no.example.com".into(), ..request("none") }).unwrap();
    assert_eq!((none.pool_count, none.pools.len()), (0, 0));
}

#[test]
fn slices_of_an_older_generation_do_not_count() {
    let mut world = World::leading();
    let generation = |slice: ResourceSlice, generation, slice_count| ResourceSlice {
        pool: PoolSpec { name: "a".into(), generation, slice_count },
        ..slice
    };
    world.slice(generation(slice("old", "a", vec![device("0"), device("1")]), 1, 1));
    world.slice(generation(slice("x", "a", vec![device("0")]), 2, 2));
    assert_eq!(world.answer(request("r")), None, "a slice of generation 2 is missing");
    let elsewhere = NodeScope::Node("node-2".into());
    let last = ResourceSlice { nodes: elsewhere, ..slice("y", "a", vec![device("2")]) };
    world.slice(generation(last, 2, 2));
    let EffectKind::SetStatus(write) = world.run(Outcome::Done).remove(0) else { panic!("no status") };
    let pool = &write.status.pools[0];
    assert_eq!((counts(pool).as_str(), pool.generation, pool.counts.slices), ("a: 2 0 2 0", 2, 2));
    assert_eq!(pool.node, None, "its slices are of two nodes");
}

#[test]
fn partitions_are_counted_by_type_and_by_what_is_left_of_the_counters() {
    let mut world = World::leading();
    world.slice(ResourceSlice {
        pool: PoolSpec { name: "a".into(), generation: 1, slice_count: 2 },
        ..counters("counters", "a", 8)
    });
    let devices = vec![
        partition("full", "type", "Full", 8),
        partition("half-0", "type", "Half", 4),
        partition("half-1", "type", "Half", 4),
        device("whole"),
    ];
    let partitions = |devices| ResourceSlice {
        pool: PoolSpec { name: "a".into(), generation: 1, slice_count: 2 },
        ..slice("devices", "a", devices)
    };
    let summary = |world: &mut World, name: &str, attribute: Option<&str>| {
        let asked = Request { partition_attribute: attribute.map(Text::from), ..request(name) };
        let pool = world.answer(asked).unwrap().pools.remove(0);
        let each = |p: &lazaret_pools::PartitionStatus| {
            format!("{} {} {}/{}", p.attribute, p.kind, p.allocatable, p.total)
        };
        (pool.partitions.iter().map(each).collect::<Vec<_>>().join(", "), pool.error)
    };
    world.slice(partitions(devices.clone()));
    assert_eq!(summary(&mut world, "unnamed", None), (String::new(), None));
    let qualified = Some("gpu.example.com/type");
    let all = "gpu.example.com/type Full 1/1, gpu.example.com/type Half 2/2";
    assert_eq!(summary(&mut world, "asked", qualified), (all.into(), None));
    world.typed_slice(partitions(devices.clone()), qualified);
    assert_eq!(summary(&mut world, "declared", Some("other.example.com/x")), (all.into(), None));
    world.claim(claim("c", vec![result("a", "half-0")]));
    let rest = "gpu.example.com/type Full 0/1, gpu.example.com/type Half 1/2";
    assert_eq!(summary(&mut world, "used", None), (rest.into(), None));

    let mut uneven = devices.clone();
    uneven[2] = partition("half-1", "type", "Half", 3);
    world.typed_slice(partitions(uneven), qualified);
    let wrong = "PartitionCostMismatch: devices of partition type \"Half\" in pool gpu.example.com/a consume different counters";
    assert_eq!(summary(&mut world, "uneven", None), (String::new(), Some(wrong.into())));
    let mut untyped = devices;
    untyped[1] = partition("half-0", "other", "Half", 4);
    world.typed_slice(partitions(untyped), qualified);
    let wrong = "PartitionTypeMissing: device \"half-0\" in pool gpu.example.com/a does not carry partition type attribute \"gpu.example.com/type\"";
    assert_eq!(summary(&mut world, "untyped", None), (String::new(), Some(wrong.into())));
    let many = (0..33).map(|at| partition(&format!("p{at}"), "type", &format!("t{at}"), 1)).collect();
    world.typed_slice(partitions(many), qualified);
    let wrong =
        "PartitionSummaryOverCap: pool gpu.example.com/a has 33 partition types, exceeding the maximum of 32";
    assert_eq!(summary(&mut world, "many", None), (String::new(), Some(wrong.into())));
    world.slice(ResourceSlice { shared_counters: vec![], ..partitions(vec![]) });
    world.fleet.apply(Object::SliceGone("counters".into()));
    world.tell(Input::SliceGone("counters".into()));
    world.typed_slice(slice("devices", "a", vec![device("whole")]), qualified);
    let wrong = "PartitionTypeMissing: pool gpu.example.com/a declares partitionTypeAttribute but publishes no sharedCounters";
    assert_eq!(summary(&mut world, "no-counters", None), (String::new(), Some(wrong.into())));
}

#[test]
fn shareable_devices_are_counted_by_amounts() {
    let mut world = World::leading();
    let shared = |name: &str| Device {
        allow_multiple_allocations: Some(true),
        capacity: vec![(
            "memory".into(),
            CapacityValue { value: Quantity::parse("10Gi").unwrap(), policy: None },
        )],
        ..device(name)
    };
    world.slice(slice("s", "a", vec![shared("0"), shared("1"), device("2")]));
    let take = |amount: &str| DeviceResult {
        consumed_capacity: vec![("memory".into(), Quantity::parse(amount).unwrap())],
        ..result("a", "0")
    };
    world.claim(claim("c", vec![take("3Gi")]));
    world.claim(claim("d", vec![take("4Gi")]));
    let pool = world.answer(request("r")).unwrap().pools.remove(0);
    let shareable = pool.shareable.unwrap();
    let memory = &shareable.capacity[0];
    let amounts = format!("{} {} {}", memory.total, memory.consumed, memory.available);
    assert_eq!((shareable.untouched, shareable.touched, &*amounts), (1, 1, "20Gi 7Gi 13Gi"));
    world.claim(claim("e", vec![take("40Gi")]));
    let pool = world.answer(request("s")).unwrap().pools.remove(0);
    assert!(pool.shareable.unwrap().capacity[0].available.is_zero(), "never less than nothing");
}

#[test]
fn a_request_is_answered_once_and_only_with_a_view_of_its_own_time() {
    let mut world = World::leading();
    world.tell(Input::Request(request("r")));
    assert_eq!(world.steps(Outcome::Done), "", "the slices may not have been heard of yet");
    let view = world.pools.poll_view().unwrap();
    world.tell(Input::Request(request("later")));
    assert_eq!(world.pools.poll_view(), None, "one at a time");
    world.tell(Input::ViewReached(view));
    assert_eq!(world.steps(Outcome::Done), "answer r@1");
    world.see_all();
    assert_eq!(world.steps(Outcome::Done), "answer later@1");
    // The watch is late, then says that there is a status.
    world.tell(Input::Request(Request { version: "2".into(), ..request("r") }));
    world.see_all();
    assert_eq!(world.steps(Outcome::Done), "");
    world.tell(Input::Request(Request { progress: Progress::Answered(Some(at(0))), ..request("r") }));
    world.see_all();
    assert_eq!(world.steps(Outcome::Done), "");
    // Another request under the same name is another request.
    world.tell(Input::Request(Request { uid: "other".into(), ..request("r") }));
    world.see_all();
    assert_eq!(world.steps(Outcome::Done), "answer r@1");
}

#[test]
fn a_write_that_failed_is_tried_again_after_a_pause() {
    let mut world = World::leading();
    world.tell(Input::Request(request("r")));
    world.see_all();
    assert_eq!(world.steps(Outcome::Conflict), "answer r@1");
    world.tell(Input::Request(Request { version: "2".into(), ..request("r") }));
    world.tell(Input::Tick);
    assert_eq!(world.steps(Outcome::Done), "", "not at once");
    let wake = world.pools.next_wake().unwrap();
    assert!(wake.at > at(0) && wake.at <= at(1));
    world.now = 1;
    world.tell(Input::Tick);
    assert_eq!(world.steps(Outcome::Done), "answer r@2");
}

#[test]
fn old_requests_are_deleted() {
    let mut world = World::leading();
    world.tell(Input::Request(Request { progress: Progress::Answered(Some(at(60))), ..request("done") }));
    world.tell(Input::Request(Request { progress: Progress::Answered(None), ..request("odd") }));
    // A pool of it never gets complete.
    let pool = PoolSpec { name: "a".into(), generation: 1, slice_count: 2 };
    world.slice(ResourceSlice { pool, ..slice("s", "a", vec![]) });
    world.tell(Input::Request(request("pending")));
    world.see_all();
    assert_eq!(world.pools.next_wake().map(|wake| wake.at), Some(at(3_600).plus_millis(1)));
    for (now, steps) in
        [(3_600, ""), (3_601, "delete odd"), (3_661, "delete done"), (86_400, ""), (86_401, "delete pending")]
    {
        world.now = now;
        world.tell(Input::Tick);
        assert_eq!(world.steps(Outcome::Done), steps, "{now}");
        let name = steps.rsplit(' ').next().unwrap_or_default();
        world.tell(Input::RequestGone(name.into(), name.into()));
    }
    assert_eq!(world.pools.next_wake(), None);
}

#[test]
fn a_request_that_a_finalizer_keeps_is_not_deleted_in_a_loop() {
    let mut world = World::leading();
    world.tell(Input::Request(Request { progress: Progress::Answered(Some(at(0))), ..request("r") }));
    world.now = 4_000;
    world.tell(Input::Tick);
    assert_eq!(world.steps(Outcome::Done), "delete r");
    world.tell(Input::Request(Request { progress: Progress::Answered(Some(at(0))), ..request("r") }));
    world.tell(Input::Tick);
    assert_eq!(world.steps(Outcome::Done), "");
    world.now = 4_060;
    world.tell(Input::Tick);
    assert_eq!(world.steps(Outcome::Done), "delete r");
}

#[test]
fn a_follower_does_nothing_and_a_new_leader_everything() {
    let mut world = World::default();
    world.tell(Input::Request(request("r")));
    assert_eq!((world.pools.poll_view(), world.pools.next_wake()), (None, None));
    world.tell(Input::BecameLeader);
    world.see_all();
    let effect = world.pools.poll_effect().unwrap();
    world.tell(Input::LostLeadership);
    world.tell(Input::Acknowledged(effect.id, Outcome::Unknown));
    assert_eq!(world.steps(Outcome::Done), "");
    world.tell(Input::BecameLeader);
    world.see_all();
    assert_eq!(world.steps(Outcome::Done), "answer r@1");
}

#[test]
fn a_request_that_is_gone_leaves_nothing_behind() {
    let mut world = World::leading();
    world.tell(Input::RequestGone("r".into(), "never seen".into()));
    world.tell(Input::Request(request("r")));
    world.see_all();
    let effect = world.pools.poll_effect().unwrap();
    world.tell(Input::RequestGone("r".into(), request("r").uid));
    world.tell(Input::Acknowledged(effect.id, Outcome::RetryLater));
    assert_eq!((world.steps(Outcome::Done), world.pools.next_wake()), (String::new(), None));
    // One that waits for slices, and changes the driver: the API server would not let it.
    let half = |driver: &str| ResourceSlice {
        driver: driver.into(),
        pool: PoolSpec { name: "half".into(), generation: 1, slice_count: 2 },
        ..slice("half", "half", vec![device("a")])
    };
    world.slice(half("d"));
    let asks = |driver: &str| Request { driver: driver.into(), pool: Some("half".into()), ..request("w") };
    world.tell(Input::Request(asks("d")));
    world.see_all();
    assert_eq!(world.steps(Outcome::Done), "", "a slice is missing");
    world.tell(Input::Request(asks("e")));
    world.tell(Input::RequestGone("w".into(), request("w").uid));
    world.slice(half("d"));
    world.slice(half("e"));
    assert_eq!((world.steps(Outcome::Done), world.pools.next_wake()), (String::new(), None));
}

#[test]
fn many_requests_are_answered_a_few_at_a_time() {
    let mut world = World::leading();
    for at in 0..100 {
        world.tell(Input::Request(request(&format!("r{at:02}"))));
    }
    world.see_all();
    let first: Vec<_> = core::iter::from_fn(|| world.pools.poll_effect()).collect();
    assert_eq!((first.len(), world.pools.next_wake()), (8, None), "the rest waits for answers");
    for effect in first {
        world.tell(Input::Acknowledged(effect.id, Outcome::Done));
    }
    assert_eq!(world.run(Outcome::Done).len(), 92);
}

#[test]
fn an_answer_is_no_larger_than_an_object_can_be() {
    let mut world = World::leading();
    for pool in 0..1_000 {
        let name = format!("{pool:03}");
        let long = "a".repeat(60);
        let kinds =
            (0..32).map(|at| partition(&format!("p{at}"), "type", &format!("{at:02}{long}"), 1)).collect();
        let spec = PoolSpec { name: name.as_str().into(), generation: 1, slice_count: 2 };
        let devices = ResourceSlice { pool: spec.clone(), ..slice(&format!("d{name}"), &name, kinds) };
        world.typed_slice(devices, Some("gpu.example.com/type"));
        world.slice(ResourceSlice { pool: spec, ..counters(&format!("c{name}"), &name, 32) });
    }
    let status = world.answer(Request { pools_max: 1_000, ..request("r") }).unwrap();
    assert_eq!(status.pool_count, 1_000);
    assert!((100..300).contains(&status.pools.len()), "{}", status.pools.len());
    assert!(status.pools.iter().all(|pool| pool.error.is_none() && pool.partitions.len() == 32));
}
