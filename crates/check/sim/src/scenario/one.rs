//! One transition of a kind, and their order.

use super::plan::{Config, Op, Transition};
use crate::{palette, rng::Rng};

pub(super) fn number(rng: &mut Rng, low: u32, high: u32) -> u32 {
    u32::try_from(rng.between(u64::from(low), u64::from(high))).unwrap_or(high)
}

/// Those that come before the world is to rest, by time.
pub(super) fn in_order(config: &Config, transitions: &mut Vec<Transition>) {
    transitions.retain(|transition| transition.at <= config.horizon_ms);
    transitions.sort_by_key(|transition| transition.at);
}

pub(super) fn draw_one(op: Op, at: u32, rng: &mut Rng) -> Transition {
    let (mut a, b, mut c) = (number(rng, 0, 9_999), number(rng, 0, 99_999), number(rng, 0, 99_999));
    match op {
        Op::WriteRule
        | Op::EditEffect
        | Op::EditPace
        | Op::EditSelector
        | Op::EditEviction
        | Op::DeleteRule => a %= palette::NAMES,
        Op::WritePatch | Op::DeletePatch => a %= 3,
        Op::RollPool => c = rng.pick(&[0, 50, 3_000]),
        Op::Stall => c = number(rng, 100, 15_000),
        Op::Crash | Op::HandOver => c = rng.pick(&[0, 500, 12_000]),
        Op::ClockJump => c = rng.pick(&[200, 3_000, 60_000]),
        Op::CutLease => c = number(rng, 2_000, 25_000),
        Op::RestartKubelets | Op::PowerOff | Op::DeleteNode => c = rng.pick(&[100, 2_000, 20_000]),
        Op::Errors => c = number(rng, 500, 10_000),
        Op::Freeze => c = rng.pick(&[300, 5_000, 12_000, 40_000]),
        Op::TaintDevice
        | Op::ClearDevice
        | Op::TaintBySlice
        | Op::ClearSlice
        | Op::VanishSlice
        | Op::RestoreSlice
        | Op::EditClass
        | Op::DeleteClass
        | Op::DeletePod
        | Op::FinishPod
        | Op::Deallocate
        | Op::Relist
        | Op::Repeat
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
        | Op::Cordon
        | Op::Uncordon
        | Op::PowerOn
        | Op::RemoveClaim
        | Op::ReportDevices
        | Op::WriteReplacement
        | Op::DeleteReplacement
        | Op::TaintNode
        | Op::Hesitate
        | Op::Lie
        | Op::ForgeSlice
        | Op::ForgeApproval
        | Op::Panic
        | Op::SlowKubelet => {}
    }
    Transition { at, op, a, b, c }
}
