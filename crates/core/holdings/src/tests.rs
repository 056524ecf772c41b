//! The rule, a row a case.

use alloc::{format, string::ToString, vec, vec::Vec};

use lazaret_model::{CounterConsumption, CounterSet, DeviceId, ObjectKey, PoolId, Quantity, Text};

use crate::{DeviceFacts, Given, Holdings, Reason, SliceFacts};

fn claim(name: &str) -> ObjectKey {
    ObjectKey::new("n", name)
}

fn amount(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

fn amounts(list: &[(&str, &str)]) -> Vec<(Text, Quantity)> {
    list.iter().map(|(name, text)| ((*name).into(), amount(text))).collect()
}

fn whole(device: &str) -> Given {
    Given { device: DeviceId::new("d", "p", device), share: None, consumed: vec![] }
}

fn share(device: &str, id: &str, memory: &str) -> Given {
    Given { share: Some(id.into()), consumed: amounts(&[("memory", memory)]), ..whole(device) }
}

/// A device of 80Gi that is shared, and two halves and a whole that draw from the same counters.
fn facts(generation: i64) -> SliceFacts {
    let draws = |slots: &str| DeviceFacts {
        consumes: vec![CounterConsumption {
            counter_set: "card".into(),
            counters: amounts(&[("slots", slots)]),
            compatibility_groups: vec![],
        }],
        ..DeviceFacts::default()
    };
    let shared =
        DeviceFacts { is_shared: true, capacity: amounts(&[("memory", "80Gi")]), ..DeviceFacts::default() };
    let devices = [("shared", shared), ("half-0", draws("1")), ("half-1", draws("1")), ("whole", draws("2"))];
    SliceFacts {
        pool: PoolId { driver: "d".into(), pool: "p".into() },
        node: None,
        generation,
        devices: devices.into_iter().map(|(name, facts)| (name.into(), facts)).collect(),
        counters: vec![CounterSet { name: "card".into(), counters: amounts(&[("slots", "2")]) }],
    }
}

fn held(by: &[(&str, Vec<Given>)]) -> Holdings {
    let mut holdings = Holdings::default();
    holdings.set_slice("s", Some(facts(1)));
    for (name, given) in by {
        holdings.set(&claim(name), given.clone());
    }
    holdings
}

fn reason(holdings: &Holdings, wanted: &[Given]) -> Option<(Text, Reason)> {
    holdings.refusal(&claim("new"), &[], wanted).map(|refusal| (refusal.holder.name, refusal.reason))
}

#[test]
fn a_device_has_one_claim() {
    let holdings = held(&[("a", vec![whole("gpu-0")])]);
    assert_eq!(reason(&holdings, &[whole("gpu-0")]), Some(("a".into(), Reason::Held)));
    assert_eq!(reason(&holdings, &[whole("gpu-1")]), None);
    let other_pool = Given { device: DeviceId::new("d", "q", "gpu-0"), ..whole("gpu-0") };
    assert_eq!(reason(&holdings, &[other_pool]), None);
    assert_eq!(reason(&holdings, &[share("gpu-0", "s", "1")]), Some(("a".into(), Reason::Held)));
    let twice = [whole("gpu-1"), whole("gpu-1")];
    assert_eq!(reason(&holdings, &twice), Some(("new".into(), Reason::Held)), "nor the same claim twice");
    let text = holdings.refusal(&claim("new"), &[], &[whole("gpu-0")]).unwrap().to_string();
    assert_eq!(text, "device d/p/gpu-0 is allocated to ResourceClaim n/a");
}

#[test]
fn what_a_claim_has_it_keeps_and_what_it_gives_back_is_free() {
    let mut holdings = held(&[("a", vec![whole("gpu-0")]), ("b", vec![whole("gpu-0")])]);
    let has = [whole("gpu-0")];
    assert_eq!(holdings.refusal(&claim("a"), &has, &has), None, "two have it since before");
    let more = [whole("gpu-0"), whole("gpu-1")];
    assert_eq!(holdings.refusal(&claim("a"), &has, &more), None);
    assert_eq!(holdings.refusal(&claim("a"), &has, &[whole("gpu-1")]), None, "allocated anew");
    holdings.set(&claim("a"), vec![]);
    assert!(reason(&holdings, &has).is_some());
    holdings.set(&claim("b"), vec![]);
    assert_eq!(reason(&holdings, &has), None);
    holdings.set(&claim("b"), vec![whole("gpu-0")]);
    holdings.clear_claims();
    assert_eq!(reason(&holdings, &has), None);
}

#[test]
fn an_allocation_on_its_way_counts_until_its_outcome_is_known() {
    let mut holdings = held(&[]);
    let first = holdings.reserve(&claim("a"), vec![whole("gpu-0")]);
    let again = holdings.reserve(&claim("a"), vec![whole("gpu-0")]);
    let by_a = Some(("a".into(), Reason::Held));
    assert_eq!(reason(&holdings, &[whole("gpu-0")]), by_a);
    assert_eq!(
        holdings.refusal(&claim("a"), &[], &[whole("gpu-0")]),
        None,
        "the version decides between writes of one claim"
    );
    holdings.end(first);
    assert_eq!(reason(&holdings, &[whole("gpu-0")]), by_a);
    holdings.clear_claims();
    assert_eq!(reason(&holdings, &[whole("gpu-0")]), by_a, "the claims are read anew");
    holdings.end(again);
    holdings.end(again);
    assert_eq!(reason(&holdings, &[whole("gpu-0")]), None);
}

#[test]
fn shares_are_told_apart_and_fit_together() {
    let mut holdings = held(&[("a", vec![share("shared", "s-1", "40Gi")])]);
    let table = [
        (whole("shared"), Some(Reason::Held)),
        (share("shared", "s-1", "1Gi"), Some(Reason::SameShare("s-1".into()))),
        (share("shared", "s-2", "40Gi"), None),
        (share("shared", "s-2", "41Gi"), Some(Reason::Capacity("memory".into()))),
    ];
    for (wanted, refused) in table {
        assert_eq!(reason(&holdings, core::slice::from_ref(&wanted)), refused.map(|why| ("a".into(), why)));
    }
    let both = [share("shared", "s-2", "20Gi"), share("shared", "s-3", "21Gi")];
    assert!(matches!(reason(&holdings, &both), Some((_, Reason::Capacity(_)))), "its own shares count too");
    let own = [share("shared", "s-2", "20Gi"), share("shared", "s-3", "20Gi")];
    assert_eq!(reason(&holdings, &own), None);
    // The claim is stored, and the write that did it is not answered yet.
    holdings.reserve(&claim("a"), vec![share("shared", "s-1", "40Gi")]);
    assert_eq!(reason(&holdings, &[share("shared", "s-2", "40Gi")]), None, "it counts once");
    // A patch may say that it has more.
    holdings.override_capacities(true);
    assert_eq!(reason(&holdings, &[share("shared", "s-2", "41Gi")]), None);
    holdings.override_capacities(false);
    // No slice says any more that the device is shared.
    holdings.set_slice("s", None);
    let unknown = reason(&holdings, &[share("shared", "s-2", "1Gi")]);
    assert_eq!(unknown, Some(("a".into(), Reason::NotShared)));
}

#[test]
fn parts_of_a_device_fit_into_the_counters_of_its_pool() {
    let counter = || Reason::Counter { set: "card".into(), counter: "slots".into() };
    let holdings = held(&[("a", vec![whole("half-0")]), ("b", vec![whole("plain")])]);
    assert_eq!(reason(&holdings, &[whole("half-1")]), None);
    assert_eq!(reason(&holdings, &[whole("whole")]), Some(("a".into(), counter())));
    let mut holdings = held(&[("a", vec![whole("whole")])]);
    assert_eq!(reason(&holdings, &[whole("half-1")]), Some(("a".into(), counter())));
    assert_eq!(
        reason(&held(&[]), &[whole("half-0"), whole("whole")]),
        Some(("new".into(), counter())),
        "of one claim, too"
    );
    let moved = holdings.refusal(&claim("a"), &[whole("whole")], &[whole("half-0"), whole("half-1")]);
    assert_eq!(moved, None, "what it gives back in the same write is free");
    // The newest generation of the pool has more.
    let mut more = facts(2);
    more.counters[0].counters = amounts(&[("slots", "3")]);
    holdings.set_slice("t", Some(more));
    assert_eq!(reason(&holdings, &[whole("half-1")]), None);
    holdings.set_slice("t", None);
    assert!(reason(&holdings, &[whole("half-1")]).is_some());
    holdings.clear_slices();
    assert_eq!(reason(&holdings, &[whole("half-1")]), None, "as far as slices tell");
    assert!(reason(&holdings, &[whole("whole")]).is_some(), "by its name it is held all the same");
}

/// A stolen certificate of a node publishes the pool of another node in a newer generation, with more of everything.
#[test]
fn a_nodes_slice_says_nothing_about_the_devices_of_another() {
    let mut forged = SliceFacts { node: Some("q".into()), ..facts(9) };
    forged.counters[0].counters = amounts(&[("slots", "9")]);
    forged.devices.insert(
        "shared".into(),
        DeviceFacts { is_shared: true, capacity: amounts(&[("memory", "999Gi")]), ..DeviceFacts::default() },
    );
    for node in [None, Some("p".into())] {
        let mut holdings = held(&[("a", vec![whole("whole")]), ("b", vec![share("shared", "s-1", "79Gi")])]);
        holdings.set_slice("s", Some(SliceFacts { node: node.clone(), ..facts(1) }));
        holdings.set_slice("forged", Some(forged.clone()));
        assert!(reason(&holdings, &[whole("half-1")]).is_some(), "{node:?}");
        assert!(reason(&holdings, &[share("shared", "s-2", "2Gi")]).is_some(), "{node:?}");
    }
}

/// The rule in one loop over all that is held, with each claim on its own.
#[test]
fn a_random_history_leaves_no_device_with_two_claims() {
    let mut state = 7_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut holdings = held(&[]);
    let mut model: Vec<(ObjectKey, Vec<Given>)> = vec![];
    for _ in 0..4_000 {
        let key = claim(&format!("c-{}", next(6)));
        let at = model.iter().position(|(name, _)| *name == key);
        let before = at.map(|at| model[at].1.clone()).unwrap_or_default();
        let (first, count) = (next(5), next(3));
        let wanted: Vec<Given> =
            (first..first + count).map(|gpu| whole(&format!("gpu-{}", gpu % 5))).collect();
        let is_taken = |device: &DeviceId| {
            model.iter().any(|(name, given)| *name != key && given.iter().any(|one| one.device == *device))
        };
        let fits = !wanted.iter().any(|one| is_taken(&one.device));
        let refusal = holdings.refusal(&key, &before, &wanted);
        assert_eq!(refusal.is_none(), fits, "{key:?} {wanted:?}");
        if refusal.is_none() {
            holdings.set(&key, wanted.clone());
            model.retain(|(name, _)| *name != key);
            model.push((key, wanted));
        }
    }
}
