//! How long a decision takes, with all that follows from it.
//!
//! `cargo bench -p lazaret-scheduler`
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::wildcard_enum_match_arm)]

mod cluster;

use cluster::{PODS, all_in_use, arrivals, cluster, free_one, keeping_apart, run, small};
use divan::{Bencher, counter::ItemsCount};
use lazaret_scheduler::PodSpec;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

fn measure(bencher: Bencher<'_, '_>, nodes: usize, claims: bool, spec: impl Fn(usize) -> PodSpec) {
    let arrivals = arrivals(claims, spec);
    bencher
        .counter(ItemsCount::new(PODS))
        .with_inputs(|| cluster(nodes, 8))
        .bench_local_refs(|scheduler| assert_eq!(run(scheduler, &arrivals), PODS));
}

#[divan::bench(args = [500, 5_000], sample_count = 5)]
fn a_thousand_pods(bencher: Bencher<'_, '_>, nodes: usize) {
    measure(bencher, nodes, false, |_| small());
}

#[divan::bench(args = [500, 5_000], sample_count = 5)]
fn a_thousand_pods_with_a_claim(bencher: Bencher<'_, '_>, nodes: usize) {
    measure(bencher, nodes, true, |_| small());
}

#[divan::bench(args = [500, 5_000], sample_count = 3)]
fn a_thousand_pods_that_keep_apart(bencher: Bencher<'_, '_>, nodes: usize) {
    measure(bencher, nodes, true, keeping_apart);
}

#[divan::bench(args = [500, 5_000], sample_count = 5)]
fn one_device_is_freed_for_a_thousand_waiting_pods(bencher: Bencher<'_, '_>, nodes: usize) {
    let arrivals = arrivals(true, |_| small());
    bencher.with_inputs(|| all_in_use(nodes, &arrivals)).bench_local_refs(free_one);
}
