//! Priority and fairness of an API server: which request runs next, how many bytes it may hold, which connection is closed when there
//! are too many.
//!
//! [`Seats`] decides about requests whose bodies have arrived, [`Ledger`] about what is held for a user (bytes, watches), [`Connections`]
//! about connections, [`body_deadline_ms`] about bodies that arrive slowly. [`Level`] says whose requests go first.
//!
//! **Invariant.** No limit is ever exceeded. Every level gets the seats it is guaranteed at once, whatever the others do. In a flow,
//! requests start in the order in which they came; between flows of a level, seats are shared by time. A request that waits is started,
//! or refused when its time is over: none is forgotten.
//!
//! It must never know what a request is about, what a socket is, or what time it is: `now` comes in.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod body;
mod connections;
mod flows;
mod ledger;
mod level;
mod seats;
mod weight;

pub use body::body_deadline_ms;
pub use connections::{ConnectionId, ConnectionLimits, Connections, Identified, Opened};
pub use flows::RequestId;
pub use ledger::{Full, Ledger, LedgerLimits};
pub use level::{Caller, Level};
pub use seats::{Decision, Effect, LevelLimits, Refusal, Seats, Ticket};
pub use weight::{LIST_SEATS_MAX, seats_of_body, seats_of_list};
