//! Which pods must leave tainted devices, when, how fast, and why; the effect of a rule before it exists; the status of a rule.
//!
//! [`Eviction`] is a state machine over a [`Fleet`](lazaret_fleet::Fleet): it hears that something changed, that an
//! effect was done, that time has passed, or that it leads, and it yields effects: evict this pod, write this status,
//! post this event. [`preview()`] answers the same questions for a rule that does not exist yet.
//!
//! **Invariant.** After every call, the plan of each pod is what a fresh machine would compute from the same fleet: the
//! order of inputs leaves no trace. No pod is let go before the earliest deadline of its reasons, nor faster than the
//! pace of some due reason permits, nor by a machine that does not lead. An eviction is counted once for each rule
//! that was due.
//!
//! It must never know how a pod is deleted, what the API looks like on the wire, or what time it is: `now` comes in.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod acknowledge;
mod adopt;
mod blame;
mod block;
mod brake;
mod capacity;
mod capacity_wait;
mod causes;
mod departures;
mod dispatch;
mod distinct;
mod effect;
mod evaluate;
mod flights;
mod groups;
mod guards;
mod holds;
mod leadership;
mod limiter;
mod lines;
mod machine;
mod marks;
mod memories;
mod options;
mod paces;
mod pods;
mod preview;
mod reason;
mod record;
mod report;
mod rule_state;
mod rules;
mod status;
mod verified;
mod waits;

pub use block::{Block, BlockCounts, kept_by_finalizer};
pub use capacity::{Capacity, CapacityAnswer, Promised, QUESTION_UNITS};
pub use effect::{
    CapacityQuestion, EVENT_REASON, Effect, EffectId, EffectKind, Evict, GuardEvent, HELD_REASON, LeavingPod,
    Manner, Outcome, PodEvent, RuleEvent, RuleStatus, SetGuardStatus, SetLastPublished, SetRuleStatus, Wake,
    WakeReason,
};
pub use guards::admission::{Refusal, refusal_of};
pub use lazaret_fleet::{impact, impact_of_patch, impact_together};
pub use lazaret_model::{Patience, patience};
pub use limiter::Limiter;
pub use machine::{Eviction, Input, PlannedEviction, RuleTally};
pub use marks::{Mark, marks_of};
pub use options::Options;
pub use pods::Phase;
pub use preview::{Preview, PreviewDevice, PreviewPod, Subject, positions, preview};
pub use reason::{Cause, DELETION_BY_TAINT, DISRUPTION_TARGET, EVICTION_BY_API, PaceKey, Reason, Source};
pub use status::{DRAINED, EVICTION_BLOCKED, EVICTION_IN_PROGRESS, blocked_condition};
pub use verified::ViewRequest;
pub use waits::{
    End, Facts as WaitFacts, IncidentFacts, Row as WaitRow, Wait, part_about, rows as wait_rows, wait,
    waits_in,
};
