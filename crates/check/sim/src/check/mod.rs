//! The invariants. A decision is judged by what the controller that made it had been told, through the reference;
//! a write by what the server holds; the rest of the world at rest.

mod binding;
mod capacity;
mod claims;
mod compare;
mod decide;
mod demands;
mod end;
mod groups;
pub(crate) mod hardware;
mod health;
mod holds;
mod housekeeping;
mod in_force;
mod incidents;
mod owed;
mod owners;
mod pace;
mod placing;
mod protection;
mod questions;
mod replacement;
mod replacement_reference;
mod replacement_rest;
mod rest;
mod trips;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use compare::Moved;
pub(crate) use in_force::InForce;
pub(crate) use owed::Owed;
pub(crate) use protection::WatchedBreakers;

use lazaret_eviction::{EffectId, Outcome};
use lazaret_model::{DeviceId, Timestamp, Uid};

/// The state of the invariants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checker {
    /// By controller and life: the outcome of a pod's eviction.
    attempts: BTreeMap<(usize, u64, Uid), Attempt>,
    /// By controller and life: pods that it has heard to be gone or leaving, before its watch tells.
    heard_gone: BTreeSet<(usize, u64, Uid)>,
    /// Pods that a controller's DELETE made leave, and how many leaders there had been by then.
    deleted: BTreeMap<Uid, u64>,
    /// By rule: the pods that left because of it.
    evicted: BTreeMap<Uid, BTreeSet<Uid>>,
    /// By rule: pods whose eviction had an outcome that the controller could not know.
    uncertain: BTreeMap<Uid, BTreeSet<Uid>>,
    /// By rule: pods that its status named when a leader began, and that it may count though another writer deleted them; and those that were there.
    named: BTreeMap<Uid, [BTreeSet<Uid>; 2]>,
    /// Evictions that a controller heard to be done, when the last was, and which pods of the owner were there then: they have not come back.
    braked: BTreeMap<Braked, (u32, Timestamp, BTreeSet<Uid>)>,
    paces: pace::Paces,
    ceiling: pace::Paces,
    /// By rule: how often its pace was edited.
    pace_edits: BTreeMap<Uid, (Option<i64>, u64)>,
    rules_seen: usize,
    holdings: claims::Holdings,
    decided: placing::Decided,
    taken_by_hand: questions::TakenByHand,
    written_breakers: trips::WrittenBreakers,
    /// By controller and life: pods that a disruption budget refused to let go, since when.
    asked: BTreeMap<(usize, u64, Uid), u64>,
    /// Pods that a Job noted to have failed.
    noted_failed: BTreeSet<Uid>,
    /// Pods that have to be evicted in this step, for others of their group are: by controller and life.
    parties: Vec<(usize, u64, Uid)>,
    /// Groups of which a controller evicts all: they have to be gone soon.
    leaving: Vec<groups::Leaving>,
    /// By controller and life: when it heard that there is room for the replacement of a pod.
    rooms: BTreeMap<(usize, u64, Uid), u64>,
    /// By controller and life: room that was promised to a pod.
    promised: BTreeMap<(usize, u64, Uid), capacity::PromisedRoom>,
    leaders: u64,
    /// Leaders that ended without a word, or lost the lease.
    abrupt_ends: u64,
}

/// Whom a controller, in one of its lives, evicted from what and for which taint.
pub(crate) type Braked = (usize, u64, Uid, DeviceId, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    UnderWay(EffectId),
    Over(Outcome),
}

impl Checker {
    pub(crate) fn leader_changed(&mut self) {
        self.leaders += 1;
    }

    /// The effects of a controller that were in flight when it lost the lease may or may not be carried out.
    pub(crate) fn stepped_down(&mut self, number: usize, life: u64) {
        self.abrupt_ends += 1;
        let of_controller = (number, life, Uid::default())..(number, life + 1, Uid::default());
        for (_, attempt) in self.attempts.range_mut(of_controller) {
            if matches!(attempt, Attempt::UnderWay(_)) {
                *attempt = Attempt::Over(Outcome::Unknown);
            }
        }
    }

    pub(crate) fn crashed(&mut self) {
        self.abrupt_ends += 1;
    }

    pub(crate) fn clock_jumped(&mut self) {
        self.paces.fill();
        self.ceiling.fill();
        self.braked.clear();
    }
}
