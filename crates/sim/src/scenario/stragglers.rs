//! Worlds in which allocations of a scheduler that led before arrive after the next one gave the devices to others: writes are held up, people who asked for
//! devices do not want them any more, the leader ends, and others come who want as many. They draw from a stream of their own.

use super::{Config, Op, Transition, draw::number};
use crate::rng::Rng;

/// The stream of randomness that they come from.
const STRAGGLERS: u64 = 21;
/// There are some in as many of a thousand worlds.
const PERMILLE: u64 = 100;
/// The manner of errors in which writes arrive late, and the number that stands for the most frequent ones.
const LATE: (u32, u32) = (1, 899);
/// The next leader gives devices after this time, and late writes arrive for as long after it.
const NEXT_LEADER_MS: (u32, u32) = (8_000, 14_000);

pub(super) fn draw_transitions(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, STRAGGLERS);
    if config.is_large() || !rng.chance(PERMILLE) {
        return;
    }
    let start = number(rng, 500, config.horizon_ms / 2);
    let held_up = 1_500 + config.lag_ms + 2 * config.latency_ms;
    let (manner, permille) = LATE;
    transitions.push(Transition { at: start, op: Op::Errors, a: manner, b: permille, c: held_up });
    let people = number(rng, 1, 4);
    for person in 0..people {
        let (made, gone) = (number(rng, 0, 300), number(rng, 300, 1_000));
        let one = Transition { at: start + made, op: Op::Hesitate, a: person, b: 0, c: 0 };
        transitions.extend([one, Transition { at: start + held_up - gone, b: 1, ..one }]);
    }
    let end = start + held_up;
    transitions.push(Transition { at: end, op: Op::HandOver, a: 0, b: 0, c: rng.pick(&[0, 500, 12_000]) });
    let next = end + number(rng, NEXT_LEADER_MS.0, NEXT_LEADER_MS.1);
    for person in people..2 * people {
        let at = next + number(rng, 0, 3_000);
        transitions.push(Transition { at, op: Op::Hesitate, a: person, b: 0, c: 0 });
    }
}
