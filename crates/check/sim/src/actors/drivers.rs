//! Drivers: what they want published, and the publishing of it.

use std::sync::Arc;

use lazaret_model::{
    AttrValue, CapacityValue, Device, DeviceClass, DeviceId, Node, NodeScope, PoolSpec, Quantity,
    ResourceSlice, SliceTaint, Taint, Text,
};

use crate::{
    api::wall,
    coverage::Mark,
    palette,
    world::{Step, World},
};

/// The largest number of taints in a slice of taints.
const SLICE_TAINTS_MAX: usize = 32;

/// A pool that moves to a new generation under new names deletes the old slices this long after the last new one.
const WITHDRAWN_MS: u64 = 400;

/// In one of as many worlds with a health policy two devices of a pool have one identity.
const TWINS_ONE_IN: u64 = 5;

/// The pools that the drivers publish.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drivers {
    pub(crate) pools: Vec<Pool>,
}

/// A pool: one driver on one node, or a driver whose devices every node reaches.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) driver: Text,
    pub(crate) name: Text,
    pub(super) nodes: NodeScope,
    /// A new generation comes in slices of new names, and the old ones go afterwards.
    renames: bool,
    generation: i64,
    pub(super) slices: Vec<Slice>,
}

#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) name: Text,
    content: Content,
    /// Its driver wants it.
    published: bool,
    /// It is there, and the Node that owned it is gone.
    pub(super) is_orphan: bool,
}

#[derive(Clone, Debug)]
enum Content {
    /// Shared with the other worlds of the population until they change.
    Devices(Arc<Vec<Device>>),
    Taints(Vec<SliceTaint>),
}

impl Pool {
    fn object(&self, number: usize) -> ResourceSlice {
        let slice = &self.slices[number];
        let (devices, taints) = match &slice.content {
            Content::Devices(devices) => (Vec::clone(devices), Vec::new()),
            Content::Taints(taints) => (Vec::new(), taints.clone()),
        };
        ResourceSlice {
            name: slice.name.clone(),
            uid: slice.name.clone(),
            driver: self.driver.clone(),
            pool: PoolSpec {
                name: self.name.clone(),
                generation: self.generation,
                slice_count: i64::try_from(self.slices.len()).unwrap_or(i64::MAX),
            },
            nodes: self.nodes.clone(),
            devices,
            taints,
            ..ResourceSlice::default()
        }
    }

    fn device_count(&self) -> usize {
        self.slices.iter().map(|slice| devices(slice).len()).sum()
    }

    fn device_mut(&mut self, number: usize) -> Option<(usize, &mut Device)> {
        let mut left = number;
        for (at, slice) in self.slices.iter_mut().enumerate() {
            let Content::Devices(devices) = &mut slice.content else { continue };
            if left < devices.len() {
                return Some((at, &mut Arc::make_mut(devices)[left]));
            }
            left -= devices.len();
        }
        None
    }

    /// Whether one node alone has its devices.
    pub(crate) fn is_of_node(&self) -> bool {
        self.nodes.own_node().is_some()
    }

    /// The generation that its driver publishes.
    pub(crate) fn generation(&self) -> i64 {
        self.generation
    }

    /// The names of its devices.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Text> {
        self.slices.iter().flat_map(|slice| devices(slice).iter().map(|device| &device.name))
    }
}

impl Pool {
    /// Devices with the identity that this one has.
    pub(crate) fn twins_of(&self, name: &Text) -> Vec<DeviceId> {
        let all = || self.slices.iter().flat_map(|slice| devices(slice).iter());
        let wanted = all().find(|device| device.name == *name).and_then(identity);
        let twins = all().filter(move |device| device.name != *name && identity(device) == wanted);
        let id = |device: &Device| DeviceId::new(self.driver.clone(), self.name.clone(), device.name.clone());
        twins.filter(|device| identity(device).is_some()).map(id).collect()
    }
}

fn identity(device: &Device) -> Option<&AttrValue> {
    device.attributes.iter().find(|(key, _)| **key == *palette::IDENTITY).map(|(_, value)| value)
}

impl Slice {
    fn of_taints(name: Text) -> Self {
        Self { name, content: Content::Taints(Vec::new()), published: true, is_orphan: false }
    }
}

fn amount(value: i64) -> CapacityValue {
    CapacityValue { value: Quantity::from_i64(value), policy: None }
}

fn devices(slice: &Slice) -> &[Device] {
    match &slice.content {
        Content::Devices(devices) => devices,
        Content::Taints(_) => &[],
    }
}

impl World {
    /// Nodes, classes and the slices of every pool, as at the start of the world.
    pub(crate) fn publish_everything(&mut self) {
        for number in 0..self.config.nodes {
            let name = palette::node(number);
            self.api.nodes.put(&mut self.api.versions, Node { name: name.clone(), ..Node::default() });
            for driver in palette::DRIVERS {
                let pool = self.new_pool(palette::word(driver), name.clone());
                self.drivers.pools.push(pool);
            }
        }
        if self.config.wide != 0 {
            let pool = self.new_fabric();
            self.drivers.pools.push(pool);
            let class = DeviceClass {
                name: palette::FABRIC.into(),
                selectors: vec![Some(format!("device.driver == \"{}\"", palette::FABRIC_DRIVER).into())],
                ..DeviceClass::default()
            };
            self.api.classes.put(&mut self.api.versions, class);
        }
        for class in 0..palette::CLASSES.len() {
            self.write_class(class, 0);
        }
        for pool in 0..self.drivers.pools.len() {
            for slice in 0..self.drivers.pools[pool].slices.len() {
                self.publish(pool, slice);
            }
        }
    }

    fn new_pool(&mut self, driver: Text, node: Text) -> Pool {
        let short = driver.split('.').next().unwrap_or_default();
        let mut slices = Vec::new();
        // The second driver has fewer devices: few pods ask for it.
        let per_slice =
            if *driver == *palette::DRIVERS[0] { self.config.devices } else { self.config.devices / 3 + 1 };
        let twins = self.config.healed != 0 && self.config.seed.is_multiple_of(TWINS_ONE_IN);
        for number in 0..self.config.slices {
            let devices = (0..per_slice).map(|index| {
                let mut device = self.new_device(number * per_slice + index);
                // In some worlds a driver publishes its second device with the identity of the first.
                let named = if twins && index == 1 { palette::device(0) } else { device.name.clone() };
                let hardware = AttrValue::String(format!("{node}-{short}-{named}").into());
                device.attributes.push((palette::word(palette::IDENTITY), hardware));
                device
            });
            let devices = devices.collect();
            slices.push(Slice {
                name: format!("{node}-{short}-{number}").into(),
                content: Content::Devices(Arc::new(devices)),
                published: true,
                is_orphan: false,
            });
        }
        if self.config.taint_slices != 0 {
            let name = format!("{node}-{short}-taints").into();
            slices.push(Slice::of_taints(name));
        }
        let nodes = NodeScope::Node(node.clone());
        Pool { driver, name: node, nodes, renames: false, generation: 1, slices }
    }

    /// A pool whose devices are given out in shares, wherever a pod is.
    fn new_fabric(&self) -> Pool {
        let per_slice = self.config.pods / (6 * self.config.slices) + 1;
        let device = |number: u32| Device {
            name: palette::device(number),
            capacity: vec![(palette::word(palette::BANDWIDTH), amount(palette::BANDWIDTH_MAX))],
            allow_multiple_allocations: Some(true),
            ..Device::default()
        };
        let mut slices: Vec<Slice> = (0..self.config.slices)
            .map(|number| Slice {
                name: format!("fabric-{number}-g1").into(),
                content: Content::Devices(Arc::new(
                    (0..per_slice.min(64)).map(|at| device(number * per_slice + at)).collect(),
                )),
                published: true,
                is_orphan: false,
            })
            .collect();
        if self.config.taint_slices != 0 {
            let name = "fabric-taints-g1".into();
            slices.push(Slice::of_taints(name));
        }
        Pool {
            driver: palette::word(palette::FABRIC_DRIVER),
            name: palette::word(palette::FABRIC),
            nodes: NodeScope::All,
            renames: true,
            generation: 1,
            slices,
        }
    }

    fn new_device(&mut self, number: u32) -> Device {
        let model = if self.rng.chance(400) { "big" } else { "small" };
        let device = Device {
            name: palette::device(number),
            attributes: vec![
                (palette::word("index"), AttrValue::Int(i64::from(number))),
                (palette::word("model"), AttrValue::String(palette::word(model))),
            ],
            capacity: match self.config.wide {
                0 => Vec::new(),
                _ => vec![(palette::word("memory"), amount(if model == "big" { 80 } else { 20 }))],
            },
            ..Device::default()
        };
        self.config.with_conditions(device, number)
    }

    pub(crate) fn write_class(&mut self, class: usize, variant: u32) {
        let class = class % palette::CLASSES.len();
        let object = DeviceClass {
            name: palette::CLASSES[class].into(),
            selectors: palette::class_selectors(class, variant),
            ..DeviceClass::default()
        };
        self.api.classes.put(&mut self.api.versions, object);
    }

    /// Somebody mends the classes that pods ask for. As long as one of them is no expression at all, the scheduler tries such pods again and again.
    pub(crate) fn mend_classes(&mut self) {
        let asked_for = [palette::CLASSES[0], palette::CLASSES[1]];
        for (number, name) in asked_for.into_iter().enumerate() {
            let class = self.api.classes.get(&palette::word(name));
            let broken = palette::class_selectors(number, palette::BROKEN);
            if class.is_some_and(|class| class.object.selectors == broken) {
                self.write_class(number, 0);
            }
        }
    }

    /// Writes a slice as its driver wants it now.
    pub(crate) fn publish(&mut self, pool: usize, slice: usize) {
        if !self.may_publish(pool) {
            self.drivers.pools[pool].slices[slice].published = true;
            return;
        }
        let pool = &mut self.drivers.pools[pool];
        let generation = pool.generation;
        let after_the_last = WITHDRAWN_MS * pool.slices.len() as u64;
        let target = &mut pool.slices[slice];
        target.published = true;
        let mut renamed = None;
        if pool.renames
            && let Some((base, _)) = target.name.rsplit_once("-g")
        {
            let name: Text = format!("{base}-g{generation}").into();
            if name != target.name {
                renamed = Some(core::mem::replace(&mut target.name, name));
            }
        }
        let object = pool.object(slice);
        self.api.slices.put(&mut self.api.versions, object);
        if let Some(old) = renamed {
            self.coverage.hit(Mark::Renamed);
            self.push(self.now + after_the_last, Step::Withdraw(old));
        }
    }

    /// A slice that was replaced by one of another name goes.
    pub(crate) fn withdraw(&mut self, name: &Text) {
        self.api.slices.remove(&mut self.api.versions, name);
    }

    /// The same, unless its driver wants it no more.
    pub(crate) fn publish_if_there(&mut self, pool: usize, slice: usize) {
        if self.drivers.pools[pool].slices[slice].published {
            self.publish(pool, slice);
        }
    }

    fn pool_number(&self, number: u32) -> usize {
        number as usize % self.drivers.pools.len()
    }

    pub(crate) fn taint_device(&mut self, number: u32, taint: u32) {
        let taint = self.driver_taint(taint);
        let (pool, slice) = self.edit_device(number, |device| {
            // A flapping driver sets the same again; a sloppy one piles up.
            device.taints.retain(|other| other.key != taint.key || other.effect != taint.effect);
            device.taints.push(taint);
        });
        self.publish_if_there(pool, slice);
    }

    pub(crate) fn clear_device(&mut self, number: u32) {
        let (pool, slice) = self.edit_device(number, |device| device.taints.clear());
        self.publish_if_there(pool, slice);
    }

    fn driver_taint(&self, number: u32) -> Taint {
        Taint { evictions_per_second: palette::pace(number / 7), ..palette::taint(number, wall(self.now)) }
    }

    fn edit_device(&mut self, number: u32, edit: impl FnOnce(&mut Device)) -> (usize, usize) {
        let pool = self.pool_number(number);
        let pools = self.drivers.pools.len();
        let count = self.drivers.pools[pool].device_count().max(1);
        match self.drivers.pools[pool].device_mut(number as usize / pools % count) {
            Some((slice, device)) => {
                edit(device);
                (pool, slice)
            }
            None => (pool, 0),
        }
    }

    pub(crate) fn taint_by_slice(&mut self, pool: u32, device: u32, taint: u32) {
        let pool = self.pool_number(pool);
        let taint = self.driver_taint(taint);
        // One name more than there are devices: a taint may name a device that does not exist.
        let count = u32::try_from(self.drivers.pools[pool].device_count() + 1).unwrap_or(1);
        let entry = SliceTaint { device: palette::device(device % count), taint };
        self.edit_taints(pool, |taints| {
            if taints.len() < SLICE_TAINTS_MAX {
                taints.push(entry);
            }
        });
    }

    pub(crate) fn clear_slice(&mut self, pool: u32) {
        let pool = self.pool_number(pool);
        self.edit_taints(pool, Vec::clear);
    }

    fn edit_taints(&mut self, pool: usize, edit: impl FnOnce(&mut Vec<SliceTaint>)) {
        let slices = &mut self.drivers.pools[pool].slices;
        let found = slices.iter_mut().enumerate().find_map(|(at, slice)| match &mut slice.content {
            Content::Taints(taints) => Some((at, taints)),
            Content::Devices(_) => None,
        });
        if let Some((at, taints)) = found {
            edit(taints);
            self.publish_if_there(pool, at);
        }
    }

    pub(crate) fn roll_pool(&mut self, number: u32, gap: u32) {
        self.coverage.hit(Mark::Rolled);
        let pool = self.pool_number(number);
        self.drivers.pools[pool].generation += 1;
        for slice in 0..self.drivers.pools[pool].slices.len() {
            let at = self.now + slice as u64 * u64::from(gap);
            self.push(at, Step::Publish(pool, slice));
        }
    }

    pub(crate) fn vanish_slice(&mut self, number: u32) {
        let (pool, slice) = self.slice_number(number);
        let target = &mut self.drivers.pools[pool].slices[slice];
        (target.published, target.is_orphan) = (false, false);
        let name = target.name.clone();
        if self.api.slices.remove(&mut self.api.versions, &name) {
            self.coverage.hit(Mark::Vanished);
        }
    }

    pub(crate) fn restore_slice(&mut self, number: u32) {
        let (pool, slice) = self.slice_number(number);
        self.publish(pool, slice);
    }

    fn slice_number(&self, number: u32) -> (usize, usize) {
        let pool = self.pool_number(number);
        (pool, number as usize / self.drivers.pools.len() % self.drivers.pools[pool].slices.len())
    }

    /// Every slice that is missing comes back.
    pub(crate) fn restore_everything(&mut self) {
        for pool in 0..self.drivers.pools.len() {
            for slice in 0..self.drivers.pools[pool].slices.len() {
                if !self.drivers.pools[pool].slices[slice].published {
                    self.publish(pool, slice);
                }
            }
        }
    }
}
