//! The events around incidents: trouble of devices and pools, people, guards, and others who meddle.

use super::{
    one::{draw_one, number},
    plan::{Config, Op, SMALL_PODS_MAX, Transition},
};
use crate::rng::Rng;

/// The stream of randomness that all about incidents comes from.
const HEALTH: u64 = 5;
/// In as many of a thousand small worlds there is a health policy.
const HEALED_PERMILLE: u64 = 300;
/// The most transitions of a world that are about incidents.
const STEPS_MAX: u32 = 24;
/// Devices that drivers say something of in these, so that incidents come to something.
const DEVICES: u32 = 4;
/// Numbers of taints without an effect.
const TAINTS: u32 = 9;
/// And the one that pools which stay incomplete come from, and what others do to a policy and to what was made for incidents.
const MEDDLING: u64 = 61;
/// In as many of a thousand worlds with a policy they do.
const MEDDLED_PERMILLE: u64 = 500;
/// The one that policies beside the first come from.
const BESIDE: u64 = 65;
/// In as many of a thousand worlds with a policy there is a stricter one.
const BESIDE_PERMILLE: u64 = 300;
/// At most as many times one that observes comes or goes.
const OBSERVED_MAX: u32 = 4;
/// In as many of a thousand of these a pool loses a slice while there is time to notice it.
const TORN_PERMILLE: u64 = 500;
/// Such a world lasts for longer by so much.
const WAIT_MS: u32 = 330_000;
/// In as many of a thousand of these incidents are written late, and people delete some before that.
const LATE_PERMILLE: u64 = 250;
/// How writes fail then, how many, and for how long.
const LATE_ERRORS: (u32, u32, u32) = (1, 899, 3_000);
/// A taint without an effect that a policy quarantines for.
const QUARANTINED: u32 = 1;
/// In as many of a thousand of these both processes start again after a slice has gone.
const ABSENT_PERMILLE: u64 = 250;
/// At most as many transitions are about others.
const MEDDLING_MAX: u32 = 6;

/// Whether there is a health policy, and others meddle. Of large worlds each step would look at every device.
pub(super) fn draw_healed(seed: u64, pods: u32) -> u32 {
    let is_healed = pods <= SMALL_PODS_MAX && Rng::new(seed, HEALTH).chance(HEALED_PERMILLE);
    u32::from(is_healed) * (1 + u32::from(Rng::new(seed, MEDDLING).chance(MEDDLED_PERMILLE)))
}

/// Whether a stricter policy stands beside the first one, and one that observes.
pub(super) fn draw_beside(seed: u64, pods: u32) -> u32 {
    let rng = &mut Rng::new(seed, BESIDE);
    let is_there = draw_healed(seed, pods) != 0 && rng.chance(BESIDE_PERMILLE);
    u32::from(is_there) * (1 + u32::from(rng.chance(500)))
}

/// A policy that only observes comes and goes.
fn draw_observer(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, BESIDE);
    for _ in 0..number(rng, 1, OBSERVED_MAX) {
        let at = number(rng, 0, config.horizon_ms);
        transitions.push(draw_one(Op::Observe, at, rng));
    }
}

fn is_torn(seed: u64, healed: u32) -> bool {
    let rng = &mut Rng::new(seed, MEDDLING);
    let _is_meddled = rng.chance(MEDDLED_PERMILLE);
    healed > 1 && rng.chance(TORN_PERMILLE)
}

/// How much longer a world lasts in which a pool is to be noticed that stays incomplete.
pub(super) fn draw_wait(seed: u64, pods: u32) -> u32 {
    if is_torn(seed, draw_healed(seed, pods)) { WAIT_MS } else { 0 }
}

/// Drivers report trouble of a few devices and its end, guards stand in the way, people have their say, and the mode of the policy changes.
pub(super) fn draw_transitions(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, HEALTH);
    for _ in 0..number(rng, 4, STEPS_MAX) {
        let op = match rng.below(18) {
            0..=6 => Op::TaintDevice,
            7..=10 => Op::ClearDevice,
            11 | 12 => Op::Person,
            13 | 14 => Op::Report,
            15 => Op::SetMode,
            _ => Op::WriteGuard,
        };
        let at = number(rng, 0, config.horizon_ms);
        let mut transition = draw_one(op, at, rng);
        if matches!(op, Op::TaintDevice | Op::ClearDevice | Op::Report) {
            transition.a %= DEVICES;
            transition.b %= TAINTS;
        }
        transitions.push(transition);
    }
    if config.beside != 0 {
        draw_observer(config, transitions);
    }
    if config.healed > 1 {
        draw_meddling(config, transitions);
    }
}

/// Others write the policy and take away what was made for incidents; a pool loses a slice, for a moment or for most of the world.
fn draw_meddling(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, MEDDLING);
    let (_is_meddled, is_torn) = (rng.chance(MEDDLED_PERMILLE), rng.chance(TORN_PERMILLE));
    for _ in 0..number(rng, 0, MEDDLING_MAX) {
        let op = rng.pick(&[Op::TakeAway, Op::WritePolicy]);
        let at = number(rng, 0, config.horizon_ms);
        transitions.push(draw_one(op, at, rng));
    }
    if is_torn {
        let at = number(rng, 0, config.horizon_ms - WAIT_MS);
        let torn = draw_one(Op::VanishSlice, at, rng);
        let at = at + rng.pick(&[2_000, 60_000, 310_000, 320_000, WAIT_MS]);
        transitions.extend([torn, Transition { at, op: Op::RestoreSlice, ..torn }]);
    }
    if rng.chance(LATE_PERMILLE) {
        draw_late(config, rng, transitions);
    }
    if rng.chance(ABSENT_PERMILLE) {
        // The next leader has not seen it go.
        let at = number(rng, 0, config.horizon_ms);
        transitions.push(draw_one(Op::VanishSlice, at, rng));
        for controller in 0..2 {
            let at = at + number(rng, 8_000, 16_000);
            transitions.push(Transition { at, op: Op::Crash, a: controller, b: 1, c: 500 });
        }
    }
}

/// New incidents are written late: by then another may have been opened for the same device, for a person has deleted the first.
fn draw_late(config: &Config, rng: &mut Rng, transitions: &mut Vec<Transition>) {
    let at = number(rng, 0, config.horizon_ms / 2);
    let (a, b, c) = LATE_ERRORS;
    transitions.push(Transition { at, op: Op::Errors, a, b, c });
    for device in 0..DEVICES {
        let at = at + number(rng, 0, c / 2);
        transitions.push(Transition { at, op: Op::TaintDevice, a: device, b: QUARANTINED, c: 0 });
        let at = at + number(rng, 4_000, 10_000);
        transitions.push(Transition { at, op: Op::Person, a: number(rng, 0, 9_999), b: 0, c: 0 });
    }
}
