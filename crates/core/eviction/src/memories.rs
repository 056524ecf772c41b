//! The last published state of devices that vanished while a claim held them, written to the claim, where it outlives this process.
//!
//! Rules select by class and expression. When the slice of a device in use is deleted, a fleet that saw it remembers the device; one that starts
//! later does not, and a rule would miss the device. So the claim records it, from when the slice is seen to be gone until the device is published
//! again or released. Slices are rarely deleted: scheduling a pod never waits for this.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_fleet::{ClaimIx, Fleet};
use lazaret_invariant::invariant;
use lazaret_model::{LastPublished, Timestamp, Uid};

use crate::{
    Eviction,
    effect::{EffectKind, Outcome, SetLastPublished},
    flights::Flight,
};

/// Writes in flight at a time. A node that goes takes its slices with it: its claims are written within a second, and evictions are not
/// held up.
const IN_FLIGHT_MAX: usize = 8;

/// Claims that do not say, or may not say, what is known of their devices.
#[derive(Debug, Default)]
pub(crate) struct Memories {
    claims: BTreeMap<u32, Memory>,
    ready: BTreeSet<u32>,
    retries: BTreeSet<(Timestamp, u32)>,
    in_flight: usize,
}

#[derive(Debug, Default)]
struct Memory {
    uid: Uid,
    phase: Phase,
    failures: u32,
    /// The last written record, until the claim is seen again.
    written: Option<Vec<LastPublished>>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Ready,
    Retry(Timestamp),
    InFlight(Vec<LastPublished>),
    /// Written, and not seen yet.
    Written,
}

impl Memories {
    /// When the next write that failed is tried again.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// Writes that wait to be retried are retried now: by the new clock it would be too late.
    pub(crate) fn retry_now(&mut self) {
        for (_, claim) in core::mem::take(&mut self.retries) {
            self.ready.insert(claim);
        }
    }

    /// The leadership is over: what was in flight is tried again by whoever leads next.
    pub(crate) fn stop_leading(&mut self) {
        self.in_flight = 0;
        self.retries.clear();
        self.ready = self.claims.keys().copied().collect();
        for memory in self.claims.values_mut() {
            (memory.phase, memory.failures, memory.written) = (Phase::Ready, 0, None);
        }
    }

    fn forget(&mut self, claim: u32) {
        self.ready.remove(&claim);
        if let Some(Memory { phase: Phase::Retry(at), .. }) = self.claims.remove(&claim) {
            self.retries.remove(&(at, claim));
        }
    }
}

impl Eviction {
    /// A claim has changed, or what is known of its devices has.
    pub(crate) fn look_at_memory(&mut self, fleet: &Fleet, claim: ClaimIx) {
        let Some(object) = fleet.claim(claim) else { return self.memories.forget(claim.0) };
        let known = self.memories.claims.get(&claim.0).is_some_and(|memory| memory.uid == object.uid);
        if !known {
            self.memories.forget(claim.0);
            // Almost all claims: nothing is said, and nothing is to be said.
            if object.last_published.is_empty() && !fleet.has_unpublished_devices()
                || object.last_published == wanted(fleet, claim)
            {
                return;
            }
            let memory = Memory { uid: object.uid.clone(), ..Memory::default() };
            self.memories.claims.insert(claim.0, memory);
            self.memories.ready.insert(claim.0);
            return;
        }
        let Some(memory) =
            invariant!(self.memories.claims.get_mut(&claim.0), "a memory that is known is there")
        else {
            return;
        };
        match memory.phase {
            // Looked at again when it lands, or when its time comes.
            Phase::InFlight(_) | Phase::Retry(_) => {}
            // A leader writes it while this machine follows.
            Phase::Ready => {
                if object.last_published == wanted(fleet, claim) {
                    self.memories.forget(claim.0);
                }
            }
            Phase::Written => {
                memory.written = None;
                memory.phase = Phase::Ready;
                self.memories.ready.insert(claim.0);
            }
        }
    }

    /// Writes what is to be written and may.
    pub(crate) fn write_memories(&mut self, now: Timestamp, fleet: &Fleet) {
        while let Some(&(at, claim)) = self.memories.retries.first().filter(|(at, _)| *at <= now) {
            self.memories.retries.remove(&(at, claim));
            self.memories.ready.insert(claim);
        }
        while self.memories.in_flight < IN_FLIGHT_MAX
            && let Some(at) = self.memories.ready.pop_first()
        {
            let object = fleet.claim(ClaimIx(at));
            let memory = self.memories.claims.get_mut(&at);
            let (Some(object), Some(memory)) = (object, memory) else {
                self.memories.forget(at);
                continue;
            };
            let wanted = wanted(fleet, ClaimIx(at));
            let said = memory.written.as_ref().unwrap_or(&object.last_published);
            if object.uid != memory.uid || object.last_published == wanted && *said == wanted {
                self.memories.forget(at);
                continue;
            }
            if *said == wanted {
                memory.phase = Phase::Written;
                continue;
            }
            memory.phase = Phase::InFlight(wanted.clone());
            self.memories.in_flight += 1;
            let (claim, uid) = (object.key.clone(), object.uid.clone());
            let effect = SetLastPublished { claim, uid: uid.clone(), devices: wanted };
            self.flights.launch(Flight::Memory { claim: at, uid }, EffectKind::SetLastPublished(effect));
        }
    }

    pub(crate) fn acknowledge_memory(&mut self, now: Timestamp, at: u32, uid: &Uid, outcome: Outcome) {
        self.memories.in_flight = self.memories.in_flight.saturating_sub(1);
        let Some(memory) = self.memories.claims.get_mut(&at).filter(|memory| memory.uid == *uid) else {
            return;
        };
        let Phase::InFlight(devices) = core::mem::take(&mut memory.phase) else { return };
        match outcome {
            Outcome::Done => {
                memory.written = Some(devices);
                memory.failures = 0;
                // The devices may have changed meanwhile.
                self.memories.ready.insert(at);
            }
            Outcome::Gone => self.memories.forget(at),
            Outcome::Conflict | Outcome::Refused | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                memory.failures = memory.failures.saturating_add(1);
                let again = now.plus_millis(self.options.retry_ms(memory.failures));
                memory.phase = Phase::Retry(again);
                self.memories.retries.insert((again, at));
            }
        }
    }
}

/// The record for a claim: as many of its devices as there is room for, the first ones first.
fn wanted(fleet: &Fleet, claim: ClaimIx) -> Vec<LastPublished> {
    let mut devices = fleet.last_published(claim);
    let mut bytes = 2;
    devices.retain(|device| {
        let fits = bytes + device.json_bytes() <= LastPublished::BYTES_MAX;
        bytes += if fits { device.json_bytes() } else { 0 };
        fits
    });
    devices
}
