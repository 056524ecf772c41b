//! For what a pod waits: what would have to change before it is worth trying again.

/// A kind of thing that kept a pod from being placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Cause {
    /// Properties of nodes: names, labels, taints, that they are cordoned, that there are none.
    Nodes,
    /// The room that pods leave on nodes: resources, ports.
    Room,
    /// Which pods are near.
    Neighbours,
    /// Devices: that there are none, in use, tainted, or their class.
    Devices,
    /// The pod's own claims: missing, being deleted, allocated elsewhere, full.
    Claims,
}

impl Cause {
    pub(crate) const ALL: [Self; 5] =
        [Self::Nodes, Self::Room, Self::Neighbours, Self::Devices, Self::Claims];
}

/// Some causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes(u8);

impl Causes {
    /// None.
    pub const NONE: Self = Self(0);

    /// These and one more.
    #[must_use]
    pub const fn with(self, cause: Cause) -> Self {
        Self(self.0 | 1 << cause as u8)
    }

    /// Whether this is one of them.
    #[must_use]
    pub const fn has(self, cause: Cause) -> bool {
        self.0 & (1 << cause as u8) != 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Cause> {
        Cause::ALL.into_iter().filter(move |cause| self.has(*cause))
    }
}
