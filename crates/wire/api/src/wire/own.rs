//! Our own kinds. All below their metadata is written by the build script, from their table.

use super::{DeviceSelector, Instant, Nullable, Raw, Window};
use crate::fields;

include!(concat!(env!("OUT_DIR"), "/own_fields.rs"));
