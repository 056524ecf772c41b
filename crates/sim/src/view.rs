//! What one client has been told: the objects its watches delivered, plain maps of them. Beside each machine under
//! test stands one of these, fed with exactly the same events; the reference reads it and nothing else.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_fleet::Input;
use lazaret_model::{
    AttrValue, Device, DeviceClass, DeviceId, DeviceTaintRule, Node, Pod, PoolId, ResourceClaim,
    ResourceSlice, ResourceSlicePatch, Text,
};

use crate::api::{Api, Kind, Resource, Stored, Table};

/// One kind of object, as far as its watch has come.
#[derive(Debug)]
pub struct Mirror<T: Resource> {
    live: BTreeMap<T::Key, Stored<T>>,
    position: usize,
}

impl<T: Resource> Default for Mirror<T> {
    fn default() -> Self {
        Self { live: BTreeMap::new(), position: 0 }
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
        self.live.range(key..).map(|(_, stored)| &stored.object)
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
#[derive(Debug, Default)]
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
    /// The slices of each pool, by name: only to find them quickly.
    pools: BTreeMap<PoolId, BTreeMap<Text, Arc<ResourceSlice>>>,
    /// How many claims hold a device.
    held: BTreeMap<DeviceId, u32>,
    /// The attributes with which a held device was last published.
    remembered: BTreeMap<DeviceId, Vec<(Text, AttrValue)>>,
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

    /// The slices of a pool, by name.
    pub fn pool(&self, id: &PoolId) -> impl Iterator<Item = &Arc<ResourceSlice>> {
        self.pools.get(id).into_iter().flat_map(BTreeMap::values)
    }

    /// Devices held by some claim.
    pub fn held(&self) -> impl Iterator<Item = &DeviceId> {
        self.held.keys()
    }

    /// The newest generation of a pool, and whether some of its slices are still to come.
    fn generation(&self, pool: &PoolId) -> Option<(i64, bool)> {
        let newest = self.pool(pool).map(|slice| slice.pool.generation).max()?;
        let mut members = self.pool(pool).filter(|slice| slice.pool.generation == newest);
        let expected = members.next()?.pool.slice_count;
        Some((newest, i64::try_from(1 + members.count()).is_ok_and(|there| there < expected)))
    }

    /// The slice and the record that stand for a device. While a pool moves to a new generation, devices that the
    /// new one does not have yet are still there in the old one.
    #[must_use]
    pub fn published(&self, id: &DeviceId) -> Option<(&Arc<ResourceSlice>, &Device)> {
        let pool = id.pool_id();
        let (newest, rolling) = self.generation(&pool)?;
        let mut best: Option<(&Arc<ResourceSlice>, &Device)> = None;
        for slice in self.pool(&pool).filter(|slice| rolling || slice.pool.generation == newest) {
            let newer = best.is_none_or(|(other, _)| slice.pool.generation > other.pool.generation);
            if let Some(device) = slice.devices.iter().find(|device| newer && device.name == id.device) {
                best = Some((slice, device));
            }
        }
        best
    }

    /// The slices of taints that count for a device published in a slice of this generation: those of its own, and
    /// those that count for the pool.
    pub fn taint_slices(&self, pool: &PoolId, generation: i64) -> impl Iterator<Item = &Arc<ResourceSlice>> {
        let (newest, rolling) = self.generation(pool).unwrap_or_default();
        self.pool(pool).filter(move |slice| {
            let of = slice.pool.generation;
            !slice.taints.is_empty() && (rolling || of == newest || of == generation)
        })
    }

    /// What is known of a device's attributes: as published, else as remembered for its holder.
    #[must_use]
    pub fn attributes(&self, id: &DeviceId) -> Option<&[(Text, AttrValue)]> {
        match self.published(id) {
            Some((_, device)) => Some(&device.attributes),
            None => self.remembered.get(id).map(Vec::as_slice),
        }
    }

    fn slices_changed(&mut self, changes: &[Change<ResourceSlice>]) {
        for change in changes {
            if let Some(before) = &change.before {
                let pool = before.pool_id();
                if let Some(slices) = self.pools.get_mut(&pool) {
                    slices.remove(&before.name);
                    if slices.is_empty() {
                        self.pools.remove(&pool);
                    }
                }
            }
            if let Some(after) = &change.after {
                self.pools.entry(after.pool_id()).or_default().insert(after.name.clone(), Arc::clone(after));
            }
        }
        for slice in changes.iter().filter_map(|change| change.after.as_ref()) {
            for device in &slice.devices {
                let id = DeviceId::new(&*slice.driver, &*slice.pool.name, &*device.name);
                self.remember(id);
            }
        }
    }

    fn claims_changed(&mut self, changes: &[Change<ResourceClaim>]) {
        for change in changes {
            for id in devices(change.after.as_deref()) {
                *self.held.entry(id.clone()).or_insert(0) += 1;
                self.remember(id.clone());
            }
            for id in devices(change.before.as_deref()) {
                let left = self.held.get(id).map_or(0, |count| count - 1);
                if left == 0 {
                    self.held.remove(id);
                    self.remembered.remove(id);
                } else {
                    self.held.insert(id.clone(), left);
                }
            }
        }
    }

    fn remember(&mut self, id: DeviceId) {
        if !self.held.contains_key(&id) {
            return;
        }
        if let Some(attributes) = self.published(&id).map(|(_, device)| device.attributes.clone()) {
            self.remembered.insert(id, attributes);
        }
    }
}

fn devices(claim: Option<&ResourceClaim>) -> impl Iterator<Item = &DeviceId> {
    claim
        .and_then(|claim| claim.allocation.as_ref())
        .into_iter()
        .flat_map(|a| a.results.iter().map(|r| &r.device))
}

fn log_length(api: &Api, kind: Kind) -> usize {
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
