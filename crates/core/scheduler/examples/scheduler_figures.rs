//! Figures in CPU time, which a busy machine does not spoil: `cargo run --release -p lazaret-scheduler --example scheduler_figures`.
//! Linux only: reads what the kernel says this thread has spent.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm
)]

#[path = "../benches/cluster/mod.rs"]
mod cluster;

use cluster::{PODS, all_in_use, arrivals, cluster, free_one, keeping_apart, run, small};

// As the shipped binary does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rounds, of which the best counts.
const ROUNDS: usize = 3;
/// Clusters with waiting pods at a time.
const CLUSTERS: usize = 20;

/// Nanoseconds of CPU that this thread has used.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn best<T>(mut make: impl FnMut() -> T, mut act: impl FnMut(&mut T)) -> f64 {
    let once = |_| {
        let mut thing = make();
        let start = cpu_ns();
        act(&mut thing);
        cpu_ns() - start
    };
    (0..ROUNDS).map(once).min().unwrap_or(0) as f64
}

fn main() {
    for nodes in [500, 5_000] {
        for (what, claims, spec) in [
            ("pods", false, (|_| small()) as fn(usize) -> _),
            ("pods with a claim", true, |_| small()),
            ("pods with a claim that keep apart", true, keeping_apart),
        ] {
            let arrivals = arrivals(claims, spec);
            let spent = best(|| cluster(nodes, 8), |scheduler| assert_eq!(run(scheduler, &arrivals), PODS));
            println!(
                "{nodes} nodes, {what}: {:.1} us of CPU a pod, seen to bound",
                spent / 1e3 / PODS as f64
            );
        }
        let arrivals = arrivals(true, |_| small());
        // The kernel counts in steps: many of these make one figure.
        let many = || (0..CLUSTERS).map(|_| all_in_use(nodes, &arrivals)).collect::<Vec<_>>();
        let spent = best(many, |all| all.iter_mut().for_each(free_one));
        let each = spent / 1e6 / CLUSTERS as f64;
        println!("{nodes} nodes, {PODS} waiting, one device comes: {each:.2} ms of CPU");
    }
}
