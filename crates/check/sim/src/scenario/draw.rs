//! How the world of a seed is drawn.

use super::{
    binding, forgers, incidents,
    one::{draw_one, in_order, number},
    people,
    plan::{Config, Limits, Op, SKEW_MS_MAX, SMALL_PODS_MAX, Transition},
};
use crate::{palette, rng::Rng};

/// The stream of randomness that sizes come from.
const BIRTH: u64 = 3;
/// And the one that all that protects pods comes from: worlds without it are what they were before there was any.
const PROTECTION: u64 = 4;
/// And the one that approvals come from.
const APPROVALS: u64 = 6;
/// And the one that devices come from that fail one after the other.
const FLAPS: u64 = 7;
/// And the one that budgets come from which permit nothing while pods are to be evicted.
const BUDGETS: u64 = 8;
/// And the one that all that people do to owners of pods comes from.
const OWNERS: u64 = 11;
/// In as many of a thousand worlds they do something.
const OWNED_PERMILLE: u64 = 400;
/// At most as often.
const OWNER_STEPS_MAX: u32 = 5;
/// And the one that restarts of the kubelets come from.
const KUBELETS: u64 = 10;
/// In this many of a thousand worlds the kubelets start again.
const RESTARTED_PERMILLE: u64 = 250;
/// The stream of randomness that outages of machines come from.
const OUTAGES: u64 = 13;
/// There are some in as many of a thousand worlds.
const OUTAGES_PERMILLE: u64 = 250;
/// And the one that all about replacement policies comes from.
const REPLACEMENT: u64 = 12;
/// In as many of a thousand small worlds there are such policies.
const REPLACED_PERMILLE: u64 = 250;
/// The most transitions of a world that are about replacement, policies at the start aside.
const REPLACEMENT_STEPS_MAX: u32 = 16;
/// Devices that drivers taint in these: most of them are in use.
const REPLACEMENT_DEVICES: u32 = 12;
/// Numbers of taints that evict no pod, and the difference between two that differ in when they were set.
const REPLACEMENT_TAINTS: (u32, u32) = (18, 45);
/// In as many of a thousand worlds with guards there are such budgets.
const BUDGETED_PERMILLE: u64 = 200;
/// The number of an eviction that asks budgets, without a deadline, a limit, a window, groups or room.
const ASKING_BUDGETS: u32 = 93;
/// The number of the selector of all devices.
const ALL_DEVICES: u32 = 1;
/// In as many of a thousand worlds with guards there are such.
const FLAPPING_PERMILLE: u64 = 150;
/// The number and the seconds of a guard of all devices whose breaker permits one, and counts it for 20 seconds.
const WINDOWED_GUARD: (u32, u32) = (194, 16);
/// In as many of a thousand worlds with guards there are approvals.
const APPROVED_PERMILLE: u64 = 400;
/// Numbers of guards that want approval of every rule that evicts somebody, for all devices.
const CONFIRMING_GUARDS: [u32; 3] = [34, 35, 46];
/// Seconds by which a guard has no breaker.
const NO_BREAKER: u32 = 12;
/// Numbers of taints that evict at once and say nothing about how pods leave.
const EVICTING_TAINTS: (u32, u32) = (170, 179);
/// The stream of randomness that the kind of server comes from.
const SERVERS: u64 = 19;
/// In as many of a thousand worlds the server looks at the devices of allocations.
const ONCE_PERMILLE: u64 = 500;
/// The most transitions of a world that are about protection.
const PROTECTION_STEPS_MAX: u32 = 12;

pub(super) fn draw_config(seed: u64, limits: Limits, rng: &mut Rng) -> Config {
    let population = seed / limits.siblings();
    let born = &mut Rng::new(population, BIRTH);
    let most = limits.pods.max(2);
    // Small worlds find most bugs and cost least: the size is 2 to the power of an even draw.
    let scale = number(born, 1, most.ilog2());
    let largest = if scale == most.ilog2() { most } else { 1 << scale };
    let drawn = number(born, 1 << (scale - 1), largest);
    let pods = if limits.exact { most } else { drawn };
    let nodes = number(born, 1, 2 + pods / 12);
    let slices = number(born, 1, 3);
    let fill = pods * number(born, 11, 17) / 10;
    let devices = (fill / (nodes * slices) + 1).min(64);
    let calm = rng.chance(200);
    Config {
        seed,
        population,
        pods,
        nodes,
        slices,
        devices,
        taint_slices: number(born, 0, 1),
        lag_ms: if calm { 5 } else { rng.pick(&[20, 200, 1_500, 6_000]) },
        latency_ms: if calm { 2 } else { rng.pick(&[10, 100, 500]) },
        grace_ms: rng.pick(&[0, 500, 5_000, 20_000]),
        skew_0: if calm { SKEW_MS_MAX } else { number(rng, 0, 2 * SKEW_MS_MAX) },
        skew_1: if calm { SKEW_MS_MAX } else { number(rng, 0, 2 * SKEW_MS_MAX) },
        default_pace: if rng.chance(300) { number(rng, 1, 20) } else { 0 },
        global_pace: if rng.chance(200) { number(rng, 2, 40) } else { 0 },
        burst: rng.pick(&[1, 3, 10, 10]),
        horizon_ms: number(rng, 10_000, 90_000) + incidents::draw_wait(seed, pods),
        restore: number(rng, 0, 1),
        wide: u32::from(born.chance(600)),
        protected: u32::from(Rng::new(seed, PROTECTION).chance(350)),
        healed: incidents::draw_healed(seed, pods),
        beside: incidents::draw_beside(seed, pods),
        binding: binding::draw_timeout(population, pods),
        crowded: binding::draw_crowd(population, pods),
        replaced: u32::from(pods <= SMALL_PODS_MAX && Rng::new(seed, REPLACEMENT).chance(REPLACED_PERMILLE)),
        collected: people::draw_collected(seed),
        once: u32::from(Rng::new(seed, SERVERS).chance(ONCE_PERMILLE)),
    }
}

/// How often each operation is drawn; the temper of a seed doubles some and mutes others.
fn weight(op: Op) -> u64 {
    match op {
        Op::TaintDevice | Op::WriteRule => 10,
        Op::ClearDevice | Op::EditEffect => 6,
        Op::TaintBySlice | Op::DeleteRule | Op::RollPool | Op::VanishSlice | Op::RestoreSlice => 4,
        Op::DeletePod => 6,
        Op::ClearSlice | Op::EditPace | Op::EditSelector | Op::FinishPod => 3,
        Op::Relist => 5,
        Op::Stall | Op::Crash | Op::HandOver | Op::CutLease | Op::Errors | Op::Freeze => 3,
        Op::WritePatch | Op::DeletePatch | Op::EditClass | Op::DeleteClass | Op::Deallocate => 2,
        Op::Repeat | Op::ClockJump | Op::Panic | Op::SlowKubelet => 2,
        // Drawn apart.
        Op::EditEviction
        | Op::SetBudget
        | Op::WriteGuard
        | Op::Approve
        | Op::Person
        | Op::Report
        | Op::SetMode
        | Op::Observe
        | Op::WritePolicy
        | Op::TakeAway
        | Op::Scale
        | Op::DeleteOwner
        | Op::RestartKubelets
        | Op::PowerOff
        | Op::PowerOn
        | Op::DeleteNode
        | Op::RemoveClaim
        | Op::Cordon
        | Op::Uncordon
        | Op::ReportDevices => 0,
        Op::WriteReplacement | Op::DeleteReplacement | Op::TaintNode | Op::Hesitate | Op::Lie => 0,
        Op::ForgeSlice | Op::ForgeApproval => 0,
    }
}

/// Whether this ends a leader, or its agent, before it has said all it knows.
fn is_abrupt(op: Op) -> bool {
    matches!(op, Op::Crash | Op::CutLease | Op::Freeze | Op::ClockJump | Op::Panic)
}

pub(super) fn draw_transitions(config: &Config, limits: Limits, rng: &mut Rng) -> Vec<Transition> {
    // Where every leader ends in good order, more can be demanded of what they leave behind.
    let orderly = rng.chance(250);
    let weights: Vec<(Op, u64)> = Op::ALL
        .iter()
        .filter(|op| weight(**op) > 0)
        .map(|op| (*op, weight(*op) * rng.pick(&[0, 1, 1, 2, 4]) * u64::from(!(orderly && is_abrupt(*op)))))
        .collect();
    let total: u64 = weights.iter().map(|(_, weight)| weight).sum();
    let count = number(rng, 3.min(limits.steps), limits.steps);
    let mut transitions = Vec::new();
    for _ in 0..count {
        let mut draw = rng.below(total);
        let op = weights
            .iter()
            .find(|(_, weight)| {
                let hit = draw < *weight;
                draw = draw.saturating_sub(*weight);
                hit
            })
            .map_or(Op::TaintDevice, |(op, _)| *op);
        let at = number(rng, 0, config.horizon_ms);
        let transition = draw_one(op, at, rng);
        // A flapping device or rule: the same again and its opposite, a few times, quickly.
        let opposites = [
            (Op::TaintDevice, Op::ClearDevice),
            (Op::VanishSlice, Op::RestoreSlice),
            (Op::WriteRule, Op::DeleteRule),
        ];
        let opposite = opposites.into_iter().find(|(there, _)| *there == op).map(|(_, back)| back);
        if let Some(back) = opposite.filter(|_| rng.chance(150)) {
            let gap = rng.pick(&[10, 300, 2_500]);
            for round in 0..number(rng, 1, 3) {
                transitions.push(Transition { at: at + (2 * round + 1) * gap, op: back, ..transition });
                transitions.push(Transition { at: at + (2 * round + 2) * gap, ..transition });
            }
        }
        transitions.push(transition);
    }
    if config.protected != 0 {
        let rng = &mut Rng::new(config.seed, PROTECTION);
        for _ in 0..number(rng, 1, PROTECTION_STEPS_MAX) {
            let op = rng.pick(&[Op::EditEviction, Op::SetBudget, Op::SetBudget, Op::WriteGuard]);
            let at = number(rng, 0, config.horizon_ms);
            transitions.push(draw_one(op, at, rng));
        }
        draw_approvals(config, &mut transitions);
        draw_budgets(config, &mut transitions);
    }
    if config.healed != 0 {
        incidents::draw_transitions(config, &mut transitions);
    }
    if config.replaced != 0 {
        draw_replacement(config, &mut transitions);
    }
    if config.protected != 0 {
        draw_flaps(config, &mut transitions);
    }
    draw_owners(config, &mut transitions);
    draw_restarts(config, &mut transitions);
    draw_outages(config, &mut transitions);
    if config.binding != 0 || config.crowded != 0 {
        binding::draw_transitions(config, &mut transitions);
    }
    people::draw_transitions(config, &mut transitions);
    forgers::draw_transitions(config, &mut transitions);
    in_order(config, &mut transitions);
    transitions
}

/// In some worlds the process of the kubelets starts again, up to three times.
fn draw_restarts(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, KUBELETS);
    if rng.chance(RESTARTED_PERMILLE) {
        for _ in 0..number(rng, 1, 3) {
            let at = number(rng, 0, config.horizon_ms);
            transitions.push(draw_one(Op::RestartKubelets, at, rng));
        }
    }
}

/// In some worlds machines go off and start again, and a person removes claims, up to three times each.
fn draw_outages(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, OUTAGES);
    if rng.chance(OUTAGES_PERMILLE) {
        for _ in 0..number(rng, 1, 3) {
            let at = number(rng, 0, config.horizon_ms);
            let off = draw_one(Op::PowerOff, at, rng);
            let at = at + rng.pick(&[100, 3_000, 30_000]);
            transitions.extend([off, Transition { at, op: Op::PowerOn, ..off }]);
            let at = number(rng, 0, config.horizon_ms);
            transitions.push(draw_one(Op::RemoveClaim, at, rng));
        }
    }
}

/// In some worlds a guard wants every eviction to be approved, somebody writes a rule, and others approve it: for what it reaches, or for less.
fn draw_approvals(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, APPROVALS);
    if !rng.chance(APPROVED_PERMILLE) {
        return;
    }
    let at = number(rng, 0, config.horizon_ms / 2);
    let (how, seconds) = (rng.pick(&CONFIRMING_GUARDS), NO_BREAKER);
    transitions.push(Transition { at, op: Op::WriteGuard, a: number(rng, 0, 1), b: how, c: seconds });
    let (rule, selector) = (number(rng, 0, palette::NAMES - 1), number(rng, 0, 99_999));
    let evicting = number(rng, EVICTING_TAINTS.0, EVICTING_TAINTS.1);
    let mut at = at + number(rng, 0, 2_000);
    transitions.push(Transition { at, op: Op::WriteRule, a: rule, b: selector, c: evicting });
    for _ in 0..number(rng, 1, 3) {
        at += number(rng, 300, 6_000);
        transitions.push(Transition { at, op: Op::Approve, a: rule, b: number(rng, 0, 99), c: 0 });
    }
}

/// In some worlds people scale owners of pods and delete some.
fn draw_owners(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, OWNERS);
    if !rng.chance(OWNED_PERMILLE) {
        return;
    }
    for _ in 0..number(rng, 1, OWNER_STEPS_MAX) {
        let op = rng.pick(&[Op::Scale, Op::Scale, Op::Scale, Op::DeleteOwner]);
        let at = number(rng, 0, config.horizon_ms);
        transitions.push(draw_one(op, at, rng));
    }
}

/// In some worlds no budget permits an eviction when a rule wants all pods to be evicted.
fn draw_budgets(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, BUDGETS);
    if !rng.chance(BUDGETED_PERMILLE) {
        return;
    }
    let at = number(rng, 0, config.horizon_ms / 2);
    transitions.extend((0..3).map(|a| Transition { at, op: Op::SetBudget, a, b: 0, c: 0 }));
    let rule = number(rng, 0, palette::NAMES - 1);
    let evicting = number(rng, EVICTING_TAINTS.0, EVICTING_TAINTS.1);
    transitions.push(Transition { at, op: Op::WriteRule, a: rule, b: ALL_DEVICES, c: evicting });
    transitions.push(Transition { at, op: Op::EditEviction, a: rule, b: ASKING_BUDGETS, c: 0 });
}

/// In some worlds devices fail one after the other, each for a short time, under a breaker that counts them for longer. Nothing else taints there: the breaker
/// would be tripped all the time.
fn draw_flaps(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, FLAPS);
    if !rng.chance(FLAPPING_PERMILLE) {
        return;
    }
    transitions.retain(|transition| {
        !matches!(
            transition.op,
            Op::TaintDevice | Op::TaintBySlice | Op::WriteRule | Op::WritePatch | Op::WriteGuard
        )
    });
    let mut at = number(rng, 0, config.horizon_ms / 2);
    let (how, seconds) = WINDOWED_GUARD;
    transitions.push(Transition { at, op: Op::WriteGuard, a: number(rng, 0, 1), b: how, c: seconds });
    for _ in 0..number(rng, 3, 9) {
        at += number(rng, 300, 2_000);
        let device = number(rng, 0, 9_999);
        let evicting = number(rng, EVICTING_TAINTS.0, EVICTING_TAINTS.1);
        transitions.push(Transition { at, op: Op::TaintDevice, a: device, b: evicting, c: 0 });
        at += number(rng, 1_000, 4_000);
        transitions.push(Transition { at, op: Op::ClearDevice, a: device, b: 0, c: 0 });
    }
}

/// Policies at the start, taints that only policies mind, and policies that change and go.
pub(super) fn draw_replacement(config: &Config, transitions: &mut Vec<Transition>) {
    let rng = &mut Rng::new(config.seed, REPLACEMENT);
    for _ in 0..number(rng, 2, 6) {
        let at = number(rng, 0, config.horizon_ms / 4);
        transitions.push(draw_one(Op::WriteReplacement, at, rng));
    }
    for _ in 0..number(rng, 3, REPLACEMENT_STEPS_MAX) {
        let op = match rng.below(14) {
            0..=5 => Op::TaintDevice,
            6 => Op::ClearDevice,
            7..=9 => Op::TaintNode,
            10 => Op::WriteReplacement,
            11 => Op::DeleteReplacement,
            _ => Op::SetBudget,
        };
        let mut transition = draw_one(op, number(rng, 0, config.horizon_ms * 3 / 4), rng);
        if matches!(op, Op::TaintDevice | Op::ClearDevice) {
            transition.a %= REPLACEMENT_DEVICES;
            let (taints, apart) = REPLACEMENT_TAINTS;
            transition.b = transition.b % taints + transition.b / taints % 8 * apart;
        }
        transitions.push(transition);
    }
}
