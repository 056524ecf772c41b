//! What one client has been told: the objects its watches delivered, plain maps of them. Beside each machine under
//! test stands one of these, fed with exactly the same events; the reference reads it and nothing else.

use std::{cell::OnceCell, collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;
use lazaret_fleet::Input;
use lazaret_model::{
    Device, DeviceClass, DeviceId, DeviceResult, DeviceTaintRule, Node, Pod, PoolId, ResourceClaim,
    ResourceSlice, ResourceSlicePatch, Text,
};
use rustc_hash::FxBuildHasher;

use crate::{
    api::{Api, Kind, Resource, Stored, Table},
    keyed::Keyed,
};

/// One kind of object, as far as its watch has come.
#[derive(Clone, Debug)]
pub struct Mirror<T: Resource> {
    live: Keyed<T::Key, Stored<T>>,
    position: usize,
}

impl<T: Resource> Default for Mirror<T> {
    fn default() -> Self {
        Self { live: Keyed::default(), position: 0 }
    }
}

impl<T: Resource> Mirror<T> {
    /// An object as last seen.
    #[must_use]
    pub fn get(&self, key: &T::Key) -> Option<&Arc<T>> {
        self.live.get(key).map(|stored| &stored.object)
    }

    /// The same with its version.
    #[must_use]
    pub fn stored(&self, key: &T::Key) -> Option<&Stored<T>> {
        self.live.get(key)
    }

    /// Every object, in key order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.live.values().map(|stored| &stored.object)
    }

    /// Every object from this key on.
    pub fn iter_from(&self, key: &T::Key) -> impl Iterator<Item = &Arc<T>> {
        self.live.values_from(key).map(|stored| &stored.object)
    }

    /// How many events of the server's log it has seen.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next event of the watch, with what it replaces.
    fn step(&mut self, table: &Table<T>) -> Option<(Input, Change<T>)> {
        let logged = table.log().get(self.position)?;
        self.position += 1;
        let before = match &logged.object {
            Some(object) => {
                let stored = Stored { version: logged.version, object: Arc::clone(object) };
                self.live.insert(logged.key.clone(), stored)
            }
            None => self.live.remove(&logged.key),
        };
        let input = match &logged.object {
            Some(object) => T::found(Arc::clone(object)),
            None => T::gone(logged.key.clone()),
        };
        Some((input, Change { before: before.map(|stored| stored.object), after: logged.object.clone() }))
    }

    /// The last event again.
    fn repeat(&self, table: &Table<T>) -> Option<Input> {
        let logged = table.log().get(self.position.checked_sub(1)?)?;
        Some(match &logged.object {
            Some(object) => T::found(Arc::clone(object)),
            None => T::gone(logged.key.clone()),
        })
    }

    /// Everything as it is now, and what that changes.
    fn relist(&mut self, table: &Table<T>) -> (Vec<Input>, Vec<Change<T>>) {
        let mut changes = Vec::new();
        let fresh = self.position == 0;
        if fresh {
            self.live = table.live().clone();
            let after = |stored: &Stored<T>| Some(Arc::clone(&stored.object));
            changes.extend(table.iter().map(|stored| Change { before: None, after: after(stored) }));
            self.position = table.log().len();
        }
        for logged in &table.log()[self.position..] {
            let before = self.live.get(&logged.key).map(|stored| Arc::clone(&stored.object));
            let after = table.get(&logged.key);
            match after {
                Some(stored) => self.live.insert(logged.key.clone(), stored.clone()),
                None => self.live.remove(&logged.key),
            };
            changes.push(Change { before, after: after.map(|stored| Arc::clone(&stored.object)) });
        }
        self.position = table.log().len();
        (table.iter().map(|stored| T::found(Arc::clone(&stored.object))).collect(), changes)
    }
}

/// What an event replaced.
#[derive(Debug)]
struct Change<T> {
    before: Option<Arc<T>>,
    after: Option<Arc<T>>,
}

/// Everything that one client has been told.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Slices.
    pub slices: Mirror<ResourceSlice>,
    /// Rules.
    pub rules: Mirror<DeviceTaintRule>,
    /// Patches.
    pub patches: Mirror<ResourceSlicePatch>,
    /// Classes.
    pub classes: Mirror<DeviceClass>,
    /// Claims.
    pub claims: Mirror<ResourceClaim>,
    /// Pods.
    pub pods: Mirror<Pod>,
    /// Nodes.
    pub nodes: Mirror<Node>,
    /// The slices by pool: only to find them quickly.
    pools: HashMap<PoolId, PoolView, FxBuildHasher>,
    /// What claims hold of each device that is held at all.
    held: Keyed<DeviceId, Use>,
    /// How a held device was published before its last slice went: the slice, and its place in it.
    remembered: HashMap<DeviceId, (Arc<ResourceSlice>, usize), FxBuildHasher>,
}

/// A pool, and what was found out about it since it last changed.
#[derive(Clone, Debug, Default)]
struct PoolView {
    /// By name.
    slices: BTreeMap<Text, Arc<ResourceSlice>>,
    /// The newest generation, and whether some of its slices are still to come.
    generation: OnceCell<Option<(i64, bool)>>,
    /// For each device that some slice has: the slice that stands for it, and its place in it.
    places: OnceCell<HashMap<Text, Place, FxBuildHasher>>,
}

/// Where a device is.
#[derive(Clone, Debug)]
struct Place {
    slice: Arc<ResourceSlice>,
    at: usize,
    /// Of a generation that is over.
    over: bool,
}

impl PoolView {
    fn generation(&self) -> Option<(i64, bool)> {
        *self.generation.get_or_init(|| {
            let newest = self.slices.values().map(|slice| slice.pool.generation).max()?;
            let mut members = self.slices.values().filter(|slice| slice.pool.generation == newest);
            let expected = members.next()?.pool.slice_count;
            Some((newest, i64::try_from(1 + members.count()).is_ok_and(|there| there < expected)))
        })
    }

    /// Its slices are not what they were.
    fn changed(&mut self) {
        self.generation = OnceCell::new();
        self.places = OnceCell::new();
    }

    /// While a pool moves to a new generation, devices that the new one does not have yet are still there in the old
    /// one. Of several slices the newest counts, and of those the first by name.
    fn places(&self) -> &HashMap<Text, Place, FxBuildHasher> {
        self.places.get_or_init(|| {
            let mut places: HashMap<Text, Place, FxBuildHasher> = HashMap::default();
            let (newest, rolling) = self.generation().unwrap_or_default();
            for slice in self.slices.values() {
                let over = !rolling && slice.pool.generation != newest;
                for (at, device) in slice.devices.iter().enumerate() {
                    let known = places.get(&device.name);
                    if known.is_none_or(|known| known.slice.pool.generation < slice.pool.generation) {
                        places.insert(device.name.clone(), Place { slice: Arc::clone(slice), at, over });
                    }
                }
            }
            places
        })
    }
}

/// What claims hold of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Results that have it whole.
    pub whole: u32,
    /// Results that have a share.
    pub shares: u32,
    /// What the shares come to.
    pub bandwidth: i64,
}

impl View {
    /// The next event of a kind's watch, if the server has one.
    pub fn next(&mut self, api: &Api, kind: Kind) -> Option<Input> {
        match kind {
            Kind::Slice => self.slices.step(&api.slices).map(|(input, change)| {
                self.slices_changed(&[change]);
                input
            }),
            Kind::Claim => self.claims.step(&api.claims).map(|(input, change)| {
                self.claims_changed(&[change]);
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

    /// The watch broke: everything of the kind, as it is now.
    pub fn relist(&mut self, api: &Api, kind: Kind) -> Vec<Input> {
        match kind {
            Kind::Slice => {
                let (inputs, changes) = self.slices.relist(&api.slices);
                self.slices_changed(&changes);
                inputs
            }
            Kind::Claim => {
                let (inputs, changes) = self.claims.relist(&api.claims);
                self.claims_changed(&changes);
                inputs
            }
            Kind::Rule => self.rules.relist(&api.rules).0,
            Kind::Patch => self.patches.relist(&api.patches).0,
            Kind::Class => self.classes.relist(&api.classes).0,
            Kind::Pod => self.pods.relist(&api.pods).0,
            Kind::Node => self.nodes.relist(&api.nodes).0,
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

    /// Devices held by some claim.
    pub fn held(&self) -> impl Iterator<Item = &DeviceId> {
        self.held.keys()
    }

    /// The newest slice that has a device, be its generation over or not.
    fn place(&self, id: &DeviceId) -> Option<&Place> {
        self.pools.get(&id.pool_id())?.places().get(&id.device)
    }

    /// The slice and the record that stand for a device.
    #[must_use]
    pub fn published(&self, id: &DeviceId) -> Option<(&Arc<ResourceSlice>, &Device)> {
        let place = self.place(id).filter(|place| !place.over)?;
        Some((&place.slice, &place.slice.devices[place.at]))
    }

    /// The slices of taints that count for a device published in a slice of this generation: those of its own, and
    /// those that count for the pool.
    pub fn taint_slices(&self, pool: &PoolId, generation: i64) -> impl Iterator<Item = &Arc<ResourceSlice>> {
        let pool = self.pools.get(pool);
        let (newest, rolling) = pool.and_then(PoolView::generation).unwrap_or_default();
        pool.into_iter().flat_map(|pool| pool.slices.values()).filter(move |slice| {
            let of = slice.pool.generation;
            !slice.taints.is_empty() && (rolling || of == newest || of == generation)
        })
    }

    /// What is known of a device: as some slice has it, be its generation over, else as remembered for its holder.
    #[must_use]
    pub fn known(&self, id: &DeviceId) -> Option<&Device> {
        match self.place(id) {
            Some(place) => Some(&place.slice.devices[place.at]),
            None => self.remembered.get(id).map(|(slice, at)| &slice.devices[*at]),
        }
    }

    /// What claims hold of a device.
    #[must_use]
    pub fn used(&self, id: &DeviceId) -> Use {
        self.held.get(id).copied().unwrap_or_default()
    }

    fn slices_changed(&mut self, changes: &[Change<ResourceSlice>]) {
        for change in changes {
            if let Some(before) = &change.before {
                let pool = before.pool_id();
                if let Some(view) = self.pools.get_mut(&pool) {
                    view.slices.remove(&before.name);
                    view.changed();
                    if view.slices.is_empty() {
                        self.pools.remove(&pool);
                    }
                }
            }
            if let Some(after) = &change.after {
                let view = self.pools.entry(after.pool_id()).or_default();
                view.slices.insert(after.name.clone(), Arc::clone(after));
                view.changed();
            }
        }
        if self.held.is_empty() {
            return;
        }
        for slice in changes.iter().filter_map(|change| change.before.as_ref()) {
            for (at, device) in slice.devices.iter().enumerate() {
                let (driver, pool) = (slice.driver.clone(), slice.pool.name.clone());
                self.remember(DeviceId { driver, pool, device: device.name.clone() }, slice, at);
            }
        }
    }

    fn claims_changed(&mut self, changes: &[Change<ResourceClaim>]) {
        for change in changes {
            for result in results(change.after.as_deref()) {
                if let Some(used) = self.held.entry(&result.device) {
                    used.add(result, 1);
                }
            }
            for result in results(change.before.as_deref()) {
                let Some(used) = self.held.get_mut(&result.device) else { continue };
                used.add(result, -1);
                if *used == Use::default() {
                    self.held.remove(&result.device);
                    self.remembered.remove(&result.device);
                }
            }
        }
    }

    /// Notes what a slice that changed or went had to say of a device, if the device is held and nobody else has it.
    fn remember(&mut self, id: DeviceId, slice: &Arc<ResourceSlice>, at: usize) {
        if !self.held.contains_key(&id) || self.place(&id).is_some() {
            return;
        }
        let newer = |(known, _): &(Arc<ResourceSlice>, usize)| known.pool.generation > slice.pool.generation;
        if !self.remembered.get(&id).is_some_and(newer) {
            self.remembered.insert(id, (Arc::clone(slice), at));
        }
    }
}

impl Use {
    fn add(&mut self, result: &DeviceResult, sign: i32) {
        let counter = if result.share_id.is_none() { &mut self.whole } else { &mut self.shares };
        *counter = counter.saturating_add_signed(sign);
        let consumed = result.consumed_capacity.iter().filter_map(|(_, amount)| amount.as_i64());
        self.bandwidth += i64::from(sign) * consumed.sum::<i64>();
    }
}

fn results(claim: Option<&ResourceClaim>) -> &[DeviceResult] {
    claim.and_then(|claim| claim.allocation.as_ref()).map_or(&[], |allocation| &allocation.results)
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
