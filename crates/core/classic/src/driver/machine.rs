//! The state of a driver controller, and its inputs.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    sync::Arc,
    vec::Vec,
};

use lazaret_machine::{Effect, Flights, Machine, Turn, Wake};
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::{
    effect::{DriverCounters, DriverEffectKind, DriverInput},
    slot::{DeviceHolding, Orphan, Slot},
};
use crate::{
    model::{AllocationMode, Phase, ResourceClaim},
    objects::{Change, Objects},
    queue::{Queue, WakeReason},
    write::Writer,
};

/// Options of [`DriverController`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverOptions {
    /// The driver's name.
    pub driver_name: Text,
    /// How many effects may be in flight at a time, calls of the vendor's code among them.
    pub in_flight_max: usize,
    /// Nodes of a claim that waits are examined again after this time.
    pub refresh_ms: i64,
    /// And after this time at the earliest if other claims were allocated or deallocated meanwhile.
    pub refresh_ms_min: i64,
}

impl DriverOptions {
    /// The defaults for a driver.
    pub fn new(driver_name: impl Into<Text>) -> Self {
        Self { driver_name: driver_name.into(), in_flight_max: 64, refresh_ms: 30_000, refresh_ms_min: 1_000 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Orphan(Uid),
    Claim(ObjectKey),
    /// All claims that negotiate or wait for devices: some were allocated or freed.
    Refresh,
}

/// Context of an effect, for its acknowledgement.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) claim: ObjectKey,
    pub(super) uid: Uid,
    pub(super) kind: FlightKind,
}

#[derive(Debug)]
pub(super) enum FlightKind {
    Write { version: Text, purpose: Purpose },
    Allocate,
    Deallocate,
    Examine { nodes: Arc<[Text]>, epoch: u64 },
}

/// The purpose of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The finalizer and the driver's name.
    Begin,
    /// To take back the driver's name.
    Withdraw,
    /// To say that it is allocated.
    Publish,
    /// To say that it is deallocated.
    Reset,
    /// To remove the finalizer.
    Release,
    /// To answer the scheduler about nodes.
    Answer,
}

/// Allocates and deallocates for one driver.
#[derive(Debug)]
pub struct DriverController {
    pub(super) options: DriverOptions,
    pub(super) finalizer: Text,
    leads: bool,
    pub(super) objects: Objects,
    pub(super) slots: BTreeMap<ObjectKey, Slot>,
    /// As many as claims that lost their finalizer while devices were held, until those are freed.
    pub(super) orphans: BTreeMap<Uid, Orphan>,
    /// Claims that wait for a node to be selected, or for devices.
    pub(super) waiting: BTreeSet<ObjectKey>,
    pub(super) epoch: u64,
    pub(super) queue: Queue<Item>,
    pub(super) flights: Flights<DriverEffectKind, Flight>,
    pub(super) counters: DriverCounters,
}

impl Machine for DriverController {
    type View = ();
    type Input<'a> = DriverInput;
    type Kind = DriverEffectKind;
    type Why = WakeReason;

    fn handle(&mut self, now: Timestamp, (): &(), input: DriverInput) {
        let led = self.leads;
        match input {
            DriverInput::News(news) => {
                if let Some(change) = self.objects.apply(news) {
                    self.note(change);
                }
            }
            DriverInput::Turn(Turn::Acknowledged(effect, reply)) => {
                self.acknowledge(now, effect, reply.outcome);
            }
            DriverInput::Allocated { effect, result } => self.allocated(now, effect, result),
            DriverInput::Examined { effect, result } => self.examined(now, effect, result),
            DriverInput::Turn(Turn::Tick) => {}
            DriverInput::Turn(Turn::BecameLeader) => self.leads = true,
            DriverInput::Turn(Turn::LostLeadership) => self.leads = false,
        }
        if led != self.leads {
            self.start_over();
        }
        if self.leads {
            self.queue.wake(now);
            while self.flights.len() < self.options.in_flight_max {
                match self.queue.pop() {
                    Some(Item::Claim(key)) => self.look_at_claim(now, &key),
                    Some(Item::Orphan(uid)) => self.look_at_orphan(now, &uid),
                    Some(Item::Refresh) => self.refresh(),
                    None => return,
                }
            }
        }
    }

    fn poll_effect(&mut self) -> Option<Effect<DriverEffectKind>> {
        self.flights.take()
    }

    fn next_wake(&self) -> Option<Wake<WakeReason>> {
        if self.leads { self.queue.next_wake() } else { None }
    }
}

impl DriverController {
    /// A machine that knows nothing yet and does not lead.
    #[must_use]
    pub fn new(options: DriverOptions) -> Self {
        let finalizer: String = format!("{}/deletion-protection", options.driver_name);
        Self {
            options,
            finalizer: finalizer.into(),
            leads: false,
            objects: Objects::default(),
            slots: BTreeMap::new(),
            orphans: BTreeMap::new(),
            waiting: BTreeSet::new(),
            epoch: 0,
            queue: Queue::default(),
            flights: Flights::default(),
            counters: DriverCounters::default(),
        }
    }

    /// The finalizer of this driver.
    #[must_use]
    pub fn finalizer(&self) -> &Text {
        &self.finalizer
    }

    /// Counters since the machine began.
    #[must_use]
    pub fn counters(&self) -> DriverCounters {
        self.counters
    }

    /// Forgets all work in flight: another process may have led meanwhile. Claims that were half-way are given up and begun again.
    fn start_over(&mut self) {
        self.flights.abandon();
        self.queue.clear();
        self.slots.clear();
        self.waiting.clear();
        self.orphans.values_mut().for_each(|orphan| orphan.writer = Writer::default());
        let claims: Vec<ObjectKey> = self.objects.claims.keys().cloned().collect();
        for key in claims {
            self.note(Change::Claim(key));
        }
        for uid in self.orphans.keys() {
            self.queue.push(Item::Orphan(uid.clone()));
        }
    }

    fn note(&mut self, change: Change) {
        match change {
            Change::Claim(key) => self.note_claim(key),
            Change::Class(name) => {
                let concerned = self.objects.claims.values().filter(|claim| claim.spec.class_name == name);
                let claims: Vec<ObjectKey> = concerned.map(|claim| claim.key.clone()).collect();
                claims.into_iter().for_each(|key| self.note_claim(key));
            }
            Change::Pod(_) | Change::Node(_) => {}
        }
    }

    fn note_claim(&mut self, key: ObjectKey) {
        let claim = self.objects.claims.get(&key).cloned();
        let uid = claim.as_ref().map(|claim| &claim.uid);
        if self.slots.get(&key).is_some_and(|slot| Some(&slot.uid) != uid) {
            self.orphan(&key);
        }
        let Some(claim) = claim.filter(|claim| self.concerns(claim)) else {
            self.waiting.remove(&key);
            return;
        };
        let slot = self.slots.entry(key.clone()).or_insert_with(|| Slot {
            uid: claim.uid.clone(),
            held: match claim.status.phase {
                Phase::Allocated | Phase::Reallocate => DeviceHolding::Published,
                Phase::Pending if claim.finalizers.contains(&self.finalizer) => DeviceHolding::unknown(),
                Phase::Pending => DeviceHolding::Nothing,
            },
            ..Slot::default()
        });
        slot.attributes.clone_from(&claim.status.attributes);
        if claim.status.phase == Phase::Allocated && matches!(slot.held, DeviceHolding::Allocation(..)) {
            slot.held = DeviceHolding::Published;
        }
        let negotiates = negotiates(&claim);
        if !negotiates {
            slot.examined = None;
        }
        if negotiates || awaits_devices(&claim) {
            self.waiting.insert(key.clone());
        } else {
            self.waiting.remove(&key);
        }
        self.queue.push(Item::Claim(key));
    }

    /// A claim is gone, or is another one: what is held for the old one has to be freed.
    fn orphan(&mut self, key: &ObjectKey) {
        // No devices are held for it.
        let Some(slot) = self.slots.remove(key).filter(|slot| slot.held.may_hold()) else { return };
        let attributes =
            if slot.held == DeviceHolding::Published { slot.attributes } else { slot.held.attributes() };
        self.queue.push(Item::Orphan(slot.uid.clone()));
        self.orphans.insert(slot.uid, Orphan { claim: key.clone(), attributes, writer: slot.writer });
    }

    /// Devices were allocated or freed, so every answer about nodes may have become wrong, and claims that were refused may be tried.
    fn refresh(&mut self) {
        for key in &self.waiting {
            if let Some(slot) = self.slots.get_mut(key) {
                slot.pause.try_now();
            }
            self.queue.push(Item::Claim(key.clone()));
        }
    }

    /// Whether this driver has, or may have, something to do with a claim: it holds it, it began, or the class says so.
    pub(super) fn concerns(&self, claim: &ResourceClaim) -> bool {
        let name = &self.options.driver_name;
        if claim.finalizers.contains(&self.finalizer) || claim.status.driver_name == *name {
            return true;
        }
        let class = self.objects.classes.get(&claim.spec.class_name);
        let in_use = self.slots.get(&claim.key).is_some_and(|slot| slot.held.may_hold());
        in_use
            || (claim.status.driver_name.is_empty() && class.is_some_and(|class| class.driver_name == *name))
    }
}

/// Whether the scheduler asks about nodes.
pub(super) fn negotiates(claim: &ResourceClaim) -> bool {
    let scheduler = &claim.status.scheduler;
    claim.status.phase == Phase::Pending
        && claim.spec.mode == AllocationMode::Delayed
        && !claim.deleting
        && scheduler.selected_node.is_none()
        && !scheduler.potential_nodes.is_empty()
}

fn awaits_devices(claim: &ResourceClaim) -> bool {
    claim.status.phase == Phase::Pending && claim.spec.mode == AllocationMode::Immediate && !claim.deleting
}
