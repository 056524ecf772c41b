//! The events that one client has got: how far its watches have come, and the resulting pools and devices. Beside each machine under test stands one
//! of these, fed with exactly the same events; the reference reads it, through [`Seen`], and nothing else.

mod seen;

use core::marker::PhantomData;
use std::sync::Arc;

use hashbrown::HashMap;
use lazaret_fleet::Input;
use lazaret_model::{
    DeviceClass, DeviceResult, DeviceTaintRule, Node, Pod, ResourceClaim, ResourceSlice, ResourceSlicePatch,
};
use rustc_hash::FxBuildHasher;

use crate::{
    api::{Api, Kind, Live, Resource, Table},
    palette,
};

pub use seen::{Named, Seen, SeenClaim, SeenPod};

/// One kind of object, as far as its watch has come.
#[derive(Debug)]
pub struct Mirror<T> {
    live: Live,
    position: usize,
    of: PhantomData<T>,
}

impl<T> Default for Mirror<T> {
    fn default() -> Self {
        Self { live: Live::new(), position: 0, of: PhantomData }
    }
}

impl<T> Clone for Mirror<T> {
    fn clone(&self) -> Self {
        Self { live: self.live.clone(), position: self.position, of: PhantomData }
    }
}

/// Which objects a client is given at once.
#[derive(Clone, Copy, Debug)]
pub enum Listed {
    /// All there are: who is not among them is gone.
    Everything,
    /// Those that have changed since it last heard, and of those that went, that they did.
    Changed,
}

/// The version that an event replaced, and the new one: one more than places in the log, 0 for none.
#[derive(Clone, Copy, Debug)]
struct Change {
    before: u32,
    after: u32,
}

impl<T: Resource> Mirror<T> {
    /// How many events of the server's log it has seen.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    fn set(&mut self, number: u32, after: u32) -> Change {
        let at = number as usize;
        if at >= self.live.len() {
            self.live.resize(at + 1, 0);
        }
        Change { before: core::mem::replace(&mut self.live[at], after), after }
    }

    /// The next event of the watch, with what it replaces.
    fn step(&mut self, table: &Table<T>) -> Option<(Input, Change)> {
        let logged = table.log().get(self.position)?;
        self.position += 1;
        let place = u32::try_from(self.position).unwrap_or(u32::MAX);
        let change = self.set(logged.number, if logged.object.is_some() { place } else { 0 });
        self.repeat(table).map(|input| (input, change))
    }

    /// The last event again.
    fn repeat(&self, table: &Table<T>) -> Option<Input> {
        let logged = table.log().get(self.position.checked_sub(1)?)?;
        Some(match &logged.object {
            Some(object) => T::found(Arc::clone(object)),
            None => T::gone(table.key(logged.number).clone()),
        })
    }

    /// Objects as they are now, and what that changes.
    fn list(&mut self, table: &Table<T>, what: Listed) -> (Vec<Input>, Vec<Change>) {
        match what {
            Listed::Everything => self.relist(table),
            Listed::Changed => self.catch_up(table),
        }
    }

    /// Every object that has changed, as it is now, and what that changes.
    fn catch_up(&mut self, table: &Table<T>) -> (Vec<Input>, Vec<Change>) {
        let from = core::mem::replace(&mut self.position, table.log().len());
        let (mut inputs, mut changes) = (Vec::new(), Vec::new());
        for (place, logged) in (from + 1..).zip(&table.log()[from..]) {
            let live = table.live()[logged.number as usize];
            match &logged.object {
                Some(object) if live as usize == place => inputs.push(T::found(Arc::clone(object))),
                None if live == 0 => inputs.push(T::gone(table.key(logged.number).clone())),
                Some(_) | None => continue,
            }
            changes.push(self.set(logged.number, live));
        }
        (inputs, changes)
    }

    /// Everything as it is now, and what that changes.
    fn relist(&mut self, table: &Table<T>) -> (Vec<Input>, Vec<Change>) {
        let from = core::mem::replace(&mut self.position, table.log().len());
        let changes = if from == 0 {
            self.live.clone_from(table.live());
            self.live.iter().filter(|at| **at != 0).map(|at| Change { before: 0, after: *at }).collect()
        } else {
            let logged = table.log()[from..].iter();
            logged.map(|logged| self.set(logged.number, table.live()[logged.number as usize])).collect()
        };
        (table.iter().map(|stored| T::found(Arc::clone(stored.object))).collect(), changes)
    }
}

/// Everything that one client has been told.
#[derive(Clone, Debug, Default)]
pub struct View {
    slices: Mirror<ResourceSlice>,
    rules: Mirror<DeviceTaintRule>,
    patches: Mirror<ResourceSlicePatch>,
    classes: Mirror<DeviceClass>,
    claims: Mirror<ResourceClaim>,
    pods: Mirror<Pod>,
    nodes: Mirror<Node>,
    /// By number.
    pools: Vec<PoolView>,
    /// By number of the device: where it is.
    places: Vec<Place>,
    /// By number of the device: what claims hold of it.
    uses: Vec<Use>,
    /// How many devices are held at all.
    held: usize,
    /// How a held device was published before its last slice went.
    remembered: HashMap<u32, Remembered, FxBuildHasher>,
}

/// A pool: the newest generation, and whether some of its slices are still to come.
#[derive(Clone, Debug, Default)]
struct PoolView {
    /// Places in the log, and one more, in the order of the slices' names.
    slices: Vec<u32>,
    newest: i64,
    rolling: bool,
}

/// Where a device is.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The slice that stands for it, as a place in the log and one more; 0: none does.
    slice: u32,
    at: u32,
    /// Of a generation that is over.
    over: bool,
}

/// From where it is known what a device was like.
#[derive(Clone, Copy, Debug)]
enum Remembered {
    /// The slice, as a place in the log and one more, and the place in the slice.
    Slice(u32, u32),
    /// The claim, as a place in the log and one more, and the place in what it says.
    Claim(u32, u32),
}

/// The use of a device by claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Results that have it whole.
    pub whole: u32,
    /// Results that have a share.
    pub shares: u32,
    /// The sum of the shares.
    pub bandwidth: i64,
}

impl View {
    /// The next event of a kind's watch, if the server has one.
    pub fn next(&mut self, api: &Api, kind: Kind) -> Option<Input> {
        match kind {
            Kind::Slice => self.slices.step(&api.slices).map(|(input, change)| {
                self.slices_changed(api, &[change]);
                input
            }),
            Kind::Claim => self.claims.step(&api.claims).map(|(input, change)| {
                self.claims_changed(api, &[change]);
                input
            }),
            Kind::Rule => self.rules.step(&api.rules).map(|(input, _)| input),
            Kind::Patch => self.patches.step(&api.patches).map(|(input, _)| input),
            Kind::Class => self.classes.step(&api.classes).map(|(input, _)| input),
            Kind::Pod => self.pods.step(&api.pods).map(|(input, _)| input),
            Kind::Node => self.nodes.step(&api.nodes).map(|(input, _)| input),
        }
    }

    /// The last event of a kind's watch once more.
    #[must_use]
    pub fn repeat(&self, api: &Api, kind: Kind) -> Option<Input> {
        match kind {
            Kind::Slice => self.slices.repeat(&api.slices),
            Kind::Rule => self.rules.repeat(&api.rules),
            Kind::Patch => self.patches.repeat(&api.patches),
            Kind::Class => self.classes.repeat(&api.classes),
            Kind::Claim => self.claims.repeat(&api.claims),
            Kind::Pod => self.pods.repeat(&api.pods),
            Kind::Node => self.nodes.repeat(&api.nodes),
        }
    }

    /// The watch broke: what there is of the kind now.
    pub fn list(&mut self, api: &Api, kind: Kind, what: Listed) -> Vec<Input> {
        match kind {
            Kind::Slice => {
                let (inputs, changes) = self.slices.list(&api.slices, what);
                self.slices_changed(api, &changes);
                inputs
            }
            Kind::Claim => {
                let (inputs, changes) = self.claims.list(&api.claims, what);
                self.claims_changed(api, &changes);
                inputs
            }
            Kind::Rule => self.rules.list(&api.rules, what).0,
            Kind::Patch => self.patches.list(&api.patches, what).0,
            Kind::Class => self.classes.list(&api.classes, what).0,
            Kind::Pod => self.pods.list(&api.pods, what).0,
            Kind::Node => self.nodes.list(&api.nodes, what).0,
        }
    }

    /// Whether the server has more of this kind.
    #[must_use]
    pub fn behind(&self, api: &Api, kind: Kind) -> bool {
        self.position(kind) < log_length(api, kind)
    }

    /// How many events of a kind it has seen.
    #[must_use]
    pub fn position(&self, kind: Kind) -> usize {
        match kind {
            Kind::Slice => self.slices.position(),
            Kind::Rule => self.rules.position(),
            Kind::Patch => self.patches.position(),
            Kind::Class => self.classes.position(),
            Kind::Claim => self.claims.position(),
            Kind::Pod => self.pods.position(),
            Kind::Node => self.nodes.position(),
        }
    }

    /// With the objects that it speaks of.
    #[must_use]
    pub fn of<'a>(&'a self, api: &'a Api) -> Seen<'a> {
        Seen::new(self, api)
    }

    fn slices_changed(&mut self, api: &Api, changes: &[Change]) {
        self.pools.resize_with(api.catalog.pools(), PoolView::default);
        self.places.resize(api.catalog.devices(), Place::default());
        let mut touched = Vec::new();
        for Change { before, after } in changes {
            for slice in [*before, *after].into_iter().filter(|slice| *slice != 0) {
                touched.push(api.catalog.of_slice(slice as usize - 1).0);
            }
            if *before != 0 {
                let (pool, devices) = api.catalog.of_slice(*before as usize - 1);
                self.pools[pool as usize].slices.retain(|slice| slice != before);
                devices.iter().for_each(|device| self.places[*device as usize] = Place::default());
            }
            // A slice that another node published in a pool says nothing of its devices.
            let written = api.slices.written(*after);
            if let Some(stored) = written.filter(|stored| !palette::is_forged(stored.object)) {
                let (pool, _) = api.catalog.of_slice(*after as usize - 1);
                let slices = &mut self.pools[pool as usize].slices;
                let name = |slice: u32| api.slices.written(slice).map(|stored| &stored.object.name);
                let at = slices.partition_point(|slice| name(*slice) < Some(&stored.object.name));
                slices.insert(at, *after);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        touched.into_iter().for_each(|pool| self.settle_pool(api, pool));
        if self.held == 0 {
            return;
        }
        for slice in changes.iter().map(|change| change.before).filter(|slice| *slice != 0) {
            let (_, devices) = api.catalog.of_slice(slice as usize - 1);
            for (at, device) in (0..).zip(devices) {
                self.remember(api, *device, slice, at);
            }
        }
    }

    /// While a pool moves to a new generation, devices that the new one does not have yet are still there in the old
    /// one. Of several slices the newest counts, and of those the first by name.
    fn settle_pool(&mut self, api: &Api, pool: u32) {
        let Self { pools, places, .. } = self;
        let PoolView { slices, newest, rolling } = &mut pools[pool as usize];
        let stored = |slice: &u32| api.slices.written(*slice).map(|stored| stored.object);
        *newest = slices.iter().filter_map(stored).map(|slice| slice.pool.generation).max().unwrap_or(0);
        let mut members = slices.iter().filter_map(stored).filter(|slice| slice.pool.generation == *newest);
        let expected = members.next().map_or(0, |slice| slice.pool.slice_count);
        *rolling = i64::try_from(1 + members.count()).is_ok_and(|there| there < expected);
        for slice in slices.iter() {
            let (_, devices) = api.catalog.of_slice(*slice as usize - 1);
            devices.iter().for_each(|device| places[*device as usize] = Place::default());
        }
        for (slice, object) in slices.iter().filter_map(|slice| Some((*slice, stored(slice)?))) {
            let generation = object.pool.generation;
            let over = !*rolling && generation != *newest;
            let (_, devices) = api.catalog.of_slice(slice as usize - 1);
            for (at, device) in (0..).zip(devices) {
                let known = &mut places[*device as usize];
                if stored(&known.slice).is_none_or(|known| known.pool.generation < generation) {
                    *known = Place { slice, at, over };
                }
            }
        }
    }

    fn claims_changed(&mut self, api: &Api, changes: &[Change]) {
        self.uses.resize(api.catalog.devices(), Use::default());
        let uid = |claim: u32| api.claims.written(claim).map(|stored| &stored.object.uid);
        for Change { before, after } in changes {
            if uid(*before) == uid(*after) {
                // Devices that it keeps, it has held all along.
                self.take(api, *after);
                self.let_go(api, *before);
            } else {
                // Another of the same name: when that was made, the one before had gone.
                self.let_go(api, *before);
                self.take(api, *after);
            }
            self.recall(api, *after);
        }
    }

    /// Takes in what a claim says of devices of which nothing else is known.
    fn recall(&mut self, api: &Api, claim: u32) {
        let Some(stored) = api.claims.written(claim) else { return };
        for (result, device) in results(api, claim) {
            let published = self.places.get(device as usize).is_some_and(|place| place.slice != 0);
            let said = stored.object.last_published.iter().position(|said| said.is_of(&result.device));
            if let Some(at) = said.filter(|_| !published && !self.remembered.contains_key(&device)) {
                let at = u32::try_from(at).unwrap_or(u32::MAX);
                self.remembered.insert(device, Remembered::Claim(claim, at));
            }
        }
    }

    fn take(&mut self, api: &Api, claim: u32) {
        for (result, device) in results(api, claim) {
            let used = &mut self.uses[device as usize];
            self.held += usize::from(*used == Use::default());
            used.add(result, 1);
        }
    }

    fn let_go(&mut self, api: &Api, claim: u32) {
        for (result, device) in results(api, claim) {
            let used = &mut self.uses[device as usize];
            if *used == Use::default() {
                continue;
            }
            used.add(result, -1);
            if *used == Use::default() {
                self.held -= 1;
                self.remembered.remove(&device);
            }
        }
    }

    /// Notes what a slice that changed or went had to say of a device, if the device is held and nobody else has it.
    fn remember(&mut self, api: &Api, device: u32, slice: u32, at: u32) {
        if self.used(device) == Use::default() || self.places[device as usize].slice != 0 {
            return;
        }
        let generation = |slice: u32| api.slices.written(slice).map(|stored| stored.object.pool.generation);
        let newer = |known: &Remembered| match known {
            Remembered::Slice(known, _) => generation(*known) > generation(slice),
            Remembered::Claim(..) => false,
        };
        if !self.remembered.get(&device).is_some_and(newer) {
            self.remembered.insert(device, Remembered::Slice(slice, at));
        }
    }

    fn used(&self, device: u32) -> Use {
        self.uses.get(device as usize).copied().unwrap_or_default()
    }
}

/// The devices allocated to a claim that was written at the place before this one, with the numbers of the devices.
fn results(api: &Api, claim: u32) -> impl Iterator<Item = (&DeviceResult, u32)> {
    let written = api.claims.written(claim);
    let allocation = written.and_then(|stored| stored.object.allocation.as_ref());
    let numbers = if allocation.is_some() { api.catalog.of_claim(claim as usize - 1) } else { &[] };
    allocation.map_or(&[][..], |allocation| &allocation.results).iter().zip(numbers.iter().copied())
}

impl Use {
    fn add(&mut self, result: &DeviceResult, sign: i32) {
        let counter = if result.share_id.is_none() { &mut self.whole } else { &mut self.shares };
        *counter = counter.saturating_add_signed(sign);
        let consumed = result.consumed_capacity.iter().filter_map(|(_, amount)| amount.as_i64());
        self.bandwidth += i64::from(sign) * consumed.sum::<i64>();
    }
}

/// How many events of a kind there have been.
pub(crate) fn log_length(api: &Api, kind: Kind) -> usize {
    match kind {
        Kind::Slice => api.slices.log().len(),
        Kind::Rule => api.rules.log().len(),
        Kind::Patch => api.patches.log().len(),
        Kind::Class => api.classes.log().len(),
        Kind::Claim => api.claims.log().len(),
        Kind::Pod => api.pods.log().len(),
        Kind::Node => api.nodes.log().len(),
    }
}
