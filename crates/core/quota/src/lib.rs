//! Quotas of namespaces: the usage of an object, whether a quota allows one more, and the status of a quota.
//!
//! [`settle`] decides over one write: the API server asks it right before the write and stores the new usage with the object. [`Quotas`] is
//! a state machine over quotas and the usage of objects that it receives: it yields the status that each quota should have.
//!
//! **Invariant.** A write that [`settle`] allows leaves no quota with more used than its status permits, in what the write adds. The wanted
//! status depends on the objects received, not on their order, and the work for a change is in proportion to the quotas of its
//! namespace. A status is written only on a view that is at least as new as the quota, and only if the quota has not changed since.
//!
//! It must never know how objects are stored, how a write is done, or what time it is: `now` comes in.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod amounts;
mod counted;
mod facts;
mod machine;
mod namespace;
mod pod;
mod quota;
mod scopes;
mod settle;
mod usage;

pub use lazaret_model::Timestamp;

pub use amounts::Amounts;
pub use counted::{Classes, Counted, Kind};
pub use facts::{DeviceClaim, Facts};
pub use machine::{Effect, QuotaChange, Quotas, RESYNC_SECS, SetStatus};
pub use quota::Quota;
pub use settle::{Change, settle};
pub use usage::Usage;
