//! Kinds that others bring: from a definition to rules like those of a built-in kind.

mod definition;
mod rules;

pub use definition::{custom_kinds, stored_kind};
