//! Fields of JSON objects: reading and changing them, and naming those that are wrong.
//!
//! **Invariant.** No function panics, whatever the object: `null` stands for an absent value, and a value of the wrong type reads as
//! absent. Errors are collected, each with the path of its field, up to a limit.
//!
//! It must never know a kind. `crd` and `kinds` depend on it.

mod error;
pub mod value;

pub use error::{Errors, FieldError, FieldProblem};
