//! The world bites: each fault put around the machines on purpose is noticed, by the invariant meant for it, soon.

use lazaret_sim::{Limits, Mutant, Scenario, run, shrink};

const LIMITS: Limits = Limits { pods: 40, exact: false, steps: 40 };
/// The number of seeds within which a mutant must be caught.
const SEEDS: u64 = 1_500;

#[test]
fn every_mutant_is_caught() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let survives = |mutant: &&Mutant| {
        !(0..SEEDS)
            .any(|seed| run(&Scenario::hunt(seed, LIMITS, **mutant), Some(**mutant)).violation.is_some())
    };
    let survivors: Vec<&str> = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|part| {
                let mutants = Mutant::ALL.iter().skip(part).step_by(threads);
                scope.spawn(move || mutants.filter(survives).map(|mutant| mutant.name()).collect::<Vec<_>>())
            })
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("a mutant makes no world panic")).collect()
    });
    assert!(survivors.is_empty(), "survived {SEEDS} seeds: {survivors:?}");
}

#[test]
fn a_failure_shrinks_to_a_few_transitions_that_still_fail() {
    let (scenario, violation) = (0..SEEDS)
        .find_map(|seed| {
            let scenario = Scenario::draw(seed, LIMITS);
            let violation = run(&scenario, Some(Mutant::Early)).violation?;
            (scenario.transitions.len() > 10).then_some((scenario, violation))
        })
        .expect("caught in a long scenario");
    let small = shrink(&scenario, Some(Mutant::Early), &violation);
    assert!(small.transitions.len() <= 4, "{}", small.to_text());
    let again = run(&small, Some(Mutant::Early)).violation.expect("still fails");
    assert_eq!(again.invariant, violation.invariant);
    assert_eq!(run(&small, None).violation, None, "and only because of the mutant");
}
