//! The roles of the controllers: each writes as a user of its own, and no role has more than its lines in `roles.txt`.
//!
//! The API server makes roles of the table for `lazaret up`; the chart has those that run beside another API server.

mod extra;
mod objects;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use extra::may;
pub use objects::controller_user;
pub(in crate::auth) use objects::{Granted, objects};
pub use table::{ControllerRole, controller_roles};
