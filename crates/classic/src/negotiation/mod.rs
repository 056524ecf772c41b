//! The scheduler's part: which node a pod's claims are allocated for, who reserves them, who gives them up.

mod decide;
mod effect;
mod hold;
mod machine;
mod slot;
mod turn;
mod work;

pub use effect::{
    NegotiationCounters, NegotiationEffect, NegotiationEffectKind, NegotiationInput, NegotiationOptions,
    Place, Waiting,
};
pub use machine::Negotiator;
