//! Worlds in which Nodes are deleted: of machines that run, that go off for a while, and that never come back. They draw from a stream of their own: the
//! others stay as they are.

use super::{
    Config, Op, Transition,
    draw::{draw_one, number},
};
use crate::rng::Rng;

/// The stream of randomness that deletions of Nodes come from.
const DELETIONS: u64 = 19;
/// And whether slices go with them.
const COLLECTED: u64 = 20;
/// There are some in as many of a thousand worlds.
const PERMILLE: u64 = 250;
/// Slices go with them in as many.
const COLLECTED_PERMILLE: u64 = 500;
/// Pods that somebody deletes around a deletion.
const PODS_MAX: u32 = 4;
/// They go at most this long before it, or after.
const AROUND_MS: u32 = 4_000;
/// How long machines are off.
const OFF_MS: [u32; 4] = [100, 3_000, 30_000, 60_000];

pub(super) fn draw_collected(seed: u64) -> u32 {
    u32::from(Rng::new(seed, COLLECTED).chance(COLLECTED_PERMILLE))
}

/// A Node is deleted up to three times, its machine starts again, and pods go shortly before and after that.
pub(super) fn draw_transitions(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, DELETIONS);
    if !rng.chance(PERMILLE) {
        return;
    }
    for _ in 0..number(rng, 1, 3) {
        let at = number(rng, 0, config.horizon_ms);
        let deletion = draw_one(Op::DeleteNode, at, rng);
        let start = Transition { at: at + rng.pick(&OFF_MS), op: Op::PowerOn, ..deletion };
        transitions.extend([deletion, start]);
        for _ in 0..number(rng, 0, PODS_MAX) {
            let op = rng.pick(&[Op::DeletePod, Op::DeletePod, Op::RemoveClaim]);
            let at = (at + number(rng, 0, 2 * AROUND_MS)).saturating_sub(AROUND_MS);
            transitions.push(draw_one(op, at, rng));
        }
    }
}
