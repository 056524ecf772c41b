//! Our own kinds: limits, and conversions of types whose fields have the same names in a core. The build script writes them, from their table.

use super::{
    Result,
    from_wire::{self, FromWire},
    limits,
};
use crate::{field::Path, wire};

include!(concat!(env!("OUT_DIR"), "/own_impls.rs"));
