//! Worlds in which nodes publish in pools of others, and approvals are forged. From streams of their own: the other worlds stay as they are.

use super::{
    one::{draw_one, in_order, number},
    plan::{Config, Op, Transition},
};
use crate::{palette, rng::Rng};

/// The streams of randomness that forged slices and approvals come from.
const SLICES: u64 = 26;
const APPROVALS: u64 = 27;
/// There are some in as many of a thousand worlds.
const PERMILLE: u64 = 150;
/// The most of a kind in a world.
const FORGED_MAX: u32 = 8;
/// As many where a mutant is looked for.
const HUNTED: u32 = 24;
/// The number and the seconds of a guard of all devices without a breaker, which wants approval by a second person of all that evicts.
const GUARD: (u32, u32) = (291, 12);
/// Numbers of taints that evict at once and say nothing about how pods leave.
const EVICTING_TAINTS: (u32, u32) = (170, 179);

/// Some of both kinds.
pub(super) fn draw_transitions(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, SLICES);
    if !config.is_large() && rng.chance(PERMILLE) {
        add_slices(config, transitions, FORGED_MAX, rng);
    }
    let rng = &mut Rng::new(config.seed, APPROVALS);
    if config.protected != 0 && !config.is_large() && rng.chance(PERMILLE) {
        add_approvals(config, transitions, FORGED_MAX, rng);
    }
}

/// Forged slices in every world.
pub(super) fn forge_slices(config: &Config, transitions: &mut Vec<Transition>) {
    add_slices(config, transitions, HUNTED, &mut Rng::new(config.seed, SLICES));
    in_order(config, transitions);
}

/// Forged approvals in every world.
pub(super) fn forge_approvals(config: &Config, transitions: &mut Vec<Transition>) {
    add_approvals(config, transitions, HUNTED, &mut Rng::new(config.seed, APPROVALS));
    in_order(config, transitions);
}

fn add_slices(config: &Config, transitions: &mut Vec<Transition>, most: u32, rng: &mut Rng) {
    for _ in 0..number(rng, 1, most) {
        let at = number(rng, 0, config.horizon_ms);
        transitions.push(draw_one(Op::ForgeSlice, at, rng));
    }
}

/// A guard wants approval, a rule is written, and forged approvals come after it.
fn add_approvals(config: &Config, transitions: &mut Vec<Transition>, most: u32, rng: &mut Rng) {
    let start = number(rng, 0, config.horizon_ms / 2);
    let (how, seconds) = GUARD;
    transitions.push(Transition { at: start, op: Op::WriteGuard, a: number(rng, 0, 1), b: how, c: seconds });
    let (rule, selector) = (number(rng, 0, palette::NAMES - 1), number(rng, 0, 99_999));
    let evicting = number(rng, EVICTING_TAINTS.0, EVICTING_TAINTS.1);
    let written = start + number(rng, 0, 2_000);
    transitions.push(Transition { at: written, op: Op::WriteRule, a: rule, b: selector, c: evicting });
    for _ in 0..number(rng, 1, most) {
        let at = written + number(rng, 0, config.horizon_ms / 2);
        let forged = draw_one(Op::ForgeApproval, at, rng);
        transitions.push(Transition { a: rule, ..forged });
    }
}
