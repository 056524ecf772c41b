//! A device of a slice.

use core::fmt;

use lazaret_model::{
    AttrId, AttrNames, AttrValue, CapacityValue, CounterConsumption, DeviceId, NodeScope, Quantity, Text,
};

use crate::{
    cel,
    shapes::ShapeId,
    slice::{SharedUse, SliceState},
    taints::{TaintSetId, Taints, taint_set},
};

/// A device of a snapshot. Copying it copies two pointers and a number.
#[derive(Clone, Copy)]
pub struct DeviceRef<'a> {
    slice: &'a SliceState,
    names: &'a AttrNames,
    index: usize,
}

impl SliceState {
    /// The device at `index`; `names` are those of the snapshot that the slice is from.
    ///
    /// # Panics
    /// When there are not that many devices.
    #[must_use]
    #[inline]
    pub fn device<'a>(&'a self, names: &'a AttrNames, index: usize) -> DeviceRef<'a> {
        assert!(index < self.len(), "device {index} of {}", self.len());
        DeviceRef { slice: self, names, index }
    }

    /// All devices in the driver's order.
    pub fn devices<'a>(&'a self, names: &'a AttrNames) -> impl Iterator<Item = DeviceRef<'a>> {
        (0..self.len()).map(move |index| DeviceRef { slice: self, names, index })
    }
}

impl<'a> DeviceRef<'a> {
    /// The slice it is in.
    #[must_use]
    pub fn slice(self) -> &'a SliceState {
        self.slice
    }

    /// Its place in the slice.
    #[must_use]
    pub fn index(self) -> usize {
        self.index
    }

    /// Its name in the pool.
    #[must_use]
    pub fn name(self) -> &'a Text {
        &self.slice.body.names[self.index]
    }

    /// Its name in the cluster.
    #[must_use]
    pub fn id(self) -> DeviceId {
        self.slice.device_id(self.index)
    }

    /// Its taints: its own, those of taint slices (by slice and position), of patches (by falling priority, then
    /// name), of rules (by name).
    #[must_use]
    pub fn taints(self) -> Taints<'a> {
        Taints::of(self.slice, self.index)
    }

    /// Which taints keep claims away, as a number to remember answers by.
    #[must_use]
    pub fn taint_set(self) -> TaintSetId {
        taint_set(self.taints())
    }

    /// The number of the values that CEL sees of it, as a key for cached answers.
    #[must_use]
    pub fn shape(self) -> ShapeId {
        self.slice.body.shape(self.index)
    }

    /// The value of an attribute, patches included.
    #[must_use]
    pub fn attribute(self, id: AttrId) -> Option<&'a AttrValue> {
        self.slice.body.attributes.get(id, self.index)
    }

    /// All attributes with their keys as published, in key order.
    pub fn attributes(self) -> impl Iterator<Item = (&'a Text, AttrId, &'a AttrValue)> {
        self.slice.body.attributes.row(self.index)
    }

    /// All capacities with their keys as published, in key order.
    pub fn capacity(self) -> impl Iterator<Item = (&'a Text, AttrId, &'a CapacityValue)> {
        self.slice.body.capacity.row(self.index)
    }

    /// Whether several requests may have it at once.
    #[must_use]
    pub fn allow_multiple(self) -> bool {
        self.slice.body.flags().allow_multiple.has(self.index)
    }

    /// Its consumption of the pool's counters.
    #[must_use]
    pub fn consumes_counters(self) -> &'a [CounterConsumption] {
        self.slice.body.extra(self.index).map_or(&[], |extra| &extra.consumes_counters)
    }

    /// Where it can be reached, if it says so itself.
    #[must_use]
    pub fn nodes(self) -> Option<&'a NodeScope> {
        self.slice.body.extra(self.index)?.nodes.as_ref()
    }

    /// Whether an allocation of it is usable on the chosen node alone.
    #[must_use]
    pub fn binds_to_node(self) -> bool {
        self.slice.body.flags().binds_to_node.has(self.index)
    }

    /// Conditions to wait for; `None` differs from an empty list in pool order.
    #[must_use]
    pub fn binding_conditions(self) -> Option<&'a [Text]> {
        self.slice.body.extra(self.index)?.binding_conditions.as_deref()
    }

    /// Conditions that mean binding failed.
    #[must_use]
    pub fn binding_failure_conditions(self) -> Option<&'a [Text]> {
        self.slice.body.extra(self.index)?.binding_failure_conditions.as_deref()
    }

    /// Whether some claim has it to itself. Claims for monitoring (admin access) do not count.
    #[must_use]
    pub fn in_use(self) -> bool {
        self.slice.in_use.has(self.index)
    }

    /// How many shares of it are given out.
    #[must_use]
    pub fn shares(self) -> u32 {
        self.shared_use().map_or(0, |shared| shared.shares)
    }

    /// How much of it is given out in shares, by capacity key.
    #[must_use]
    pub fn consumed_capacity(self) -> &'a [(Text, Quantity)] {
        self.shared_use().map_or(&[], |shared| &shared.consumed)
    }

    fn shared_use(self) -> Option<&'a SharedUse> {
        let shared = &self.slice.shared;
        let at = shared.binary_search_by_key(&self.index, |(device, _)| usize::from(*device)).ok()?;
        Some(&shared[at].1)
    }
}

impl fmt::Debug for DeviceRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceRef({})", self.id())
    }
}

impl cel::Device for DeviceRef<'_> {
    fn driver(&self) -> &str {
        &self.slice.body.driver
    }

    fn attribute(&self, id: AttrId) -> Option<&AttrValue> {
        self.slice.body.attributes.get(id, self.index)
    }

    fn capacity(&self, id: AttrId) -> Option<&Quantity> {
        self.slice.body.capacity.get(id, self.index).map(|capacity| &capacity.value)
    }

    fn allow_multiple_allocations(&self) -> bool {
        self.slice.body.flags().allow_multiple.has(self.index)
    }

    fn attributes(&self, visit: &mut dyn FnMut(AttrId, &AttrValue)) {
        self.slice.body.attributes.row_by_id(self.index).for_each(|(id, value)| visit(id, value));
    }

    fn capacities(&self, visit: &mut dyn FnMut(AttrId, &Quantity)) {
        self.slice.body.capacity.row_by_id(self.index).for_each(|(id, capacity)| visit(id, &capacity.value));
    }

    fn names(&self) -> &AttrNames {
        self.names
    }

    fn has_unsupported_value(&self) -> bool {
        self.slice.body.flags().unsupported.has(self.index)
    }
}
