//! Every case in `cases/`: one file for each subject, named as Kubernetes' own table of cases is.

use std::{collections::BTreeSet, sync::Arc};

use lazaret_allocator::{
    Allocator, Answer, Options, Overlay, Request, TimedTolerations, have_timed_tolerations,
};
use lazaret_fleet::Fleet;
use lazaret_model::{Text, Timestamp};

use crate::{
    dsl::{self, Case},
    render,
};

/// The allocator's answer to a case.
pub(crate) fn solve(case: &Case, options: &Options) -> Answer {
    let mut fleet = Fleet::new();
    case.inputs().into_iter().for_each(|input| fleet.apply(input));
    let snapshot = fleet.snapshot();
    let mut allocator = Allocator::new(case.features.expect("features"));
    let overlay = Overlay::new();
    let request =
        Request { snapshot: &snapshot, node: &case.node, claims: &case.claims, in_flight: &overlay, options };
    let mut number = 0;
    allocator.allocate(&request, &mut || {
        number += 1;
        Text::from(format!("share-{number}"))
    })
}

fn check(text: &str) {
    let mut wrong = Vec::new();
    let mut names = BTreeSet::new();
    for case in dsl::cases(text) {
        assert!(names.insert(case.name.clone()), "{} occurs twice", case.name);
        assert!(!have_timed_tolerations(&case.claims), "{}: Kubernetes' tables have none", case.name);
        let usual = solve(&case, &Options::default());
        for timed_tolerations in
            [TimedTolerations::Ignored, TimedTolerations::LastUntilOver(Timestamp::from_secs(1 << 40))]
        {
            let answer = solve(&case, &Options { timed_tolerations, ..Options::default() });
            assert_eq!(answer, usual, "{}: without such tolerations they change nothing", case.name);
        }
        for literal in [false, true] {
            let answer = solve(&case, &Options { literal, ..Options::default() });
            let got = render::answer(&answer, &case.claims);
            // Step by step some cases take longer than the budget allows.
            if got != case.expected && !(literal && got == ["exhausted"]) {
                wrong.push(format!(
                    "{} (literal: {literal})\n  want {:?}\n  got  {got:?}\n  {answer:?}",
                    case.name, case.expected
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(!names.is_empty());
}

macro_rules! subjects {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(include_str!(concat!("cases/", stringify!($name), ".txt")));
        })*

        /// All cases.
        pub(crate) fn all() -> Vec<Case> {
            [$(include_str!(concat!("cases/", stringify!($name), ".txt")),)*].into_iter().flat_map(dsl::cases).collect()
        }
    };
}

subjects! {
    basics pools all_mode admin match_attribute distinct_attribute config errors lists combinations taints partitionable
    binding capacity list_attributes derived groups node_operations
}

#[test]
fn inputs_are_shared_not_copied() {
    let case = &all()[1];
    let before = case.claims.clone();
    solve(case, &Options::default());
    assert!(before.iter().zip(&case.claims).all(|(a, b)| Arc::ptr_eq(a, b) && a == b));
}
