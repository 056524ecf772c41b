//! A pool's slices, and the part of them that claims hold.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_model::{Quantity, ResourceSlice, Text};

/// A slice with what this controller alone asks of it.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The slice.
    pub slice: Arc<ResourceSlice>,
    /// The attribute by which its partitions are grouped, fully qualified.
    pub partition_attribute: Option<Text>,
}

/// The devices and amounts of a pool that claims hold.
#[derive(Debug, Default)]
pub(crate) struct Usage<'a> {
    /// Devices in use; watching a device does not use it.
    pub(crate) devices: BTreeSet<&'a str>,
    /// Amounts that are consumed of all its devices.
    pub(crate) consumed: BTreeMap<&'a str, Quantity>,
}
