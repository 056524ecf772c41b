//! JSON trees that are shared until they are changed.
//!
//! An API server takes a stored object, changes a little of it, and compares the two. With [`Value`] a copy of a tree costs one count,
//! a change copies only the way to it, and what two trees still share is equal without being looked at. Short texts and all usual names
//! of fields stand in the tree itself.
//!
//! The words are those of `serde_json`, which reads and writes the text, so that who knows the one knows the other.
//!
//! **Invariant.** A tree that somebody holds never changes under them; an object's fields stand in the order of their names.
//!
//! It must never know what the objects mean.

mod convert;
mod index;
mod list;
mod map;
mod read;
mod value;
mod write;

pub use index::Place;
pub use list::List;
pub use map::{Entry, Map};
pub use serde_json::Number;
pub use smol_str::SmolStr as Text;
pub use value::Value;

pub use convert::{from_value, to_value};

#[doc(hidden)]
pub use serde_json as __serde_json;

/// A [`Value`] written as JSON, with expressions where values stand.
#[macro_export]
macro_rules! json {
    ($($json:tt)+) => { $crate::Value::from($crate::__serde_json::json!($($json)+)) };
}
