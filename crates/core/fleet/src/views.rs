//! Which generations of a pool speak for its devices.

use alloc::{boxed::Box, collections::BTreeMap};
use core::cmp::Ordering;

use lazaret_model::{NodeScope, Text};

use crate::slice::SliceHead;

/// Which generations of a pool speak for its devices, for the slices of each node by themselves.
///
/// DEVIATION(pools-of-nodes): A node writes the slices that name it, in pools of any name. Its slices say nothing about those of another node, nor about those of no node by
/// name, whatever their generation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Views {
    /// All slices are of the same node, or none is of a node.
    One(View),
    /// Those of each node, and those of none, by node.
    Apart(Box<[(Option<Text>, View)]>),
}

impl Default for Views {
    fn default() -> Self {
        Self::One(View::default())
    }
}

impl Views {
    /// Of the slices of a pool, by name.
    pub(crate) fn of<'a>(heads: impl Iterator<Item = &'a SliceHead> + Clone) -> Self {
        let Some(first) = heads.clone().next().map(|head| head.nodes.own_node()) else {
            return Self::default();
        };
        if heads.clone().all(|head| head.nodes.own_node() == first) {
            return Self::One(heads.fold(Newest::default(), Newest::with).view());
        }
        let mut nodes: BTreeMap<Option<&Text>, Newest<'_>> = BTreeMap::new();
        for head in heads {
            let newest = nodes.entry(head.nodes.own_node()).or_default();
            *newest = newest.with(head);
        }
        // Slices of no node count for every node, as for the allocator.
        let of_all = nodes.get(&None).copied().unwrap_or_default();
        let view = |(node, newest): (Option<&Text>, Newest<'_>)| {
            let seen = if node.is_some() { newest.and(&of_all) } else { newest };
            (node.cloned(), seen.view())
        };
        Self::Apart(nodes.into_iter().map(view).collect())
    }

    /// That of the slices with this scope.
    #[inline]
    pub(crate) fn of_scope(&self, nodes: &NodeScope) -> View {
        match self {
            Self::One(view) => *view,
            Self::Apart(views) => {
                let node = nodes.own_node();
                let found = views.binary_search_by(|(other, _)| other.as_ref().cmp(&node));
                found.map_or_else(|_| View::default(), |at| views[at].1)
            }
        }
    }

    /// Whether a slice speaks for its devices.
    #[inline]
    pub(crate) fn shows(&self, head: &SliceHead) -> bool {
        self.of_scope(&head.nodes).shows(head.generation)
    }
}

/// The newest generation among slices.
#[derive(Clone, Copy, Default)]
struct Newest<'a> {
    /// The slice of it that is first by name.
    first: Option<&'a SliceHead>,
    there: i64,
}

impl<'a> Newest<'a> {
    fn with(self, head: &'a SliceHead) -> Self {
        self.and(&Self { first: Some(head), there: 1 })
    }

    fn and(self, other: &Self) -> Self {
        let (Some(mine), Some(theirs)) = (self.first, other.first) else {
            return if self.first.is_some() { self } else { *other };
        };
        match mine.generation.cmp(&theirs.generation) {
            Ordering::Less => *other,
            Ordering::Greater => self,
            Ordering::Equal => {
                let first = if mine.name <= theirs.name { mine } else { theirs };
                Self { first: Some(first), there: self.there.saturating_add(other.there) }
            }
        }
    }

    fn view(self) -> View {
        self.first.map_or_else(View::default, |first| View {
            newest: first.generation,
            rolling: self.there < first.slice_count,
        })
    }
}

/// Which slices speak for their devices, of those that are seen together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) newest: i64,
    /// Slices of the newest generation are still to come. Until then devices that it does not have yet are taken
    /// from older ones: a driver that rolls a pool slice by slice must not make devices in use vanish.
    /// DEVIATION(rolling-pools).
    pub(crate) rolling: bool,
}

impl View {
    pub(crate) fn shows(self, generation: i64) -> bool {
        generation == self.newest || self.rolling
    }
}
