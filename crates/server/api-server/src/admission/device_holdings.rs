//! Devices that claims hold by the store, and devices whose allocation is on its way to the store.
//!
//! It is derived from the store, so it is the same after a restart, whoever wrote it. A write that gives a device is checked against all that is stored and
//! all that is on its way to the store, and is itself on its way from then on, under one lock; that lock is not held while the store
//! writes. A client that gives up ends its request and not the write: the devices stay reserved until the store has answered.
//!
//! One server has a store for itself. Over a store to which several servers write, [`DeviceHoldings::reserve`] would give conditions on keys of devices
//! for the same transaction; nothing outside of this file would change.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lazaret_holdings::{Given, Holdings, Refusal, Reservation};
use lazaret_json::Value;
use lazaret_model::ObjectKey;
use lazaret_storage::{Event, Item, Key, RangeOptions, Watch};
use memchr::memmem;

use super::device_facts::{given, results, slice_facts};
use crate::ObjectStore;

const CLAIMS: &str = "/resource.k8s.io/resourceclaims/";
const SLICES: &str = "/resource.k8s.io/resourceslices/";
/// Patches of slices may say how much capacity devices have.
const PATCHES: &[u8] = b"/resource.k8s.io/resourceslicepatches/";
/// A slice without these words is of devices that one claim holds at a time: there is nothing to know about it.
const WORDS_THAT_MATTER: [&[u8]; 3] = [b"allowMultipleAllocations", b"consumesCounters", b"sharedCounters"];

/// Devices that claims hold, brought up to date by each write that gives one. Costs nothing while no claim is allocated.
#[derive(Default)]
pub(crate) struct DeviceHoldings {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holdings: Holdings,
    /// The results of each claim that is allocated, as they were read last: most writes of a claim leave them as they are.
    results: HashMap<Key, Value>,
    claims: Option<Watch>,
    slices: Option<Watch>,
}

/// A claim that is to have devices.
pub(super) struct Giving {
    pub(super) claim: ObjectKey,
    /// The devices that it has.
    pub(super) before: Vec<Given>,
    /// The devices that it is to have.
    pub(super) wanted: Vec<Given>,
}

/// Devices that a write gives, until its outcome is known.
pub(crate) struct ReservedDevices {
    all: Arc<DeviceHoldings>,
    reservation: Reservation,
}

impl fmt::Debug for DeviceHoldings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceHoldings")
    }
}

impl Drop for ReservedDevices {
    fn drop(&mut self) {
        self.all.lock().holdings.end(self.reservation);
    }
}

impl DeviceHoldings {
    /// Reserves what a claim is to have, unless something is in the way.
    pub(super) fn reserve(
        self: &Arc<Self>,
        stored: &ObjectStore,
        giving: Giving,
    ) -> Result<Arc<ReservedDevices>, Refusal> {
        let mut state = self.lock();
        state.may_give(stored, &giving)?;
        let reservation = state.holdings.reserve(&giving.claim, giving.wanted);
        Ok(Arc::new(ReservedDevices { all: Arc::clone(self), reservation }))
    }

    /// Whether something is in the way.
    pub(super) fn check(&self, stored: &ObjectStore, giving: &Giving) -> Result<(), Refusal> {
        self.lock().may_give(stored, giving)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn may_give(&mut self, stored: &ObjectStore, giving: &Giving) -> Result<(), Refusal> {
        self.follow(stored);
        self.holdings.override_capacities(stored.store().count(PATCHES) > 0);
        self.holdings.refusal(&giving.claim, &giving.before, &giving.wanted).map_or(Ok(()), Err)
    }

    /// Takes in everything that was written before this was called.
    fn follow(&mut self, stored: &ObjectStore) {
        loop {
            match look(&mut self.slices) {
                Look::News(event) => self.set_slice(stored, &event.key, event.new.as_ref()),
                Look::UpToDate => break,
                Look::Lost => break self.begin_slices(stored),
            }
        }
        loop {
            match look(&mut self.claims) {
                Look::News(event) => self.set_claim(stored, &event.key, event.new.as_ref()),
                Look::UpToDate => break,
                Look::Lost => break self.begin_claims(stored),
            }
        }
    }

    /// Takes in all claims, and watches from there.
    fn begin_claims(&mut self, stored: &ObjectStore) {
        self.holdings.clear_claims();
        self.results.clear();
        // It cannot fail: nothing of the present was forgotten.
        let Ok(range) = stored.store().range(CLAIMS.as_bytes(), &RangeOptions::default()) else { return };
        for item in &range.items {
            self.set_claim(stored, &item.key, Some(item));
        }
        self.claims = stored.store().watch(CLAIMS.into(), range.revision).ok();
    }

    fn begin_slices(&mut self, stored: &ObjectStore) {
        self.holdings.clear_slices();
        let Ok(range) = stored.store().range(SLICES.as_bytes(), &RangeOptions::default()) else { return };
        for item in &range.items {
            self.set_slice(stored, &item.key, Some(item));
        }
        self.slices = stored.store().watch(SLICES.into(), range.revision).ok();
    }

    fn set_claim(&mut self, stored: &ObjectStore, key: &Key, item: Option<&Arc<Item>>) {
        let is_allocated = |item: &&Arc<Item>| memmem::find(&item.value, b"\"results\"").is_some();
        let claim = item.filter(is_allocated).map(|item| stored.object_cache().get(item));
        let new = claim.as_ref().map_or(&Value::Null, results);
        let known = self.results.get(key).unwrap_or(&Value::Null);
        if new.is(known) || new == known {
            return;
        }
        let Some(claim) = object_key(key, CLAIMS) else { return };
        self.holdings.set(&claim, given(new));
        if new.is_null() {
            self.results.remove(key);
        } else {
            self.results.insert(key.clone(), new.clone());
        }
    }

    fn set_slice(&mut self, stored: &ObjectStore, key: &Key, item: Option<&Arc<Item>>) {
        let matters = |item: &&Arc<Item>| {
            WORDS_THAT_MATTER.iter().any(|word| memmem::find(&item.value, word).is_some())
        };
        let slice = item.filter(matters).map(|item| stored.object_cache().get(item));
        let name = key.strip_prefix(SLICES.as_bytes()).and_then(|name| std::str::from_utf8(name).ok());
        if let Some(name) = name {
            self.holdings.set_slice(name, slice.as_ref().and_then(slice_facts));
        }
    }
}

/// The result of polling a watch.
pub(super) enum Look {
    News(Arc<Event>),
    UpToDate,
    /// There is none yet, or it fell behind: everything is read again.
    Lost,
}

pub(super) fn look(watch: &mut Option<Watch>) -> Look {
    match watch.as_mut().map(Watch::try_next) {
        Some(Ok(Some(event))) => Look::News(event),
        Some(Ok(None)) => Look::UpToDate,
        Some(Err(_)) | None => Look::Lost,
    }
}

/// `namespace/name` behind a prefix.
fn object_key(key: &[u8], prefix: &str) -> Option<ObjectKey> {
    let rest = std::str::from_utf8(key.strip_prefix(prefix.as_bytes())?).ok()?;
    let (namespace, name) = rest.split_once('/')?;
    Some(ObjectKey::new(namespace, name))
}
