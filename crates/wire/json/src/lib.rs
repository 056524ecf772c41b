//! JSON trees that are shared until they are changed.
//!
//! An API server takes a stored object, changes a little of it, and compares the two. With [`Value`] a copy of a tree costs one count,
//! a change copies only the way to it, and what two trees still share is equal without being looked at. Short texts and all usual names
//! of fields stand in the tree itself.
//!
//! The names are those of `serde_json`, which reads and writes the text, so that a reader who knows the one knows the other.
//!
//! **Invariant.** A tree never changes while it is shared; an object's fields are in the order of their names, except
//! those that [`Spelled`] reads: they are kept as they were written, and equal to the same fields in any order. Text that [`verbatim`] reads
//! is written byte for byte as it was read.
//!
//! It must never know what the objects mean.

mod convert;
mod encoded;
mod index;
mod list;
mod make;
mod map;
mod read;
mod steps;
mod value;
mod verbatim;
mod write;

pub use encoded::Encoded;
pub use index::Place;
pub use list::List;
pub use map::{Entry, Map};
pub use read::{Spelled, WithVerbatim};
pub use serde_json::Number;
pub use smol_str::SmolStr as Text;
pub use steps::steps;
pub use value::Value;
pub use verbatim::verbatim;

pub use convert::from_value;
#[doc(hidden)]
pub use make::made;
pub use make::to_value;

/// A [`Value`] written as JSON, with expressions where values stand. A name that is no literal is an identifier or stands in brackets.
#[macro_export]
macro_rules! json {
    (null) => { $crate::Value::Null };
    ([$($items:tt)*]) => {{
        #[allow(unused_mut, clippy::vec_init_then_push, reason = "the list may be empty, and is written item by item")]
        let list = { let mut list = ::std::vec::Vec::new(); $crate::json!(@items list $($items)*); list };
        $crate::Value::Array(list.into())
    }};
    ({$($fields:tt)*}) => {{
        #[allow(unused_mut, reason = "it may be empty")]
        let map = { let mut map = $crate::Map::new(); $crate::json!(@fields map $($fields)*); map };
        $crate::Value::Object(map)
    }};
    (@items $list:ident) => {};
    (@items $list:ident null $(, $($rest:tt)*)?) => {
        $list.push($crate::Value::Null); $crate::json!(@items $list $($($rest)*)?);
    };
    (@items $list:ident [$($inner:tt)*] $(, $($rest:tt)*)?) => {
        $list.push($crate::json!([$($inner)*])); $crate::json!(@items $list $($($rest)*)?);
    };
    (@items $list:ident {$($inner:tt)*} $(, $($rest:tt)*)?) => {
        $list.push($crate::json!({$($inner)*})); $crate::json!(@items $list $($($rest)*)?);
    };
    (@items $list:ident $value:expr $(, $($rest:tt)*)?) => {
        $list.push($crate::made(&$value)); $crate::json!(@items $list $($($rest)*)?);
    };
    (@fields $map:ident) => {};
    (@fields $map:ident $name:tt : null $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::Value::Null); $crate::json!(@fields $map $($($rest)*)?);
    };
    (@fields $map:ident $name:tt : [$($inner:tt)*] $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::json!([$($inner)*])); $crate::json!(@fields $map $($($rest)*)?);
    };
    (@fields $map:ident $name:tt : {$($inner:tt)*} $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::json!({$($inner)*})); $crate::json!(@fields $map $($($rest)*)?);
    };
    (@fields $map:ident $name:tt : $value:expr $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::made(&$value)); $crate::json!(@fields $map $($($rest)*)?);
    };
    ($value:expr) => { $crate::made(&$value) };
}
