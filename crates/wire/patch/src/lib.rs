//! How an object changes: JSON patch, merge patch, strategic merge patch, and server-side apply with its record of who owns which
//! field.
//!
//! **Invariant.** Pure functions from an object and a change to a new object: no I/O, no clock (the time written into a record comes from
//! outside), nothing kept. A change that cannot be made leaves the object as it was and says why. Shapes come from `schema` alone.

mod apply;
mod element;
mod error;
mod fields;
mod json;
mod keyed;
mod managed;
mod owned;
mod strategic;

pub use apply::{
    ApplyError, ApplyRequest, Compared, Conflict, Ownership, apply, note_last_applied, track_update,
};
pub use element::PathElement;
pub use error::PatchError;
pub use fields::FieldSet;
pub use json::{OPERATIONS_MAX, json_patch, merge_patch};
pub use managed::{ManagedFields, Manager, Operation, OtherNames};
pub use strategic::strategic_merge;
