//! Seeded runs in which news come late, twice or only with the next list, answers are lost, writes conflict, processes
//! die and leadership changes, while nodes and devices are tainted and recover. Invariants: no pod is replaced early,
//! none whose taint went, never more than the limit at once, none while a breaker holds, and at rest all is done.

mod dice;
mod fate;
mod mutants;
mod referee;
mod world;

use std::panic::catch_unwind;

use crate::api::at;
use mutants::Mutant;
use world::World;

const CHAOS_SECS: i64 = 400;
const REST_SECS: i64 = 3_000;

/// One run; how many pods were replaced in it.
fn run(seed: u64, mutant: Mutant) -> usize {
    let mut world = World::new(seed, mutant);
    while world.now < at(CHAOS_SECS) {
        world.step();
    }
    world.calm();
    while world.now < at(CHAOS_SECS + REST_SECS) {
        world.step();
        if world.now > at(CHAOS_SECS + 300) {
            world.now = world.now.plus_secs(2);
        }
    }
    world.check_rest();
    world.replaced
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// `LAZARET_SEED` is the first, `LAZARET_SEEDS` how many.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let first = number("LAZARET_SEED").unwrap_or(1);
    first..first + number("LAZARET_SEEDS").unwrap_or(count)
}

#[test]
fn whatever_goes_wrong_the_promises_hold() {
    let mut replaced = 0;
    for seed in seeds(60) {
        let result = catch_unwind(|| run(seed, Mutant::None));
        replaced += result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("seed {seed}: {text}")
        });
    }
    assert!(replaced as u64 >= seeds(60).count() as u64, "only {replaced} pods were replaced in all runs");
}

/// `--nocapture` tells how many seeds each took.
#[test]
fn who_is_wrong_on_purpose_is_noticed() {
    let noticed = Mutant::WRONG.map(|mutant| {
        let seed = seeds(400).find(|seed| catch_unwind(|| run(*seed, mutant)).is_err());
        println!("{mutant:?}: {seed:?}");
        (mutant, seed)
    });
    for (mutant, seed) in noticed {
        assert!(seed.is_some(), "{mutant:?} was never noticed");
    }
}
