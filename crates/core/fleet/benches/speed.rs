//! The cost of a change. `cargo bench -p lazaret-fleet --bench speed`.

#[allow(dead_code, reason = "shared by benches that use different parts")]
mod world;

use std::sync::Arc;

use divan::{Bencher, black_box};
use lazaret_fleet::{Fleet, Input};

fn main() {
    divan::main();
}

/// Adds and removes a rule; divide by two for one of them.
fn rule_on_and_off(bencher: Bencher<'_, '_>, mut fleet: Fleet, rule: &Arc<lazaret_model::DeviceTaintRule>) {
    bencher.bench_local(|| {
        fleet.apply(Input::Rule(rule.clone()));
        black_box(fleet.take_changes());
        fleet.apply(Input::RuleGone(rule.name.clone()));
        black_box(fleet.take_changes());
    });
}

/// A rule for one device among 500 slices of 64, and its removal.
#[divan::bench]
fn rule_for_one_device_on_and_off(bencher: Bencher<'_, '_>) {
    let rule = world::rule(Some(world::DRIVER), Some("node-00250"), Some("gpu-17"), &[]);
    rule_on_and_off(bencher, world::fleet(500, 64), &rule);
}

/// A rule for everything, on 1,000 slices of 64 devices that are 1,000 pools, and its removal.
#[divan::bench(sample_count = 20)]
fn rule_for_1000_slices_on_and_off(bencher: Bencher<'_, '_>) {
    rule_on_and_off(bencher, world::fleet(1000, 64), &world::rule(Some(world::DRIVER), None, None, &[]));
}

/// The same while a snapshot is held, so that every slice's state is copied before it is changed.
#[divan::bench(sample_count = 20)]
fn rule_for_1000_slices_on_and_off_with_snapshots(bencher: Bencher<'_, '_>) {
    let mut fleet = world::fleet(1000, 64);
    let rule = world::rule(Some(world::DRIVER), None, None, &[]);
    bencher.bench_local(|| {
        fleet.apply(Input::Rule(rule.clone()));
        let tainted = fleet.snapshot();
        fleet.apply(Input::RuleGone(rule.name.clone()));
        black_box((tainted, fleet.snapshot()));
    });
}

/// A rule with an expression, asked of 64,000 devices, and its removal.
#[divan::bench(sample_count = 20)]
fn rule_with_cel_for_1000_slices_on_and_off(bencher: Bencher<'_, '_>) {
    let expression = r#"device.attributes["gpu.example.com"].minor == 3"#;
    rule_on_and_off(bencher, world::fleet(1000, 64), &world::rule(None, None, None, &[expression]));
}

/// A taint set on and removed from a device in use: two updates of a slice of one device in, changes out.
#[divan::bench]
fn taint_set_and_removed_on_a_device_in_use(bencher: Bencher<'_, '_>) {
    let mut fleet = world::fleet(1000, 1);
    fleet.apply(Input::Claim(Arc::new(world::claim(500, 0))));
    fleet.take_changes();
    let clean = Arc::new(world::slice(500, 1));
    let mut tainted = world::slice(500, 1);
    tainted.devices[0].taints.push(world::taint());
    let tainted = Arc::new(tainted);
    bencher.bench_local(|| {
        fleet.apply(Input::Slice(tainted.clone()));
        black_box(fleet.take_changes());
        fleet.apply(Input::Slice(clean.clone()));
        black_box(fleet.take_changes());
    });
}

/// One device allocated and freed again among 5,000 pools, with a snapshot after each.
#[divan::bench]
fn claim_and_release_with_snapshots(bencher: Bencher<'_, '_>) {
    let mut fleet = world::fleet(5000, 8);
    let claim = Arc::new(world::claim(2500, 3));
    bencher.bench_local(|| {
        fleet.apply(Input::Claim(claim.clone()));
        black_box((fleet.take_changes(), fleet.snapshot()));
        fleet.apply(Input::ClaimGone(claim.key.clone()));
        black_box((fleet.take_changes(), fleet.snapshot()));
    });
}

/// A slice of 8 devices seen for the first time, and gone again.
#[divan::bench]
fn slice_of_8_added_and_removed(bencher: Bencher<'_, '_>) {
    let mut fleet = world::fleet(1000, 8);
    let slice = Arc::new(world::slice(2000, 8));
    bencher.bench_local(|| {
        fleet.apply(Input::Slice(slice.clone()));
        fleet.apply(Input::SliceGone(slice.name.clone()));
        black_box(fleet.take_changes());
    });
}

/// The users of the devices that a rule selects: one rule, 1,000 slices of 8, 100 devices held.
#[divan::bench]
fn who_uses_what_a_rule_means(bencher: Bencher<'_, '_>) {
    let mut fleet = world::fleet(1000, 8);
    (0..100).for_each(|at| fleet.apply(Input::Claim(Arc::new(world::claim(at * 10, 0)))));
    fleet.apply(Input::Rule(world::rule(Some(world::DRIVER), None, None, &[])));
    bencher.bench_local(|| {
        let selection = fleet.rule_selection("maintenance");
        black_box((selection.published_count(), selection.held().count()))
    });
}
