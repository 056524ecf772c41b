//! Values of fields, from the form on the wire to the type that the model has: the type of the field decides.

use lazaret_model::{Effect, Named, Text, Timestamp};

use super::Result;
use crate::{
    field::Path,
    wire::{Instant, Nullable},
};

/// A type of the model that a value on the wire becomes.
pub(crate) trait FromWire<W>: Sized {
    fn from_wire(wire: W, path: &Path<'_>) -> Result<Self>;
}

/// A value for a field of the model.
pub(super) fn read<W, M: FromWire<W>>(wire: W, path: &Path<'_>) -> Result<M> {
    M::from_wire(wire, path)
}

/// One of several names; without a name, the default.
pub(crate) fn named<M: Named + Default>(name: Nullable<String>, path: &Path<'_>) -> Result<M> {
    match name.0.as_str() {
        "" => Ok(M::default()),
        name => M::from_name(name).ok_or_else(|| {
            let known: Vec<&str> = M::ALL.iter().map(|one| one.name()).collect();
            path.error(format!("must be one of {}, not {name}", known.join(", ")))
        }),
    }
}

impl<W, M: FromWire<W>> FromWire<Nullable<W>> for M {
    fn from_wire(wire: Nullable<W>, path: &Path<'_>) -> Result<Self> {
        M::from_wire(wire.0, path)
    }
}

impl<W, M: FromWire<W>> FromWire<Option<W>> for Option<M> {
    fn from_wire(wire: Option<W>, path: &Path<'_>) -> Result<Self> {
        wire.map(|wire| M::from_wire(wire, path)).transpose()
    }
}

impl<W, M: FromWire<W>> FromWire<Vec<W>> for Vec<M> {
    fn from_wire(wire: Vec<W>, path: &Path<'_>) -> Result<Self> {
        super::each(wire, path, M::from_wire)
    }
}

impl FromWire<i64> for i64 {
    fn from_wire(wire: i64, _path: &Path<'_>) -> Result<Self> {
        Ok(wire)
    }
}

impl FromWire<i64> for u32 {
    fn from_wire(wire: i64, path: &Path<'_>) -> Result<Self> {
        Self::try_from(wire).map_err(|_| path.error(format!("must be from 0 to {}, not {wire}", Self::MAX)))
    }
}

/// A count of a status. One below zero counts nothing: a status is no reason not to read an object.
impl FromWire<i64> for u64 {
    fn from_wire(wire: i64, _path: &Path<'_>) -> Result<Self> {
        Ok(Self::try_from(wire).unwrap_or(0))
    }
}

impl FromWire<bool> for bool {
    fn from_wire(wire: bool, _path: &Path<'_>) -> Result<Self> {
        Ok(wire)
    }
}

impl FromWire<Instant> for Timestamp {
    fn from_wire(wire: Instant, _path: &Path<'_>) -> Result<Self> {
        Ok(wire.0)
    }
}

impl FromWire<String> for Text {
    fn from_wire(wire: String, _path: &Path<'_>) -> Result<Self> {
        Ok(wire.into())
    }
}

impl FromWire<String> for Option<Text> {
    fn from_wire(wire: String, _path: &Path<'_>) -> Result<Self> {
        Ok(super::non_empty(wire))
    }
}

impl FromWire<String> for Effect {
    fn from_wire(wire: String, _path: &Path<'_>) -> Result<Self> {
        Ok(Self::from_name(&wire))
    }
}
