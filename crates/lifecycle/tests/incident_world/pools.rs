//! The slices of the pool come and go. One that stays incomplete for long is a signal of each of its devices: not earlier, not never, and not for longer.

use lazaret_lifecycle::{INCOMPLETE_MS, Incident, Input, Notice, PoolState, PoolWatch, Signal, Source};
use lazaret_model::{PoolId, Text, Timestamp};

use super::{
    DEVICES, SECOND,
    objects::{Dice, Event, Mutant, id},
    world::{World, signal},
};

/// The rule that means an incomplete pool.
pub(super) const TORN: &str = "torn";
pub(super) const POOL_COMPLETE: &str = "poolComplete";
/// Of as many worlds one has a pool that does not stay complete; by dice of its own, so that the others are what they were before there was any.
const ONE_IN: u64 = 4;
/// In one of as many steps a pool loses a slice.
const TORN_ONE_IN: u64 = 60;
/// An update is over after some steps; a driver that has ended stays away for most of a world.
const BACK_ONE_IN: [u64; 2] = [20, 600];

/// The pool of all devices.
pub(super) struct Pool {
    is_played: bool,
    dice: Dice,
    pub(super) is_incomplete: bool,
    back_one_in: u64,
    /// When faults ended.
    rests_since: Option<i64>,
    /// From when until when a controller knew that it was incomplete for long.
    long: Vec<(i64, i64)>,
}

impl Pool {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            is_played: seed % ONE_IN == ONE_IN - 1,
            dice: Dice(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1),
            is_incomplete: false,
            back_one_in: 1,
            rests_since: None,
            long: Vec::new(),
        }
    }
}

/// One controller's view of the pool.
#[derive(Default)]
pub(super) struct PoolView {
    watch: PoolWatch,
    since: Option<i64>,
}

/// The signals of an incomplete pool, one for each device.
fn signals(at: Timestamp) -> [Signal; DEVICES.len()] {
    DEVICES.map(|device| {
        let value: Text = "False".into();
        Signal { value, ..signal(&id(device), &POOL_COMPLETE.into(), at, Source::Vanished) }
    })
}

fn pool_id() -> PoolId {
    id(DEVICES[0]).pool_id()
}

impl World {
    /// A slice goes or comes.
    pub(super) fn pool_steps(&mut self) {
        let Pool { is_played, dice, is_incomplete, back_one_in, .. } = &mut self.pool;
        if !*is_played || !dice.one_in(if *is_incomplete { *back_one_in } else { TORN_ONE_IN }) {
            return;
        }
        *back_one_in = BACK_ONE_IN[dice.roll(2) as usize];
        self.set_pool(!self.pool.is_incomplete);
    }

    fn set_pool(&mut self, is_incomplete: bool) {
        self.pool.is_incomplete = is_incomplete;
        self.api.log.push(Event::Pool { is_incomplete });
    }

    /// A controller sees what the pool is like.
    pub(super) fn see_pool(&mut self, which: usize, is_incomplete: bool) {
        let (now, at) = (self.now, self.at());
        if is_incomplete {
            self.controllers[which].pool.since.get_or_insert(now);
        } else {
            self.forget_pool(which);
        }
        let controller = &mut self.controllers[which];
        let state = if is_incomplete { PoolState::Incomplete } else { PoolState::Complete };
        if controller.pool.watch.see(at, &pool_id(), state) && self.mutant != Mutant::KeepsTornPools {
            for device in DEVICES.map(id) {
                let (key, source) = (POOL_COMPLETE.into(), Source::Vanished);
                controller.core.handle(at, Notice::Core(Input::Lowered { device, key, source }));
            }
        }
    }

    /// A controller does not know any more that the pool is incomplete: it is not, or the controller has ended.
    pub(super) fn forget_pool(&mut self, which: usize) {
        if let Some(since) = self.controllers[which].pool.since.take() {
            self.pool.long.push((since + INCOMPLETE_MS, self.now));
        }
    }

    /// A controller tells of a pool that has been incomplete for long; one that begins to lead also of a pool that an open incident is about.
    pub(super) fn raise_pool(&mut self, which: usize, begins: bool) {
        if self.mutant == Mutant::OverlooksTornPools {
            return;
        }
        let (now, at) = (self.now, self.at());
        let is_early = self.mutant == Mutant::TellsOfTornPoolsEarly;
        let told_at = if is_early { at.plus_millis(INCOMPLETE_MS / 2) } else { at };
        let controller = &mut self.controllers[which];
        let signals = signals(at);
        let lifecycle = controller.core.lifecycle();
        let is_known = begins && signals.iter().any(|signal| lifecycle.is_about(signal));
        if controller.pool.watch.raise(told_at, |_| is_known).is_empty() {
            return;
        }
        if is_known {
            // The leader that opened the incident saw the time pass.
            controller.pool.since = Some(now - INCOMPLETE_MS);
        }
        for signal in signals {
            controller.core.handle(at, Notice::Core(Input::Raised(signal)));
        }
    }

    /// A policy that has changed gets the signals that last again.
    pub(super) fn tell_pool_again(&mut self, which: usize) {
        let at = self.at();
        let controller = &mut self.controllers[which];
        for signal in signals(at).into_iter().filter(|_| controller.pool.watch.is_raised(&pool_id())) {
            controller.core.handle(at, Notice::Core(Input::Raised(signal)));
        }
    }

    /// An incident is opened, and goes further, for a pool that is incomplete for long, as far as some controller knew at that instant.
    pub(super) fn check_causes(&mut self, incident: &Incident) {
        let still = self.controllers.iter().filter_map(|one| one.pool.since);
        let long = still.map(|since| (since + INCOMPLETE_MS, i64::MAX));
        let long: Vec<(i64, i64)> = long.chain(self.pool.long.iter().copied()).collect();
        for entry in incident.timeline.iter().filter(|entry| entry.cause.starts_with("rule torn")) {
            let at = entry.at.as_millis();
            if !long.iter().any(|(from, until)| (*from..=*until).contains(&at)) {
                self.broken = Some(format!("{} has {:?} at {at}, and {long:?}", incident.name, entry.cause));
            }
            self.seen.insert(TORN);
        }
    }

    /// Faults have ended. A pool that is incomplete is left so until everybody knows; where all is to be well it is complete then.
    pub(super) fn rest_pool(&mut self, is_calm: bool) {
        self.pool.rests_since.get_or_insert(self.now);
        if is_calm && self.pool.is_incomplete && self.pool_is_settled() {
            self.set_pool(false);
        }
    }

    /// Whether a pool that is incomplete has been so for long, whoever counts.
    pub(super) fn pool_is_settled(&self) -> bool {
        let since = self.pool.rests_since.filter(|_| self.pool.is_incomplete);
        since.is_none_or(|since| self.now - since > INCOMPLETE_MS + 10 * SECOND)
    }

    /// At rest every device of a pool that is incomplete has an open incident.
    pub(super) fn check_pool_at_rest(&mut self) {
        let open = |device: &&str| {
            let mut incidents = self.api.incidents.values().map(|stored| &stored.incident);
            incidents.any(|incident| incident.is_open() && incident.device == id(device))
        };
        if let Some(device) = DEVICES.iter().find(|device| self.pool.is_incomplete && !open(device)) {
            self.broken = Some(format!("nobody noticed that the pool of {device} is incomplete"));
        }
    }
}
