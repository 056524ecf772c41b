//! Worlds in which tenants lie in annotations and labels. They draw from a stream of their own.

use super::{
    Config, Op, Transition,
    draw::{draw_one, number},
};
use crate::rng::Rng;

/// The stream of randomness that lies come from.
const LIARS: u64 = 22;
/// There are some in as many of a thousand worlds.
const PERMILLE: u64 = 300;
/// The most lies in a world.
const LIES_MAX: u32 = 8;

pub(super) fn draw_transitions(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, LIARS);
    if config.is_large() || !rng.chance(PERMILLE) {
        return;
    }
    for _ in 0..number(rng, 1, LIES_MAX) {
        let at = number(rng, 0, config.horizon_ms);
        transitions.push(draw_one(Op::Lie, at, rng));
    }
}
