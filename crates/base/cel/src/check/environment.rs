//! The variables and functions available to an expression.

use alloc::format;

use super::types::Type;

/// Whether an expression is new or known to have been accepted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Comes from a user now: only enabled features, and the cost estimate must keep to the limit.
    New,
    /// Was accepted before, perhaps by another version: the newest declarations whatever the features, and no
    /// look at the estimate.
    Stored,
}

/// The declarations that an expression is compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Env {
    mode: Mode,
    list_attributes: bool,
    consumable_capacity: bool,
}

impl Env {
    /// No optional features.
    #[must_use]
    pub const fn new(mode: Mode) -> Self {
        Self { mode, list_attributes: false, consumable_capacity: false }
    }

    /// For expressions that were accepted before.
    #[must_use]
    pub const fn stored() -> Self {
        Self { mode: Mode::Stored, list_attributes: true, consumable_capacity: true }
    }

    /// Whether attributes may be lists: then they can be folded over, and `includes` exists.
    #[must_use]
    pub const fn with_list_attributes(self, enabled: bool) -> Self {
        Self { list_attributes: enabled, ..self }
    }

    /// Whether `device.allowMultipleAllocations` exists.
    #[must_use]
    pub const fn with_consumable_capacity(self, enabled: bool) -> Self {
        Self { consumable_capacity: enabled, ..self }
    }

    /// New or stored.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn has_list_attributes(self) -> bool {
        self.list_attributes || self.mode == Mode::Stored
    }

    pub(crate) fn has_consumable_capacity(self) -> bool {
        self.consumable_capacity || self.mode == Mode::Stored
    }

    /// The static type of an attribute.
    pub(crate) fn attribute_type(self) -> Type {
        if self.has_list_attributes() { Type::Dyn } else { Type::Any }
    }

    /// The type of `device.<field>`.
    pub(crate) fn device_field(self, field: &str) -> Option<Type> {
        let by_domain = |value| Type::map(Type::String, Type::map(Type::String, value));
        match field {
            "driver" => Some(Type::String),
            "attributes" => Some(by_domain(self.attribute_type())),
            "capacity" => Some(by_domain(Type::Quantity)),
            "allowMultipleAllocations" if self.has_consumable_capacity() => Some(Type::Bool),
            _ => None,
        }
    }
}

/// The use of an expression; decides which results it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Says whether a device is wanted.
    Selector,
    /// Computes an attribute.
    Derived,
}

impl Purpose {
    /// Why an expression of this type cannot serve, if so.
    pub(crate) fn refuses(self, result: &Type, env: Env) -> Option<alloc::string::String> {
        match self {
            Self::Selector if *result == Type::Bool || *result == env.attribute_type() => None,
            Self::Selector => Some(format!("must evaluate to bool or the unknown type, not {result:#}")),
            Self::Derived if is_attribute(result) => None,
            Self::Derived => {
                let lists = env.has_list_attributes();
                if let Type::List(element) = result
                    && lists
                    && is_attribute(element)
                {
                    return None;
                }
                let more = if lists { " or a list of these scalars" } else { "" };
                Some(format!(
                    "must evaluate to a primitive scalar (string, integer, boolean, semver){more}, not {result:#}"
                ))
            }
        }
    }
}

fn is_attribute(t: &Type) -> bool {
    matches!(t, Type::Bool | Type::Int | Type::String | Type::Semver | Type::Any | Type::Dyn)
}
