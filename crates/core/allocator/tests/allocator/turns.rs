//! Work in turns: an answer that took several of them is the one that a single turn would have given.

use std::sync::Arc;

use lazaret_allocator::{Allocator, Found, NodeSearch, Options, Overlay};
use lazaret_fleet::{Fleet, Snapshot};
use lazaret_model::Text;

use crate::{dsl::Case, table};

fn find(allocator: &mut Allocator, case: &Case, snapshot: &Arc<Snapshot>) -> Found {
    let (nodes, overlay, options) = ([Arc::new(case.node.clone())], Overlay::new(), Options::default());
    let search =
        NodeSearch { snapshot, nodes: &nodes, claims: &case.claims, in_flight: &overlay, options: &options };
    let mut number = 0;
    allocator.find_node(&search, &mut || {
        number += 1;
        Text::from(format!("share-{number}"))
    })
}

fn snapshot(case: &Case) -> Arc<Snapshot> {
    let mut fleet = Fleet::new();
    case.inputs().into_iter().for_each(|input| fleet.apply(input));
    fleet.snapshot()
}

#[test]
fn every_case_has_the_same_answer_in_turns() {
    let mut turns_max = 0;
    for case in table::all() {
        let snapshot = snapshot(&case);
        let whole = find(&mut Allocator::new(case.features.unwrap()), &case, &snapshot);
        let mut allocator = Allocator::new(case.features.unwrap());
        let (mut units, mut turns, mut learnt) = (50, 0, 0);
        let found = loop {
            allocator.allow(units);
            turns += 1;
            match find(&mut allocator, &case, &snapshot) {
                Found::Unfinished { tried, refused } => assert!(tried == 0 && refused.is_empty()),
                found => break found,
            }
            assert!(allocator.is_out_of_work());
            // A turn that got no further is followed by a longer one.
            if allocator.learnt() == learnt {
                units *= 2;
            }
            learnt = allocator.learnt();
        };
        turns_max = turns_max.max(turns);
        match (&found, &whole) {
            (Found::Nowhere(in_turns), Found::Nowhere(at_once)) => {
                let of = |groups: &[lazaret_allocator::NodeGroup]| {
                    groups.iter().map(|group| (group.nodes, group.exhausted)).collect::<Vec<_>>()
                };
                assert_eq!(of(in_turns), of(at_once), "{}", case.name);
            }
            _ => assert_eq!(found, whole, "{}", case.name),
        }
    }
    assert!(turns_max > 5, "{turns_max}");
}

/// One unit more is one selector, or one step, more at most.
#[test]
fn a_turn_does_not_exceed_its_units_by_more_than_what_was_begun() {
    for case in table::all() {
        let snapshot = snapshot(&case);
        let mut allocator = Allocator::new(case.features.unwrap());
        for _ in 0..20 {
            let before = allocator.spent();
            allocator.allow(1_000);
            find(&mut allocator, &case, &snapshot);
            let spent = allocator.spent() - before;
            assert!(spent <= 1_000 + 20_000, "{}: {spent}", case.name);
        }
    }
}
