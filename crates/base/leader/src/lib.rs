//! The loop around a core, as a core itself: when a process leads, when it pauses, which effects are sent, and what becomes of those that are not
//! answered.
//!
//! [`Election`] competes for a Lease, through a [`Candidate`], and says which term is [`Held`]. [`Turn`] is the loop of one agent: it begins to lead
//! behind a [`Fence`], sends as many effects as [`Precedence`] permits, and is given up and begun anew when its agent panics or its clock is
//! set. Where late writes do harm, a candidate [waits out](Election::waiting_out) the [longest flight](LONGEST_FLIGHT_MS) of the last holder's. [`EffectEnd`] says which outcome an effect has that got no answer. [`RestartBackoff`] is the pause after a panic.
//!
//! **Invariant.** Time comes in: no clock, no thread, no I/O. Nothing is sent outside of a term that was renewed in time, nor on a view that is older
//! than the term. Each effect that is sent is answered once. Knows no effect, no agent and no server; `runtime` carries it out, and so does the simulator.
#![no_std]

extern crate alloc;

mod effect_end;
mod election;
mod fence;
mod flight;
mod lease;
mod precedence;
mod restart_backoff;
mod turn;

pub use effect_end::EffectEnd;
pub use election::{Election, ElectionStep, Held, Instants, LeaseWrite, TermNotice};
pub use fence::{Fence, FenceStep};
pub use flight::{LONGEST_FLIGHT_MS, WRITE_MS_MAX};
pub use lease::{Candidate, LeaseAction, LeaseOptions, LeaseRecord, Term};
pub use precedence::{CROWD, InFlight, PATIENCE_MS, Precedence, YIELDING_MAX};
pub use restart_backoff::RestartBackoff;
pub use turn::{Action, BATCH_MAX, FINAL_WRITES_MS_MAX, GIVEN_UP_MS, POLL_MAX, Turn, TurnOptions};
