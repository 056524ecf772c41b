//! Values that are looked at where they stand.

use lazaret_model::{Quantity, Version};

use super::value::Value;

/// A value that is seen where it stands.
#[derive(Clone, Copy)]
pub(super) enum Plain<'v> {
    Bool(bool),
    Int(i64),
    Text(&'v str),
    Quantity(&'v Quantity),
    Semver(&'v Version),
}

impl<'v> Plain<'v> {
    pub(super) fn of(value: &'v Value<'v>) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(value) => Some(Self::Int(*value)),
            Value::Text(text) => Some(Self::Text(text)),
            Value::Quantity(quantity) => Some(Self::Quantity(quantity)),
            Value::Semver(version) => Some(Self::Semver(version)),
            _ => None,
        }
    }
}
