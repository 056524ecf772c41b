//! Kinds that others bring: from a definition to rules like those of a built-in kind.

mod cel_values;
mod definition;
mod fill;
mod formats;
mod json_path;
mod laws;
mod lists;
mod rules;
mod schema_check;
mod settle;
mod shape;
mod structural;
mod validate;

pub use definition::{custom_kinds, stored_kind};
pub use json_path::JsonPath;
pub use settle::{CLEANUP_FINALIZER, removal_progress, settled};

pub(crate) use cel_values::plain_datum;
pub(crate) use formats::is_known as is_known_format;
pub(crate) use schema_check::check_schema;
pub(crate) use settle::begin_removal;
