//! CustomResourceDefinitions: whether a schema is one, how objects are pruned, defaulted and validated by it, and the status of
//! definitions.
//!
//! **Invariant.** Pure functions over JSON objects; no I/O and no clock. Every recursion over a schema or an object has a limit, and every
//! refusal names the field.
//!
//! It must never know a built-in kind or how a kind is served: `kinds` makes kinds of definitions.

mod cel_values;
mod defined;
mod fill;
mod formats;
mod json_path;
mod lists;
mod rule_tree;
mod schema_check;
mod settle;
mod shape;
mod structural;
mod validate;

pub use cel_values::plain_datum;
pub use defined::DefinedSchema;
pub use formats::is_known as is_known_format;
pub use json_path::JsonPath;
pub use schema_check::check_schema;
pub use settle::{CLEANUP_FINALIZER, begin_removal, is_ending, is_established, removal_progress, settled};
