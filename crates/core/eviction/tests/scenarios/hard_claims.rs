//! Claims that are hard to allocate: the question of room is answered within a budget, whoever waits for devices.

use std::sync::Arc;

use lazaret_allocator::Features;
use lazaret_eviction::{Capacity, CapacityAnswer, CapacityQuestion, LeavingPod, QUESTION_UNITS};
use lazaret_fleet::{Fleet, Input};
use lazaret_model::*;

const DRIVER: &str = "gpu.example.com";
/// A selector and its compilation cost no more.
const SELECTOR_UNITS: u64 = 1_100_000;

/// Selectors that are true and cost many units each, no two alike.
fn hard_selectors(number: usize) -> Vec<Option<Text>> {
    let selector = |at: usize| {
        let list = "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14]";
        let number = 1_000 * number + at;
        let inner = format!("device.driver.size() + w + x + y + z + {number} > 0");
        let all = format!("{list}.all(w, {list}.all(x, {list}.all(y, {list}.all(z, {inner}))))");
        Some(Text::from(all.as_str()))
    };
    (0..32).map(selector).collect()
}

fn add_claim(
    fleet: &mut Fleet,
    namespace: &str,
    name: &str,
    selectors: Vec<Option<Text>>,
    device: Option<&str>,
) {
    let request = DeviceRequest {
        class: "gpu".into(),
        mode: AllocationMode::Exact(1),
        selectors,
        ..DeviceRequest::default()
    };
    let request = Request { name: "r".into(), kind: RequestKind::Exactly(request) };
    let allocation = device.map(|device| {
        Arc::new(Allocation {
            results: vec![DeviceResult {
                request: "r".into(),
                device: DeviceId::new(DRIVER, "a", device),
                admin_access: false,
                tolerations: vec![],
                binding_conditions: vec![],
                binding_failure_conditions: vec![],
                share_id: None,
                consumed_capacity: vec![],
                skip_node_operations: vec![],
            }],
            ..Allocation::default()
        })
    });
    let user = Consumer {
        api_group: "".into(),
        resource: "pods".into(),
        name: name.into(),
        uid: format!("pod-{namespace}-{name}").into(),
    };
    fleet.apply(Input::Claim(Arc::new(ResourceClaim {
        key: ObjectKey { namespace: namespace.into(), name: name.into() },
        uid: format!("{namespace}-{name}").into(),
        spec: Arc::new(ClaimSpec { requests: vec![request], ..ClaimSpec::default() }),
        reserved_for: allocation.iter().map(|_| user.clone()).collect(),
        allocation,
        ..ResourceClaim::default()
    })));
}

fn add_pod(fleet: &mut Fleet, namespace: &str, name: &str, node: Option<&str>) {
    fleet.apply(Input::Pod(Arc::new(Pod {
        key: ObjectKey { namespace: namespace.into(), name: name.into() },
        uid: format!("pod-{namespace}-{name}").into(),
        node: node.map(Text::from),
        claims: vec![PodClaim { name: "c".into(), source: ClaimSource::Claim(name.into()) }],
        ..Pod::default()
    })));
}

fn fleet() -> Fleet {
    let mut fleet = Fleet::new();
    let class = DeviceClass { name: "gpu".into(), ..DeviceClass::default() };
    fleet.apply(Input::Class(Arc::new(class)));
    for node in ["a", "b"] {
        fleet.apply(Input::Node(Arc::new(Node { name: node.into(), ..Node::default() })));
        let device = |at| Device { name: format!("d{at}").as_str().into(), ..Device::default() };
        fleet.apply(Input::Slice(Arc::new(ResourceSlice {
            name: node.into(),
            driver: DRIVER.into(),
            pool: PoolSpec { name: node.into(), generation: 1, slice_count: 1 },
            nodes: NodeScope::Node(node.into()),
            devices: (0..2).map(device).collect(),
            ..ResourceSlice::default()
        })));
    }
    fleet
}

fn question(namespace: &str, name: &str) -> CapacityQuestion {
    let leaving = LeavingPod {
        pod: ObjectKey { namespace: namespace.into(), name: name.into() },
        uid: format!("pod-{namespace}-{name}").into(),
        devices: vec![DeviceId::new(DRIVER, "a", "d0")],
    };
    CapacityQuestion { pods: vec![leaving] }
}

/// Of a thousand pods that are hard to place, and older, none keeps another from leaving.
#[test]
fn pods_that_wait_and_are_hard_to_place_do_not_hold_up_an_eviction() {
    let mut fleet = fleet();
    for number in 0..1_000 {
        let name = format!("p{number}");
        add_claim(&mut fleet, "hard", &name, hard_selectors(number), None);
        add_pod(&mut fleet, "hard", &name, None);
    }
    add_claim(&mut fleet, "ns", "leaving", vec![], Some("d0"));
    add_pod(&mut fleet, "ns", "leaving", Some("a"));
    let mut capacity = Capacity::new(Features::kubernetes_1_37());
    let answer = capacity.ask(Timestamp::from_secs(1), &mut fleet, &question("ns", "leaving"));
    assert!(matches!(answer, CapacityAnswer::Room(_)), "{answer:?}");
    let units = capacity.work_units();
    assert!(units <= QUESTION_UNITS + SELECTOR_UNITS, "{units}");
}

/// A pod that is hard to place itself is kept with the reason, and what was found out counts the next time.
#[test]
fn a_question_about_a_hard_claim_says_that_its_budget_is_spent_and_is_answered_in_the_end() {
    let mut fleet = fleet();
    add_claim(&mut fleet, "hard", "p", hard_selectors(1), Some("d0"));
    add_pod(&mut fleet, "hard", "p", Some("a"));
    let mut capacity = Capacity::new(Features::kubernetes_1_37());
    let (mut asked, mut before) = (0, 0);
    let answer = loop {
        asked += 1;
        let answer = capacity.ask(Timestamp::from_secs(asked), &mut fleet, &question("hard", "p"));
        let units = capacity.work_units();
        assert!(units - before <= QUESTION_UNITS + SELECTOR_UNITS, "{}", units - before);
        before = units;
        match answer {
            CapacityAnswer::NoRoom(why) => {
                assert!(why.contains("the budget of a question was spent after 0 of 2 nodes"), "{why}");
            }
            answer @ (CapacityAnswer::Room(_) | CapacityAnswer::Gone) => break answer,
        }
    };
    assert!(matches!(answer, CapacityAnswer::Room(_)), "{answer:?}");
    assert!((2..20).contains(&asked), "{asked}");
}
