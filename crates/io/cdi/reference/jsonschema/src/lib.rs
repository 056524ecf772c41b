//! `jsonschema` without its default features, which a crate that depends on it cannot turn off for another one.

pub use whole::*;
