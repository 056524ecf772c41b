//! From a failing world to the shortest one that fails in the same way.

use crate::{mutant::Mutant, population::Runner, scenario::Scenario, world::Violation};

/// Runs that a shrink may cost.
const RUNS_MAX: u32 = 2_000;

/// Leaves out transitions as long as the same invariant is violated: halves first, then smaller and smaller pieces,
/// in the end each alone (Zeller's ddmin).
#[must_use]
pub fn shrink(scenario: &Scenario, mutant: Option<Mutant>, violation: &Violation) -> Scenario {
    let mut best = scenario.clone();
    let mut runs = 0;
    let mut runner = Runner::default();
    let mut fails = |candidate: &Scenario| {
        runs += 1;
        runs <= RUNS_MAX
            && runner
                .run(candidate, mutant)
                .violation
                .is_some_and(|found| found.invariant == violation.invariant)
    };
    let mut pieces = 2;
    while !best.transitions.is_empty() {
        let size = best.transitions.len().div_ceil(pieces);
        let mut shrunk = false;
        let mut start = 0;
        while start < best.transitions.len() {
            let mut candidate = best.clone();
            let end = (start + size).min(candidate.transitions.len());
            candidate.transitions.drain(start..end);
            if fails(&candidate) {
                best = candidate;
                shrunk = true;
            } else {
                start = end;
            }
        }
        if !shrunk {
            if size <= 1 {
                break;
            }
            pieces = (pieces * 2).min(best.transitions.len());
        }
    }
    for pods in [1, 2, 4, 8, 16] {
        let mut candidate = best.clone();
        candidate.config.pods = pods;
        if pods < best.config.pods && fails(&candidate) {
            best = candidate;
            break;
        }
    }
    best
}
