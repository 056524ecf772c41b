//! The parts of a device that an expression reads.

use alloc::vec::Vec;

use lazaret_model::QualifiedName;

/// The fields of a device that an expression reads. Devices that agree on them get the same answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Its driver.
    pub driver: bool,
    /// These attributes, in order.
    pub attributes: Vec<QualifiedName>,
    /// These capacities, in order.
    pub capacity: Vec<QualifiedName>,
    /// Possibly every attribute: it goes through them or computes a name.
    pub whole_attributes: bool,
    /// Possibly every capacity.
    pub whole_capacity: bool,
    /// Whether it can be shared.
    pub allow_multiple: bool,
}
