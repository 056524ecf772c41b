//! The scheduler's part: the node for which a pod's claims are allocated, and which pods reserve them or give them up.
//!
//! A pod that holds allocated claims and cannot get the others gives all of them up, then pauses: the pause doubles each time, is at least as
//! long as it held them, and differs from pod to pod. While it pauses it asks for nothing. Of pods that block each other
//! one therefore finds everything that is not in use sooner or later, and a pod that can never be placed leaves the devices to others at least
//! half of the time.

mod decide;
mod effect;
mod explain;
mod hold;
mod machine;
mod slot;
mod work;

pub use effect::{
    NegotiationCounters, NegotiationEffectKind, NegotiationInput, NegotiationOptions, Place, Waiting,
};
pub use machine::Negotiator;
