//! The shapes of Kubernetes objects and of our own, as one table.
//!
//! Which fields a type has, what they hold, how their lists are keyed, how a strategic merge treats them, which numbers
//! they have in protobuf, their limits and what they mean: each fact is written once, in `tables/*.txt`, and everything that needs to know a shape
//! reads it from here: strict decoding, protobuf bodies, patches, server-side apply, checks, the OpenAPI document, definitions of kinds.
//!
//! **Invariant.** Pure functions over tables and JSON values: no I/O, no clock, no knowledge of what a field means. Nothing here
//! panics on input, and every recursion over input has a limit.

mod canonical;
mod describe;
mod duration;
mod formats;
mod instant;
mod json;
mod limits;
mod open_api;
mod parse;
mod path;
mod protobuf;
mod raw;
mod strict;
mod table;

pub use canonical::{Form, alike, canonical};
pub use describe::Description;
pub use json::{DEPTH_MAX, JsonError, Parsed, VALUES_MAX, parse_json};
pub use limits::{Companion, Format, Limits, Words, pattern};
pub use protobuf::{Envelope, ProtobufError, decode_message, open_envelope};
pub use raw::read_raw;
pub use strict::{Finding, check, read};
pub use table::{
    Field, Holder, ListKind, Scalar, Schema, StructType, Type, TypeId, builtin, builtin_quantity_fields,
    builtin_with_raw,
};
