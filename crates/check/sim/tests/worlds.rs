//! Some hundred small worlds with every fault, and every bug that was ever found this way.

use std::{fs, path::Path};

use lazaret_sim::{Coverage, Limits, Mark, Scenario, run};

/// Small worlds: they find most and cost least.
const LIMITS: Limits = Limits { pods: 40, exact: false, steps: 60 };
/// Seeds of the sweep; a longer one is `cargo run --release -p lazaret-sim -- --seeds 10000`.
const SEEDS: u64 = 500;

#[test]
fn no_seed_violates_an_invariant_and_together_they_reach_everything() {
    let mut coverage = Coverage::default();
    for seed in 0..SEEDS {
        let outcome = run(&Scenario::draw(seed, LIMITS), None);
        assert_eq!(outcome.violation, None, "seed {seed}; replay with --replay {seed} --pods 40");
        coverage.add(&outcome.coverage);
    }
    let missing: Vec<&str> = coverage.missing().map(Mark::name).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
    assert_eq!(coverage.count(Mark::Rest), SEEDS, "every world comes to rest");
}

#[test]
fn a_large_world_is_clean() {
    let limits = Limits { pods: 600, exact: true, steps: 60 };
    for seed in 0..4 {
        assert_eq!(run(&Scenario::draw(seed, limits), None).violation, None, "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in 0..20 {
        let scenario = Scenario::draw(seed, LIMITS);
        let (one, other) = (run(&scenario, None), run(&scenario, None));
        assert_eq!((one.steps, one.elapsed), (other.steps, other.elapsed));
        assert_eq!(one.coverage.to_string(), other.coverage.to_string());
    }
}

#[test]
fn bugs_once_found_stay_fixed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for path in files {
        let text = fs::read_to_string(&path).expect("readable");
        let scenario = Scenario::from_text(&text).expect("a scenario");
        assert_eq!(run(&scenario, None).violation, None, "{}", path.display());
    }
}
