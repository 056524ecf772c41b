//! Worlds in which devices have to be made ready, pods take room, and nodes are cordoned. They draw from a stream of their own: the others stay as they
//! are.

use super::{
    one::{draw_one, number},
    plan::{Config, Op, SMALL_PODS_MAX, Transition},
};
use crate::rng::Rng;

/// The stream of randomness that devices to be made ready come from.
const BINDING: u64 = 9;
/// And the one that requests and priorities come from.
const CROWD: u64 = 18;
/// In as many of a thousand worlds devices have to be made ready, and as many are crowded.
const PERMILLE: u64 = 250;
/// The seconds that devices may take.
const TIMEOUTS_S: [u32; 3] = [20, 60, 600];
/// The transitions of a world that are about this. Most make pods go: their successors are placed.
const STEPS: (u32, u32) = (8, 40);

pub(super) fn draw_timeout(population: u64, pods: u32) -> u32 {
    let rng = &mut Rng::new(population, BINDING);
    if pods <= SMALL_PODS_MAX && rng.chance(PERMILLE) { rng.pick(&TIMEOUTS_S) } else { 0 }
}

pub(super) fn draw_crowd(population: u64, pods: u32) -> u32 {
    let rng = &mut Rng::new(population, CROWD);
    if pods <= SMALL_PODS_MAX && rng.chance(PERMILLE) { number(rng, 1, 2) } else { 0 }
}

/// Nodes are cordoned and uncordoned, drivers change their mind, and pods go, so that others are placed.
pub(super) fn draw_transitions(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, BINDING);
    for _ in 0..number(rng, STEPS.0, STEPS.1) {
        let op = match rng.below(12) {
            0 | 1 => Op::Cordon,
            2 | 3 => Op::Uncordon,
            4 => Op::ReportDevices,
            5 => Op::FinishPod,
            _ => Op::DeletePod,
        };
        let at = number(rng, 0, config.horizon_ms);
        transitions.push(draw_one(op, at, rng));
    }
}
