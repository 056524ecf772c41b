//! Pools: the slices that a driver published under one name, and whether they can be used.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use core::fmt;

use lazaret_model::{AttrNames, CounterSet, NodeScope, PoolId, Quantity, Text};

use crate::{DEVICES_PER_SLICE_MAX, SliceState, views::Views};

/// A pool with all its slices.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Driver and name.
    pub id: PoolId,
    /// The fleet's revision when anything about it changed last, taints and usage included.
    pub revision: u64,
    /// Slices of **all** generations, by object name.
    pub slices: Vec<Arc<SliceState>>,
    pub(crate) facts: Arc<PoolFacts>,
}

/// The facts that follow from heads and devices of the slices; taints and usage do not change them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolFacts {
    generations: Vec<Generation>,
    views: Views,
    simple: bool,
    binding_conditions: bool,
}

/// One generation of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The number; only the highest is current.
    pub number: i64,
    /// How many slices of it there are.
    pub slices: usize,
    /// How many there should be, as its first slice (by name) says.
    pub slice_count: i64,
    /// Why it cannot be used, every slice considered. A device name that repeats harms only nodes that reach both
    /// slices: whoever asks for a node decides by the slices that reach it.
    pub invalid: Option<Invalid>,
}

impl Generation {
    /// Whether exactly as many slices are there as there should be.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        i64::try_from(self.slices).is_ok_and(|slices| slices == self.slice_count)
    }
}

/// Why a pool cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// Two devices have the same name.
    DuplicateDevice {
        /// The name.
        device: Text,
    },
    /// Two counter sets have the same name.
    DuplicateCounterSet {
        /// The name.
        counter_set: Text,
    },
    /// A device draws from a counter set that is not there.
    UnknownCounterSet {
        /// The device.
        device: Text,
        /// The set.
        counter_set: Text,
    },
    /// A device draws from a counter that its set does not have.
    UnknownCounter {
        /// The device.
        device: Text,
        /// The set.
        counter_set: Text,
        /// The counter.
        counter: Text,
    },
    /// A slice has more devices than the API allows; those beyond are not tracked.
    TooManyDevices {
        /// The slice.
        slice: Text,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateDevice { device } => write!(f, "two devices are named {device}"),
            Self::DuplicateCounterSet { counter_set } => {
                write!(f, "two counter sets are named {counter_set}")
            }
            Self::UnknownCounterSet { device, counter_set } => {
                write!(f, "device {device} draws from counter set {counter_set}, which does not exist")
            }
            Self::UnknownCounter { device, counter_set, counter } => {
                write!(
                    f,
                    "device {device} draws from counter {counter}, which counter set {counter_set} lacks"
                )
            }
            Self::TooManyDevices { slice } => {
                write!(f, "slice {slice} has more than {DEVICES_PER_SLICE_MAX} devices")
            }
        }
    }
}

impl Pool {
    /// Its generations, newest first. Never empty.
    #[must_use]
    pub fn generations(&self) -> &[Generation] {
        &self.facts.generations
    }

    /// The newest generation.
    #[must_use]
    pub fn newest(&self) -> Option<&Generation> {
        self.facts.generations.first()
    }

    /// The easy case, which is the common one: a single generation, complete, valid, every slice on one node by
    /// name.
    #[must_use]
    pub fn is_simple(&self) -> bool {
        self.facts.simple
    }

    /// Whether any device has a list of binding conditions, be it empty.
    #[must_use]
    pub fn has_binding_conditions(&self) -> bool {
        self.facts.binding_conditions
    }

    /// The slices of a generation, by object name.
    pub fn slices_of(&self, generation: i64) -> impl Iterator<Item = &Arc<SliceState>> {
        self.slices.iter().filter(move |slice| slice.generation() == generation)
    }

    /// The slices that count: of those of each node, and of those of no node, the newest generation. A node's slices say nothing about those of
    /// another.
    pub fn current(&self) -> impl Iterator<Item = &Arc<SliceState>> {
        self.slices.iter().filter(|slice| self.is_current(slice))
    }

    pub(crate) fn is_current(&self, slice: &SliceState) -> bool {
        self.facts.views.of_scope(slice.nodes()).newest == slice.generation()
    }

    /// The counter sets of a generation.
    pub fn counter_sets(&self, generation: i64) -> impl Iterator<Item = &CounterSet> {
        self.slices_of(generation).flat_map(|slice| slice.shared_counters())
    }

    /// Whether the devices and heads of both are the very same: what was prepared from one, usage and taints aside,
    /// is good for the other.
    #[must_use]
    pub fn same_devices(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.facts, &other.facts)
            && self.slices.len() == other.slices.len()
            && self.slices.iter().zip(&other.slices).all(|(a, b)| a.same_devices(b))
    }
}

impl PoolFacts {
    pub(crate) fn of(slices: &[Arc<SliceState>], may_repeat: bool, names: &AttrNames) -> Self {
        let mut numbers: Vec<i64> = slices.iter().map(|slice| slice.generation()).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.dedup();
        let generations: Vec<Generation> =
            numbers.into_iter().map(|number| generation(number, slices, may_repeat, names)).collect();
        let simple = match generations.as_slice() {
            [only] => only.is_complete() && only.invalid.is_none(),
            [] | [_, _, ..] => false,
        };
        let simple = simple && slices.iter().all(|slice| matches!(slice.nodes(), NodeScope::Node(_)));
        let binding_conditions = slices
            .iter()
            .filter(|slice| slice.body.has_extras())
            .any(|slice| slice.devices(names).any(|device| device.binding_conditions().is_some()));
        let views = Views::of(slices.iter().map(|slice| &*slice.head));
        Self { generations, views, simple, binding_conditions }
    }
}

fn generation(number: i64, slices: &[Arc<SliceState>], may_repeat: bool, names: &AttrNames) -> Generation {
    let members: Vec<&SliceState> =
        slices.iter().map(|slice| &**slice).filter(|slice| slice.generation() == number).collect();
    Generation {
        number,
        slices: members.len(),
        slice_count: members.first().map_or(0, |slice| slice.slice_count()),
        invalid: why_invalid(&members, may_repeat, names),
    }
}

fn why_invalid(slices: &[&SliceState], may_repeat: bool, names: &AttrNames) -> Option<Invalid> {
    if let Some(slice) = slices.iter().find(|slice| slice.head.devices_left_out > 0) {
        return Some(Invalid::TooManyDevices { slice: slice.name().clone() });
    }
    if may_repeat {
        let mut seen = BTreeSet::new();
        for device in slices.iter().flat_map(|slice| slice.body.names.iter()) {
            if !seen.insert(device) {
                return Some(Invalid::DuplicateDevice { device: device.clone() });
            }
        }
    }
    let mut sets: BTreeMap<&Text, &[(Text, Quantity)]> = BTreeMap::new();
    for set in slices.iter().flat_map(|slice| slice.shared_counters()) {
        if sets.insert(&set.name, &set.counters).is_some() {
            return Some(Invalid::DuplicateCounterSet { counter_set: set.name.clone() });
        }
    }
    for slice in slices.iter().filter(|slice| slice.body.has_extras()) {
        for device in slice.devices(names) {
            for consumed in device.consumes_counters() {
                let (device, counter_set) = (device.name().clone(), consumed.counter_set.clone());
                let Some(counters) = sets.get(&consumed.counter_set) else {
                    return Some(Invalid::UnknownCounterSet { device, counter_set });
                };
                let unknown =
                    |(name, _): &&(Text, Quantity)| !counters.iter().any(|(known, _)| known == name);
                if let Some((counter, _)) = consumed.counters.iter().find(unknown) {
                    return Some(Invalid::UnknownCounter { device, counter_set, counter: counter.clone() });
                }
            }
        }
    }
    None
}
