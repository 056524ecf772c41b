//! The engine and the reference agree, on many small worlds.

use lazaret_allocator::{Answer, ErrorScope, Options};

use crate::{dsl, random, reference, reference::Outcome, table};

fn outcome(case: &dsl::Case, options: &Options) -> Outcome {
    match table::solve(case, options) {
        Answer::Allocated(allocations) => Outcome::Given(
            allocations
                .iter()
                .enumerate()
                .flat_map(|(claim, given)| given.results.iter().map(move |r| (claim, r)))
                .map(|(claim, result)| (claim, result.request.to_string(), result.device.to_string()))
                .collect(),
        ),
        Answer::DoesNotFit(_) => Outcome::None,
        Answer::BudgetExhausted(_) => Outcome::Endless,
        Answer::Failed(error) => match error.reach {
            ErrorScope::Fatal => Outcome::Fatal,
            ErrorScope::Node => Outcome::Node,
        },
    }
}

/// More are tried when the environment says how many.
fn worlds() -> u64 {
    std::env::var("LAZARET_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000)
}

#[test]
fn same_answer_as_the_reference() {
    let mut given = 0;
    for seed in 0..worlds() {
        let text = random::case(seed);
        let case = &dsl::cases(&text)[0];
        let expected = reference::solve(case);
        if expected == Outcome::Endless {
            continue;
        }
        given += u64::from(matches!(expected, Outcome::Given(_)));
        for literal in [false, true] {
            let got = outcome(case, &Options { literal, ..Options::default() });
            assert_eq!(got, expected, "literal: {literal}\n{text}");
        }
    }
    assert!(given > worlds() / 5, "only {given} worlds have a solution");
}

#[test]
fn same_answer_as_the_reference_on_the_table() {
    for case in table::all() {
        // The reference knows whole amounts only, makes no node selectors, and takes no shortcuts.
        let beyond =
            ["fractional", "above-int64", "overflow", "not-modified", "of-eight-and-twenty", "several-terms"];
        if beyond.iter().any(|word| case.name.contains(word)) {
            continue;
        }
        let expected = reference::solve(&case);
        if expected != Outcome::Endless {
            assert_eq!(outcome(&case, &Options::default()), expected, "{}", case.name);
        }
    }
}
