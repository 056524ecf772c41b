//! A slice of a pool as the fleet knows it.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{CounterSet, DeviceId, NodeScope, PoolId, Quantity, ResourceSlice, Taint, Text, Uid};

use crate::{
    DEVICES_PER_SLICE_MAX,
    bits::DeviceBits,
    body::SliceBody,
    presence::Presence,
    source::{Mark, OwnTaint, Source},
    sparse::Sparse,
    vocabulary::Vocabulary,
};

/// One slice, with the marks that others put on its devices and with what is in use. Cheap to clone: what is large
/// is shared.
#[derive(Clone, Debug)]
pub struct SliceState {
    pub(crate) head: Arc<SliceHead>,
    pub(crate) body: Arc<SliceBody>,
    pub(crate) own: Sparse<OwnTaint>,
    pub(crate) marks: Sparse<Mark>,
    pub(crate) in_use: DeviceBits,
    pub(crate) shared: Sparse<(u8, SharedUse)>,
}

/// The fields of a slice, without its devices.
#[derive(Debug)]
pub(crate) struct SliceHead {
    pub(crate) presence: Presence,
    pub(crate) name: Text,
    pub(crate) uid: Uid,
    pub(crate) pool: PoolId,
    pub(crate) generation: i64,
    pub(crate) slice_count: i64,
    pub(crate) nodes: NodeScope,
    pub(crate) skip_node_operations: Sparse<Text>,
    pub(crate) shared_counters: Sparse<CounterSet>,
    /// The content of a slice of taints: device and taint.
    pub(crate) taints: Sparse<(Text, Arc<Source>)>,
    pub(crate) devices_left_out: usize,
}

/// The part of a shared device that is in use.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct SharedUse {
    pub(crate) shares: u32,
    pub(crate) consumed: Vec<(Text, Quantity)>,
}

impl SliceHead {
    pub(crate) fn of_slice(slice: &ResourceSlice, pool: PoolId, vocabulary: &mut Vocabulary) -> Self {
        let nodes = match &slice.nodes {
            // Pools are often named after their node.
            NodeScope::Node(node) if *node == pool.pool => NodeScope::Node(pool.pool.clone()),
            NodeScope::Node(node) => NodeScope::Node(vocabulary.text(node)),
            NodeScope::Selector(_) | NodeScope::All | NodeScope::PerDevice | NodeScope::Unknown => {
                slice.nodes.clone()
            }
        };
        let taints = (0..).zip(&slice.taints).map(|(index, entry)| {
            let source = Source::TaintSlice { slice: slice.name.clone(), index, taint: entry.taint.clone() };
            (entry.device.clone(), Arc::new(source))
        });
        Self {
            presence: Presence::Published,
            name: slice.name.clone(),
            uid: slice.uid.clone(),
            pool,
            generation: slice.pool.generation,
            slice_count: slice.pool.slice_count,
            nodes,
            skip_node_operations: slice.skip_node_operations.clone().into(),
            shared_counters: slice.shared_counters.clone().into(),
            taints: taints.collect(),
            devices_left_out: slice.devices.len().saturating_sub(DEVICES_PER_SLICE_MAX),
        }
    }

    /// The stand-in for a device that is held but not published.
    pub(crate) fn of_ghost(pool: PoolId, presence: Presence) -> Self {
        Self {
            presence,
            name: Text::default(),
            uid: Uid::default(),
            pool,
            generation: 0,
            slice_count: 0,
            nodes: NodeScope::Unknown,
            skip_node_operations: Sparse::default(),
            shared_counters: Sparse::default(),
            taints: Sparse::default(),
            devices_left_out: 0,
        }
    }

    /// Whether the slice says of itself what this says.
    pub(crate) fn is_of(&self, slice: &ResourceSlice) -> bool {
        self.uid == slice.uid
            && self.generation == slice.pool.generation
            && self.slice_count == slice.pool.slice_count
            && self.nodes == slice.nodes
            && self.skip_node_operations == slice.skip_node_operations
            && self.shared_counters == slice.shared_counters
            && self.devices_left_out == slice.devices.len().saturating_sub(DEVICES_PER_SLICE_MAX)
            && self.taints_are(slice)
    }

    fn taints_are(&self, slice: &ResourceSlice) -> bool {
        self.taints.len() == slice.taints.len()
            && self.taints.iter().zip(&slice.taints).all(|((device, source), entry)| {
                *device == entry.device && source.taints() == core::slice::from_ref(&entry.taint)
            })
    }
}

impl SliceState {
    pub(crate) fn new(head: SliceHead, body: Arc<SliceBody>) -> Self {
        Self {
            head: Arc::new(head),
            body,
            own: Sparse::default(),
            marks: Sparse::default(),
            in_use: DeviceBits::EMPTY,
            shared: Sparse::default(),
        }
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &Text {
        &self.head.name
    }

    /// The object's incarnation.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.head.uid
    }

    /// The pool it is part of.
    #[must_use]
    pub fn pool(&self) -> &PoolId {
        &self.head.pool
    }

    /// The generation of the pool that it belongs to.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.head.generation
    }

    /// How many slices it says the generation has.
    #[must_use]
    pub fn slice_count(&self) -> i64 {
        self.head.slice_count
    }

    /// From where its devices can be reached.
    #[must_use]
    pub fn nodes(&self) -> &NodeScope {
        &self.head.nodes
    }

    /// Node operations that the driver does not need.
    #[must_use]
    pub fn skip_node_operations(&self) -> &[Text] {
        &self.head.skip_node_operations
    }

    /// Counters that the pool's devices draw from.
    #[must_use]
    pub fn shared_counters(&self) -> &[CounterSet] {
        &self.head.shared_counters
    }

    /// The content of a slice of taints: the device's name and the taint.
    pub fn slice_taints(&self) -> impl Iterator<Item = (&Text, &Taint)> {
        self.head.taints.iter().flat_map(|(device, source)| source.taints().iter().map(move |t| (device, t)))
    }

    /// How many devices it has, at most [`DEVICES_PER_SLICE_MAX`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Whether it has no devices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.body.len() == 0
    }

    /// Where the device of this name is in the list.
    #[must_use]
    pub fn position(&self, device: &str) -> Option<usize> {
        self.body.names.iter().position(|name| *name == *device)
    }

    /// Which devices some claim has to itself: bit `i` for device `i`.
    #[must_use]
    pub fn in_use_bits(&self) -> u128 {
        self.in_use.0
    }

    /// Which devices have a taint of any effect: bit `i` for device `i`. May include devices whose only taints are
    /// overridden.
    #[must_use]
    pub fn tainted_bits(&self) -> u128 {
        let own = self.own.iter().fold(0, |bits, taint| bits | 1 << taint.device);
        self.marks.iter().fold(own, |bits, mark| bits | mark.bits.0)
    }

    /// Which devices have the very taints of the one at `index`: bit `i` for device `i`. One with taints of its own is
    /// like itself alone.
    #[must_use]
    pub fn tainted_like(&self, index: usize) -> u128 {
        let own = self.own.iter().fold(0, |bits, taint| bits | 1 << taint.device);
        let of_index = 1_u128.checked_shl(u32::try_from(index).unwrap_or(u32::MAX)).unwrap_or(0);
        if own & of_index != 0 {
            return of_index;
        }
        self.marks.iter().fold(self.body.all().0 & !own, |alike, mark| {
            if mark.bits.has(index) { alike & mark.bits.0 } else { alike & !mark.bits.0 }
        })
    }

    /// Which devices several requests may have at once.
    #[must_use]
    pub fn allow_multiple_bits(&self) -> u128 {
        self.body.flags().allow_multiple.0
    }

    /// Whether any device is given out in shares.
    #[must_use]
    pub fn has_shares(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Whether any device draws from counters.
    #[must_use]
    pub fn has_counters(&self) -> bool {
        self.body.any_extra(|extra| !extra.consumes_counters.is_empty())
    }

    /// Whether any device is restricted in with which others it can be given out.
    #[must_use]
    pub fn has_compatibility_groups(&self) -> bool {
        self.body
            .any_extra(|extra| extra.consumes_counters.iter().any(|c| !c.compatibility_groups.is_empty()))
    }

    /// Whether two states have the very same devices (names, attributes, capacities, counters…), by identity:
    /// what was prepared from them for one is good for the other.
    #[must_use]
    pub fn same_devices(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.body, &other.body) && Arc::ptr_eq(&self.head, &other.head)
    }

    pub(crate) fn is_remembered(&self) -> bool {
        self.head.presence == Presence::Remembered
    }

    pub(crate) fn device_id(&self, index: usize) -> DeviceId {
        let PoolId { driver, pool } = &self.head.pool;
        DeviceId { driver: driver.clone(), pool: pool.clone(), device: self.body.names[index].clone() }
    }
}
