//! The scheduler in some hundred small worlds: nothing is given twice, and at rest no pod waits that could be placed.

use lazaret_sim::{PlacementMutant, run_placement};

const SEEDS: u64 = 400;
/// Each found a bug once: devices that were never given back, and room that was kept for a pod whom it did not help. Seed 282, which is
/// among the first, found a pod without its claim. Seed 1,045,176 found a pod that nobody woke when an allocation turned out not to have been written.
const FOUND: [u64; 6] = [1_196, 3_311, 1_354, 18_371, 19_456, 1_045_176];

#[test]
fn no_seed_leaves_a_pod_waiting_that_could_be_placed() {
    let (mut broken, mut given_back, mut bound) = (0, 0, 0);
    for seed in (0..SEEDS).chain(FOUND) {
        let outcome = run_placement(seed, None);
        assert_eq!(outcome.violation, None, "seed {seed}; replay with --placement --replay {seed}");
        broken += outcome.broken;
        given_back += outcome.given_back;
        bound += outcome.bound;
    }
    assert!(broken > SEEDS && given_back > SEEDS && bound > 5 * SEEDS, "{broken} {given_back} {bound}");
}

#[test]
fn every_mutant_of_the_scheduler_is_caught() {
    for mutant in PlacementMutant::ALL {
        let caught = (0..SEEDS).find(|seed| run_placement(*seed, Some(*mutant)).violation.is_some());
        assert!(caught.is_some(), "{} survived {SEEDS} seeds", mutant.name());
    }
}

#[test]
fn the_same_seed_gives_the_same_placement() {
    for seed in 0..10 {
        let (one, other) = (run_placement(seed, None), run_placement(seed, None));
        assert_eq!((one.steps, one.bound, one.broken), (other.steps, other.bound, other.broken));
    }
}
