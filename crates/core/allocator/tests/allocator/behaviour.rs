//! Behaviour beside the choice of devices: reasons, budgets, in-flight claims, preferences, many nodes.

use std::sync::Arc;

use lazaret_allocator::{
    Allocator, Answer, Conflict, Features, Found, NodeSearch, Options, Overlay, Reason, Request, WhyNot,
};
use lazaret_fleet::{Fleet, Input, Snapshot};
use lazaret_model::*;

use crate::{
    dsl::{self, Case},
    render, table,
};

fn case(text: &str) -> Case {
    dsl::cases(&format!("== case APCTBKFLDGO\n{text}")).remove(0)
}

fn why(text: &str) -> WhyNot {
    match table::solve(&case(text), &Options::default()) {
        Answer::DoesNotFit(why) => why,
        other => panic!("{other:?}"),
    }
}

fn snapshot(case: &Case) -> Arc<Snapshot> {
    let mut fleet = Fleet::new();
    case.inputs().into_iter().for_each(|input| fleet.apply(input));
    fleet.snapshot()
}

#[test]
fn every_group_of_devices_has_its_reason() {
    let why = why("class a
        class x `device.driver == \"a\"` `device.attributes[\"a\"].numa == 1`
        slice s1 a/p1/2 @n1: d1 .numa=2; d2 .numa=1; d3 .numa=1 !k=v:NoSchedule; d4 .numa=1 -set.x=2; d5..6 .numa=1 mem=1
        counters s2 a/p1/2 @n1: set x=1
        slice s3 a/p2 @each: d1 @n2 .numa=1; d2 @n1 .numa=1
        slice s4 a/p3/2 @n1: d1 .numa=1
        slice s5 b/p1 @n1: d1
        held a/p1/d2
        claim c0: r0=x*9 need:mem=2");
    assert_eq!(
        why.to_string(),
        "request r0 wants 9, 0 of 9 devices suitable (3 without capacity mem, 2 short of mem, 1 not of class x, \
         1 not of class x (selector #1), 1 in use, 1 on other nodes); pool a/p3 is incomplete"
    );
    let request = &why.requests[0];
    assert_eq!((request.considered, request.suitable, request.wanted), (9, 0, 9));
}

#[test]
fn taints_are_blamed_on_whoever_set_them() {
    let case = case(
        "class a
        slice s1 a/p1 @n1: d1 !k=v:NoSchedule; d2; d3
        claim c0: r0=a*3",
    );
    let mut fleet = Fleet::new();
    case.inputs().into_iter().for_each(|input| fleet.apply(input));
    fleet.apply(Input::Rule(Arc::new(DeviceTaintRule {
        name: "out-of-order".into(),
        selector: Some(DeviceSelector { device: Some("d2".into()), ..DeviceSelector::default() }),
        taint: Taint { key: "broken".into(), effect: Effect::NoExecute, ..Taint::default() },
        ..DeviceTaintRule::default()
    })));
    let snapshot = fleet.snapshot();
    let (overlay, options) = (Overlay::new(), Options::default());
    let request = Request {
        snapshot: &snapshot,
        node: &case.node,
        claims: &case.claims,
        in_flight: &overlay,
        options: &options,
    };
    match Allocator::new(Features::all()).allocate(&request, &mut Text::default) {
        Answer::DoesNotFit(why) => assert_eq!(
            why.to_string(),
            "request r0 wants 3, 1 of 3 devices suitable (1 tainted broken:NoExecute by rule out-of-order, \
             1 tainted k=v:NoSchedule by slice s1)"
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn conflicts_are_named() {
    let rows = [
        (
            "slice s1 a/p1 @n1: d1..4\nclaim c0: r0=a*3; r1=a*2",
            "the requests together want 5 devices, 4 are suitable",
        ),
        (
            "slice s1 a/p1 @n1: d1..2 .x=1; d3..4 .x=2\nclaim c0: r0=a*2; r1=a; match a/x",
            "3 devices must share a/x, at most 2 do",
        ),
        (
            "slice s1 a/p1 @n1: d1..2 .x=1; d3..4 .x=2\nclaim c0: r0=a*3; distinct a/x",
            "3 devices must differ in a/x, there are 2 values",
        ),
        (
            "slice s1 a/p1/2 @n1: d1..3 -set.x=1\ncounters s2 a/p1/2 @n1: set x=2\nclaim c0: r0=a*3",
            "no combination satisfies constraints, counters and capacities",
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(why(&format!("class a\n{text}")).to_string(), expected);
    }
    let shared = "class a\nslice s1 a/p1 @n1: d1 mem=4 shared\nclaim c0: r0=a need:mem=3; r1=a need:mem=3";
    assert_eq!(why(shared).conflict, Some(Conflict::Combination));
}

#[test]
fn unserved_requests_come_before_conflicts() {
    let why = why("class a\nslice s1 a/p1/2 @n1: d1 -set.x=2; d2 -set.x=1 ~set=g; d3 -set.x=1 ~set=h; d4
        counters s2 a/p1/2 @n1: set x=1\nheld a/p1/d4\nclaim c0: r0=a*2; r1=a*4; match a/x");
    assert_eq!(why.conflict, None);
    let reasons: Vec<&Reason> = why.requests[0].unsuitable.iter().map(|group| &group.reason).collect();
    assert_eq!(
        reasons,
        [
            &Reason::NoAttribute("a/x".into()),
            &Reason::InUse,
            &Reason::Counter { set: "set".into(), counter: "x".into() },
        ]
    );
}

#[test]
fn the_budget_ends_a_search_and_says_so() {
    let text = "class a\nslice s1 a/p1 @n1: d1..28\nclaim c0: r0=a*29";
    let options = Options { literal: true, budget_steps: 1_000, ..Options::default() };
    match table::solve(&case(text), &options) {
        Answer::BudgetExhausted(why) => {
            assert!(why.steps > 1_000);
            assert_eq!(why.to_string(), "request r0 wants 29, 28 of 28 devices suitable");
        }
        other => panic!("{other:?}"),
    }
    // Counting needs no more steps than there are devices.
    assert!(why(text).steps < 100);
}

#[test]
fn literal_steps_are_those_of_kubernetes() {
    let steps = |name: &str| {
        let case = table::all().into_iter().find(|case| case.name == name).unwrap();
        let options = Options { literal: true, ..Options::default() };
        match table::solve(&case, &options) {
            Answer::DoesNotFit(why) => why.steps,
            other => panic!("{name}: {other:?}"),
        }
    };
    for name in [
        "check-combinations-within-single-request-single-pool-single-slice",
        "check-combinations-within-single-request-single-pool-multiple-slices",
        "check-combinations-within-single-request-multiple-pools-multiple-slices",
        "check-combinations-within-single-request-many-pools",
    ] {
        assert_eq!(steps(name), 16, "{name}");
    }
}

#[test]
fn what_is_in_flight_is_taken() {
    let case = case(
        "class a
        slice s1 a/p1/2 @n1: d1; d2 mem=4 shared; d3 -set.x=1; d4 -set.x=1
        counters s2 a/p1/2 @n1: set x=1
        claim c0: r0=a need:mem=2
        claim c1: r0=a",
    );
    let snapshot = snapshot(&case);
    let mut allocator = Allocator::new(Features::all());
    let mut overlay = Overlay::new();
    let options = Options::default();
    let mut ask = |claim: usize, overlay: &Overlay| {
        let claims = &case.claims[claim..=claim];
        let request =
            Request { snapshot: &snapshot, node: &case.node, claims, in_flight: overlay, options: &options };
        let answer = allocator.allocate(&request, &mut || "share".into());
        let text = render::answer(&answer, claims).remove(0);
        let given = if let Answer::Allocated(mut given) = answer { given.pop() } else { None };
        (text, given)
    };
    let mut give = |claim: usize, uid: &str, overlay: &mut Overlay| {
        let (text, given) = ask(claim, overlay);
        if let Some(given) = given {
            overlay.insert(&uid.into(), &given);
        }
        text
    };
    assert_eq!(give(0, "1", &mut overlay), "c0: r0 a/p1/d2 share mem=2; @n1");
    assert_eq!(give(0, "2", &mut overlay), "c0: r0 a/p1/d2 share mem=2; @n1");
    assert_eq!(give(0, "3", &mut overlay), "none");
    assert_eq!(give(1, "4", &mut overlay), "c1: r0 a/p1/d1; @n1");
    assert_eq!(give(1, "5", &mut overlay), "c1: r0 a/p1/d3; @n1");
    assert_eq!(give(1, "6", &mut overlay), "none", "d4 draws from the counter that d3 used up");
    overlay.remove(&"5".into());
    overlay.remove(&"1".into());
    assert_eq!(give(0, "7", &mut overlay), "c0: r0 a/p1/d2 share mem=2; @n1");
    assert_eq!(give(1, "8", &mut overlay), "c1: r0 a/p1/d3; @n1");
}

#[test]
fn healthy_devices_can_be_preferred() {
    let text = "class a
        slice s1 a/p1/3 @n1: d1 !k=v:None; d2 -one.x=1; d3 -two.x=1; d4; d5 -two.x=1
        counters s2 a/p1/3 @n1: one x=2; two x=2
        slice s3 a/p1/3 @n1: d6 -two.x=1 !k=v:None
        held a/p1/d5
        claim c0: r0=a*4";
    let given = |prefer_healthy: bool| {
        let case = case(text);
        let answer = table::solve(&case, &Options { prefer_healthy, ..Options::default() });
        render::answer(&answer, &case.claims).remove(0)
    };
    assert_eq!(given(false), "c0: r0 a/p1/d1; r0 a/p1/d2; r0 a/p1/d3; r0 a/p1/d4; @n1");
    assert_eq!(given(true), "c0: r0 a/p1/d3; r0 a/p1/d4; r0 a/p1/d2; r0 a/p1/d1; @n1");
}

/// `nodes` nodes with two devices each; of node `i` the first `taken(i)` are in use.
fn cluster(
    nodes: usize,
    taken: impl Fn(usize) -> usize,
    claim: &str,
) -> (Case, Vec<Arc<Node>>, Arc<Snapshot>) {
    let mut text = format!("class a\nclaim {claim}\n");
    for node in 0..nodes {
        text.push_str(&format!("slice s{node} a/p{node} @m{node}: d0 .serial={node}; d1 .serial={node}\n"));
        (0..taken(node)).for_each(|device| text.push_str(&format!("held a/p{node}/d{device}\n")));
    }
    let case = case(&text);
    let mut fleet = Fleet::new();
    case.inputs().into_iter().for_each(|input| fleet.apply(input));
    (0..nodes).for_each(|node| {
        let name = format!("m{node}").into();
        fleet.apply(Input::Node(Arc::new(Node { name, ..Node::default() })));
    });
    let snapshot = fleet.snapshot();
    let nodes = (0..nodes).filter_map(|node| snapshot.node(&format!("m{node}")).cloned()).collect();
    (case, nodes, snapshot)
}

fn find(
    allocator: &mut Allocator,
    case: &Case,
    nodes: &[Arc<Node>],
    snapshot: &Arc<Snapshot>,
    overlay: &Overlay,
) -> Found {
    let options = Options::default();
    let search = NodeSearch { snapshot, nodes, claims: &case.claims, in_flight: overlay, options: &options };
    allocator.find_node(&search, &mut Text::default)
}

#[test]
fn the_first_node_with_room_is_found() {
    let (case, nodes, snapshot) = cluster(40, |node| if node == 31 { 1 } else { 2 }, "c0: r0=a");
    let mut allocator = Allocator::new(Features::all());
    let mut overlay = Overlay::new();
    match find(&mut allocator, &case, &nodes, &snapshot, &overlay) {
        Found::Node { index: 31, allocations } => overlay.insert(&"x".into(), &allocations[0]),
        other => panic!("{other:?}"),
    }
    match find(&mut allocator, &case, &nodes, &snapshot, &overlay) {
        Found::Nowhere(groups) => {
            let groups: Vec<_> = groups.iter().map(|group| (group.nodes, group.reason.as_str())).collect();
            assert_eq!(
                groups,
                [
                    (39, "every device of the node is in use"),
                    (1, "request r0 wants 1, 0 of 2 devices suitable (1 in use, 1 about to be used)"),
                ]
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_later_snapshot_is_noticed() {
    let (case, nodes, full) = cluster(10, |_| 2, "c0: r0=a");
    let mut allocator = Allocator::new(Features::all());
    let overlay = Overlay::new();
    assert!(matches!(find(&mut allocator, &case, &nodes, &full, &overlay), Found::Nowhere(_)));
    let (_, nodes, freed) = cluster(10, |node| if node == 7 { 0 } else { 2 }, "c0: r0=a");
    assert!(matches!(find(&mut allocator, &case, &nodes, &freed, &overlay), Found::Node { index: 7, .. }));
}

#[test]
fn nodes_filled_in_flight_are_refused_for_their_own_reason() {
    let (case, nodes, snapshot) = cluster(4, |node| [1, 0, 2, 0][node], "c0: r0=a*2");
    let (mut allocator, mut overlay) = (Allocator::new(Features::all()), Overlay::new());
    for expected in [1, 3] {
        match find(&mut allocator, &case, &nodes, &snapshot, &overlay) {
            Found::Node { index, allocations } => {
                assert_eq!(index, expected);
                overlay.insert(&format!("uid-{index}").into(), &allocations[0]);
            }
            other => panic!("{other:?}"),
        }
    }
    let found = find(&mut allocator, &case, &nodes, &snapshot, &overlay);
    let Found::Nowhere(groups) = found else { panic!("{found:?}") };
    let groups: Vec<_> =
        groups.iter().map(|group| (group.nodes, &*group.example, group.reason.as_str())).collect();
    assert_eq!(
        groups,
        [
            (2, "m1", "request r0 wants 2, 0 of 2 devices suitable (2 about to be used)"),
            (1, "m2", "every device of the node is in use"),
            (1, "m0", "request r0 wants 2, 1 of 2 devices suitable (1 in use)"),
        ]
    );
}

/// Rounds on a changing world, some of what was given in flight, some in the fleet: the allocator that has seen all
/// of it says the same as one that has seen nothing.
#[test]
fn what_is_remembered_changes_no_answer() {
    let (mut given, options) = (0, Options::default());
    for seed in 0..600 {
        let case = &dsl::cases(&crate::random::case(seed))[0];
        let mut fleet = Fleet::new();
        case.inputs().into_iter().for_each(|input| fleet.apply(input));
        let mut seasoned = Allocator::new(case.features.unwrap());
        let mut overlay = Overlay::new();
        for round in 0..4 {
            let snapshot = fleet.snapshot();
            let (node, claims) = (&case.node, &case.claims);
            let request =
                Request { snapshot: &snapshot, node, claims, in_flight: &overlay, options: &options };
            let fresh = Allocator::new(case.features.unwrap()).allocate(&request, &mut || "share".into());
            let answer = seasoned.allocate(&request, &mut || "share".into());
            assert_eq!(answer, fresh, "seed {seed}, round {round}");
            let Answer::Allocated(allocations) = answer else { break };
            given += 1;
            for (at, allocation) in allocations.into_iter().enumerate() {
                let name = format!("round-{round}-{at}");
                if (seed + round) % 2 == 0 {
                    overlay.insert(&name.into(), &allocation);
                } else {
                    fleet.apply(Input::Claim(Arc::new(ResourceClaim {
                        key: ObjectKey::new("rounds", name.clone()),
                        uid: name.into(),
                        allocation: Some(Arc::new(allocation)),
                        ..ResourceClaim::default()
                    })));
                }
            }
        }
    }
    assert!(given > 300, "only {given} rounds gave anything");
}

#[test]
fn nodes_that_are_alike_are_searched_once_and_counted_all() {
    let (case, nodes, snapshot) = cluster(25, |node| usize::from(node % 5 == 0), "c0: r0=a*3");
    let found = find(&mut Allocator::new(Features::all()), &case, &nodes, &snapshot, &Overlay::new());
    let Found::Nowhere(groups) = found else { panic!("{found:?}") };
    let groups: Vec<_> =
        groups.iter().map(|group| (group.nodes, &*group.example, group.reason.as_str())).collect();
    assert_eq!(
        groups,
        [
            (20, "m1", "request r0 wants 3, 2 of 2 devices suitable"),
            (5, "m0", "request r0 wants 3, 1 of 2 devices suitable (1 in use)"),
        ]
    );
}

#[test]
fn searching_nodes_agrees_with_asking_each() {
    for seed in 0..400 {
        let case = &dsl::cases(&crate::random::case(seed))[0];
        let snapshot = snapshot(case);
        let nodes: Vec<Arc<Node>> = snapshot.nodes().cloned().collect();
        let options = Options::default();
        let overlay = Overlay::new();
        let features = case.features.unwrap();
        let search = NodeSearch {
            snapshot: &snapshot,
            nodes: &nodes,
            claims: &case.claims,
            in_flight: &overlay,
            options: &options,
        };
        let found = Allocator::new(features).find_node(&search, &mut Text::default);
        match (table::solve(case, &options), found) {
            (Answer::Allocated(one), Found::Node { allocations, .. }) => assert_eq!(
                one.iter().map(|a| a.results.len()).sum::<usize>(),
                allocations.iter().map(|a| a.results.len()).sum::<usize>()
            ),
            (Answer::DoesNotFit(_) | Answer::Failed(_), Found::Nowhere(_)) => {}
            (Answer::Failed(one), Found::Failed(other)) => assert_eq!(one, other),
            (one, other) => panic!("seed {seed}: {one:?} but {other:?}"),
        }
    }
}
