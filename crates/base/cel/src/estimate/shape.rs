//! Which part of the device a node can be, and how big that part gets.

use crate::check::Env;

/// A part of the device, as far as a path through the expression leads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// No path at all: a literal or what a call makes.
    Empty,
    /// A path that leads nowhere known.
    Lost,
    Device,
    Driver,
    AllowMultiple,
    /// `device.attributes`.
    Attributes,
    /// The entries of one domain.
    DomainAttributes,
    Attribute,
    /// `device.capacity`.
    Capacity,
    DomainCapacity,
    Quantity,
    Domain,
    Id,
}

impl Shape {
    pub(super) fn of_variable(name: &str) -> Self {
        if name == "device" { Self::Device } else { Self::Lost }
    }

    /// `shape.name`. A path that starts here starts as a variable would.
    pub(super) fn field(self, name: &str, env: Env) -> Self {
        match (self, name) {
            (Self::Empty, name) => Self::of_variable(name),
            (Self::Device, "driver") => Self::Driver,
            (Self::Device, "attributes") => Self::Attributes,
            (Self::Device, "capacity") => Self::Capacity,
            (Self::Device, "allowMultipleAllocations") if env.has_consumable_capacity() => {
                Self::AllowMultiple
            }
            (Self::DomainAttributes, _) => Self::Attribute,
            _ => Self::Lost,
        }
    }

    /// An element or value of it.
    pub(super) fn item(self, _is_list: bool) -> Self {
        match self {
            Self::Attributes => Self::DomainAttributes,
            Self::DomainAttributes => Self::Attribute,
            Self::Capacity => Self::DomainCapacity,
            Self::DomainCapacity => Self::Quantity,
            Self::Empty | Self::Lost | Self::Device | Self::Driver | Self::AllowMultiple => Self::Lost,
            Self::Attribute | Self::Quantity | Self::Domain | Self::Id => Self::Lost,
        }
    }

    /// A key of it; lists have none.
    pub(super) fn key(self, is_list: bool) -> Self {
        match self {
            Self::Attributes | Self::Capacity if !is_list => Self::Domain,
            Self::DomainAttributes | Self::DomainCapacity if !is_list => Self::Id,
            Self::Attributes | Self::Capacity | Self::DomainAttributes | Self::DomainCapacity => Self::Lost,
            Self::Empty | Self::Lost | Self::Device | Self::Driver | Self::AllowMultiple => Self::Lost,
            Self::Attribute | Self::Quantity | Self::Domain | Self::Id => Self::Lost,
        }
    }

    /// How big it can be, where that is known.
    pub(super) fn size_max(self) -> Option<u64> {
        match self {
            Self::Empty | Self::Lost => None,
            Self::Device | Self::Quantity => Some(0),
            Self::AllowMultiple => Some(1),
            Self::Attributes | Self::DomainAttributes | Self::Capacity | Self::DomainCapacity | Self::Id => {
                Some(32)
            }
            Self::Driver | Self::Domain => Some(63),
            Self::Attribute => Some(64),
        }
    }
}
