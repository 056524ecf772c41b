//! Which claims a pod or a group of pods needs, who may still use one, and when a claim is given back or goes.
//!
//! [`Claims`] is a state machine over the latest pods, groups, claims and templates. It yields effects: make this
//! claim, write these names into that pod's status, take these pods off that claim, ask whether this pod still lives.
//!
//! **Invariant.** At no time does an entry of a pod get a second claim, even if answers are lost, leaders overlap or
//! the machine starts anew: a claim's name follows from the pod's UID and the entry, and to make what is there already
//! is no work. A reservation goes only when its pod has ended, was never placed and is being deleted, or is known to
//! be gone; what is merely not known is asked for. After every call, what is wanted depends on the objects told, not
//! on the order in which they came. Every write is conditional. A claim whose pod vanished before it ended is given back only when the
//! pod's node, if it reports, has unprepared it, is gone or is out of service, or a person says so.
//!
//! It must never know what a claim asks for (the template's spec is a text to it), what the API looks like on the
//! wire, how a write is done, or what time it is: `now` comes in. It never allocates.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod acknowledge;
mod asking;
mod claim_work;
mod counters;
mod effect;
mod flights;
mod holder;
mod holder_work;
mod input;
mod links;
mod machine;
mod names;
mod node_work;
mod notes;
mod options;
mod queue;
mod standing;
mod tables;

pub use counters::{Census, Counters, Source};
pub use effect::{
    AWAITING_REASON, AskNode, CLAIM_NAME_ANNOTATION, ChangeClaim, ClaimEvent, ClaimStep, CreateClaim,
    EVENT_REASON, Effect, EffectId, EffectKind, FINALIZER, HolderEvent, Outcome, RELEASED_REASON,
    SetClaimNames, Wake, WakeReason,
};
pub use holder::{Holder, HolderKind};
pub use input::{Input, SeenClaim, Template};
pub use machine::Claims;
pub use names::generate_name;
pub use options::Options;
