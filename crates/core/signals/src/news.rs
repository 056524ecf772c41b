//! Changes, as the parts of [`Levels`](crate::Levels) hand them to each other.

use alloc::collections::BTreeSet;

use lazaret_fleet::Fleet;
use lazaret_lifecycle::Lifecycle;
use lazaret_model::{ResourceSlice, Text, Timestamp};

/// The time, and what is known by then.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) now: Timestamp,
    pub(crate) fleet: &'a Fleet,
    pub(crate) lifecycle: &'a Lifecycle,
}

/// The devices that are looked for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// On all nodes.
    pub(crate) all: bool,
    /// Also those that are known to have vanished: all of them are sent again after this.
    pub(crate) again: bool,
    /// On these nodes, if not on all.
    pub(crate) nodes: BTreeSet<Text>,
}

/// The slice before the change, and whether signals that did not change are sent again.
#[derive(Clone, Copy)]
pub(crate) struct SliceNews<'a> {
    pub(crate) before: Option<&'a ResourceSlice>,
    pub(crate) is_all: bool,
    /// Taints of its devices, which another slice has, may have changed.
    pub(crate) is_tainted: bool,
}
