//! Worlds in which Nodes are deleted: of machines that run, that go off for a while, and that never come back. Worlds in which allocations of a scheduler that
//! led before arrive after the next one gave the devices to others: writes are held up, users who asked for devices delete their pods, the leader ends, and
//! others come who want as many. Worlds in which tenants lie in annotations and labels. Each draws from a stream of its own: the others stay as they are.

use super::{
    one::{draw_one, in_order, number},
    plan::{Config, Op, Transition},
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
/// The stream of randomness that late allocations come from.
const STRAGGLERS: u64 = 21;
/// There are some in as many of a thousand worlds.
const STRAGGLERS_PERMILLE: u64 = 100;
/// The manner of errors in which writes arrive late, and the number that stands for the most frequent ones.
const LATE: (u32, u32) = (1, 899);
/// The next leader gives devices after this time, and late writes arrive for as long after it.
const NEXT_LEADER_MS: (u32, u32) = (8_000, 14_000);
/// The stream of randomness that leaders come from who hand over while their writes are in flight.
const HANDOVERS: u64 = 23;
/// The first one leads by then.
const FIRST_LEADER_MS: u32 = 4_000;
/// Their writes are held up for as long before.
const HELD_UP_MS: u32 = 2_000;
/// The most users who make pods, or whose pods have to be made again, meanwhile.
const PLACED_MAX: u32 = 8;
/// The stream of randomness that late allocations come from where a mutant is looked for.
const LATE_ALLOCATIONS: u64 = 24;
/// And forged marks.
const FORGERS: u64 = 25;
/// As many marks are forged.
const FORGED: u32 = 24;
/// The numbers of lies that are marks.
const MARKS: [u32; 2] = [2, 3];
/// The stream of randomness that lies come from.
const LIARS: u64 = 22;
/// There are some in as many of a thousand worlds.
const LIARS_PERMILLE: u64 = 300;
/// The most lies in a world.
const LIES_MAX: u32 = 8;

pub(super) fn draw_collected(seed: u64) -> u32 {
    u32::from(Rng::new(seed, COLLECTED).chance(COLLECTED_PERMILLE))
}

/// Everything of these kinds.
pub(super) fn draw_transitions(config: &Config, transitions: &mut Vec<Transition>) {
    draw_deletions(config, transitions);
    draw_stragglers(config, transitions);
    draw_lies(config, transitions);
}

/// A Node is deleted up to three times, its machine starts again, and pods go shortly before and after that.
fn draw_deletions(config: &Config, transitions: &mut Vec<Transition>) {
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

fn draw_stragglers(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, STRAGGLERS);
    if !config.is_large() && rng.chance(STRAGGLERS_PERMILLE) {
        add_stragglers(config, transitions, rng);
    }
}

fn add_stragglers(config: &Config, transitions: &mut Vec<Transition>, rng: &mut Rng) {
    let start = number(rng, 500, config.horizon_ms / 2);
    let held_up = 1_500 + config.lag_ms + 2 * config.latency_ms;
    let (manner, permille) = LATE;
    transitions.push(Transition { at: start, op: Op::Errors, a: manner, b: permille, c: held_up });
    let users = number(rng, 1, 4);
    for user in 0..users {
        let (made, gone) = (number(rng, 0, 300), number(rng, 300, 1_000));
        let one = Transition { at: start + made, op: Op::Hesitate, a: user, b: 0, c: 0 };
        transitions.extend([one, Transition { at: start + held_up - gone, b: 1, ..one }]);
    }
    let end = start + held_up;
    transitions.push(Transition { at: end, op: Op::HandOver, a: 0, b: 0, c: rng.pick(&[0, 500, 12_000]) });
    let next = end + number(rng, NEXT_LEADER_MS.0, NEXT_LEADER_MS.1);
    for user in users..2 * users {
        let at = next + number(rng, 0, 3_000);
        transitions.push(Transition { at, op: Op::Hesitate, a: user, b: 0, c: 0 });
    }
}

/// Again and again, writes are held up while pods are to be placed, and their leader gives the lease back: the next one has it at once.
pub(super) fn hand_over_in_flight(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, HANDOVERS);
    let mut start = FIRST_LEADER_MS;
    while start + HELD_UP_MS <= config.horizon_ms {
        let (manner, permille) = LATE;
        transitions.push(Transition { at: start, op: Op::Errors, a: manner, b: permille, c: HELD_UP_MS });
        for _ in 0..number(rng, 2, PLACED_MAX) {
            let at = start + number(rng, 0, HELD_UP_MS);
            transitions.push(draw_one(rng.pick(&[Op::DeletePod, Op::Hesitate]), at, rng));
        }
        let end = start + HELD_UP_MS;
        transitions.push(Transition { at: end, op: Op::HandOver, a: 0, b: 0, c: 0 });
        start = end + number(rng, NEXT_LEADER_MS.0, NEXT_LEADER_MS.1);
    }
    in_order(config, transitions);
}

/// Tenants forge marks of replacements from when some may have begun.
pub(super) fn forge_marks(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, FORGERS);
    for _ in 0..FORGED {
        let at = number(rng, config.horizon_ms / 8, config.horizon_ms);
        let lie = draw_one(Op::Lie, at, rng);
        transitions.push(Transition { b: rng.pick(&MARKS), ..lie });
    }
    in_order(config, transitions);
}

/// Late allocations in every world.
pub(super) fn hold_up_allocations(config: &Config, transitions: &mut Vec<Transition>) {
    if !config.is_large() {
        add_stragglers(config, transitions, &mut Rng::new(config.seed, LATE_ALLOCATIONS));
    }
    in_order(config, transitions);
}

fn draw_lies(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, LIARS);
    if config.is_large() || !rng.chance(LIARS_PERMILLE) {
        return;
    }
    for _ in 0..number(rng, 1, LIES_MAX) {
        let at = number(rng, 0, config.horizon_ms);
        transitions.push(draw_one(Op::Lie, at, rng));
    }
}
