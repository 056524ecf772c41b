//! The resources of a node that the claims of a pod take.

use alloc::vec::Vec;

use crate::{Quantity, Text};

/// An entry of `status.nodeAllocatableResourceClaimStatuses` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAllocatableStatus {
    /// The claim.
    pub claim: Text,
    /// The containers that use it, those that initialise first.
    pub containers: Vec<Text>,
    /// The amounts that its devices stand for, by resource, in order.
    pub mapping: Vec<(Text, Quantity)>,
    /// The amounts that its devices cost, by resource, in order.
    pub overhead: Vec<(Text, Overhead)>,
}

/// The cost of a device on top of its use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Once for the pod.
    pub per_pod: Option<Quantity>,
    /// For each container that uses the claim.
    pub per_container: Option<Quantity>,
}
