//! The pools that a node can reach, in the order in which they are searched.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::{cmp::Ordering, ops::Range};

use lazaret_fleet::{DeviceRef, Invalid, Pool, SliceState, Snapshot};
use lazaret_model::{AttrNames, Effect, Node, NodeScope, PoolId, Quantity, Text};

use crate::{
    Features,
    bits::Bits,
    error::{AllocateError, ErrorKind},
    overlay::{InFlight, Overlay},
    plan::{Plan, PlannedRequest},
    timed::is_tolerated_for_a_time,
};

/// The pools and devices of a fleet that one node can reach.
pub(crate) struct View<'a> {
    pub(crate) node: &'a Node,
    pub(crate) names: &'a AttrNames,
    /// In search order.
    pub(crate) pools: Vec<PoolView<'a>>,
    /// The devices of usable pools, in search order.
    pub(crate) slots: Vec<Slot<'a>>,
    /// Which of these some claim has to itself.
    pub(crate) in_use: Bits,
}

/// A pool as a node sees it.
pub(crate) struct PoolView<'a> {
    pub(crate) pool: &'a Arc<Pool>,
    pub(crate) id: &'a PoolId,
    pub(crate) state: PoolState,
    /// Slices with devices for the node, by name.
    pub(crate) slices: Vec<&'a SliceState>,
    /// Slices with devices for other nodes: they draw from the same counters.
    pub(crate) elsewhere: Vec<&'a SliceState>,
    /// Slices with counters.
    pub(crate) counters: Vec<&'a SliceState>,
    pub(crate) in_flight: Option<&'a BTreeMap<Text, InFlight>>,
    /// Where its devices are in [`View::slots`].
    pub(crate) slots: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PoolState {
    Usable,
    Incomplete,
    Invalid(String),
}

/// A device that a node can reach.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    pub(crate) device: DeviceRef<'a>,
    pub(crate) pool: usize,
}

impl<'a> PoolView<'a> {
    fn empty(pool: &'a Arc<Pool>, state: PoolState) -> Self {
        let (slices, elsewhere, counters) = (Vec::new(), Vec::new(), Vec::new());
        Self { pool, id: &pool.id, state, slices, elsewhere, counters, in_flight: None, slots: 0..0 }
    }

    /// The parts of a device held by in-flight claims.
    pub(crate) fn in_flight(&self, device: &Text) -> Option<&'a InFlight> {
        self.in_flight?.get(device)
    }
}

impl<'a> View<'a> {
    /// The view of `node`.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        node: &'a Node,
        features: &Features,
        overlay: &'a Overlay,
    ) -> Result<Self, AllocateError> {
        let mut pools = Vec::new();
        let mut last = Vec::new();
        for pool in reachable(snapshot, &node.name) {
            if let Some(mut view) = (PoolAssembler { names: snapshot.names(), node, features }).pool(pool)? {
                view.in_flight = overlay.pool(&pool.id);
                let waits = pool.has_binding_conditions() && has_binding_conditions(&view, snapshot.names());
                if waits { &mut last } else { &mut pools }.push(view);
            }
        }
        pools.append(&mut last);
        let (slots, in_use) = (Vec::new(), Bits::default());
        let mut view = Self { node, names: snapshot.names(), pools, slots, in_use };
        view.place(features);
        Ok(view)
    }

    /// Lines devices up and notes which are in use.
    fn place(&mut self, features: &Features) {
        let total = self.pools.iter().flat_map(|pool| &pool.slices).map(|slice| slice.len()).sum();
        self.slots.reserve_exact(total);
        self.in_use.reset(total);
        for (at, pool) in self.pools.iter_mut().enumerate() {
            let start = self.slots.len();
            for slice in &pool.slices {
                let base = self.slots.len();
                self.in_use.insert_from(base, slice.in_use_bits());
                self.slots.extend(slice.devices(self.names).map(|device| Slot { device, pool: at }));
            }
            pool.slots = start..self.slots.len();
        }
        for pool in &self.pools {
            if pool.in_flight.is_none() && features.consumable_capacity {
                continue;
            }
            for at in pool.slots.clone() {
                let device = self.slots[at].device;
                let held = pool.in_flight(device.name()).is_some_and(|held| held.exclusive > 0);
                // Without consumable capacity a share is as good as the whole.
                let shared = !features.consumable_capacity && is_allocated(device, pool);
                if held || shared {
                    self.in_use.insert(at);
                }
            }
        }
    }

    /// Whether every device is in use.
    pub(crate) fn is_full(&self) -> bool {
        self.in_use.next_absent(0, self.slots.len()).is_none()
    }

    /// Puts devices with informational taints behind those without, and devices that draw from counters that are
    /// in use already before others, each time keeping the order otherwise and never crossing to pools that are
    /// tried last.
    pub(crate) fn prefer_healthy(&mut self) {
        let waits: Vec<bool> =
            self.pools.iter().map(|pool| has_binding_conditions(pool, self.names)).collect();
        let opened: Vec<BTreeSet<&Text>> =
            self.pools.iter().map(|pool| opened_sets(pool, self.names)).collect();
        let key = |slot: &Slot<'_>| {
            let informed = slot.device.taints().any(|taint| match taint.taint.effect {
                Effect::None | Effect::Unknown(_) => true,
                Effect::NoSchedule | Effect::NoExecute => false,
            });
            let counters = slot.device.consumes_counters();
            let opens = counters.iter().any(|counters| !opened[slot.pool].contains(&counters.counter_set));
            (waits[slot.pool], informed, opens)
        };
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        order.sort_by_key(|&at| key(&self.slots[at]));
        self.reorder(&order);
    }

    /// Puts devices that some request could keep for a time only behind all others.
    pub(crate) fn put_timed_last(&mut self, plan: &Plan<'_>) {
        let is_timed = |slot: &Slot<'_>| {
            let mut taints = slot.device.taints();
            taints.any(|taint| {
                let tolerated =
                    |ask: &PlannedRequest<'_>| is_tolerated_for_a_time(taint.taint, &ask.spec.tolerations);
                plan.asks.iter().any(tolerated)
            })
        };
        let (last, mut order): (Vec<usize>, Vec<usize>) =
            (0..self.slots.len()).partition(|&at| is_timed(&self.slots[at]));
        if !last.is_empty() {
            order.extend(last);
            self.reorder(&order);
        }
    }

    fn reorder(&mut self, order: &[usize]) {
        let mut in_use = Bits::empty(self.slots.len());
        order
            .iter()
            .enumerate()
            .filter(|(_, from)| self.in_use.has(**from))
            .for_each(|(to, _)| in_use.insert(to));
        self.slots = order.iter().map(|&at| self.slots[at]).collect();
        self.in_use = in_use;
    }
}

/// The counter sets of a pool from which a device that is in use draws.
fn opened_sets<'a>(pool: &PoolView<'a>, names: &'a AttrNames) -> BTreeSet<&'a Text> {
    let devices = pool.slices.iter().chain(&pool.elsewhere).flat_map(|slice| slice.devices(names));
    devices
        .filter(|device| is_allocated(*device, pool))
        .flat_map(|device| device.consumes_counters())
        .map(|counters| &counters.counter_set)
        .collect()
}

/// Whether any claim has the device or a share of it.
pub(crate) fn is_allocated(device: DeviceRef<'_>, pool: &PoolView<'_>) -> bool {
    is_held(device) || pool.in_flight(device.name()).is_some()
}

/// Whether any claim of the snapshot has the device or a share of it.
pub(crate) fn is_held(device: DeviceRef<'_>) -> bool {
    device.in_use() || device.shares() > 0
}

/// The pools with a slice for the node by name, and those with slices that name no node; by driver and name.
fn reachable<'a>(snapshot: &'a Snapshot, node: &str) -> impl Iterator<Item = &'a Arc<Pool>> {
    let mut own = snapshot.pools_of_node(node).peekable();
    let mut shared = snapshot.shared_pools().peekable();
    core::iter::from_fn(move || match (own.peek(), shared.peek()) {
        (Some(a), Some(b)) if a.id == b.id => {
            shared.next();
            own.next()
        }
        (Some(a), Some(b)) if a.id > b.id => shared.next(),
        (Some(_), _) => own.next(),
        (None, _) => shared.next(),
    })
}

/// Assembles pools for one node.
struct PoolAssembler<'a, 'f> {
    names: &'a AttrNames,
    node: &'f Node,
    features: &'f Features,
}

impl<'a> PoolAssembler<'a, '_> {
    /// The pool as the node sees it; `None` when it has nothing for the node, or nothing current.
    fn pool(&self, pool: &'a Arc<Pool>) -> Result<Option<PoolView<'a>>, AllocateError> {
        let mut relevant: Vec<&SliceState> = Vec::with_capacity(pool.slices.len());
        for slice in &pool.slices {
            if !self.ignores(slice) && self.is_reached_by(slice)? {
                match relevant.first().map(|first| first.generation().cmp(&slice.generation())) {
                    Some(Ordering::Greater) => continue,
                    Some(Ordering::Less) => relevant.clear(),
                    Some(Ordering::Equal) | None => {}
                }
                relevant.push(slice);
            }
        }
        let Some(first) = relevant.first() else { return Ok(None) };
        let (generation, slice_count) = (first.generation(), first.slice_count());
        let is_all = |slices: usize| i64::try_from(slices).is_ok_and(|slices| slices == slice_count);
        let mut others = Vec::new();
        // Slices of other nodes are looked at only if something seems to be missing, as in Kubernetes.
        if !is_all(relevant.len()) {
            if pool.newest().is_some_and(|newest| newest.number > generation) {
                return Ok(None);
            }
            let same = pool.slices_of(generation).map(|slice| &**slice);
            let all: Vec<&SliceState> =
                same.filter(|slice| self.features.compatibility_groups || !self.has_groups(slice)).collect();
            if !is_all(all.len()) {
                return Ok(Some(PoolView::empty(pool, PoolState::Incomplete)));
            }
            others
                .extend(all.into_iter().filter(|slice| !relevant.iter().any(|r| core::ptr::eq(*r, *slice))));
        }
        Ok(Some(self.build(pool, relevant, others)))
    }

    fn build(
        &self,
        pool: &'a Arc<Pool>,
        relevant: Vec<&'a SliceState>,
        others: Vec<&'a SliceState>,
    ) -> PoolView<'a> {
        let has_counters =
            |slice: &&SliceState| self.features.partitionable_devices && !slice.shared_counters().is_empty();
        let mut view = PoolView::empty(pool, PoolState::Usable);
        let seen = relevant.len() + others.len();
        if relevant.iter().chain(&others).any(has_counters) {
            let (counters, slices) = relevant.into_iter().partition(has_counters);
            let (more, elsewhere): (Vec<_>, Vec<_>) = others.into_iter().partition(has_counters);
            (view.slices, view.counters, view.elsewhere) = (slices, counters, elsewhere);
            view.counters.extend(more);
        } else {
            (view.slices, view.elsewhere) = (relevant, others);
        }
        // The fleet knows whether a generation as a whole is sound; only when not, or when the node sees part of
        // it, is it worth looking again.
        let sound = match pool.generations() {
            [only] => only.slices == seen && only.invalid.is_none(),
            [] | [_, _, ..] => false,
        };
        if !sound && let Some(reason) = self.why_invalid(&view) {
            return PoolView::empty(pool, PoolState::Invalid(reason.to_string()));
        }
        view
    }

    fn why_invalid(&self, view: &PoolView<'_>) -> Option<Invalid> {
        let mut seen = BTreeSet::new();
        for device in view.slices.iter().flat_map(|slice| slice.devices(self.names)).map(DeviceRef::name) {
            if !seen.insert(device) {
                return Some(Invalid::DuplicateDevice { device: device.clone() });
            }
        }
        if !self.features.partitionable_devices {
            return None;
        }
        let mut sets = BTreeMap::new();
        for set in view.counters.iter().flat_map(|slice| slice.shared_counters()) {
            if sets.insert(&set.name, &set.counters).is_some() {
                return Some(Invalid::DuplicateCounterSet { counter_set: set.name.clone() });
            }
        }
        for device in view.slices.iter().chain(&view.elsewhere).flat_map(|slice| slice.devices(self.names)) {
            for consumed in device.consumes_counters() {
                let (device, counter_set) = (device.name().clone(), consumed.counter_set.clone());
                let Some(counters) = sets.get(&counter_set) else {
                    return Some(Invalid::UnknownCounterSet { device, counter_set });
                };
                let unknown = |(name, _): &&(Text, Quantity)| counters.iter().all(|(known, _)| known != name);
                if let Some((counter, _)) = consumed.counters.iter().find(unknown) {
                    return Some(Invalid::UnknownCounter { device, counter_set, counter: counter.clone() });
                }
            }
        }
        None
    }

    /// Slices that need a feature which is off. Those with groups make their pool incomplete, on purpose.
    fn ignores(&self, slice: &SliceState) -> bool {
        let partitions = matches!(slice.nodes(), NodeScope::PerDevice) || !slice.shared_counters().is_empty();
        (partitions && !self.features.partitionable_devices)
            || (!self.features.compatibility_groups && self.has_groups(slice))
    }

    fn has_groups(&self, slice: &SliceState) -> bool {
        let mut consumed = slice.devices(self.names).flat_map(|device| device.consumes_counters());
        consumed.any(|consumed| !consumed.compatibility_groups.is_empty())
    }

    fn is_reached_by(&self, slice: &SliceState) -> Result<bool, AllocateError> {
        if !matches!(slice.nodes(), NodeScope::PerDevice) {
            return matches(slice.nodes(), self.node, slice);
        }
        for device in slice.devices(self.names) {
            if device_reaches(device, self.node)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a device that says itself where it is can be reached from the node.
pub(crate) fn device_reaches(device: DeviceRef<'_>, node: &Node) -> Result<bool, AllocateError> {
    device.nodes().map_or(Ok(false), |scope| matches(scope, node, device.slice()))
}

fn matches(scope: &NodeScope, node: &Node, slice: &SliceState) -> Result<bool, AllocateError> {
    match scope {
        NodeScope::Node(name) => Ok(*name == node.name),
        NodeScope::All => Ok(true),
        NodeScope::Selector(selector) => selector.matches(node).map_err(|error| {
            let (slice, message) = (slice.name().clone(), error.to_string());
            AllocateError::fatal(ErrorKind::NodeSelector { slice, message })
        }),
        NodeScope::PerDevice | NodeScope::Unknown => Ok(false),
    }
}

/// An empty list counts, an absent one does not.
fn has_binding_conditions(pool: &PoolView<'_>, names: &AttrNames) -> bool {
    let mut devices = pool.slices.iter().flat_map(|slice| slice.devices(names));
    devices.any(|device| device.binding_conditions().is_some())
}
