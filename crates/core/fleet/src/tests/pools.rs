//! Generations, completeness, validity, and what a pool in transition still shows.

use alloc::{string::ToString, vec, vec::Vec};

use lazaret_model::{
    CounterConsumption, CounterSet, Device, DeviceSelector, NodeScope, Quantity, ResourceSlice,
};

use super::build::*;
use crate::{Fleet, Input, Presence};

fn plain(name: &str, devices: &[&str]) -> ResourceSlice {
    slice(name, "d/p", devices.iter().map(|device_name| device(device_name, &[], &[])).collect())
}

/// Newest first: number, complete, why invalid.
fn generations(inputs: &[Input]) -> Vec<(i64, bool, Option<alloc::string::String>)> {
    let snapshot = fleet(inputs).snapshot();
    let pool = snapshot.pool(&id("d/p/x").pool_id()).unwrap().clone();
    let say =
        |g: &crate::Generation| (g.number, g.is_complete(), g.invalid.as_ref().map(ToString::to_string));
    pool.generations().iter().map(say).collect()
}

#[test]
fn complete_means_exactly_as_many_slices_as_announced() {
    let of = |count| [plain("s1", &["a"]), plain("s2", &["b"])].map(|s| Input::from(generation(s, 1, count)));
    for (count, complete) in [(1, false), (2, true), (3, false)] {
        assert_eq!(generations(&of(count)), [(1, complete, None)], "{count} announced");
    }
}

#[test]
fn each_generation_is_judged_by_itself() {
    let inputs: Vec<Input> = vec![
        generation(plain("s1", &["a"]), 7, 2).into(),
        generation(plain("s2", &["a"]), 6, 2).into(),
        generation(plain("s3", &["b"]), 6, 2).into(),
    ];
    assert_eq!(generations(&inputs), [(7, false, None), (6, true, None)]);
}

#[test]
fn invalid_pools_say_why() {
    let counting = |device_name: &str, set: &str, counter: &str| Device {
        consumes_counters: vec![CounterConsumption {
            counter_set: set.into(),
            counters: vec![(counter.into(), Quantity::from_i64(1))],
            compatibility_groups: vec![],
        }],
        ..device(device_name, &[], &[])
    };
    let sets = |name: &str, sets: &[&str]| {
        let set = |set: &&str| CounterSet {
            name: (*set).into(),
            counters: vec![("m".into(), Quantity::from_i64(8))],
        };
        ResourceSlice { shared_counters: sets.iter().map(set).collect(), ..slice(name, "d/p", vec![]) }
    };
    let many: Vec<Device> = (0..129).map(|n| device(&n.to_string(), &[], &[])).collect();
    let cases: [(Vec<ResourceSlice>, &str); 6] = [
        (vec![plain("s1", &["a", "b"]), plain("s2", &["b"])], "two devices are named b"),
        (vec![plain("s1", &["a", "a"])], "two devices are named a"),
        (vec![sets("s1", &["x"]), sets("s2", &["x"])], "two counter sets are named x"),
        (
            vec![sets("s1", &["x"]), slice("s2", "d/p", vec![counting("a", "y", "m")])],
            "device a draws from counter set y, which does not exist",
        ),
        (
            vec![sets("s1", &["x"]), slice("s2", "d/p", vec![counting("a", "x", "n")])],
            "device a draws from counter n, which counter set x lacks",
        ),
        (vec![slice("s1", "d/p", many)], "slice s1 has more than 128 devices"),
    ];
    for (slices, expected) in cases {
        let inputs: Vec<Input> = slices.into_iter().map(Input::from).collect();
        assert_eq!(generations(&inputs)[0].2.as_deref(), Some(expected));
    }
    let fine = [sets("s1", &["x"]).into(), slice("s2", "d/p", vec![counting("a", "x", "m")]).into()];
    assert_eq!(generations(&fine)[0].2, None);
}

#[test]
fn simple_pools_are_recognised() {
    let simple = |slices: Vec<ResourceSlice>| {
        let inputs: Vec<Input> = slices.into_iter().map(Input::from).collect();
        fleet(&inputs).snapshot().pools().next().unwrap().is_simple()
    };
    assert!(simple(vec![plain("s1", &["a"])]));
    assert!(!simple(vec![ResourceSlice { nodes: NodeScope::All, ..plain("s1", &["a"]) }]));
    assert!(!simple(vec![generation(plain("s1", &["a"]), 1, 2)]));
    assert!(!simple(vec![plain("s1", &["a"]), generation(plain("s2", &["b"]), 0, 1)]));
}

#[test]
fn pools_are_filed_under_the_nodes_they_name() {
    let on = |name: &str, nodes: NodeScope| Input::from(ResourceSlice { nodes, ..plain(name, &[name]) });
    let mut fleet = fleet(&[on("s1", NodeScope::Node("n1".into())), on("s2", NodeScope::Node("n2".into()))]);
    let count = |fleet: &mut Fleet, node: &str| fleet.snapshot().pools_of_node(node).count();
    let shared = |fleet: &mut Fleet| fleet.snapshot().shared_pools().count();
    assert_eq!((count(&mut fleet, "n1"), count(&mut fleet, "n2"), shared(&mut fleet)), (1, 1, 0));
    fleet.apply(on("s2", NodeScope::All));
    assert_eq!((count(&mut fleet, "n1"), count(&mut fleet, "n2"), shared(&mut fleet)), (1, 0, 1));
    fleet.apply(Input::SliceGone("s1".into()));
    fleet.apply(Input::SliceGone("s2".into()));
    assert_eq!((count(&mut fleet, "n1"), shared(&mut fleet)), (0, 0));
}

// === Devices in use ===

fn presence(fleet: &Fleet, claim: &str) -> Vec<Presence> {
    let claim = fleet.claim_ix(&lazaret_model::ObjectKey::new("ns", claim)).unwrap();
    fleet.held(claim).map(|held| held.presence).collect()
}

/// A driver rolls a pool of two slices to the next generation, one slice at a time. Devices in slices that have not
/// rolled yet stay visible; once the new generation is there in full, what it lacks is gone.
#[test]
fn devices_do_not_vanish_while_a_pool_rolls() {
    let tainted = |name: &str, number| {
        Input::from(generation(slice(name, "d/p", vec![device(name, &[], &["sick:NoExecute"])]), number, 2))
    };
    let mut fleet =
        fleet(&[tainted("s1", 1), tainted("s2", 1), claim("c", &["d/p/s1", "d/p/s2"], &[]).into()]);
    fleet.take_changes();
    fleet.apply(tainted("s1", 2));
    assert!(fleet.take_changes().claims.is_empty(), "nothing that matters to the claim changed");
    assert_eq!(presence(&fleet, "c"), [Presence::Published; 2]);
    assert_eq!(taints(&fleet, "d/p/s2"), ["sick:NoExecute < s2#0"]);
    fleet.apply(generation(plain("s3", &["other"]), 2, 2).into());
    assert_eq!(presence(&fleet, "c"), [Presence::Published, Presence::Remembered]);
    assert!(taints(&fleet, "d/p/s2").is_empty());
    assert_eq!(fleet.take_changes().claims.len(), 1);
}

#[test]
fn a_newer_slice_shadows_and_its_deletion_uncovers() {
    let mut fleet = fleet(&[
        generation(slice("old", "d/p", vec![device("a", &[], &["old:None"])]), 1, 1).into(),
        generation(slice("new", "d/p", vec![device("a", &[], &["new:None"])]), 2, 1).into(),
    ]);
    assert_eq!(taints(&fleet, "d/p/a"), ["new:None < new#0"]);
    fleet.apply(Input::SliceGone("new".into()));
    assert_eq!(taints(&fleet, "d/p/a"), ["old:None < old#0"]);
}

#[test]
fn taint_slices_of_a_past_generation_end_with_it() {
    let mut fleet = fleet(&[
        generation(plain("s", &["a"]), 1, 2).into(),
        generation(taint_slice("t", "d/p", &["a sick:NoExecute"]), 1, 2).into(),
    ]);
    fleet.apply(generation(plain("s", &["a"]), 2, 2).into());
    assert_eq!(taints(&fleet, "d/p/a"), ["sick:NoExecute < taints in t#0"], "the pool is still rolling");
    fleet.apply(generation(taint_slice("t2", "d/p", &[]), 2, 2).into());
    assert!(taints(&fleet, "d/p/a").is_empty());
}

/// A slice that falls back to an older generation takes its devices with it, though the pool's newest stays the same; and a slice that no longer has
/// a device lets another publish it. Rules that select those devices are reported as changed.
#[test]
fn rules_are_news_when_another_slice_speaks() {
    let everything = rule("r", Some(DeviceSelector::default()), "sick:NoExecute");
    let one =
        |slice: &str, devices: &[&str], number| Input::from(generation(plain(slice, devices), number, 1));
    let mut fleet = fleet(&[one("s0", &["a"], 3), one("s2", &["e", "a"], 3), everything.into()]);
    fleet.take_changes();
    fleet.apply(one("s2", &["e", "a"], 1));
    assert_eq!(fleet.take_changes().rules, ["r"], "e is not published any more");
    fleet.apply(one("s2", &["e", "a"], 3));
    assert_eq!(fleet.take_changes().rules, ["r"], "e is published again");
    fleet.apply(one("s0", &["b"], 3));
    assert_eq!(fleet.take_changes().rules, ["r"], "a is now what s2 says of it");
}

#[test]
fn devices_with_the_same_taints_are_found_at_once() {
    let devices = ["a", "b", "c", "d"].map(|name| device(name, &[], &[])).into_iter();
    let own = device("e", &[], &["own=v:NoExecute"]);
    let inputs: Vec<Input> = vec![
        slice("s", "d/p", devices.chain([own]).collect()).into(),
        rule("all", Some(names("d/p/*")), "k=v:NoExecute").into(),
        rule("one", Some(names("d/p/b")), "k=v:NoSchedule").into(),
    ];
    let snapshot = fleet(&inputs).snapshot();
    let pool = snapshot.pool(&id("d/p/x").pool_id()).unwrap().clone();
    let slice = &pool.slices[0];
    for one in 0..slice.len() {
        let alike = |other: &usize| slice.taints(one).map(say).eq(slice.taints(*other).map(say));
        let expected = (0..slice.len()).filter(alike).fold(0, |bits, at| bits | 1 << at);
        assert_eq!(slice.tainted_like(one), expected, "like {one}");
    }
    assert_eq!(slice.tainted_like(0), 0b01101);
}
