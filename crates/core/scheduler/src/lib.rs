//! Which node and which devices a pod gets, when, and why not.
//!
//! [`Scheduler`] is a state machine: its inputs are nodes, pods, claims, slices, classes and rules, the replies to its
//! effects, and the passing of time; it yields effects: reserve this claim with these devices, bind this pod, write the
//! condition of a pod that waits, evict a third one. Effects of many pods are in flight at a time; a decision counts
//! at once, and is undone when its effect fails.
//!
//! **Invariant.** No room and no device is given twice, as far as is known; no device with a taint that the claim does
//! not tolerate is given at all; every write names the incarnation, and claims also the version, that it is meant
//! for. A pod is parked only with the causes that keep it there, and whatever can remove one of them wakes it. Equal
//! inputs in equal order give equal effects.
//!
//! It must never know what objects look like on the wire, how a write is done, or what time it is: `now` comes in.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod absorb;
mod anti_affinity;
mod bind;
mod budget;
mod causes;
mod claim_writes;
mod claims;
mod classic;
mod collisions;
mod condition_write;
mod decide;
mod devices;
mod effect;
mod extended;
mod filter;
mod flight;
mod gang;
mod holds;
mod input;
mod lead;
mod machine;
mod needs;
mod negotiation;
mod node;
mod node_rules;
mod nodes;
mod options;
mod outbox;
mod place;
mod pod;
mod pod_affinity;
mod preempt;
mod preempt_turns;
mod queue;
mod ready;
mod report;
mod reserve;
mod score;
mod search;
mod share;
mod shares;
mod state;
mod terms;
mod turn_limits;
mod turns;
mod verdict_cache;
mod victims;
mod why;

pub use budget::{ATTEMPT_UNITS, TURN_UNITS};
pub use causes::{Cause, Causes};
pub use effect::{
    Bind, CLAIM_FINALIZER, CreateExtendedClaim, DeleteExtendedClaim, EXTENDED_CLAIM_ANNOTATION, Effect,
    EffectId, EffectKind, Event, EventKind, Evict, Mapping, Outcome, ReleaseClaim, Reply, ReserveClaim,
    SetExtendedClaim, SetNodeAllocatable, SetPodCondition, Wake, WakeReason, Written,
};
pub use input::{Budget, Claim, DeviceStatus, Input};
pub use lazaret_model::{
    Amounts, CPU_MILLI_ASSUMED, Container, DEFAULT_SCHEDULER, Extended, HostPort, LabelSelector, Labels,
    MEMORY_ASSUMED, NodeAllocatableStatus, Overhead, PodLevel, PodSpec, PodTerm, Role, ScoredAmounts, Spread,
};
pub use node::Node;
pub use options::{Options, Packing};
pub use pod::{Pod, Unscheduled};
pub use shares::node_allocatable_extra;
pub use state::{Scheduler, Sizes};
pub use why::{ClaimProblem, MESSAGE_BYTES_MAX, NoFittingNode, PendingReason, Refusal, Verdict};

/// Bound on the consumers of a claim.
pub const CONSUMERS_MAX: usize = 256;
