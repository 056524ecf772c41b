//! Many clients at once: one order of their operations explains every answer, on a disk that works and on one that fails.

use std::sync::Arc;

use lazaret_memory::linear::{check, concurrent_session};

use crate::fault::{Fault, FaultyDisk, Random};
use crate::{Options, Store};

fn judge(store: &Store, seed: u64, steps: usize) {
    let history = concurrent_session(store, seed, steps);
    check(&history).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
}

#[test]
fn sessions_in_memory_are_linearizable() {
    for seed in 0..40 {
        judge(&Store::ephemeral(Options::default()).unwrap(), seed, 300);
    }
}

#[test]
fn sessions_with_a_short_history_and_small_groups_are_linearizable() {
    for seed in 0..40 {
        let options = Options {
            history_events_max: 40,
            group_ops_max: 2,
            queue_txns_max: 2,
            segment_bytes_max: 2_000,
            snapshot_log_bytes_min: 4_000,
            ..Options::default()
        };
        let store = Store::open_on(Arc::new(FaultyDisk::new(seed)), options).unwrap();
        judge(&store, seed, 300);
    }
}

/// The store heals within a session or stays read-only to its end: what nobody was told is there whole or not at all.
#[test]
fn sessions_on_a_disk_that_fails_are_linearizable() {
    for seed in 0..60_u64 {
        let mut random = Random(seed);
        let disk = FaultyDisk::new(seed);
        for _ in 0..1 + random.below(4) {
            let first = 10 + random.below(300) as u64;
            let refusal = Fault::Refuse(std::io::ErrorKind::StorageFull);
            (first..first + 1 + random.below(3) as u64).for_each(|step| disk.plan(step, refusal));
        }
        let store = Store::open_on(Arc::new(disk), Options::default()).unwrap();
        judge(&store, seed, 150);
    }
}
