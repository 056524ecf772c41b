//! How long a decision takes. `cargo bench -p lazaret-eviction`.
#![allow(missing_docs)]

mod cluster;

use cluster::{NOW, cluster, rule, slice, taint, user};
use divan::Bencher;
use lazaret_eviction::{Input, Subject, preview};
use lazaret_fleet::Changes;
use lazaret_model::Effect;

// As the shipped binary does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// One rule that hits every pod: from what the fleet says changed to a full plan.
#[divan::bench(args = [1_000, 10_000, 100_000], sample_count = 5, sample_size = 1)]
fn one_rule_hits_all(bencher: Bencher, pods: usize) {
    plan_all(bencher, pods, None);
}

/// The same with a pace: all pods queue for permits.
#[divan::bench(args = [100_000], sample_count = 5, sample_size = 1)]
fn one_paced_rule_hits_all(bencher: Bencher, pods: usize) {
    plan_all(bencher, pods, Some(10));
}

fn plan_all(bencher: Bencher, pods: usize, rate: Option<i64>) {
    let prepare = || {
        let (mut fleet, machine) = cluster(pods);
        fleet.apply(rule(Effect::NoExecute, rate));
        let changes: Changes = fleet.take_changes();
        (fleet, machine, changes)
    };
    bencher.with_inputs(prepare).bench_local_refs(|(fleet, machine, changes)| {
        machine.handle(NOW, fleet, Input::Changed(changes));
        assert_eq!(machine.pending_len(), pods);
    });
}

/// A taint is set on a device in use and removed: slice in, eviction out, slice in, eviction withdrawn; the fleet's part
/// is included.
#[divan::bench(args = [8, 10_000])]
fn taint_set_and_removed(bencher: Bencher, pods: usize) {
    let (mut fleet, mut machine) = cluster(pods);
    fleet.apply(slice(1_000_000, 1, &[]));
    user(&mut fleet, 1_000_000, 0, 100);
    let changes = fleet.take_changes();
    machine.handle(NOW, &fleet, Input::Changed(&changes));
    let clean = slice(1_000_000, 1, &[]);
    let tainted = slice(1_000_000, 1, &[taint(Effect::NoExecute, None)]);
    bencher.bench_local(|| {
        fleet.apply(tainted.clone());
        let changes = fleet.take_changes();
        machine.handle(NOW, &fleet, Input::Changed(&changes));
        assert_eq!(machine.pending_len(), 1);
        fleet.apply(clean.clone());
        let changes = fleet.take_changes();
        machine.handle(NOW, &fleet, Input::Changed(&changes));
        assert_eq!(machine.pending_len(), 0);
        // The event that the pod is spared.
        machine.poll_effect()
    });
}

/// The fleet's part of the above alone.
#[divan::bench]
fn taint_set_and_removed_fleet_only(bencher: Bencher) {
    let (mut fleet, _machine) = cluster(8);
    fleet.apply(slice(1_000_000, 1, &[]));
    user(&mut fleet, 1_000_000, 0, 100);
    fleet.take_changes();
    let clean = slice(1_000_000, 1, &[]);
    let tainted = slice(1_000_000, 1, &[taint(Effect::NoExecute, None)]);
    bencher.bench_local(|| {
        fleet.apply(tainted.clone());
        let first = fleet.take_changes();
        fleet.apply(clean.clone());
        (first, fleet.take_changes())
    });
}

/// An exact preview of a rule that would hit every pod.
#[divan::bench(args = [1_000, 100_000], sample_count = 5, sample_size = 1)]
fn preview_of_all(bencher: Bencher, pods: usize) {
    let (mut fleet, _machine) = cluster(pods);
    fleet.apply(rule(Effect::None, None));
    bencher.bench_local(|| preview(&fleet, NOW, Subject::Rule("maintenance")));
}
