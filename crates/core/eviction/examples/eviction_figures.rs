//! Figures in CPU time, which a busy machine does not spoil: `cargo run --release -p lazaret-eviction --example eviction_figures`.
//! Linux only: reads what the kernel says this thread has spent.
#![allow(missing_docs, clippy::print_stdout)]

#[path = "../benches/cluster/mod.rs"]
mod cluster;

use cluster::{NOW, cluster, rule, slice, taint, user};
use lazaret_eviction::{Input, Subject, preview};
use lazaret_model::Effect;

// As the shipped binary does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS: usize = 100_000;
const ROUNDS: u32 = 200_000;

/// Nanoseconds of CPU that this thread has used.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn main() {
    for (name, rate) in [("not paced", None), ("10 a second", Some(10))] {
        let (mut fleet, mut machine) = cluster(PODS);
        fleet.apply(rule(Effect::NoExecute, rate));
        let changes = fleet.take_changes();
        let start = cpu_ns();
        machine.handle(NOW, &fleet, Input::Changed(&changes));
        let spent = cpu_ns() - start;
        assert_eq!(machine.pending_len(), PODS);
        println!("one rule hits {PODS} pods, {name}: full plan in {:.1} ms of CPU", spent as f64 / 1e6);
    }
    let (mut fleet, mut machine) = cluster(10_000);
    fleet.apply(slice(1_000_000, 1, &[]));
    user(&mut fleet, 1_000_000, 0, 100);
    let changes = fleet.take_changes();
    machine.handle(NOW, &fleet, Input::Changed(&changes));
    let clean = slice(1_000_000, 1, &[]);
    let tainted = slice(1_000_000, 1, &[taint(Effect::NoExecute, None)]);
    for with_machine in [false, true] {
        let start = cpu_ns();
        for _ in 0..ROUNDS {
            for input in [&tainted, &clean] {
                fleet.apply(input.clone());
                let changes = fleet.take_changes();
                if with_machine {
                    machine.handle(NOW, &fleet, Input::Changed(&changes));
                }
            }
            while machine.poll_effect().is_some() {}
        }
        let each = (cpu_ns() - start) as f64 / f64::from(ROUNDS);
        let what = if with_machine { "fleet and eviction" } else { "fleet alone" };
        println!("a taint set and removed on a device in use, {what}: {each:.0} ns of CPU");
    }
    let (mut fleet, _machine) = cluster(PODS);
    fleet.apply(rule(Effect::None, None));
    let start = cpu_ns();
    let found = preview(&fleet, NOW, Subject::Rule("maintenance"));
    println!(
        "preview of a rule on {} pods: {:.1} ms of CPU",
        found.pods.len(),
        (cpu_ns() - start) as f64 / 1e6
    );
}
