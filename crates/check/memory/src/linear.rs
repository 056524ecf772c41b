//! Whether a concurrent history of a revisioned store is linearizable, watches included.
//!
//! Clients note each operation with the instants of a shared [`Clock`] before it was sent and after it was answered.
//! Every write names the revisions that it got, so the order of writes is known and the check takes time in
//! proportion to the history: each operation gets the earliest place in that order that its answer and the
//! operations before it permit, and a history is refused where there is none.

mod check;
mod drive;
mod history;

pub use check::check;
pub use drive::concurrent_session;
pub use history::{Change, Clock, History, Operation, Seen, What, Written};
